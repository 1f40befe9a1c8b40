import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectHttp2, type ClientHttp2Session, type ClientHttp2Stream, type IncomingHttpHeaders, type SecureClientSessionOptions } from 'node:http2'
import { setImmediate } from 'node:timers/promises'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { composeHeaders } from '../../lib/testing/message.js'
import genMcp, { type ExchangeEnd, type Gauges, type GenMcpOptions, type JsonObject } from 'fastify-gen-mcp'
import { meta } from './mount.js'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export type Line = { readonly level: number, readonly msg: string, readonly [member: string]: unknown }

/** An app with one mount at /mcp that listens on a loopback port, and what it says of itself. */
export interface Stage {
  readonly app: FastifyInstance
  readonly port: number
  /** Every line of the log, from debug on. */
  readonly lines: readonly Line[]
  /** How exchanges ended, in that order. */
  readonly ends: readonly ExchangeEnd[]
  /** Resolves when so many have ended, and gives all so far; rejects when that takes too long. */
  ended (count?: number): Promise<readonly ExchangeEnd[]>
  gauges (): Gauges
}

export interface StageOptions extends Omit<GenMcpOptions, 'server'> {
  readonly fastify?: FastifyServerOptions & Readonly<Record<string, unknown>>
  /** Called before and after the mount is registered. */
  readonly before?: (app: FastifyInstance) => unknown
  readonly after?: (app: FastifyInstance) => unknown
  /** Default true: to listen. */
  readonly listen?: boolean
}

/** Mounts a server in an app of its own, which is closed when the test ends. */
export async function stage (
  t: Test, server: GenMcpOptions['server'], { fastify, before, after, listen = true, ...options }: StageOptions = {}
): Promise<Stage> {
  const lines: Line[] = []
  const ends: ExchangeEnd[] = []
  let waiting: (() => void)[] = []
  const app = Fastify({ logger: { level: 'debug', stream: { write: (line: string) => { lines.push(JSON.parse(line) as Line) } } }, ...fastify })
  t.teardown(async () => await app.close())

  await before?.(app)
  await app.register(genMcp, {
    prefix: '/mcp',
    ...options,
    server,
    onEnd (end, httpRequest) {
      ends.push(end)
      options.onEnd?.(end, httpRequest)
      for (const wake of waiting.splice(0)) wake()
    }
  })
  await after?.(app)
  await app.ready()
  if (listen) await app.listen({ port: 0, host: '127.0.0.1' })
  waiting = []
  return {
    app,
    port: listen ? (app.server.address() as AddressInfo).port : 0,
    lines,
    ends,
    async ended (count = 1) {
      while (ends.length < count) await within(new Promise<void>(resolve => { waiting.push(resolve) }), `end number ${count}, after ${ends.length},`)
      return ends
    },
    gauges: () => app.mcp.mounts[0]?.gauges() as Gauges
  }
}

/** The gauges of a mount that holds nothing. */
export const NOTHING_HELD: Gauges = { exchanges: 0, streams: 0, listens: 0, queuedMessages: 0, bufferedBytes: 0, sources: 0, timers: 0, busesDown: 0 }

/** Lines that somebody would be woken up for. */
export function alarms (lines: readonly Line[]): readonly Line[] {
  return lines.filter(({ level }) => level >= 50)
}

/** Resolves when the condition holds; the loop goes on meanwhile. For facts that have no event; a test that waits in vain is ended by its time limit. */
export async function until (holds: () => boolean): Promise<void> {
  while (!holds()) await setImmediate()
}

/** What the promise gives; rejects if that takes too long, so that what never happens fails a test at once and by its name. */
export async function within<T> (promise: Promise<T>, what: string, ms = 15_000): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => { timer = setTimeout(() => { reject(new Error(`${what} did not come within ${ms} ms`)) }, ms) })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** A promise and the function that resolves it. */
export function gate<T = void> (): { readonly promise: Promise<T>, readonly open: (value: T) => void } {
  let open: ((value: T) => void) | undefined
  const promise = new Promise<T>(resolve => { open = resolve })
  // A promise calls its executor at once.
  return { promise, open: open as (value: T) => void }
}

// ---- requests

export interface Post { readonly headers: Record<string, string>, readonly payload: string }
export interface PostOptions { readonly id?: string | number, readonly meta?: JsonObject, readonly headers?: Readonly<Record<string, string>> }

/** One POST of a request, as a client of the revision makes it. */
export function post (method: string, params: JsonObject = {}, { id = 1, meta: members = {}, headers = {} }: PostOptions = {}): Post {
  const composed = { ...params, _meta: meta(members) as JsonObject }
  return { headers: composeHeaders(method, composed, headers), payload: JSON.stringify({ jsonrpc: '2.0', id, method, params: composed }) }
}

/** A call of a tool that wants progress. */
export function postCall (args: JsonObject = {}, options: PostOptions = {}): Post {
  return post('tools/call', { name: 'tool', arguments: args }, { ...options, meta: { progressToken: 'p', ...options.meta } })
}

