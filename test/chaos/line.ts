import { once } from 'node:events'
import { connect as connectHttp2, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { setImmediate, setTimeout as delay } from 'node:timers/promises'
import { within } from '../helpers/sockets.js'
import { ResponseParser } from './response-parser.js'
import type { Answer } from './answer.js'

/** A request as it goes out. */
export interface Outgoing { readonly verb: 'POST' | 'GET', readonly path: string, readonly headers: Readonly<Record<string, string>>, readonly payload: string }
/** So much of a request. */
export type Part = 'head' | 'body' | 'whole' | 'trickle'

/** Ways to leave one request, or all of a connection. After the last two what is under way is still read. */
export type Leaving = 'destroy' | 'reset' | 'halfClose' | 'cancelStream' | 'goawayError' | 'goaway' | 'close'

/** Bytes of a request that is sent in pieces. */
const PIECE = 40
/** A window that a few events fill. */
const SMALL_WINDOW = 2_048

/** A connection of a client's. */
export interface Line {
  /** It can be used for another request. */
  readonly usable: boolean
  send (outgoing: Outgoing, answer: Answer, part: Part): Promise<void>
  /** Several at once, each without waiting for the one before. */
  sendAll (all: readonly (readonly [Outgoing, Answer])[]): void
  leave (how: Leaving, answer: Answer): void
  pause (answer: Answer): void
  resume (answer: Answer): void
  /** Ends it, and waits until it has gone. */
  end (): Promise<void>
}

export async function openLine (http2: boolean, port: number, smallWindow: boolean): Promise<Line> {
  const socket = connect({ port, host: '127.0.0.1' })
  // A connection that breaks is what this is about.
  socket.on('error', () => {})
  await within(once(socket, 'connect'), 'a connection')
  return http2 ? new Http2Line(socket, smallWindow) : new Http1Line(socket)
}

class Http1Line implements Line {
  readonly #socket: Socket
  readonly #closed: Promise<unknown>
  #expected: Answer[] = []
  #left = false
  readonly #parser = new ResponseParser(() => this.#expected[0], () => { this.#expected.shift() })

  constructor (socket: Socket) {
    this.#socket = socket
    this.#closed = new Promise(resolve => { socket.on('close', resolve) })
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => { this.#parser.push(chunk) })
    socket.on('close', () => {
      const cut = this.#expected
      this.#expected = []
      for (const answer of cut) answer.cut()
    })
  }

  get usable (): boolean { return !this.#left && !this.#socket.destroyed && this.#socket.readable && this.#socket.writable && !this.#parser.last && this.#expected.length === 0 }

  async send (outgoing: Outgoing, answer: Answer, part: Part): Promise<void> {
    this.#expected.push(answer)
    const text = compose(outgoing)
    const body = text.length - outgoing.payload.length
    if (part === 'trickle') return await trickle(text, piece => { this.#socket.write(piece) })
    // A head that is not whole, or half of a body.
    this.#socket.write(part === 'whole' ? text : text.slice(0, part === 'head' ? body - 10 : body + Math.ceil(outgoing.payload.length / 2)))
  }

  sendAll (all: readonly (readonly [Outgoing, Answer])[]): void {
    this.#expected.push(...all.map(([, answer]) => answer))
    this.#socket.write(all.map(([outgoing]) => compose(outgoing)).join(''))
  }

  leave (how: Leaving): void {
    this.#left = true
    if (how === 'reset') this.#socket.resetAndDestroy()
    else if (how === 'halfClose') this.#socket.end()
    else this.#socket.destroy()
  }

  pause (): void {
    this.#socket.pause()
  }

  resume (): void {
    this.#socket.resume()
  }

  async end (): Promise<void> {
    this.#left = true
    this.#socket.resume()
    this.#socket.end()
    await within(this.#closed, 'the end of a connection', 20_000)
  }
}

class Http2Line implements Line {
  readonly #socket: Socket
  readonly #session: ClientHttp2Session
  readonly #closed: Promise<unknown>
  readonly #streams = new Map<Answer, ClientHttp2Stream>()
  #left = false
  /** Lost, which to Node looks like an end. */
  #dropped = false

  constructor (socket: Socket, smallWindow: boolean) {
    this.#socket = socket
    this.#closed = new Promise(resolve => { socket.on('close', resolve) })
    this.#session = connectHttp2('http://127.0.0.1', { createConnection: () => socket, ...(smallWindow && { settings: { initialWindowSize: SMALL_WINDOW } }) })
    this.#session.on('error', () => {})
  }

  get usable (): boolean { return !this.#left && !this.#session.closed && !this.#session.destroyed }

  async send (outgoing: Outgoing, answer: Answer, part: Part): Promise<void> {
    const stream = this.#request(outgoing, answer)
    const { verb, payload } = outgoing
    if (part === 'whole' || verb === 'GET') stream.end(payload)
    if (part === 'body') stream.write(payload.slice(0, Math.ceil(payload.length / 2)))
    if (part !== 'trickle' || verb === 'GET') return
    await trickle(payload, piece => { if (stream.writable) stream.write(piece) })
    stream.end()
  }

  sendAll (all: readonly (readonly [Outgoing, Answer])[]): void {
    for (const [outgoing, answer] of all) this.#request(outgoing, answer).end(outgoing.payload)
  }

  leave (how: Leaving, answer: Answer): void {
    if (how === 'cancelStream') {
      const stream = this.#streams.get(answer)
      stream?.close(constants.NGHTTP2_CANCEL)
      // One that is paused would not close.
      stream?.resume()
      return
    }
    this.#left = true
    this.#dropped = !['goaway', 'close'].includes(how)
    switch (how) {
      case 'reset':
        this.#socket.resetAndDestroy()
        return
      case 'goaway':
        this.#session.goaway()
        return
      case 'goawayError':
        this.#session.goaway(constants.NGHTTP2_PROTOCOL_ERROR)
        return
      case 'close':
        this.#session.close()
        return
      default:
        this.#session.destroy()
    }
  }

  pause (answer: Answer): void {
    this.#streams.get(answer)?.pause()
  }

  resume (answer: Answer): void {
    this.#streams.get(answer)?.resume()
  }

  async end (): Promise<void> {
    this.#left = true
    for (const stream of this.#streams.values()) stream.resume()
    this.#session.close()
    await within(this.#closed, 'the end of a connection', 20_000)
  }

  #request ({ verb, path, headers }: Outgoing, answer: Answer): ClientHttp2Stream {
    const { host: _, ...rest } = headers
    const stream = this.#session.request({ ':method': verb, ':path': path, ...rest }, { endStream: false })
    let ended = false
    this.#streams.set(answer, stream)
    stream.setEncoding('latin1')
    stream.on('error', () => {})
    stream.on('response', head => { answer.head(head[':status'] ?? 0, head['content-type']) })
    stream.on('data', (chunk: string) => { answer.body(chunk) })
    stream.on('end', () => { ended = true })
    stream.on('close', () => {
      this.#streams.delete(answer)
      if (ended && !this.#dropped && stream.rstCode === constants.NGHTTP2_NO_ERROR && answer.status !== undefined) answer.end()
      else answer.cut()
    })
    return stream
  }
}

/** The whole text of a request. */
function compose ({ verb, path, headers, payload }: Outgoing): string {
  const all = { ...headers, ...(verb === 'POST' && { 'content-length': String(Buffer.byteLength(payload)) }) }
  return `${verb} ${path} HTTP/1.1\r\nhost: localhost\r\n${Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${payload}`
}

async function trickle (text: string, write: (piece: string) => void): Promise<void> {
  for (let at = 0; at < text.length; at += PIECE) {
    write(text.slice(at, at + PIECE))
    if (at % (PIECE * 4) === 0) await delay(1)
    else await setImmediate()
  }
}
