import { Socket } from 'node:net'
import { Writable } from 'node:stream'
import { validateHeaderName, validateHeaderValue, type ServerResponse } from 'node:http'
import { McpError } from '../errors.js'
import { sendBare, sendError, sendJson } from './reply.js'
import { SSE_COMMENT, sseEvent } from './sse.js'
import { StreamHead } from './stream-head.js'
import type { EventEmitter } from 'node:events'
import type { FastifyReply } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { RequestId } from '../../types/request.js'
import type { Accepted } from './accept.js'
import type { Answered, Codec } from './codec.js'
import type { Beating, Pulse } from './pulse.js'

/** Bytes of an answer that do not leave at once. */
const LARGE = 65_536
/** Unwritten text from which a producer that asks is made to wait; that of a socket. */
const HIGH_WATER = 16_384

/** What the relay is told by the mount. */
export interface RelaySettings {
  readonly streamAfter: number
  readonly limits: { /** bytes */ readonly sendBuffer: number }
}

/** What the relay tells whoever runs the exchange: the client has left, reads too slowly, or the response broke. */
export interface RelayOwner {
  readonly listen: boolean
  close (cause: 'disconnect' | 'overflow'): unknown
  /** False if it was over. */
  crash (reason: unknown): boolean
}

/** The output of one exchange onto one reply: one JSON body, or a stream of events. The only writer of `reply.raw`. */
export class Relay implements Sink, Beating {
  readonly #reply: FastifyReply
  readonly #codec: Codec
  readonly #answered: Answered
  readonly #accepted: Accepted
  readonly #settings: RelaySettings
  readonly #pulse: Pulse
  #owner: RelayOwner | undefined

  /** idle, then opening (Fastify runs `onSend`) and open for a stream; over when the last of it has been handed on. */
  #state: 'idle' | 'opening' | 'open' | 'over' = 'idle'
  #streaming = false
  #head: StreamHead | undefined
  /** Text of events that wait for the end of the tick, or for the head. */
  #pending = ''
  #last = false
  /** The client is not there any more. */
  #left = false
  #flushing = false
  #beats = false
  quiet = 0
  #streamAfter: NodeJS.Timeout | undefined
  #drained: (() => void)[] | undefined
  #unwatch: (() => void) | undefined
  /** Why the response could not be handed to Fastify. */
  #broken: unknown
  #events = 0
  #bytes = 0

  constructor (reply: FastifyReply, codec: Codec, answered: Answered, accepted: Accepted, settings: RelaySettings, pulse: Pulse) {
    this.#reply = reply
    this.#codec = codec
    this.#answered = answered
    this.#accepted = accepted
    this.#settings = settings
    this.#pulse = pulse
  }

