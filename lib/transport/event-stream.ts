import { Socket } from 'node:net'
import { Readable, Writable } from 'node:stream'
import { drop } from './gone.js'
import { bytesOf, LONG } from './long.js'
import { escapeEnds, SSE_COMMENT } from './sse.js'
import { StreamHead } from './stream-head.js'
import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Beating, Pulse } from './pulse.js'

/** Unwritten text from which a producer that asks is made to wait. */
const HIGH_WATER = 16_384

/** What a stream is told by the mount. */
export interface StreamSettings {
  readonly limits: { /** bytes */ readonly sendBuffer: number }
}

/** Who sends through a stream, and is told what comes of it. */
export interface StreamOwner {
  /** The client reads too slowly; its connection has been dropped. */
  overflowed (): void
  /** Fastify answers with an error of its own instead; whether somebody has taken it as theirs. */
  failed (error: unknown): boolean
}

/** The event stream of one response: the head through Fastify, the events on `reply.raw`, which nobody else writes to. */
export class EventStream implements Beating {
  readonly #reply: FastifyReply
  readonly #settings: StreamSettings
  readonly #pulse: Pulse
  readonly #owner: StreamOwner
  /** Opening while Fastify runs `onSend`; over when the last of it has been handed on. */
  #state: 'opening' | 'open' | 'over' = 'opening'
  #head: StreamHead | undefined
  /** Text of events that wait for the end of the tick, or for the head. */
  #pending = ''
  #last = false
  #flushing = false
  #beats = false
  quiet = 0
  #drained: (() => void)[] | undefined
  bytes = 0

  constructor (reply: FastifyReply, settings: StreamSettings, pulse: Pulse, owner: StreamOwner) {
    this.#reply = reply
    this.#settings = settings
    this.#pulse = pulse
    this.#owner = owner
  }

