import { EventEmitter } from 'node:events'
import { validateHeaderName, validateHeaderValue, type ServerResponse } from 'node:http'
import { McpError } from '../errors.js'
import { sendError, sendJson } from './reply.js'
import { SSE_COMMENT, sseEvent } from './sse.js'
import type { FastifyReply } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { Accepted } from './accept.js'
import type { Answered, Codec } from './codec.js'

/** Unwritten text from which a producer that asks is made to wait; that of a socket. */
const HIGH_WATER = 16_384

/** What the relay is told by the mount. */
export interface RelaySettings {
  readonly keepAlive: number
  readonly streamAfter: number
  readonly limits: { /** bytes */ readonly sendBuffer: number }
}

/** What the relay tells whoever runs the exchange: the client has left, reads too slowly, or the response broke. */
export interface RelayOwner {
  close (cause: 'disconnect' | 'overflow'): unknown
  crash (reason: unknown): void
}

/**
 * What Fastify is given to send: it runs `onSend`, sets every header, watches the response, and then asks for the bytes to be piped. From there on the
 * relay writes to the response itself.
 */
class StreamHead extends EventEmitter {
  readonly #piped: (destination: unknown, ends: boolean) => void

  constructor (piped: (destination: unknown, ends: boolean) => void) {
    super()
    this.#piped = piped
  }

  pipe<T> (destination: T, options?: { readonly end?: boolean }): T {
    this.#piped(destination, options?.end !== false)
    return destination
  }

  destroy (): void {}
}

/** The output of one exchange onto one reply: one JSON body, or a stream of events. The only writer of `reply.raw`. */
export class Relay implements Sink {
  readonly #reply: FastifyReply
  readonly #codec: Codec
  readonly #answered: Answered
  readonly #accepted: Accepted
  readonly #settings: RelaySettings
  #owner: RelayOwner | undefined

  /** idle, then opening (Fastify runs `onSend`) and open for a stream; over when the last of it has been handed on. */
  #state: 'idle' | 'opening' | 'open' | 'over' = 'idle'
  #streaming = false
  #head: StreamHead | undefined
  #endsItself = true
  /** Text of events that wait for the end of the tick, or for the head. */
  #pending = ''
  #last = false
  #flushing = false
  #keepAlive: NodeJS.Timeout | undefined
  #streamAfter: NodeJS.Timeout | undefined
  #drained: (() => void)[] | undefined
  #events = 0
  #bytes = 0

  constructor (reply: FastifyReply, codec: Codec, answered: Answered, accepted: Accepted, settings: RelaySettings) {
    this.#reply = reply
    this.#codec = codec
    this.#answered = answered
    this.#accepted = accepted
    this.#settings = settings
  }

