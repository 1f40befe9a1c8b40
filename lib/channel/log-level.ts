import type { LogLevel } from '../../types/request.js'

/** From the least to the most severe (2026-07-28, Logging, Log Levels). */
const levels: readonly LogLevel[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']
const severity = new Map(levels.map((level, index) => [level, index]))

/** Whether a client that asked for `wanted` is sent a message of this level. A level that does not exist is never sent. */
export function isLogged (level: LogLevel, wanted: LogLevel): boolean {
  return (severity.get(level) ?? -1) >= (severity.get(wanted) ?? Infinity)
}