  get over (): boolean { return this.#state === 'over' }
  get beats (): boolean { return this.#beats }
  get bufferedBytes (): number { return this.#pending.length + this.#reply.raw.writableLength }

  /** Sends the head. Throws what Fastify throws for headers that Node refuses. */
  open (): void {
    this.#head = new StreamHead(this.#reply.raw, endsItself => { this.#piped(endsItself) })
    setStreamHeaders(this.#reply.code(200))
    openStreams.set(this.#reply, this)
    this.#reply.send(this.#head)
  }

  /** Sends the text of an event, or of several. */
  write (text: string): void {
    if (this.#state === 'over') return
    this.#add(text)
    if (this.#state === 'opening' && this.#pending.length > this.#settings.limits.sendBuffer) setImmediate(() => { this.#checkBuffer() })
    this.#schedule()
  }

  beat (): void {
    this.write(SSE_COMMENT)
  }

  /** Sends the last text, if any, and ends the response. */
  finish (text: string): void {
    if (this.#state === 'over') return
    this.#add(text)
    this.#last = true
    const piped = this.#state === 'open'
    this.leave()
    if (piped) this.#flushLast()
  }

  /** The client is gone, or another answer is given: nothing more is written. */
  leave (): void {
    this.#state = 'over'
    if (this.#beats) this.#pulse.remove(this)
    this.#beats = false
    this.#wake()
  }

  #add (text: string): void {
    if (text.length <= LONG) {
      this.#pending += text
      this.bytes += Buffer.byteLength(text)
      return
    }
    const before = Buffer.byteLength(this.#pending)
    // Looked at together with what goes before it: each look at a text that was joined makes a copy of it.
    this.#pending = escapeEnds(this.#pending + text)
    this.bytes += Buffer.byteLength(this.#pending) - before
  }

  /** Drops the connection. */
  abort (): void {
    this.leave()
    this.#pending = ''
    drop(this.#reply.raw)
  }

  /** Resolves when the socket takes more, or the stream is over. */
  async drained (): Promise<void> {
    const { raw } = this.#reply
    if (this.#state === 'over' || this.bufferedBytes < HIGH_WATER) return
    const draining = drainOf(raw)
    await new Promise<void>(resolve => {
      this.#drained ??= []
      // One listener for all who wait; a dead socket never drains, so that `leave` wakes them too.
      if (this.#drained.push(resolve) === 1) draining.once('drain', () => { this.#wake() })
      this.#flush()
      // Of whoever tells, since a response that is not told itself needs a drain for ever; HTTP/2 does not say so.
      if (!(draining.writableNeedDrain ?? raw.writableLength >= HIGH_WATER)) this.#wake()
    })
  }

  failed (error: unknown): boolean {
    this.leave()
    // The head was one of a stream, and what a compressor made of it is not what is sent.
    for (const name of ['content-encoding', 'x-accel-buffering', 'cache-control']) this.#reply.removeHeader(name)
    return this.#owner.failed(error)
  }

  /** Fastify has set the head. Where it adds trailers it ends the response itself, when it hears that the stream has ended. */
  #piped (endsItself: boolean): void {
    if (endsItself) {
      this.#head?.release()
      this.#head = undefined
    }
    if (this.#state === 'opening') this.#state = 'open'
    // The client has left while a hook worked on the head.
    if (this.#state === 'over' && !this.#last) return
    if (this.#last) return this.#flushLast()
    this.#beats = this.#pulse.add(this)
    this.#schedule()
  }

  /** Events that are sent in one tick leave in one write. */
  #schedule (): void {
    if (this.#flushing || this.#state !== 'open') return
    this.#flushing = true
    process.nextTick(EventStream.#flushTick, this)
  }

  static #flushTick (stream: EventStream): void {
    stream.#flushing = false
    stream.#flush()
  }

  #flush (): void {
    const { raw } = this.#reply
    if (this.#state !== 'open') return
    if (this.#pending === '') {
      raw.flushHeaders()
      return
    }
    raw.write(this.#take())
    this.quiet = 0
    if (raw.writableLength > this.#settings.limits.sendBuffer) setImmediate(() => { this.#checkBuffer() })
  }

  #flushLast (): void {
    const { raw } = this.#reply
    const head = this.#head
    const text = this.#take()
    if (text.length > LONG) {
      const parts = Readable.from(bytesOf(text), { objectMode: false })
      if (head !== undefined) parts.once('end', () => { head.emit('end') })
      parts.pipe(raw, { end: head === undefined })
    } else if (head === undefined) {
      raw.end(text)
    } else {
      raw.write(text)
      head.emit('end')
    }
  }

  #take (): string {
    const text = this.#pending
    this.#pending = ''
    return text
  }

  /** The loop could flush since: what is unsent now is more than the client keeps up with. */
  #checkBuffer (): void {
    if (this.#state === 'over' || this.bufferedBytes <= this.#settings.limits.sendBuffer) return
    this.abort()
    this.#owner.overflowed()
  }

  #wake (): void {
    const waiting = this.#drained ?? []
    this.#drained = undefined
    for (const resolve of waiting) resolve()
  }
}

/** What the head of every event stream says (2026-07-28, Streamable HTTP, Sending Messages). */
export function setStreamHeaders (reply: FastifyReply): FastifyReply {
  return reply
    .header('content-type', 'text/event-stream')
    .header('cache-control', 'no-cache, no-transform')
    .header('x-accel-buffering', 'no')
}

/** Who tells that the response drains. For inject that is its socket, which no HTTP server listens to. */
function drainOf (raw: ServerResponse): Writable {
  const { socket } = raw
  return socket instanceof Writable && !(socket instanceof Socket) ? socket : raw
}

/** The streams that Fastify has been given and may still fail to send. */
const openStreams = new WeakMap<FastifyReply, EventStream>()

/** Tells the stream of a reply that Fastify answers with an error instead; false if that is nobody's crash. */
export function failStream (reply: FastifyReply, error: unknown): boolean {
  return openStreams.get(reply)?.failed(error) === true
}