export function postListen (notifications: JsonObject = { toolsListChanged: true }, options: PostOptions = {}): Post {
  return post('subscriptions/listen', { notifications }, options)
}

/** The JSON-RPC messages of an SSE body; everything in it must be events of one data line, or comments. */
export function eventsOf (body: string): JsonObject[] {
  return body.split('\n\n').filter(block => block !== '' && !block.startsWith(':')).map(block => {
    if (!block.startsWith('data: ') || /[\n\r]/.test(block)) throw new Error(`Not an event of one data line: ${JSON.stringify(block)}`)
    return JSON.parse(block.slice(6)) as JsonObject
  })
}

// ---- HTTP/1.1, by hand

/** The body of a whole response as it came over the wire; throws if its last chunk is missing. */
export function bodyOf (text: string): string {
  const from = text.indexOf('\r\n\r\n') + 4
  if (!/\r\ntransfer-encoding: chunked\r\n/i.test(text.slice(0, from))) return text.slice(from)
  let body = ''
  for (let at = from; ;) {
    const lineEnd = text.indexOf('\r\n', at)
    const size = parseInt(text.slice(at, lineEnd), 16)
    if (lineEnd === -1 || Number.isNaN(size)) throw new Error('The response was cut off')
    if (size === 0) return body
    body += text.slice(lineEnd + 2, lineEnd + 2 + size)
    at = lineEnd + 2 + size + 2
  }
}

/** A TCP connection and all that came over it. */
export class Wire {
  readonly socket: Socket
  /** Resolves when the connection is closed, whoever closed it. */
  readonly closed: Promise<void>
  #text = ''
  #waiting: (() => void)[] = []
  #isClosed = false

  constructor (socket: Socket) {
    this.socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      this.#text += chunk
      this.#wake()
    })
    // A connection that breaks is what these tests are about; `closed` tells of it.
    socket.on('error', () => {})
    this.closed = new Promise(resolve => {
      socket.on('close', () => {
        this.#isClosed = true
        this.#wake()
        resolve()
      })
    })
  }

  get text (): string { return this.#text }

  send ({ headers, payload }: Post): void {
    const lines = Object.entries({ host: 'localhost', ...headers, 'content-length': String(Buffer.byteLength(payload)) }).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`POST /mcp HTTP/1.1\r\n${lines.join('')}\r\n${payload}`)
  }

  /** Resolves when this has come, and gives all so far; rejects if the connection is closed before. */
  async received (text: string): Promise<string> {
    while (!this.#text.includes(text)) {
      if (this.#isClosed) throw new Error(`The connection was closed before ${JSON.stringify(text)} came; what came is ${JSON.stringify(this.#text)}`)
      await new Promise<void>(resolve => { this.#waiting.push(resolve) })
    }
    return this.#text
  }

  /** Forgets what came so far, and gives it. */
  take (): string {
    const text = this.#text
    this.#text = ''
    return text
  }

  #wake (): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

export async function openWire (t: Test, port: number): Promise<Wire> {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => { socket.destroy() })
  const wire = new Wire(socket)
  await once(socket, 'connect')
  return wire
}

// ---- HTTP/2

export async function openSession (t: Test, url: string, options: SecureClientSessionOptions = {}): Promise<ClientHttp2Session> {
  const session = connectHttp2(url, options)
  t.teardown(() => { session.destroy() })
  session.on('error', () => {})
  await once(session, 'connect')
  return session
}

/** One response on an HTTP/2 stream. */
export class Http2Response {
  readonly stream: ClientHttp2Stream
  readonly head: Promise<IncomingHttpHeaders & { readonly ':status'?: number }>
  readonly closed: Promise<void>
  #text = ''
  #waiting: (() => void)[] = []
  #isClosed = false

  constructor (stream: ClientHttp2Stream) {
    this.stream = stream
    this.head = new Promise(resolve => { stream.on('response', resolve) })
    stream.setEncoding('utf8')
    stream.on('data', (chunk: string) => {
      this.#text += chunk
      this.#wake()
    })
    stream.on('error', () => {})
    this.closed = new Promise(resolve => {
      stream.on('close', () => {
        this.#isClosed = true
        this.#wake()
        resolve()
      })
    })
  }

  get text (): string { return this.#text }

  async received (text: string): Promise<string> {
    while (!this.#text.includes(text)) {
      if (this.#isClosed) throw new Error(`The stream was closed before ${JSON.stringify(text)} came; what came is ${JSON.stringify(this.#text)}`)
      await new Promise<void>(resolve => { this.#waiting.push(resolve) })
    }
    return this.#text
  }

  #wake (): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

export function sendHttp2 (session: ClientHttp2Session, { headers, payload }: Post): Http2Response {
  const stream = session.request({ ':method': 'POST', ':path': '/mcp', ...headers })
  stream.end(payload)
  return new Http2Response(stream)
}
