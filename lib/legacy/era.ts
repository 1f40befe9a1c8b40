import { isObject } from '../decode/envelope.js'
import { REVISION } from '../protocol/index.js'
import { OLDER_VERSIONS, readVersionHeader } from '../transport/headers.js'
import type { IncomingHttpHeaders } from 'node:http'
import type { LegacyVersion } from '../../types/legacy.js'

/** Newest first. */
export const LEGACY_VERSIONS: readonly LegacyVersion[] = ['2025-11-25', '2025-06-18', '2025-03-26']
export const LATEST: LegacyVersion = '2025-11-25'
/** What is assumed of a request that says nothing, where no session knows (2025-11-25, Transports, Protocol Version Header). */
export const ASSUMED: LegacyVersion = '2025-03-26'

export const SESSION_HEADER = 'mcp-session-id'

export function isLegacyVersion (version: unknown): version is LegacyVersion {
  return LEGACY_VERSIONS.includes(version as LegacyVersion)
}

/**
 * Whether a body without the envelope of 2026-07-28 is one of a 2025 client. What names another revision and has no session is not; but a client of the
 * future may open with `initialize`, which negotiates whatever its header says.
 */
export function isLegacy (body: unknown, headers: IncomingHttpHeaders): boolean {
  const version = readVersionHeader(headers)
  // A notification that says nothing of where it belongs is nobody's, and accepted all the same.
  if (version === undefined && headers[SESSION_HEADER] === undefined && isObject(body) && body['id'] === undefined) return false
  if (version === undefined || OLDER_VERSIONS.has(version) || headers[SESSION_HEADER] !== undefined) return true
  return version !== REVISION && isObject(body) && body['method'] === 'initialize'
}
