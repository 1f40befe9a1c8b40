import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { ClientCapabilities, JsonObject, JsonValue, SubscriptionFilter } from '../lib/protocol/index.js'
import type { ExchangeRef } from './exchange.js'
import type { InputRequests, InputResponses } from './input.js'
import type { LogLevel, McpNotification, McpRequest } from './request.js'
import type { Awaitable, TypeBoxSchema } from './schema.js'

/**
 * What feeds the mailbox of one exchange. Every source is released at the end of the exchange, whatever ended it; `stop()` does it earlier. A mapping
 * function runs at the moment of the event; if it throws, the exchange crashes.
 */
export interface Sources<Msg> {
  /** One promise, one message; a function gets a signal that aborts when the source is released. Without `onRejected` a rejection crashes the exchange. */
  watch<T> (work: PromiseLike<T> | ((signal: AbortSignal) => PromiseLike<T>), onFulfilled: (value: T) => Msg, onRejected?: (reason: unknown) => Msg): Source
  /**
   * An item, a message; pulled: the next item is asked for when the last message was handled and the socket drained, and the end calls the iterator's
   * `return()`. Without `error` a failure of the iterator crashes the exchange.
   */
  consume<T> (items: AsyncIterable<T> | Iterable<T>, to: { readonly next: (item: T) => Msg; readonly done?: () => Msg; readonly error?: (reason: unknown) => Msg }): Source
  /** An event, a message; undefined skips. */
  on<Args extends readonly unknown[]> (emitter: Emitter | EventTarget, event: string, toMessage: (...args: Args) => Msg | undefined): Source
  /** A packet, a message; MQTT wildcards; undefined skips. What does not fit the server's `messages` schema is skipped and logged. */
  subscribe<Packet extends { readonly topic: string } = BusPacket> (bus: MessageBus, topic: string, toMessage: (packet: Packet) => Msg | undefined): Source
  /** One message after so many milliseconds. */
  after (ms: number, message: Msg): Source
  /** A message every so many milliseconds. */
  every (ms: number, toMessage: () => Msg): Source
}

export interface Source { stop (): void }
type Listener = (...args: unknown[]) => void
export interface Emitter { on (event: string, listener: Listener): unknown; off (event: string, listener: Listener): unknown }
/** An MQEmitter is one. */
export interface MessageBus {
  on (topic: string, listener: BusListener, done?: () => void): unknown
  removeListener (topic: string, listener: BusListener, done?: () => void): void
  emit (packet: BusPacket, done?: (error?: Error) => void): void
}
export type BusPacket = { readonly topic: string; readonly [key: string]: unknown }
export type BusListener = (packet: BusPacket, done: () => void) => void

/** Seals what a client carries for us. What it sealed opens under the same purpose alone, for `maxAge` ms (default 1_200_000). */
export interface TokenSealer {
  seal (purpose: string, value: unknown, options?: { readonly maxAge?: number }): string
  open (purpose: string, token: string): { readonly ok: true; readonly value: JsonValue } | { readonly ok: false; readonly reason: 'invalid' | 'expired' }
}

/** What every callback may read. `request` is always the JSON-RPC one, `httpRequest` Fastify's with the decorators that hooks filled. */
export interface RequestContext {
  readonly request: McpRequest | McpNotification
  readonly httpRequest: FastifyRequest
  /** What the mount's `principal` says. */
  readonly principal: string | undefined
  /** pino, of the HTTP request. */
  readonly log: FastifyBaseLogger
  /** Aborts when the exchange is closed, not when it is answered; `reason`: an Error 'AbortError', its `cause` the ExchangeEnd so far. */
  readonly signal: AbortSignal
  /** The mount's, bound to this principal. */
  readonly tokens: TokenSealer
  /** Throws McpError 'missingClientCapability' with what the client did not declare. */
  requireCapability (required: ClientCapabilities): void
  /** Runs at the end of the exchange, last in first out, whatever ended it; at once if it has ended. A throw is logged. */
  defer (cleanup: () => Awaitable<void>): void
}

/**
 * What became of a send. 'filtered': not for this client (log level, filter, JSON only, capability or extension not declared, progress or log on a
 * listen); 'notSubscribed': a change notification on a request that is no listen, or before the acknowledgement.
 */
export type SendStatus = 'sent' | 'filtered' | 'noProgressToken' | 'notIncreasing' | 'notSubscribed' | 'closed'

/** What one request is answered through: one live object. Sends never throw; the first that is sent opens the stream. */
export interface Channel<Msg = never> extends RequestContext, Sources<Msg> {
  readonly request: McpRequest
  readonly ref: ExchangeRef<Msg>
  readonly closed: boolean
  readonly streaming: boolean
  /** 2026-07-28, Progress: `progress` must grow with each call. */
  sendProgress (progress: number, total?: number, message?: string): SendStatus
  /** `data`: JSON; anything else goes out as text. */
  sendLog (level: LogLevel, data: unknown, logger?: string): SendStatus
  sendNotification (notification: ServerNotification): SendStatus
  /** Accepts a listen now, for this much at most; default: all that was requested. */
  acknowledge (honored?: SubscriptionFilter): SendStatus
  /** Opens the stream; false when closed, and for a client that takes JSON only. */
  startStream (): boolean
  /** Sets a response header; throws MCP_ERR_HEAD_SENT when that is too late. */
  header (name: string, value: string): void
  /** Ends the response from our side; false when it is closed already. */
  close (): boolean
  /** Resolves when the socket takes more, or is closed. */
  drained (): Promise<void>
  /** What the client answered to these, in this round or an earlier one; undefined while one is missing or does not fit its question. */
  inputResponses<Q extends InputRequests> (requests: Q): InputResponses<Q> | undefined
  /** The state given to inputRequired; undefined on a first call; throws McpError 'requestState' when it does not fit. */
  requestState<T> (schema: TypeBoxSchema<T>): T | undefined
}

export type ServerNotification =
  | { readonly method: 'notifications/tools/list_changed' | 'notifications/prompts/list_changed' | 'notifications/resources/list_changed' }
  | { readonly method: 'notifications/resources/updated'; readonly params: { readonly uri: string } }
  /** Goes to clients that declared the extension; that member itself is not sent. */
  | { readonly extension: string; readonly method: string; readonly params?: JsonObject }
