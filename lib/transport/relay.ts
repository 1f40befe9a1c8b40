import { McpError } from '../errors.js'
import { EventStream, type StreamOwner, type StreamSettings } from './event-stream.js'
import { drop, hasLeft, isLeaving, onceGone, whenFlushed } from './gone.js'
import { inNextTurn, type Waiting } from './next-turn.js'
import { sendBare, sendError, sendJson } from './reply.js'
import { sseEvent } from './sse.js'
import type { FastifyReply } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { RequestId } from '../../types/request.js'
import type { Accepted } from './accept.js'
import type { Answered, Codec } from './codec.js'
import type { Beating, Pulses } from './pulse.js'

/** What the relay tells whoever runs the exchange: the client has left, reads too slowly, or the response broke. */
export interface RelayOwner {
  readonly listen: boolean
  close (cause: 'disconnect' | 'overflow'): unknown
  /** False if it was over. */
  crash (reason: unknown): boolean
}

/** The output of one exchange onto one reply: one JSON body, or a stream of events. */
export class Relay implements Sink, StreamOwner, Beating, Waiting {
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
  /** It becomes a stream when it has been silent for long. */
  #waits = false
  quiet = 0
  /** Why the response could not be handed to Fastify. */
  #broken: unknown
  #events = 0
  /** A JSON answer. */
  #json = ''

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
  get bytes (): number { return Buffer.byteLength(this.#json) + (this.#stream?.bytes ?? 0) }
  get bufferedBytes (): number { return this.#stream?.bufferedBytes ?? this.#reply.raw.writableLength }
  get leaving (): boolean { return isLeaving(this.#reply) }
  get timers (): number { return (this.#stream?.beats === true ? 1 : 0) + (this.#waits ? 1 : 0) }

  /** Whom to tell what comes of the response. */
  serve (owner: RelayOwner): void {
    this.#owner = owner
  }

  /** For an exchange that goes on: notices when the client leaves, and opens a stream when it has been silent for long. */
  attend (): void {
    if (hasLeft(this.#reply)) this.#gone()
    else inNextTurn(this)
  }

  /** An async handler that has nothing to wait for has answered by now: nothing is set up for it, and nobody's leaving can be told of earlier. */
  nextTurn (): void {
    if (this.#over) return
    if (hasLeft(this.#reply)) return this.#gone()
    onceGone(this.#reply, () => { this.#gone() })
    // A listen opens with its acknowledgement and not before.
    if (this.#owner?.listen === false && !this.streaming && this.#accepted.sse) this.#waits = this.#pulses.streamAfter.add(this)
  }

  /** It has been silent for long. */
  beat (): void {
    this.open()
  }

  header (name: string, value: string): boolean {
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
    this.#end()
    if (this.#stream === undefined) drop(this.#reply.raw)
    else this.#stream.abort()
  }

  async drained (): Promise<void> {
    await this.#stream?.drained()
  }

  async whenFlushed (): Promise<void> {
    await whenFlushed(this.#reply)
  }

  // ---- what its stream tells

  overflowed (): void {
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
    this.#json = json
  }

  // ---- the end

  #gone (): void {
    if (this.#over) return
    this.#end()
    this.#stream?.leave()
    this.#owner?.close('disconnect')
  }

  #end (): void {
    this.#over = true
    this.#stopWaiting()
  }

  #stopWaiting (): void {
    if (this.#waits) this.#pulses.streamAfter.remove(this)
    this.#waits = false
  }
}
