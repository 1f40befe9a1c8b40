/** How many checks of a scenario must say SUCCESS, and how many INFO; none may say anything else. */
export interface Expectation {
  readonly success: number
  /** default: none */
  readonly info?: number
}

export type Expectations = Readonly<Record<string, Expectation>>

/** What all revisions from 2025-06-18 on have. The counts are those of the pinned version of the suite: record them again when it changes. */
const carried: Expectations = {
  'completion-complete': { success: 2 },
  'tools-call-simple-text': { success: 2 },
  'tools-call-image': { success: 2 },
  'tools-call-audio': { success: 2 },
  'tools-call-embedded-resource': { success: 2 },
  'tools-call-mixed-content': { success: 2 },
  'tools-call-error': { success: 2 },
  'tools-call-with-progress': { success: 2 },
  'resources-list': { success: 2 },
  'resources-read-text': { success: 2 },
  'resources-read-binary': { success: 2 },
  'resources-templates-read': { success: 2 },
  'prompts-list': { success: 2 },
  'prompts-get-simple': { success: 2 },
  'prompts-get-with-args': { success: 2 },
  'prompts-get-embedded-resource': { success: 2 },
  'prompts-get-with-image': { success: 2 }
}

/** What the revision 2026-07-28 requires. */
const current: Expectations = {
  ...carried,
  'server-stateless': { success: 30 },
  'tools-list': { success: 4 },
  // The three answers are JSON, so that there is no stream to read: that check says so.
  'server-sse-multiple-streams': { success: 1, info: 1 },
  'sep-2164-resource-not-found': { success: 4 },
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

/** What the suite runs of the same revision and does not score yet. It is demanded here all the same. */
const pending: Expectations = {
  'json-schema-2020-12': { success: 8 },
  'http-header-validation': { success: 14 },
  'http-custom-header-server-validation': { success: 10 }
}

/** What both 2025-06-18 and 2025-11-25 have. */
const older: Expectations = {
  ...carried,
  'server-initialize': { success: 3 },
  'server-session-lifecycle': { success: 3 },
  'logging-set-level': { success: 2 },
  ping: { success: 2 },
  'tools-list': { success: 2 },
  'tools-call-with-logging': { success: 2 },
  'tools-call-sampling': { success: 2 },
  'tools-call-elicitation': { success: 2 },
  'resources-subscribe': { success: 2 },
  'resources-unsubscribe': { success: 2 }
}

/** What the suite runs as well, and the fixture does not serve: the tasks extension. */
const tasks: ReadonlySet<string> = new Set([
  'tasks-lifecycle', 'tasks-capability-negotiation', 'tasks-wire-fields', 'tasks-request-state-removal', 'tasks-mrtr-input', 'tasks-request-headers',
  'tasks-dispatch-and-envelope', 'tasks-status-notifications', 'tasks-required-task-error', 'tasks-mrtr-composition'
])

/** One run of the suite. */
export interface Run {
  /** How its scenarios are chosen. */
  readonly choice: readonly string[]
  /** By scenario. */
  readonly expectations: Expectations
  readonly leftOut: ReadonlySet<string>
}

/** By revision, in the order in which they are run against one process. */
export const runs: Readonly<Record<string, Run>> = {
  '2026-07-28': { choice: ['--requirements', '2026-07-28'], expectations: { ...current, ...pending }, leftOut: tasks },
  '2025-11-25': {
    choice: ['--requirements', '2025-11-25'],
    expectations: {
      ...older,
      'tools-list': { success: 3 },
      'elicitation-sep1034-defaults': { success: 6 },
      'elicitation-sep1330-enums': { success: 6 },
      'json-schema-2020-12': { success: 8 },
      // What the suite saw of the stream, event by event.
      'server-sse-polling': { success: 3, info: 7 },
      'server-sse-multiple-streams': { success: 2 },
      'dns-rebinding-protection': { success: 2 }
    },
    leftOut: tasks
  },
  '2025-06-18': { choice: ['--suite', 'all', '--spec-version', '2025-06-18'], expectations: older, leftOut: tasks },
  '2025-03-26': { choice: ['--suite', 'all', '--spec-version', '2025-03-26'], expectations: { 'server-session-lifecycle': { success: 3 } }, leftOut: tasks }
}
