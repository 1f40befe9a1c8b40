import { MCP_ERR_BAD_OPTION } from '../errors.js'
import { checkOnly, hasFunctions, isBus, isCount, isDuration, isTimeLimit, type Check } from '../options.js'
import { memoryEvents } from './events.js'
import { sealedSessions } from './session.js'
import type { LegacyOptions, SessionController } from '../../types/legacy.js'

/** The options, checked and filled in. */
export interface LegacySettings extends Required<Omit<LegacyOptions, 'sessions' | 'events' | 'bus'>> {
  /** Undefined: none. */
  readonly sessions: SessionController | undefined
  readonly events: NonNullable<Exclude<LegacyOptions['events'], false>> | undefined
  readonly bus: LegacyOptions['bus']
}

const checks: Readonly<Record<keyof LegacyOptions, Check>> = {
  sessions: value => value === false || hasFunctions(value, 'create', 'fetch') ? undefined : 'must be false or have the functions create and fetch',
  events: value => value === false || hasFunctions(value, 'append', 'after') ? undefined : 'must be false or have the functions append and after',
  bus: isBus,
  topic: value => typeof value === 'string' && value !== '' && !/[+#]/.test(value) ? undefined : 'must be a topic without wildcards',
  answerTimeout: isTimeLimit,
  maxStreamAge: isDuration,
  sessionCheck: isDuration,
  retry: isDuration,
  maxBatch: isCount
}

/** Reads the option `legacy`, or throws MCP_ERR_BAD_OPTION; undefined where 2025 clients are not served. */
export function readLegacyOptions (option: unknown): LegacySettings | undefined {
  if (option === false) return undefined
  const given = option === true || option === undefined ? {} : option
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new MCP_ERR_BAD_OPTION('legacy', 'must be a boolean or an object')
  checkOnly(checks, given as Readonly<Record<string, unknown>>, 'legacy.')
  // Each member has been checked above.
  const { sessions, events, bus, topic, answerTimeout, maxStreamAge, sessionCheck, retry, maxBatch } = given as LegacyOptions
  return {
    sessions: sessions === false ? undefined : sessions ?? sealedSessions(),
    events: events === false || sessions === false ? undefined : events ?? memoryEvents(),
    bus,
    topic: topic ?? 'mcp/legacy',
    answerTimeout: answerTimeout ?? 600_000,
    maxStreamAge: maxStreamAge ?? 0,
    sessionCheck: sessionCheck ?? 60_000,
    retry: retry ?? 1_000,
    maxBatch: maxBatch ?? 100
  }
}