  get streaming (): boolean { return this.#streaming }
  get statusCode (): number { return this.#reply.statusCode }
  get events (): number { return this.#events }
  get bytes (): number { return this.#bytes }
  get bufferedBytes (): number { return this.#pending.length + this.#reply.raw.writableLength }
  get timers (): number { return (this.#keepAlive === undefined ? 0 : 1) + (this.#streamAfter === undefined ? 0 : 1) }

  /** For an exchange that goes on: notices when the client leaves, and opens a stream when it has been silent for long. */
  attend (owner: RelayOwner): void {
    this.#owner = owner
    const { raw } = this.#reply
    // On HTTP/1.1 the request closes when its body has been read, so that only the response tells of the client.
    if (isGone(raw)) owner.close('disconnect')
    else raw.once('close', () => { this.#gone() })
    const { streamAfter } = this.#settings
    if (streamAfter > 0 && this.#state === 'idle' && this.#accepted.sse) this.#streamAfter = setTimeout(() => { this.open() }, streamAfter)
  }

  header (name: string, value: string): boolean {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    if (this.#state !== 'idle') return false
    this.#reply.header(name, value)
    return true
  }

  open (): boolean {
    if (this.#state !== 'idle') return this.#streaming && this.#state !== 'over'
    if (!this.#accepted.sse) return false
    this.#state = 'opening'
    this.#streaming = true
    this.#stopWaiting()
    this.#head = new StreamHead((destination, ends) => { this.#piped(destination, ends) })
    this.#reply
      .code(200)
      .header('content-type', 'text/event-stream')
      .header('cache-control', 'no-cache, no-transform')
      .header('x-accel-buffering', 'no')
    openStreams.set(this.#reply, this)
    this.#reply.send(this.#head)
    return true
  }

  notify (method: string, params: JsonObject | undefined): boolean {
    let json
    try {
      json = this.#codec.notification(method, params)
    } catch (err) {
      this.#reply.log.error({ err, mcp: { notification: method } }, 'a notification is no JSON')
      return false
    }
    this.#write(sseEvent(json))
    this.#events++
    return true
  }

  end (ending: Ending): void {
    if (this.#state === 'over') return
    switch (ending.type) {
      case 'result': return this.#answer(this.#codec.result(this.#answered, ending.result))
      case 'complete': return this.#answer(this.#codec.complete(this.#answered))
      case 'error': return this.#refuse(ending.error)
      case 'accepted': return this.#accept()
      case 'silent': return this.#finish('')
    }
  }

  abort (): void {
    this.#over()
    this.#pending = ''
    this.#reply.raw.destroy()
  }

  /** Fastify answers with an error of its own instead of the stream. */
  failed (error: unknown): void {
    this.#over()
    this.#streaming = false
    this.#owner?.crash(error)
  }

  async drained (): Promise<void> {
    const { raw } = this.#reply
    if (this.#state === 'over' || !this.#streaming || this.bufferedBytes < HIGH_WATER) return
    await new Promise<void>(resolve => {
      this.#drained ??= []
      // One listener for all who wait; a dead socket never drains, so that #over wakes them too.
      if (this.#drained.push(resolve) === 1) raw.once('drain', () => { this.#wake() })
      this.#flush()
      if (raw.writableLength < HIGH_WATER) this.#wake()
    })
  }

  async whenFlushed (): Promise<void> {
    const { raw } = this.#reply
    if (raw.writableFinished || isGone(raw)) return
    await new Promise<void>(resolve => { raw.once('finish', resolve).once('close', resolve) })
  }

  // ---- the answer

  #answer (json: string): void {
    if (this.#streaming || (!this.#accepted.json && this.open())) {
      this.#events++
      return this.#finish(sseEvent(json))
    }
    this.#over()
    this.#count(json)
    sendJson(this.#reply, 200, json)
  }

  #refuse (error: McpError): void {
    const { statusCode, reason } = error
    if (this.#streaming || (statusCode === 200 && !this.#accepted.json)) return this.#answer(this.#codec.error(this.#answered.id, error))
    const json = this.#codec.error(this.#answered.id, error)
    this.#over()
    this.#count(json)
    // A crash passes through Fastify, so that `onError` hooks see it.
    if (reason.kind === 'crash') this.#reply.code(statusCode).send(error)
    else sendError(this.#reply, error, json)
  }

  #accept (): void {
    this.#over()
    this.#reply.code(202).send()
  }

  #count (json: string): void {
    this.#events++
    this.#bytes += Buffer.byteLength(json)
  }

  // ---- the stream

  #piped (destination: unknown, endsItself: boolean): void {
    const { raw } = this.#reply
    if (destination !== raw) throw new Error('The event stream was about to be piped through something that may hold it back, such as a compressor')
    if (this.#state === 'over' && this.#pending === '' && !this.#last) return
    this.#endsItself = endsItself
    if (this.#state === 'opening') this.#state = 'open'
    // Fastify need not watch a source that never ends before its response does.
    if (endsItself) this.#head?.emit('end')
    if (this.#last) return this.#flushLast()
    this.#scheduleKeepAlive()
    this.#schedule()
  }

  #write (text: string): void {
    this.#pending += text
    this.#schedule()
  }

  /** Events that are sent in one tick leave in one write. */
  #schedule (): void {
    if (this.#flushing || this.#state !== 'open') return
    this.#flushing = true
    process.nextTick(Relay.#flushTick, this)
  }

  static #flushTick (relay: Relay): void {
    relay.#flushing = false
    relay.#flush()
  }

  #flush (): void {
    const { raw } = this.#reply
    if (this.#state !== 'open') return
    if (this.#pending === '') {
      raw.flushHeaders()
      return
    }
    const text = this.#take()
    raw.write(text)
    this.#keepAlive?.refresh()
    if (raw.writableLength > this.#settings.limits.sendBuffer) setImmediate(() => { this.#checkBuffer() })
  }

  #take (): string {
    const text = this.#pending
    this.#pending = ''
    this.#bytes += Buffer.byteLength(text)
    return text
  }

  /** The loop could flush since: what is unsent now is more than the client keeps up with. */
  #checkBuffer (): void {
    if (this.#state !== 'open' || this.#reply.raw.writableLength <= this.#settings.limits.sendBuffer) return
    this.abort()
    this.#owner?.close('overflow')
  }

  #finish (text: string): void {
    this.#pending += text
    this.#last = true
    const piped = this.#state === 'open'
    this.#over()
    if (piped) this.#flushLast()
  }

  #flushLast (): void {
    const { raw } = this.#reply
    const text = this.#take()
    if (this.#endsItself) raw.end(text)
    else {
      raw.write(text)
      this.#head?.emit('end')
    }
  }

  #scheduleKeepAlive (): void {
    const { keepAlive } = this.#settings
    if (keepAlive === 0 || this.#keepAlive !== undefined) return
    this.#keepAlive = setInterval(() => { this.#write(SSE_COMMENT) }, keepAlive)
  }

  // ---- the end

  #gone (): void {
    if (this.#state === 'over') return
    this.#over()
    this.#owner?.close('disconnect')
  }

  #over (): void {
    this.#state = 'over'
    this.#stopWaiting()
    clearInterval(this.#keepAlive)
    this.#keepAlive = undefined
    this.#wake()
  }

  #stopWaiting (): void {
    clearTimeout(this.#streamAfter)
    this.#streamAfter = undefined
  }

  #wake (): void {
    const waiting = this.#drained ?? []
    this.#drained = undefined
    for (const resolve of waiting) resolve()
  }
}

/** On HTTP/2 it is the stream that is destroyed, and not its response. */
function isGone (raw: ServerResponse & { readonly stream?: { readonly destroyed: boolean } }): boolean {
  return raw.destroyed || raw.stream?.destroyed === true
}

/** The streams that Fastify has been given and may still fail to send. */
const openStreams = new WeakMap<FastifyReply, Relay>()

/** Tells the stream of a reply, if there is one, that Fastify answers with an error instead. */
export function failStream (reply: FastifyReply, error: unknown): void {
  openStreams.get(reply)?.failed(error)
}
