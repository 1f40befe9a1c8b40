import { isObject } from '../decode/envelope.js'
import { metaKeys, methods, REVISION, type JsonObject, type JsonValue } from '../protocol/index.js'
import { encodeHeaderValue } from '../transport/header-value.js'
import { SseParser } from './sse.js'
import type { InputRequiredResult } from '../protocol/index.js'
import type { McpMethod, RequestId } from '../../types/request.js'
import type { TestAnswer, TestRequestOptions } from './types.js'

type Headers = Record<string, string>
/** The answer alone. */
export type Reply<M extends McpMethod> = Pick<TestAnswer<M>, 'result' | 'error'>

/** What a request brings back to a server that asked. */
export type Retry = { readonly inputResponses?: JsonObject, readonly requestState?: string }

/** How often a server may ask before something must be wrong. */
const MAX_ROUNDS = 10

// ---- out

/** The params of a request as they go over the wire: with its `_meta`, and with what it brings back. */
export function composeParams (params: object, { capabilities = {}, logLevel, progressToken }: TestRequestOptions, retry: Retry): JsonObject {
  const { _meta: meta } = params as { readonly _meta?: JsonObject }
  const composed = {
    ...params,
    ...retry,
    _meta: {
      [metaKeys.protocolVersion]: REVISION,
      [metaKeys.clientCapabilities]: capabilities,
      ...(logLevel !== undefined && { [metaKeys.logLevel]: logLevel }),
      ...(progressToken !== undefined && { progressToken }),
      ...meta
    }
  }
  // Through JSON, so that a server without HTTP shares nothing with the test either.
  return JSON.parse(JSON.stringify(composed)) as JsonObject
}

/** The headers of a request or notification; those given replace the protocol's, whatever their case. */
export function composeHeaders (method: string, params: JsonObject, given: Readonly<Headers> = {}): Headers {
  // A Map, because any method may be asked for.
  const member = names.get(method)
  const name = member === undefined ? undefined : params[member]
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': REVISION,
    'mcp-method': method,
    ...(typeof name === 'string' && { 'mcp-name': encodeHeaderValue(name) }),
    ...Object.fromEntries(Object.entries(given).map(([header, value]) => [header.toLowerCase(), value]))
  }
}

const names = new Map(Object.entries(methods).map(([method, { name }]) => [method, name]))

/** The body of a request, or without an id of a notification. */
export function composeBody (id: RequestId | undefined, method: string, params: JsonObject | undefined): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params })
}

// ---- back

/** Reads one response, JSON or SSE, in pieces. */
export class ResponseReader<M extends McpMethod> {
  readonly #onMessage: (message: JsonObject) => void
  readonly #sse: SseParser | undefined
  readonly #json: boolean
  readonly #decoder = new TextDecoder()
  #text = ''
  #reply: Reply<M> = {}

  /** `onMessage` is told of whatever is no answer. */
  constructor (contentType: string | undefined, onMessage: (message: JsonObject) => void, onComment?: () => void) {
    this.#onMessage = onMessage
    this.#sse = isType(contentType, 'text/event-stream') ? new SseParser(onComment) : undefined
    this.#json = isType(contentType, 'application/json')
  }

  write (chunk: Uint8Array): void {
    if (this.#sse === undefined) this.#text += this.#decoder.decode(chunk, { stream: true })
    else for (const { data } of this.#sse.push(chunk)) this.#take(data)
  }

  /** The answer, at the end of the response. */
  end (): Reply<M> {
    if (this.#json && this.#text !== '') this.#take(JSON.parse(this.#text) as JsonValue)
    return this.#reply
  }

  #take (message: JsonValue): void {
    if (isObject(message) && typeof message['method'] === 'string') this.#onMessage(message)
    else this.#reply = readReply<M>(message)
  }
}

/** The result or error of a JSON-RPC response; of anything else neither. */
export function readReply<M extends McpMethod> (message: JsonValue): Reply<M> {
  const { result, error } = isObject(message) ? message : {}
  // The types are what the protocol promises; that the server keeps to it is what tests find out.
  return { ...(isObject(result) && { result }), ...(isObject(error) && { error }) } as Reply<M>
}

/** Headers of a response, each as one string. */
export function flattenHeaders (headers: Readonly<Record<string, unknown>>): Headers {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

function isType (contentType: string | undefined, type: string): boolean {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === type
}

// ---- and again

/** Sends a request, and with `respond` sends it again with answers until it is complete. */
export async function sendUntilComplete<M extends McpMethod, A extends Reply<M>> (
  respond: TestRequestOptions['respond'], send: (retry: Retry) => Promise<A>
): Promise<A> {
  let answer = await send({})
  if (respond === undefined) return answer
  for (let round = 1; isAsking(answer.result); round++) {
    if (round === MAX_ROUNDS) throw new Error(`The server still asks for input after ${MAX_ROUNDS} rounds`)
    answer = await send(respondTo(answer.result, respond))
  }
  return answer
}

function isAsking (result: object | undefined): result is InputRequiredResult {
  return result !== undefined && 'resultType' in result && result.resultType === 'input_required'
}

function respondTo ({ inputRequests, requestState }: InputRequiredResult, respond: NonNullable<TestRequestOptions['respond']>): Retry {
  return {
    ...(inputRequests !== undefined && {
      // Each entry is one question, which is an object.
      inputResponses: Object.fromEntries(Object.entries(inputRequests).map(([key, request]) => [key, respond(key, request as JsonObject)]))
    }),
    ...(requestState !== undefined && { requestState })
  }
}
