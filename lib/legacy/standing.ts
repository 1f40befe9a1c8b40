import { Exchange } from '../channel/exchange.js'
import { createTrace, traceExchange } from '../observe.js'
import { listChanges, type JsonObject, type SubscriptionFilter } from '../protocol/index.js'
import { EventStream, type StreamOwner } from '../transport/event-stream.js'
import { sseEvent } from '../transport/sse.js'
import { codecs, type LegacyCodec } from './codec.js'
import { hasLeft, isLeaving, onceGone, whenFlushed } from '../transport/gone.js'
import { jitter } from './jitter.js'
import { createStreamName, idField, retryField } from './event-id.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Mount } from '../mount.js'
import type { RequestMeta } from '../../types/request.js'
import type { Session } from '../../types/legacy.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { OutputSettings } from './output.js'
import type { StandingStream } from './sessions.js'
import type { Beating, Pulse } from '../transport/pulse.js'

/** What the stream of a session is about. */
export interface StandingFacts {
  readonly mount: Mount
  readonly session: Session
  readonly meta: RequestMeta
  readonly httpRequest: FastifyRequest
  readonly reply: FastifyReply
  readonly settings: OutputSettings
  readonly uris: Iterable<string>
  /** The client had such a stream before, and may have missed something. */
  readonly again: boolean
  /** When to look whether the session is open. */
  readonly checks: Pulse
  readonly isOpen: () => Promise<boolean>
  readonly onEnded: (exchange: Exchange) => void
  /** Called once, when it is over. */
  readonly over: () => void
}

/** No URI. */
const LISTS_KEY = ''

/**
 * The GET stream of a session: what 2026-07-28 calls listens, one for the lists and one for each resource that was subscribed to, with their output on one
 * stream (2025-11-25, Transports, Listening for Messages).
 */
export class Standing implements StandingStream, StreamOwner, Beating {
  readonly #facts: StandingFacts
  readonly #codec: LegacyCodec
  readonly #stream: EventStream
  /** By URI, and one for the lists. */
  readonly #listens = new Map<string, Exchange>()
  #over = false
  #age: NodeJS.Timeout | undefined
  quiet = 0
  readonly #name = `.${createStreamName()}`
  #seq = 0

  constructor (facts: StandingFacts) {
    this.#facts = facts
    this.#codec = codecs[facts.session.protocolVersion]
    this.#stream = new EventStream(facts.reply, facts.settings.stream, facts.settings.pulses.keepAlive, this)
  }

