import { validateHeaderName, validateHeaderValue } from 'node:http'
import { McpError } from '../errors.js'
import { EventStream, isGone, type StreamOwner, type StreamSettings } from './event-stream.js'
import { sendBare, sendError, sendJson } from './reply.js'
import { sseEvent } from './sse.js'
import type { FastifyReply } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { RequestId } from '../../types/request.js'
import type { Accepted } from './accept.js'
import type { Answered, Codec } from './codec.js'
import type { Beating, Pulses } from './pulse.js'

/** Bytes of an answer that do not leave at once. */
const LARGE = 65_536

/** What the relay tells whoever runs the exchange: the client has left, reads too slowly, or the response broke. */
export interface RelayOwner {
  readonly listen: boolean
  close (cause: 'disconnect' | 'overflow'): unknown
  /** False if it was over. */
  crash (reason: unknown): boolean
}

/** The output of one exchange onto one reply: one JSON body, or a stream of events. */
export class Relay implements Sink, StreamOwner, Beating {
  readonly #reply: FastifyReply
  readonly #codec: Codec
  readonly #answered: Answered
  readonly #accepted: Accepted
  readonly #settings: StreamSettings
  readonly #pulses: Pulses
  #owner: RelayOwner | undefined
  /** Undefined while the answer may still be JSON, and where it is. */
  #stream: EventStream | undefined
  /** The last of it has been handed on. */
  #over = false
  /** The client is not there any more. */
  #left = false
  /** It becomes a stream when it has been silent for long. */
  #waits = false
  quiet = 0
  #unwatch: (() => void) | undefined
  /** Why the response could not be handed to Fastify. */
  #broken: unknown
  #events = 0
  /** Of a JSON answer. */
  #jsonBytes = 0

  constructor (reply: FastifyReply, codec: Codec, answered: Answered, accepted: Accepted, settings: StreamSettings, pulses: Pulses) {
    this.#reply = reply
    this.#codec = codec
    this.#answered = answered
    this.#accepted = accepted
    this.#settings = settings
    this.#pulses = pulses
  }

  get streaming (): boolean { return this.#stream !== undefined }
  get statusCode (): number { return this.#reply.statusCode }
  get events (): number { return this.#events }
  get bytes (): number { return this.#jsonBytes + (this.#stream?.bytes ?? 0) }
  get bufferedBytes (): number { return this.#stream?.bufferedBytes ?? this.#reply.raw.writableLength }
  get leaving (): boolean {
    const { raw } = this.#reply
    return !this.#left && (!raw.writableEnded || raw.writableLength > LARGE)
  }

  get timers (): number { return (this.#stream?.beats === true ? 1 : 0) + (this.#waits ? 1 : 0) }

  /** Whom to tell what comes of the response. */
  serve (owner: RelayOwner): void {
    this.#owner = owner
  }

  /** For an exchange that goes on: notices when the client leaves, and opens a stream when it has been silent for long. */
  attend (): void {
    const { raw } = this.#reply
    // On HTTP/1.1 the request closes when its body has been read, so that only the response tells of the client.
    if (isGone(raw)) return this.#gone()
    raw.on('close', () => { this.#gone() })
    if (raw.socket === null) this.#watchQueued()
    // A listen opens with its acknowledgement and not before.
    if (this.#owner?.listen === false && !this.streaming && this.#accepted.sse) this.#waits = this.#pulses.streamAfter.add(this)
  }

  /** It has been silent for long. */
  beat (): void {
    this.open()
  }

  header (name: string, value: string): boolean {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    if (this.#over || this.streaming) return false
    this.#reply.header(name, value)
    return true
  }

  open (): boolean {
    if (this.#over || this.streaming) return this.streaming && !this.#over
    if (!this.#accepted.sse) return false
    this.#stopWaiting()
    this.#stream = new EventStream(this.#reply, this.#settings, this.#pulses.keepAlive, this)
    try {
      this.#stream.open()
    } catch (error) {
      this.#recover(error)
      this.#owner?.crash(error)
    }
    return this.streaming
  }

  progress (token: RequestId, progress: number, total: number | undefined, message: string | undefined): void {
    this.#events++
    this.#stream?.write(sseEvent(this.#codec.progress(token, progress, total, message)))
  }

  notify (method: string, params: JsonObject | undefined): boolean {
    if (!this.#accepted.sse) return false
    // First, since what is no JSON must not open a stream.
    const json = this.#codec.notification(method, params)
    if (!this.open()) return false
    this.#stream?.write(sseEvent(json))
    this.#events++
    return true
  }

  end (ending: Ending): void {
    if (this.#over) return
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
    this.#end()
    if (this.#stream === undefined) this.#reply.raw.destroy()
    else this.#stream.abort()
  }

  async drained (): Promise<void> {
    await this.#stream?.drained()
  }

  async whenFlushed (): Promise<void> {
    const { raw } = this.#reply
    if (raw.writableFinished || isGone(raw)) return
    await new Promise<void>(resolve => { raw.once('finish', resolve).once('close', resolve) })
  }

  // ---- what its stream tells

  overflowed (): void {
    this.#left = true
    this.#end()
    this.#owner?.close('overflow')
  }

  failed (error: unknown): boolean {
    this.#end()
    this.#stream = undefined
    return this.#owner?.crash(error) === true
  }

  // ---- the answer

  #answer (json: string): void {
    if (this.streaming || (!this.#accepted.json && this.open())) {
      this.#events++
      return this.#finish(sseEvent(json))
    }
    // The stream could not be opened, and the client has been told so.
    if (this.#broken !== undefined) throw this.#broken
    this.#end()
    this.#count(json)
    this.#hand(() => { sendJson(this.#reply, 200, json) })
  }

  #refuse (error: McpError): void {
    const { reason } = error
    // A notification that is refused has no response to be in: the status alone says so.
    const statusCode = this.#answered.id === undefined ? Math.max(error.statusCode, 400) : error.statusCode
    if (this.streaming || (statusCode === 200 && !this.#accepted.json)) return this.#answer(this.#codec.error(this.#answered.id, error))
    const json = this.#codec.error(this.#answered.id, error)
    this.#end()
    this.#count(json)
    // A crash passes through Fastify, so that `onError` hooks see it.
    this.#hand(() => {
      if (reason.kind === 'crash') this.#reply.code(statusCode).send(error)
      else sendError(this.#reply, error, json, statusCode)
    })
  }

  #accept (): void {
    this.#end()
    this.#hand(() => { this.#reply.code(202).send() })
  }

  #finish (text: string): void {
    this.#end()
    this.#stream?.finish(text)
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
    this.#end()
    this.#stream?.leave()
    this.#stream = undefined
    const crash = new McpError({ kind: 'crash' }, { cause: error })
    sendBare(this.#reply, crash.statusCode, this.#codec.error(this.#answered.id, crash))
  }

  #count (json: string): void {
    this.#events++
    this.#jsonBytes += Buffer.byteLength(json)
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
    if (this.#over) return
    this.#end()
    this.#stream?.leave()
    this.#owner?.close('disconnect')
  }

  #end (): void {
    this.#over = true
    this.#stopWaiting()
    this.#unwatch?.()
  }

  #stopWaiting (): void {
    if (this.#waits) this.#pulses.streamAfter.remove(this)
    this.#waits = false
  }
}
