import { McpError } from '../errors.js'
import type { CloseReason, ExchangeEnd } from '../../types/exchange.js'
import type { Ending } from './sink.js'

/** What the end of a response depends on, beside its cause. */
export interface Response {
  readonly listen: boolean
  readonly streaming: boolean
}

/** How a response ends that is closed rather than answered. `retryAfter` in seconds, for a shutdown. */
export function closing (cause: Exclude<CloseReason, 'crash'>, response: Response, retryAfter: number): Ending {
  if (cause === 'disconnect') return { type: 'silent' }
  if (response.listen && response.streaming && (cause === 'shutdown' || cause === 'closed')) return { type: 'complete' }
  if (cause === 'closed') return silence(response)
  if (cause === 'shutdown') return { type: 'error', error: new McpError({ kind: 'shutdown', retryAfter }) }
  return { type: 'error', error: new McpError({ kind: cause }) }
}

/** How a response ends that its server stopped: a listen with its result, a call with an error where the reason is one, else with nothing more. */
export function stopping (reason: unknown, response: Response): Ending {
  if (response.listen) return { type: 'complete' }
  if (!(reason instanceof Error)) return silence(response)
  return { type: 'error', error: reason instanceof McpError ? reason : new McpError({ kind: 'crash' }, { cause: reason }) }
}

/** Whether an exchange was closed rather than answered. */
export function isClose (cause: ExchangeEnd['cause'] | undefined): cause is CloseReason {
  return cause !== undefined && cause !== 'result' && cause !== 'error' && cause !== 'stop' && cause !== 'accepted'
}

/** An open stream just ends; a client that waits for one JSON body is told. */
function silence ({ streaming }: Response): Ending {
  return streaming ? { type: 'silent' } : { type: 'error', error: new McpError({ kind: 'closed' }) }
}
