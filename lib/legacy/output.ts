import { EventStream, type StreamOwner, type StreamSettings } from '../transport/event-stream.js'
import { readId } from '../decode/envelope.js'
import { McpError } from '../errors.js'
import { sendBare, sendError, sendJson } from '../transport/reply.js'
import { sseEvent } from '../transport/sse.js'
import { settle } from '../awaitable.js'
import { statusOf, type LegacyCodec } from './codec.js'
import { createStreamName, idField, retryField } from './event-id.js'
import { drop, hasLeft, isLeaving, onceGone, whenFlushed } from '../transport/gone.js'
import { jitter } from './jitter.js'
import { areInOrder, replay } from './replay.js'
import type { FastifyReply } from 'fastify'
import type { Accepted } from '../transport/accept.js'
import type { Beating, Pulses } from '../transport/pulse.js'
import type { EventStore, StoredEvent } from '../../types/legacy.js'

/** What all outputs of a mount share. */
export interface OutputSettings {
  readonly stream: StreamSettings
  readonly pulses: Pulses
  readonly store: EventStore | undefined
  /** ms */
  readonly retry: number
  /** ms; 0: no bound */
  readonly maxStreamAge: number
  /** Those that still run, by the names of their streams. */
  readonly running: Map<string, Output>
}

/** Of whom, and how. */
export interface OutputFacts {
  /** Key of the session; undefined: nothing can be kept for it. */
  readonly session: string | undefined
  readonly codec: LegacyCodec
  readonly accepted: Accepted
  /** The revision has events without data, which a client reads on from before there was any (2025-11-25, Transports, Sending Messages). */
  readonly primes: boolean
  /** Answers that will come; undefined: one, and no batch. */
  readonly batch: number | undefined
  /** The head is not known before the answer. */
  readonly late: boolean
}

/**
 * The response to one POST: JSON while nothing but answers was said, else a stream. A connection that is lost takes nothing with it: the stream goes on
 * into the store, and a client may come back for it.
 */
export class Output implements StreamOwner, Beating {
  readonly #reply: FastifyReply
  readonly #settings: OutputSettings
  readonly #facts: OutputFacts
  readonly #stream = createStreamName()
  /** In the store, where a session reaches its own streams alone. */
  readonly #name: string
  readonly #store: EventStore | undefined
  /** Where the stream goes to now; undefined before it is one, and while nobody reads. */
  #connection: EventStream | undefined
  /** The response that was connected last. */
  #latest: FastifyReply
  #streaming = false
  #over = false
  /** The client left while the answer would have been JSON: it knows of nothing to come back for. */
  #dropped = false
  #waits = false
  quiet = 0
  #seq = 0
  /** What the store has not taken yet. */
  readonly #taking = new Set<Promise<void>>()
  /** What is sent while an earlier part is read from the store. */
  #held: StoredEvent[] | undefined
  /** How often a client has come back. */
  #returns = 0
  readonly #answers: string[] = []
  #expected: number
  #bytes = 0

