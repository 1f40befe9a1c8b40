import { McpError } from '../errors.js'
import { readAccept, type Accepted } from './accept.js'
import type { IncomingHttpHeaders } from 'node:http'
import type { Mount } from '../mount.js'
import type { Settings } from '../options.js'

/** Seconds that a client is told to stay away for when a limit was reached. */
const OVERLOADED_RETRY = 1

/** What a request may be answered with; throws for a client that takes nothing of it, at a shutdown, and past the limits. */
export function admit ({ draining, registry, settings: { limits } }: Mount, listen: boolean, { accept }: IncomingHttpHeaders): Accepted {
  const accepted = accepts(listen, accept)
  if (draining) throw shutdown(limits)
  if (listen ? registry.listens >= limits.maxStreams : registry.calls >= limits.maxConcurrent) throw new McpError({ kind: 'overloaded', retryAfter: OVERLOADED_RETRY })
  return accepted
}

/** What a client takes; throws for one that takes nothing of what there is. */
export function accepts (listen: boolean, accept: string | undefined): Accepted {
  const accepted = readAccept(accept)
  if (!accepted.sse && (listen || !accepted.json)) throw new McpError({ kind: 'notAcceptable' })
  return accepted
}

export function shutdown ({ retryAfter }: Settings['limits']): McpError {
  return new McpError({ kind: 'shutdown', retryAfter })
}
