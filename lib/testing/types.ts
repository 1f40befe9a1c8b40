import type { ClientCapabilities, InputRequiredResult, JsonObject, JsonValue } from '../protocol/index.js'
import type { ExchangeEnd, ExchangeRef } from '../../types/exchange.js'
import type { LogLevel, McpMethod, ParamsOf, RequestId, ResultMap } from '../../types/request.js'

/** What a request says of itself, besides method and params. Given to a client they hold for each of its requests. */
export interface TestRequestOptions {
  /** Added to those that the protocol asks for, or instead of them. */
  readonly headers?: Readonly<Record<string, string>>
  /** Default: none. */
  readonly capabilities?: ClientCapabilities
  /** Default: no logs. */
  readonly logLevel?: LogLevel
  /** Default: no progress. */
  readonly progressToken?: RequestId
  /**
   * Answers one input request; when all are answered the request is sent again, until its result is complete (in ten rounds, or it is an Error). Left out,
   * `result` is the InputRequiredResult.
   */
  readonly respond?: (key: string, request: JsonObject) => JsonValue
}

/** What a request was answered, with all that came before. Neither `result` nor `error`: the response ended without an answer, or was no JSON-RPC. */
export interface TestAnswer<M extends McpMethod> {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string>>
  /** In the order in which they came, of all rounds. */
  readonly notifications: readonly JsonObject[]
  readonly result?: ResultMap[M] | InputRequiredResult
  readonly error?: { readonly code: number; readonly message: string; readonly data?: JsonValue }
}

/** An MCP client of one app, made by createTestClient. */
export interface TestClient {
  /** Through `inject`, with no port. Resolves when the response has ended, which that of a listen does not: `open` that. */
  request<M extends McpMethod> (method: M, params: ParamsOf<M>, options?: TestRequestOptions): Promise<TestAnswer<M>>
  /**
   * Over a socket: to watch a stream, or to vanish. Resolves when the request has been sent. An app that does not listen yet is made to, on a free
   * loopback port; closing the app is still its owner's.
   */
  open<M extends McpMethod> (method: M, params: ParamsOf<M>, options?: TestRequestOptions): Promise<TestStream<M>>
  /** Through `inject`. */
  notify (method: string, params?: JsonObject): Promise<{ readonly statusCode: number }>
  /** Drops what is open. */
  close (): Promise<void>
}

/**
 * One request over a socket of its own. Iterating gives the notifications as they come, and ends with the response; each is given once, so that a loop may
 * be left and the next one goes on where it stopped. A connection that breaks makes the iteration throw, unless it was dropped from here.
 */
export interface TestStream<M extends McpMethod> extends AsyncIterable<JsonObject> {
  /** Resolves when the head of the response is there; rejects, and is never an unhandled rejection, if the connection ends before. */
  readonly head: Promise<{ readonly statusCode: number; readonly headers: Readonly<Record<string, string>> }>
  /** Resolves when the response has ended; rejects, and is never an unhandled rejection, if the connection ends before, as after `vanish` and `reset`. */
  readonly answer: Promise<TestAnswer<M>>
  /** SSE comments so far. */
  readonly comments: number
  /** Drops the connection. */
  vanish (): void
  /** Drops the connection with a TCP reset. */
  reset (): void
  /** Sends FIN and goes on reading. */
  halfClose (): void
  /** Reads no more from the socket, so that the server's writes pile up. */
  pause (): void
  /** Reads again. */
  resume (): void
}

/** One request against a server, made by testExchange. */
export interface TestExchange<Msg, M extends McpMethod> {
  /** With `respond`, that of the current round. */
  readonly ref: ExchangeRef<Msg>
  /** So far, as the JSON-RPC that a client would get. */
  readonly notifications: readonly JsonObject[]
  /** Resolves when the exchange has ended, with `respond` the last one. */
  readonly ended: Promise<ExchangeEnd>
  /** Neither member: it was stopped or closed without an answer. Rejects, and is never an unhandled rejection, after `disconnect`. */
  readonly answer: Promise<Pick<TestAnswer<M>, 'result' | 'error'>>
  /** Closes it as a client does that leaves. */
  disconnect (): void
}
