import { AsyncLocalStorage } from 'node:async_hooks'
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
/** The asynchronous context of an exchange that is traced. */
const contexts = new WeakMap<Traced, (work: () => void) => void>()
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
  exchanges.start.runStores(traced, () => {
    contexts.set(traced, AsyncLocalStorage.snapshot())
    exchange.run()
  })
  exchanges.end.publish(traced)
}

/** Runs what ends an exchange where the exchange began, and not where whatever closed it comes from. */
export function withinTrace (traced: Traced | undefined, work: () => void): void {
  const context = traced && contexts.get(traced)
  if (context === undefined) work()
  else context(work)
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
