import { channel, tracingChannel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { ExchangeEnd } from '../types/exchange.js'
import type { McpNotification, McpRequest } from '../types/request.js'

/** What the subscribers of the tracing channels are handed. */
export interface Traced {
  readonly request: McpRequest | McpNotification
  readonly httpRequest: FastifyRequest
  /** The callback that runs; on the channel of callbacks alone. */
  readonly callback?: string
  /** How it ended; on the channel of exchanges, from `asyncStart` on. */
  end?: ExchangeEnd
  /** Set by a crash, and by what a callback threw. */
  error?: unknown
}

const exchanges = tracingChannel<'', Traced>('fastify-gen-mcp:exchange')
const callbacks = tracingChannel<'', Traced>('fastify-gen-mcp:callback')
const deadLetters = channel('fastify-gen-mcp:deadletter')

/** Tells of a message that was posted to an exchange that had ended. */
export function publishDeadLetter (letter: { readonly id: string, readonly message: unknown }): void {
  deadLetters.publish(letter)
}

/** Runs one callback, within its tracing channel if anybody listens to it. */
export function traceCallback<T> (callback: string, request: McpRequest | McpNotification, httpRequest: FastifyRequest, work: () => T): T {
  if (!hasSubscribers(callbacks)) return work()
  // tracePromise tells of both ends of a callback that waits. The worker takes a promise wherever it takes a value.
  return callbacks.tracePromise(async () => await work(), { request, httpRequest, callback }) as T
}

/** What an exchange is traced by; undefined where nobody listens. */
export function createTrace (request: McpRequest | McpNotification, httpRequest: FastifyRequest): Traced | undefined {
  return hasSubscribers(exchanges) ? { request, httpRequest } : undefined
}

/** Runs an exchange within its tracing channel. */
export function traceExchange (traced: Traced | undefined, exchange: { run (): void }): void {
  if (traced === undefined) return exchange.run()
  exchanges.start.runStores(traced, () => { exchange.run() })
  exchanges.end.publish(traced)
}

/** Tells of the end of an exchange. */
export function traceEnd (traced: Traced, end: ExchangeEnd): void {
  traced.end = end
  if (end.cause === 'crash') {
    traced.error = end.reason
    exchanges.error.publish(traced)
  }
  exchanges.asyncStart.publish(traced)
  exchanges.asyncEnd.publish(traced)
}

function hasSubscribers ({ start, end, asyncStart, asyncEnd, error }: typeof exchanges): boolean {
  return start.hasSubscribers || end.hasSubscribers || asyncStart.hasSubscribers || asyncEnd.hasSubscribers || error.hasSubscribers
}
