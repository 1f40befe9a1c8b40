import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { gate } from '../helpers/sockets.js'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import type { JsonObject } from 'fastify-gen-mcp'
import type { LegacyVersion, SessionController } from 'fastify-gen-mcp/legacy'
import type { Message } from '../helpers/messages.js'
import type { Post, Wire } from '../helpers/sockets.js'
import type { Test } from 'tap'

export const VERSIONS: readonly LegacyVersion[] = ['2025-11-25', '2025-06-18', '2025-03-26']
export const clientInfo = { name: 'client', version: '1.0.0' }

type Headers = Readonly<Record<string, string>>

export interface OpenOptions {
  readonly capabilities?: JsonObject
  /** Of every request; for whom, say. */
  readonly headers?: Headers
  /** Default: `/mcp`. */
  readonly url?: string
}

export interface RequestOptions { readonly id?: string | number, readonly headers?: Headers }

/** A session as a 2025 client has it. Headers that are given replace those of the same name, in lower case. */
export interface LegacySession {
  readonly version: LegacyVersion
  /** Undefined where the mount keeps no sessions. */
  readonly id: string | undefined
  /** The answer to `initialize`. */
  readonly opened: LightMyRequestResponse
  /** What goes with each of its POSTs. */
  readonly headers: Record<string, string>
  request (method: string, params?: JsonObject, options?: RequestOptions): Promise<LightMyRequestResponse>
  notify (method: string, params?: JsonObject, headers?: Headers): Promise<LightMyRequestResponse>
  /** Answers a request of the server's. */
  respond (id: string | number, result: JsonObject): Promise<LightMyRequestResponse>
  /** Any body. */
  post (body: unknown, headers?: Headers): Promise<LightMyRequestResponse>
  delete (headers?: Headers): Promise<LightMyRequestResponse>
  /** A request for a socket. */
  compose (method: string, params?: JsonObject, options?: RequestOptions): Post
}

/** The params of an `initialize`. */
export function initializeParams (protocolVersion: string = '2025-11-25', capabilities: JsonObject = {}): JsonObject {
  return { protocolVersion, capabilities, clientInfo }
}

/** A POST as a 2025 client makes it, with nothing but what is given beside the two headers of every one. */
export async function send (app: FastifyInstance, body: unknown, headers: Headers = {}, url = '/mcp'): Promise<LightMyRequestResponse> {
  return await app.inject({ method: 'POST', url, headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers }, payload: JSON.stringify(body) })
}

/** Opens a session through `initialize` and `notifications/initialized`, or throws. */
export async function open (app: FastifyInstance, version: LegacyVersion = '2025-11-25', { capabilities = {}, headers: own = {}, url = '/mcp' }: OpenOptions = {}): Promise<LegacySession> {
  const opened = await send(app, { jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams(version, capabilities) }, own, url)
  if (opened.statusCode !== 200) throw new Error(`No session was opened: ${opened.statusCode} ${opened.body}`)
  const id = opened.headers['mcp-session-id']?.toString()
  const headers = { ...own, ...(version !== '2025-03-26' && { 'mcp-protocol-version': version }), ...(id !== undefined && { 'mcp-session-id': id }) }
  const post: LegacySession['post'] = async (body, more) => await send(app, body, { ...headers, ...more }, url)

  const session: LegacySession = {
    version,
    id,
    opened,
    headers,
    post,
    request: async (method, params, { id = 1, headers } = {}) => await post({ jsonrpc: '2.0', id, method, params }, headers),
    notify: async (method, params, headers) => await post({ jsonrpc: '2.0', method, params }, headers),
    respond: async (id, result) => await post({ jsonrpc: '2.0', id, result }),
    delete: async more => await app.inject({ method: 'DELETE', url, headers: { ...headers, ...more } }),
    compose: (method, params, { id = 1, headers: more } = {}) => ({
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers, ...more },
      payload: JSON.stringify({ jsonrpc: '2.0', id, method, params })
    })
  }
  const initialized = await session.notify('notifications/initialized')
  if (initialized.statusCode !== 202) throw new Error(`The session was not taken: ${initialized.statusCode} ${initialized.body}`)
  return session
}

// ---- streams over sockets

/** What a blank line ends, on an event stream. */
export interface Frame { readonly id?: string, readonly retry?: number, readonly data?: string }

/** A response that is read as it comes. */
export class Reading {
  readonly response: IncomingMessage
  /** Resolves when nothing more comes, whoever ended it. */
  readonly closed: Promise<void>
  /** All so far, but for comments. */
  readonly frames: Frame[] = []
  comments = 0
  #text = ''
  #read = 0
  #isClosed = false
  #waiting: (() => void)[] = []

