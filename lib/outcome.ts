import { MCP_ERR_BAD_RETURN, toMcpError, type McpError } from './errors.js'
import type { InputRequests } from '../types/input.js'
import type { ErrorOutcome, InputRequiredOutcome, ResultOutcome, StopOutcome, StreamOutcome } from '../types/outcome.js'
import type { ErrorReason } from '../types/errors.js'
import type { McpResult } from '../types/request.js'

/** Marks what the functions below made, so that a plain object is never taken for an outcome. */
export const outcome: unique symbol = Symbol('fastify-gen-mcp.outcome')

/** Answers. `stopReason` never reaches the client: it is ExchangeEnd.reason. */
export function result<R extends McpResult> (value: R, options?: { readonly stopReason?: unknown }): ResultOutcome<R> {
  return { [outcome]: true, type: 'result', result: value, stopReason: options?.stopReason }
}

/** Answers with a JSON-RPC error. A string is kind 'internal' with that text, which the client sees. */
export function fail (reason: McpError | ErrorReason | string): ErrorOutcome {
  return { [outcome]: true, type: 'error', error: toMcpError(reason) }
}

/** Keeps the response open: messages go to handleMessage with this state. */
export function stream<Live> (state: Live): StreamOutcome<Live> {
  return { [outcome]: true, type: 'stream', state }
}

/** Ends a stream without a result, a listen with its `complete` result; an Error as reason is reported like a crash first. */
export function stop (reason?: unknown): StopOutcome {
  return { [outcome]: true, type: 'stop', reason }
}

/**
 * Asks the client, which calls again with its responses. `state`: JSON, at most 16 KiB, sealed on the way. Each question is held against the client's
 * capabilities first: what is missing is answered 400, -32021.
 */
export function inputRequired (requests: InputRequests, state?: unknown): InputRequiredOutcome {
  return { [outcome]: true, type: 'inputRequired', requests, state }
}

/** What the functions above made, of any kind. */
export type Outcome = ResultOutcome | ErrorOutcome | StreamOutcome<unknown> | StopOutcome | InputRequiredOutcome

export function isOutcome (value: unknown): value is Outcome {
  return typeof value === 'object' && value !== null && outcome in value
}

/** The error that names a callback and what it returned instead of one of its outcomes. */
export function badReturn (callback: string, returned: unknown): Error {
  return new MCP_ERR_BAD_RETURN(callback, describe(returned))
}

function describe (returned: unknown): string {
  if (isOutcome(returned)) return `the outcome '${returned.type}', which it must not`
  if (typeof returned === 'object' && returned !== null) return `an object with the keys ${Object.keys(returned).join(', ') || '(none)'}, which is no outcome`
  return `${String(returned)}, which is no outcome`
}
