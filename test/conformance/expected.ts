/** How many checks of a scenario must say SUCCESS, and how many INFO; none may say anything else. */
export interface Expectation {
  readonly success: number
  /** default: none */
  readonly info?: number
}

export type Expectations = Readonly<Record<string, Expectation>>

export const REVISION = '2026-07-28'

/** What the revision requires. The counts are those of the pinned version of the suite: record them again when it changes. */
const required: Expectations = {
  'server-stateless': { success: 30 },
  'completion-complete': { success: 2 },
  'tools-list': { success: 4 },
  'tools-call-simple-text': { success: 2 },
  'tools-call-image': { success: 2 },
  'tools-call-audio': { success: 2 },
  'tools-call-embedded-resource': { success: 2 },
  'tools-call-mixed-content': { success: 2 },
  'tools-call-error': { success: 2 },
  'tools-call-with-progress': { success: 2 },
  // The three answers are JSON, so that there is no stream to read: that check says so.
  'server-sse-multiple-streams': { success: 1, info: 1 },
  'resources-list': { success: 2 },
  'resources-read-text': { success: 2 },
  'resources-read-binary': { success: 2 },
  'resources-templates-read': { success: 2 },
  'sep-2164-resource-not-found': { success: 4 },
  'prompts-list': { success: 2 },
  'prompts-get-simple': { success: 2 },
  'prompts-get-with-args': { success: 2 },
  'prompts-get-embedded-resource': { success: 2 },
  'prompts-get-with-image': { success: 2 },
  'dns-rebinding-protection': { success: 2 },
  caching: { success: 8 },
  'input-required-result-basic-elicitation': { success: 3 },
  'input-required-result-basic-sampling': { success: 3 },
  'input-required-result-basic-list-roots': { success: 3 },
  'input-required-result-request-state': { success: 3 },
  'input-required-result-multiple-input-requests': { success: 3 },
  'input-required-result-multi-round': { success: 4 },
  'input-required-result-missing-input-response': { success: 2 },
  'input-required-result-non-tool-request': { success: 3 },
  'input-required-result-result-type': { success: 2 },
  'input-required-result-unsupported-methods': { success: 2 },
  'input-required-result-tampered-state': { success: 2 },
  'input-required-result-capability-check': { success: 2 },
  'input-required-result-ignore-extra-params': { success: 2 },
  'input-required-result-validate-input': { success: 3 }
}

/** What the suite runs and does not score yet. It is demanded here all the same. */
const pending: Expectations = {
  'json-schema-2020-12': { success: 8 },
  'http-header-validation': { success: 14 },
  'http-custom-header-server-validation': { success: 10 }
}

/** By scenario. */
export const expectations: Expectations = { ...required, ...pending }

/** What the suite runs as well, and the fixture does not serve: the tasks extension. */
export const leftOut: ReadonlySet<string> = new Set([
  'tasks-lifecycle', 'tasks-capability-negotiation', 'tasks-wire-fields', 'tasks-request-state-removal', 'tasks-mrtr-input', 'tasks-request-headers',
  'tasks-dispatch-and-envelope', 'tasks-status-notifications', 'tasks-required-task-error', 'tasks-mrtr-composition'
])