  /** False, with nothing sent, where the server has nothing to say on such a stream. */
  open (): boolean {
    const { reply, session, settings: { store, maxStreamAge }, uris } = this.#facts
    // An event without data, which a client comes back from.
    if (session.protocolVersion === '2025-11-25' && store !== undefined) this.#stream.write(this.#text(''))
    // Before the head leaves, since a server without subscriptions refuses at once.
    this.#listen(LISTS_KEY, { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true })
    if (this.#listens.size === 0 || hasLeft(reply)) {
      this.#end('disconnect')
      return false
    }
    if (maxStreamAge !== 0) this.#age = setTimeout(() => { this.close() }, jitter(maxStreamAge)).unref()
    onceGone(reply, () => { this.#end('disconnect') })
    this.#facts.checks.add(this)
    this.#stream.open()
    for (const uri of uris) this.subscribe(uri)
    return true
  }

  subscribe (uri: string): void {
    if (!this.#over && !this.#listens.has(uri)) this.#listen(uri, { resourceSubscriptions: [uri] })
  }

  unsubscribe (uri: string): void {
    const listen = this.#listens.get(uri)
    this.#listens.delete(uri)
    listen?.worker.close('closed')
  }

  close (): void {
    this.#stream.finish(retryField(this.#facts.settings.retry))
    this.#end(this.#facts.mount.draining ? 'shutdown' : 'closed')
  }

  /** Another look at the session is due. */
  beat (): void {
    const { isOpen, httpRequest } = this.#facts
    isOpen().then(open => { if (!open) this.close() }, (err: unknown) => { httpRequest.log.error({ err }, 'an MCP session could not be looked up') })
  }

  // ---- what its stream tells

  overflowed (): void {
    this.#end('overflow')
  }

  failed (): boolean {
    this.#end('disconnect')
    return false
  }

  // ---- its listens

  #listen (uri: string, notifications: SubscriptionFilter): void {
    const { mount, session: { protocolVersion, principal }, meta, httpRequest, onEnded } = this.#facts
    const request = Object.freeze({ method: 'subscriptions/listen', id: uri, params: Object.freeze({ notifications }), meta } as const)
    const traced = createTrace(request, httpRequest)
    const sink = new ListenSink(this.#stream, this.#facts.reply, (method, params) => { this.#notify(uri, method, params) }, ending => { this.#left(uri, ending) })
    const exchange = new Exchange({ mount, request, httpRequest, protocolVersion, principal, retry: undefined, traced, onEnded }, sink)
    this.#listens.set(uri, exchange)
    traceExchange(traced, exchange)
  }

  #notify (uri: string, method: string, params: JsonObject | undefined): void {
    if (method === 'notifications/subscriptions/acknowledged') return this.#acknowledged(uri, params as { readonly notifications: SubscriptionFilter })
    this.#stream.write(this.#text(this.#codec.notification(method, params)))
  }

  /** These revisions have no acknowledgement; but whoever comes back is told what it may have missed. */
  #acknowledged (uri: string, { notifications }: { readonly notifications: SubscriptionFilter }): void {
    if (!this.#facts.again) return
    for (const [list, change] of Object.entries(listChanges)) {
      if (notifications[list as keyof typeof listChanges] === true) this.#stream.write(this.#text(this.#codec.notification(change, undefined)))
    }
    if ((notifications.resourceSubscriptions?.length ?? 0) > 0) this.#stream.write(this.#text(this.#codec.notification('notifications/resources/updated', { uri })))
  }

  #text (data: string): string {
    return (this.#facts.settings.store === undefined ? '' : idField(this.#name, this.#seq++)) + sseEvent(data)
  }

  /**
   * A listen has ended. With the one for the lists goes the stream, unless that failed: the stream stays, since a client would come back for it at once
   * and without end.
   */
  #left (uri: string, ending: Ending): void {
    if (!this.#listens.delete(uri) || this.#over) return
    if (uri === LISTS_KEY && ending.type !== 'error') this.close()
  }

  #end (cause: 'disconnect' | 'closed' | 'overflow' | 'shutdown'): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#age)
    this.#facts.checks.remove(this)
    this.#stream.leave()
    const listens = [...this.#listens.values()]
    this.#listens.clear()
    for (const { worker } of listens) worker.close(cause)
    this.#facts.over()
  }
}

/** The output of one listen onto a stream that it shares. */
class ListenSink implements Sink {
  readonly #stream: EventStream
  readonly #reply: FastifyReply
  readonly #notify: (method: string, params: JsonObject | undefined) => void
  readonly #left: (ending: Ending) => void
  events = 0

  constructor (stream: EventStream, reply: FastifyReply, notify: (method: string, params: JsonObject | undefined) => void, left: (ending: Ending) => void) {
    this.#stream = stream
    this.#reply = reply
    this.#notify = notify
    this.#left = left
  }

  readonly streaming = true
  readonly timers = 0
  readonly statusCode = 200
  get bytes (): number { return this.#stream.bytes }
  get bufferedBytes (): number { return this.#stream.bufferedBytes }
  get leaving (): boolean { return this.#stream.over && isLeaving(this.#reply) }

  open (): boolean {
    return !this.#stream.over
  }

  /** A listen reports no progress, and its head has left. */
  readonly progress = never
  readonly header = never

  notify (method: string, params: JsonObject | undefined): boolean {
    this.#notify(method, params)
    this.events++
    return true
  }

  end (ending: Ending): void {
    this.#left(ending)
  }

  abort (): void {
    this.#stream.abort()
  }

  async drained (): Promise<void> {
    await this.#stream.drained()
  }

  async whenFlushed (): Promise<void> {
    await whenFlushed(this.#reply)
  }
}

function never (): boolean {
  return false
}