  constructor (response: IncomingMessage) {
    this.response = response
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => {
      const blocks = (this.#text + chunk).split('\n\n')
      // split gives at least one.
      this.#text = blocks.pop() as string
      for (const block of blocks) this.#take(block)
      this.#wake()
    })
    // A connection that breaks is what these tests are about.
    response.on('error', () => {})
    this.closed = new Promise(resolve => {
      response.on('close', () => {
        this.#isClosed = true
        this.#wake()
        resolve()
      })
    })
  }

  get statusCode (): number | undefined { return this.response.statusCode }

  /** The next frame; rejects if there is none. */
  async next (): Promise<Frame> {
    for (;;) {
      const frame = this.frames[this.#read]
      if (frame !== undefined) {
        this.#read++
        return frame
      }
      if (this.#isClosed) throw new Error(`The stream ended after ${JSON.stringify(this.frames)}`)
      await this.changed()
    }
  }

  /** The next message, past frames that hold none. */
  async message (): Promise<Message> {
    for (;;) {
      const { data = '' } = await this.next()
      if (data !== '') return JSON.parse(data) as Message
    }
  }

  /** All frames that are left, at the end of the stream. */
  async rest (): Promise<Frame[]> {
    await this.closed
    const rest = this.frames.slice(this.#read)
    this.#read = this.frames.length
    return rest
  }

  /** Resolves when something has come, or nothing more will. */
  async changed (): Promise<void> {
    await new Promise<void>(resolve => { this.#waiting.push(resolve) })
  }

  /** Reads no more for now. */
  stall (): void {
    this.response.pause()
    this.response.socket.pause()
  }

  goOn (): void {
    this.response.resume()
    this.response.socket.resume()
  }

  /** Resets the connection, as a client does that vanishes. */
  async drop (): Promise<void> {
    this.response.socket.resetAndDestroy()
    await this.closed
  }

  #take (block: string): void {
    const fields = block.split('\n').filter(line => line !== '' && !line.startsWith(':')).map((line): [string, string] => {
      const [, name = '', value = ''] = /^(\w+): ?(.*)$/.exec(line) ?? []
      if (!['id', 'retry', 'data'].includes(name)) throw new Error(`Not a line of an event: ${JSON.stringify(line)}`)
      return [name, value]
    })
    if (fields.length === 0) this.comments++
    else this.frames.push(Object.fromEntries(fields.map(([name, value]) => [name, name === 'retry' ? Number(value) : value])))
  }

  #wake (): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

/** Sends a request over a connection of its own, and gives the response when its head has come. */
export async function read (t: Test, port: number, method: 'POST' | 'GET' | 'DELETE', { headers, payload = '' }: Partial<Post>): Promise<Reading> {
  const sent = request({ port, host: '127.0.0.1', path: '/mcp', method, agent: false, ...(headers && { headers }) })
  t.teardown(() => { sent.destroy() })
  sent.end(payload)
  const [response] = await once(sent, 'response') as [IncomingMessage]
  return new Reading(response)
}

/** A GET of a session; with the id of an event, for what followed it. */
export async function readStream (t: Test, port: number, { headers }: Pick<LegacySession, 'headers'>, lastEventId?: string): Promise<Reading> {
  return await read(t, port, 'GET', { headers: { ...headers, accept: 'text/event-stream', ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) } })
}

/** The messages of frames, but for those without one. */
export function messagesIn (frames: readonly Frame[]): Message[] {
  return frames.flatMap(({ data = '' }) => data === '' ? [] : [JSON.parse(data) as Message])
}

/** Asks for the stream of a session, or what followed an event, over a connection whose response nobody waits for. */
export function sendGet ({ socket }: Wire, { id }: Pick<LegacySession, 'id'>, lastEventId?: string): void {
  const last = lastEventId === undefined ? '' : `last-event-id: ${lastEventId}\r\n`
  socket.write(`GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nmcp-session-id: ${id}\r\n${last}\r\n`)
}

/** A controller of one session, which keeps whoever asks for it the second time waiting until `fetched` opens. */
export function createHeldSessions () {
  const fetching = gate()
  const fetched = gate()
  const session = { protocolVersion: '2025-11-25', clientInfo: { name: 'c', version: '1' }, clientCapabilities: {}, principal: undefined } as const
  let asked = 0
  const sessions: SessionController = {
    create: () => 'the-only-session',
    async fetch () {
      if (++asked === 2) {
        fetching.open()
        await fetched.promise
      }
      return session
    }
  }
  return { sessions, fetching, fetched }
}