  constructor (reply: FastifyReply, settings: OutputSettings, facts: OutputFacts) {
    this.#reply = this.#latest = reply
    this.#settings = settings
    this.#facts = facts
    this.#store = facts.session === undefined ? undefined : settings.store
    this.#name = storedName(facts.session, this.#stream)
    this.#expected = facts.batch ?? 1
    if (hasLeft(reply)) this.#dropped = true
    else onceGone(reply, () => { this.#lost() })
  }

  get streaming (): boolean { return this.#streaming }
  get statusCode (): number { return this.#reply.statusCode }
  get bytes (): number { return this.#bytes }
  get bufferedBytes (): number { return this.#connection?.bufferedBytes ?? 0 }
  get timers (): number { return (this.#waits ? 1 : 0) + (this.#connection?.beats === true ? 1 : 0) }
  get leaving (): boolean { return isLeaving(this.#latest) }
  get #opens (): boolean { return this.#facts.accepted.sse && !this.#facts.late }
  /** A question to the client has a way to it. */
  get reaches (): boolean {
    if (!this.#facts.accepted.sse || this.#dropped) return false
    return !this.#streaming || this.#connection !== undefined || this.#store !== undefined
  }

  /** Becomes a stream when nothing has been said for long. */
  attend (): void {
    if (!this.#over && !this.#streaming && this.#opens && !this.#dropped) this.#waits = this.#settings.pulses.streamAfter.add(this)
  }

  beat (): void {
    this.open()
  }

  header (name: string, value: string): boolean {
    if (this.#over || this.#streaming) return false
    this.#reply.header(name, value)
    return true
  }

  /** Makes it a stream; false where the client takes JSON only, or it is over. */
  open (): boolean {
    if (this.#over || this.#streaming) return this.#streaming && !this.#over
    return this.#opens && this.#begin()
  }

  #begin (): boolean {
    this.#stopWaiting()
    this.#streaming = true
    if (this.#dropped) return true
    if (this.#store !== undefined) this.#settings.running.set(this.#name, this)
    if (!this.#hand(() => { this.#connect(this.#reply) })) return false
    if (this.#facts.primes && this.#store !== undefined) this.#event('', false)
    // Of a batch, those that were ready before.
    for (const answer of this.#answers.splice(0)) this.#event(answer, false)
    return true
  }

  /** Sends a message on the open stream. */
  send (json: string): void {
    if (this.#over || this.#dropped) return
    this.#event(json, false)
  }

  /** Gives one of the answers; the last one ends the response. An error alone in its response has a status. */
  answer (json: string, error?: McpError): void {
    if (this.#over) return
    this.#expected--
    const last = this.#expected === 0
    if (!this.#streaming && !this.#facts.accepted.json) this.#begin()
    if (this.#dropped) return this.#end(last)
    if (this.#streaming) {
      this.#event(json, last)
      if (last) this.#finish()
      return
    }
    this.#answers.push(json)
    if (last) this.#answerJson(error)
  }

  /** One of the answers will not come. */
  skip (): void {
    this.#expected--
    if (this.#expected > 0 || this.#dropped) return this.#end(this.#expected === 0)
    if (this.#answers.length > 0) return this.#answerJson(undefined)
    // A response has to be ended somehow, and a stream may end with nothing said.
    if (this.open()) {
      // Not sent, but there for a client that comes back to see what became of it.
      if (this.#store !== undefined) this.#keep(this.#store, { seq: this.#seq++, data: '', last: true })
      return this.#finish()
    }
    this.#end(true)
    if (!this.#dropped) this.#hand(() => { this.#reply.code(202).send() })
  }

  /** The answer passes through Fastify, so that `onError` hooks see it. */
  crash (error: McpError, json: string): void {
    if (this.#streaming || this.#dropped || this.#facts.batch !== undefined || !this.#facts.accepted.json) return this.answer(json)
    this.#end(true)
    this.#hand(() => { this.#reply.code(error.statusCode).send(error) })
  }

  abort (): void {
    this.#end(true)
    this.#connection?.abort()
    if (!this.#streaming) drop(this.#reply.raw)
  }

  /** Ends the connection and not the stream: the client is told when to come back for the rest. False where it would not know how. */
  pause (ms: number = this.#settings.retry): boolean {
    if (this.#store === undefined || !this.#facts.primes || !this.open()) return false
    const connection = this.#connection
    this.#connection = undefined
    connection?.finish(retryField(ms))
    return connection !== undefined
  }

  /** Goes on at a new connection with what followed event `seq`; false if that is not known. */
  async resume (reply: FastifyReply, seq: number): Promise<boolean> {
    const turn = ++this.#returns
    const next = this.#seq
    const held = this.#held ??= []
    const missed = await this.#missed(seq).catch((error: unknown) => {
      if (turn === this.#returns) this.#letGo(held)
      throw error
    })
    const superseded = turn !== this.#returns
    const left = hasLeft(reply)
    if (!superseded && (missed === undefined || left)) this.#letGo(held)
    if (missed === undefined) return false
    // Whoever came back last reads on; to anybody else it was a connection like another.
    if (superseded) replay(this.#settings, this.#stream, [], false, reply)
    else if (!left) this.#goOn([...missed, ...held.filter(event => event.seq >= next)], reply)
    return true
  }

  async drained (): Promise<void> {
    await this.#connection?.drained()
  }

  async whenFlushed (): Promise<void> {
    await whenFlushed(this.#latest)
  }

  // ---- what its connection tells

  /** Whoever reads too slowly may come back. */
  overflowed (): void {
    this.#connection = undefined
  }

  /** Fastify has answered with an error instead of the stream. Whoever was to read on may ask for the rest again. */
  failed (): boolean {
    this.#connection = undefined
    if (this.#latest === this.#reply) this.#dropped = true
    return false
  }

  #connect (reply: FastifyReply): void {
    const connection = new EventStream(reply, this.#settings.stream, this.#settings.pulses.keepAlive, this)
    this.#connection = connection
    this.#latest = reply
    const { maxStreamAge } = this.#settings
    const age = maxStreamAge === 0 ? undefined : setTimeout(() => { if (this.#connection === connection) this.pause() }, jitter(maxStreamAge)).unref()
    onceGone(reply, () => {
      clearTimeout(age)
      connection.leave()
      if (this.#connection === connection) this.#connection = undefined
    })
    connection.open()
  }

  /** The events after `seq` that have been sent so far; undefined where some are not known any more. */
  async #missed (seq: number): Promise<readonly StoredEvent[] | undefined> {
    const count = this.#seq - 1 - seq
    // A store may have forgotten a stream that was silent for long, and need not be asked.
    if (count <= 0) return count === 0 ? [] : undefined
    await Promise.allSettled(this.#taking)
    const events = (await this.#store?.after(this.#name, seq))?.slice(0, count)
    return events?.length === count && areInOrder(events, seq + 1) ? events : undefined
  }

  /** The connection that there was, if any, stays the one to send to. */
  #letGo (held: readonly StoredEvent[]): void {
    for (const event of held) this.#write(event)
    this.#held = undefined
    if (this.#over) this.#finish()
  }

  #goOn (events: readonly StoredEvent[], reply: FastifyReply): void {
    this.#held = undefined
    this.#connection?.finish('')
    this.#connection = undefined
    const size = events.reduce((sum, { data }) => sum + data.length, 0)
    // More than a connection may hold unsent would end it, again and again: as a response of its own it may take its time.
    if (this.#over || size > this.#settings.stream.limits.sendBuffer) {
      this.#latest = reply
      replay(this.#settings, this.#stream, events, this.#over, reply)
    } else {
      this.#connect(reply)
      for (const event of events) this.#write(event)
    }
  }

  #event (data: string, last: boolean): void {
    const event: StoredEvent = { seq: this.#seq++, data, last }
    if (this.#store !== undefined) this.#keep(this.#store, event)
    if (this.#held !== undefined) this.#held.push(event)
    else this.#write(event)
  }

  #write ({ seq, data }: StoredEvent): void {
    const connection = this.#connection
    if (connection === undefined) return
    const { bytes } = connection
    connection.write(this.#store === undefined ? sseEvent(data) : idField(this.#stream, seq) + sseEvent(data))
    this.#bytes += connection.bytes - bytes
  }

  #keep (store: EventStore, event: StoredEvent): void {
    settle(() => {
      const taken = store.append(this.#name, event)
      if (!(taken instanceof Promise)) return taken
      this.#taking.add(taken)
      return taken.finally(() => { this.#taking.delete(taken) })
    }, () => {}, err => { this.#reply.log.error({ err }, 'an event of an MCP stream could not be kept') })
  }

  #answerJson (error: McpError | undefined): void {
    const { batch } = this.#facts
    const json = batch === undefined ? this.#answers.join() : `[${this.#answers.join()}]`
    this.#end(true)
    this.#bytes += Buffer.byteLength(json)
    this.#hand(() => {
      if (error === undefined || batch !== undefined) sendJson(this.#reply, 200, json)
      else sendError(this.#reply, error, json, statusOf(error))
    })
  }

  /** Fastify throws for a head that Node refuses: a hook may have set anything. The client is answered all the same; false if so. */
  #hand (send: () => void): boolean {
    try {
      send()
      return true
    } catch (err) {
      this.#reply.log.error({ err }, 'the answer to an MCP request could not be sent')
      this.#connection?.leave()
      this.#connection = undefined
      this.#streaming = false
      this.#dropped = true
      const crash = new McpError({ kind: 'crash' }, { cause: err })
      sendBare(this.#reply, crash.statusCode, this.#facts.codec.error(readId(this.#reply.request.body), crash))
      return false
    }
  }

  #finish (): void {
    this.#end(true)
    // What is read from the store is sent first.
    if (this.#held === undefined) this.#connection?.finish('')
  }

  #lost (): void {
    if (!this.#streaming) this.#dropped = true
    this.#stopWaiting()
  }

  #end (over: boolean): void {
    if (!over) return
    this.#over = true
    this.#stopWaiting()
    this.#settings.running.delete(this.#name)
  }

  #stopWaiting (): void {
    if (this.#waits) this.#settings.pulses.streamAfter.remove(this)
    this.#waits = false
  }
}

/** The name of a stream in the store and among those that run. */
export function storedName (session: string | undefined, stream: string): string {
  return `${session}.${stream}`
}