  get streaming (): boolean { return this.#streaming }
  get statusCode (): number { return this.#reply.statusCode }
  get events (): number { return this.#events }
  get bytes (): number { return this.#bytes }
  get bufferedBytes (): number { return this.#pending.length + this.#reply.raw.writableLength }
  get leaving (): boolean {
    const { raw } = this.#reply
    return !this.#left && (!raw.writableEnded || raw.writableLength > LARGE)
  }

  get timers (): number { return (this.#beats ? 1 : 0) + (this.#streamAfter === undefined ? 0 : 1) }

  /** Whom to tell what comes of the response. */
  serve (owner: RelayOwner): void {
    this.#owner = owner
  }

  /** For an exchange that goes on: notices when the client leaves, and opens a stream when it has been silent for long. */
  attend (): void {
    const { raw } = this.#reply
    // On HTTP/1.1 the request closes when its body has been read, so that only the response tells of the client.
    if (isGone(raw)) return this.#gone()
    raw.once('close', () => { this.#gone() })
    if (raw.socket === null) this.#watchQueued()
    const { streamAfter } = this.#settings
    // A listen opens with its acknowledgement and not before.
    if (streamAfter > 0 && this.#owner?.listen === false && this.#state === 'idle' && this.#accepted.sse) this.#streamAfter = setTimeout(() => { this.open() }, streamAfter)
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
    this.#head = new StreamHead(this.#reply.raw, endsItself => { this.#piped(endsItself) })
    this.#reply
      .code(200)
      .header('content-type', 'text/event-stream')
      .header('cache-control', 'no-cache, no-transform')
      .header('x-accel-buffering', 'no')
    openStreams.set(this.#reply, this)
    try {
      this.#reply.send(this.#head)
    } catch (error) {
      this.#recover(error)
      this.#owner?.crash(error)
    }
    return this.#streaming
  }

  progress (token: RequestId, progress: number, total: number | undefined, message: string | undefined): void {
    this.#events++
    this.#write(sseEvent(this.#codec.progress(token, progress, total, message)))
  }

  beat (): void {
    this.#write(SSE_COMMENT)
  }

  notify (method: string, params: JsonObject | undefined): boolean {
    if (!this.#accepted.sse) return false
    // First, since what is no JSON must not open a stream.
    const json = this.#codec.notification(method, params)
    if (!this.open()) return false
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
    this.#left = true
    this.#over()
    this.#pending = ''
    this.#reply.raw.destroy()
  }

  /** Fastify answers with an error of its own instead of the stream; whether the exchange has taken it as its own. */
  failed (error: unknown): boolean {
    this.#over()
    this.#streaming = false
    // The head was one of a stream, and what a compressor made of it is not what is sent.
    for (const name of ['content-encoding', 'x-accel-buffering', 'cache-control']) this.#reply.removeHeader(name)
    return this.#owner?.crash(error) === true
  }

  async drained (): Promise<void> {
    const { raw } = this.#reply
    if (this.#state === 'over' || !this.#streaming || this.bufferedBytes < HIGH_WATER) return
    await new Promise<void>(resolve => {
      this.#drained ??= []
      // One listener for all who wait; a dead socket never drains, so that #over wakes them too.
      if (this.#drained.push(resolve) === 1) drainOf(raw).once('drain', () => { this.#wake() })
      this.#flush()
      // HTTP/2 does not say so.
      if (!(raw.writableNeedDrain ?? raw.writableLength >= HIGH_WATER)) this.#wake()
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
    // The stream could not be opened, and the client has been told so.
    if (this.#broken !== undefined) throw this.#broken
    this.#over()
    this.#count(json)
    this.#hand(() => { sendJson(this.#reply, 200, json) })
  }

  #refuse (error: McpError): void {
    const { reason } = error
    // A notification that is refused has no response to be in: the status alone says so.
    const statusCode = this.#answered.id === undefined ? Math.max(error.statusCode, 400) : error.statusCode
    if (this.#streaming || (statusCode === 200 && !this.#accepted.json)) return this.#answer(this.#codec.error(this.#answered.id, error))
    const json = this.#codec.error(this.#answered.id, error)
    this.#over()
    this.#count(json)
    // A crash passes through Fastify, so that `onError` hooks see it.
    this.#hand(() => {
      if (reason.kind === 'crash') this.#reply.code(statusCode).send(error)
      else sendError(this.#reply, error, json, statusCode)
    })
  }

  #accept (): void {
    this.#over()
    this.#hand(() => { this.#reply.code(202).send() })
  }

  /** Fastify throws for a head that Node refuses: a hook may have set anything. The client is answered, and the exchange told by the throw. */
  #hand (send: () => void): void {
    try {
      send()
    } catch (error) {
      this.#recover(error)
      throw error
    }
  }

  #recover (error: unknown): void {
    this.#broken = error
    this.#over()
    this.#streaming = false
    const crash = new McpError({ kind: 'crash' }, { cause: error })
    sendBare(this.#reply, crash.statusCode, this.#codec.error(this.#answered.id, crash))
  }

  #count (json: string): void {
    this.#events++
    this.#bytes += Buffer.byteLength(json)
  }

  // ---- the stream

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

  #write (text: string): void {
    this.#pending += text
    this.#bytes += Buffer.byteLength(text)
    if (this.#state === 'opening' && this.#pending.length > this.#settings.limits.sendBuffer) setImmediate(() => { this.#checkBuffer() })
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
    this.quiet = 0
    if (raw.writableLength > this.#settings.limits.sendBuffer) setImmediate(() => { this.#checkBuffer() })
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
    this.#owner?.close('overflow')
  }

  #finish (text: string): void {
    this.#pending += text
    this.#bytes += Buffer.byteLength(text)
    this.#last = true
    const piped = this.#state === 'open'
    this.#over()
    if (piped) this.#flushLast()
  }

  #flushLast (): void {
    const { raw } = this.#reply
    const text = this.#take()
    if (this.#head === undefined) {
      raw.end(text)
    } else {
      raw.write(text)
      this.#head.emit('end')
    }
  }

  // ---- the end

  /** A response behind another one on its connection has no socket yet, and hears nothing of its end. */
  #watchQueued (): void {
    const { socket } = this.#reply.request.raw
    const gone = (): void => { this.#gone() }
    socket.once('close', gone)
    this.#unwatch = () => { socket.off('close', gone) }
  }

  #gone (): void {
    // A response behind another one tells nobody that it has closed: nobody is to wait for that.
    this.#left = true
    if (this.#state === 'over') return
    this.#over()
    this.#owner?.close('disconnect')
  }

  #over (): void {
    this.#state = 'over'
    this.#stopWaiting()
    this.#unwatch?.()
    if (this.#beats) this.#pulse.remove(this)
    this.#beats = false
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

/** Who tells that the response drains. For inject that is its socket, which no HTTP server listens to. */
function drainOf (raw: ServerResponse): EventEmitter {
  const { socket } = raw
  return socket instanceof Writable && !(socket instanceof Socket) ? socket : raw
}

/** On HTTP/2 it is the stream that is destroyed, and not its response. */
function isGone (raw: ServerResponse & { readonly stream?: { readonly destroyed: boolean } }): boolean {
  return raw.destroyed || raw.stream?.destroyed === true
}

/** The streams that Fastify has been given and may still fail to send. */
const openStreams = new WeakMap<FastifyReply, Relay>()

/** Tells the stream of a reply that Fastify answers with an error instead; false if that is nobody's crash. */
export function failStream (reply: FastifyReply, error: unknown): boolean {
  return openStreams.get(reply)?.failed(error) === true
}
