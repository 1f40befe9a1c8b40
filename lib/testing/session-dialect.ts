import { isRequestId } from '../decode/envelope.js'
import { METHOD_NOT_FOUND, type JsonObject } from '../protocol/index.js'
import { composeBody } from './message.js'
import type { LogLevel, ProtocolVersion } from '../../types/request.js'
import type { Dialect, Outgoing } from './dialect.js'
import type { TestRequestOptions } from './types.js'

type Send = (outgoing: Outgoing) => Promise<{ readonly statusCode: number, readonly headers: Readonly<Record<string, string>>, readonly text: string }>

const CLIENT = { name: 'fastify-gen-mcp/testing', version: '1.0.0' }
const TYPES = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

/** The revisions of 2025: a handshake, then a session, on whose streams the server may ask. */
export class SessionDialect implements Dialect {
  readonly #version: ProtocolVersion
  readonly #defaults: TestRequestOptions
  readonly #send: Send
  #requests = 0
  #opened: Promise<string | undefined> | undefined
  #session: string | undefined
  #logLevel: LogLevel | undefined

  constructor (version: ProtocolVersion, defaults: TestRequestOptions, send: Send) {
    this.#version = version
    this.#defaults = defaults
    this.#send = send
  }

  async prepare (method: string, params: object, { capabilities, logLevel, ...options }: TestRequestOptions): Promise<void> {
    if (capabilities !== this.#defaults.capabilities) throw new Error(`A client of ${this.#version} declares its capabilities once: give them to createTestClient`)
    this.#session = await (this.#opened ??= this.#open())
    if (logLevel !== undefined && logLevel !== this.#logLevel) {
      await this.#ask('logging/setLevel', { level: logLevel }, options)
      this.#logLevel = logLevel
    }
    if (method !== 'subscriptions/listen') return
    const { notifications: { resourceSubscriptions = [] } = {} } = params as { readonly notifications?: { readonly resourceSubscriptions?: readonly string[] } }
    for (const uri of resourceSubscriptions) await this.#ask('resources/subscribe', { uri }, options)
  }

  /** A listen is the stream of a GET: what changes is told there. */
  compose (method: string, params: object, { headers, progressToken }: TestRequestOptions): Outgoing {
    if (method === 'subscriptions/listen') return { verb: 'GET', headers: { ...this.#headers(headers), accept: 'text/event-stream' } }
    const { _meta: given, ...rest } = params as { readonly _meta?: JsonObject }
    const meta = { ...(progressToken !== undefined && { progressToken }), ...given }
    return this.#post(++this.#requests, method, { ...rest, ...(Object.keys(meta).length > 0 && { _meta: meta }) } as JsonObject, headers)
  }

  composeNotification (method: string, params: JsonObject | undefined, { headers }: TestRequestOptions): Outgoing {
    return this.#post(undefined, method, params, headers)
  }

  take ({ id, ...question }: JsonObject, options: TestRequestOptions): boolean {
    if (!isRequestId(id)) return false
    const answer = options.respond === undefined
      ? { error: { code: METHOD_NOT_FOUND, message: 'This client answers nothing' } }
      : { result: options.respond(String(id), question) }
    // That nobody waits for the answer any more is the server's to say, by the answer to the request itself.
    this.#send({ verb: 'POST', headers: this.#headers(options.headers), body: JSON.stringify({ jsonrpc: '2.0', id, ...answer }) }).catch(() => {})
    return true
  }

  async end (): Promise<void> {
    if (this.#session !== undefined) await this.#send({ verb: 'DELETE', headers: this.#headers(this.#defaults.headers) })
    this.#session = this.#opened = undefined
  }

  async #open (): Promise<string | undefined> {
    const { capabilities = {}, headers } = this.#defaults
    const params = { protocolVersion: this.#version, capabilities, clientInfo: CLIENT } as unknown as JsonObject
    const initialize = { verb: 'POST', headers: { ...TYPES, ...headers }, body: composeBody(0, 'initialize', params) } as const
    const answer = await this.#send(initialize)
    if (answer.statusCode !== 200) throw new Error(`initialize was answered with ${answer.statusCode}: ${answer.text}`)
    this.#session = answer.headers['mcp-session-id']
    await this.#send(this.#post(undefined, 'notifications/initialized', undefined, headers))
    return this.#session
  }

  async #ask (method: string, params: JsonObject, { headers }: TestRequestOptions): Promise<void> {
    const { statusCode, text } = await this.#send(this.#post(++this.#requests, method, params, headers))
    if (statusCode !== 200 || text.includes('"error":')) throw new Error(`${method} was answered with ${statusCode}: ${text}`)
  }

  #post (id: number | undefined, method: string, params: JsonObject | undefined, headers: TestRequestOptions['headers']): Outgoing {
    return { verb: 'POST', headers: this.#headers(headers), body: composeBody(id, method, params) }
  }

  #headers (given: TestRequestOptions['headers']): Record<string, string> {
    return {
      ...TYPES,
      // The first revision with sessions has no header for the version.
      ...(this.#version !== '2025-03-26' && { 'mcp-protocol-version': this.#version }),
      ...(this.#session !== undefined && { 'mcp-session-id': this.#session }),
      ...given
    }
  }
}
