import { randomUUID } from 'node:crypto'
import { isObject } from '../decode/envelope.js'
import { isThenable, settle } from '../awaitable.js'
import { createDeferred } from '../deferred.js'
import { revoke } from './session.js'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { BusListener, MessageBus } from '../../types/channel.js'
import type { SessionController } from '../../types/legacy.js'
import type { LogLevel, RequestId } from '../../types/request.js'

/** Sessions of which a level or a subscription is remembered; what was touched longest ago is forgotten first. */
const MAX_REMEMBERED = 10_000
/** Sessions that are looked at, for one that is added, to find some to forget: most may be in use. */
const LOOKS = 16
/** How long a bus may take to take news, in ms: whoever waits for it is answered then. */
const TAKE = 1_000

/** What happened to a session, wherever it did. */
export type News =
  | { readonly type: 'cancelled', readonly requestId: RequestId, readonly reason?: string }
  | { readonly type: 'answered', readonly id: RequestId, readonly answer: JsonObject }
  | { readonly type: 'level', readonly level: LogLevel }
  | { readonly type: 'subscribed' | 'unsubscribed', readonly uri: string }
  /** Its GET stream was opened, by this replica or another. */
  | { readonly type: 'opened' }
  | { readonly type: 'ended' }

/** The GET stream of a session. */
export interface StandingStream {
  subscribe (uri: string): void
  unsubscribe (uri: string): void
  /** Another one is in its place, or the session is over. */
  close (): void
}

/** A request that runs. */
export interface RunningCall {
  /** The client has given it up, or the session is over. */
  cancel (reason?: string): void
}

/** What this process knows of a session, beside what its id says. */
export interface Known {
  logLevel: LogLevel | undefined
  readonly uris: Set<string>
  /** By the JSON of their ids. */
  readonly calls: Map<string, RunningCall>
  /** Questions to the client, by their ids. */
  readonly questions: Map<RequestId, (answer: JsonObject) => void>
  standing: StandingStream | undefined
}

/** The sessions of a mount, as far as they are of this process, and the way to those who know the rest. Keys are those of `keyOf`. */
export class Sessions {
  readonly #controller: SessionController
  readonly #known = new Map<string, Known>()
  readonly #origin = randomUUID()
  readonly #bus: MessageBus | undefined
  readonly #topic: string
  readonly #log: FastifyBaseLogger

  constructor (controller: SessionController, bus: MessageBus | undefined, topic: string, fastify: FastifyInstance) {
    this.#controller = controller
    this.#bus = bus
    this.#topic = topic
    this.#log = fastify.log
    if (bus === undefined) return
    const listener: BusListener = (packet, done) => {
      this.#hear(packet)
      done()
    }
    settle(() => bus.on(topic, listener), () => {}, err => { this.#log.error({ err }, 'what other replicas tell of MCP sessions is not heard') })
    fastify.addHook('onClose', (_instance, done) => {
      // One that is at fault has been told of.
      settle(() => bus.removeListener(topic, listener), () => {}, () => {})
      done()
    })
  }

  /** Sessions of which something is known here. */
  get size (): number {
    return this.#known.size
  }

  find (key: string): Known | undefined {
    return this.#known.get(key)
  }

  /** What is known of a session, to add to it. */
  get (key: string): Known {
    const known = this.#known.get(key) ?? { logLevel: undefined, uris: new Set(), calls: new Map(), questions: new Map(), standing: undefined }
    // Last touched, last forgotten.
    this.#known.delete(key)
    this.#known.set(key, known)
    if (this.#known.size > MAX_REMEMBERED) this.#forget()
    return known
  }

  /** Something that was added is gone; with the last of it goes the session. */
  release (key: string): void {
    const known = this.#known.get(key)
    if (known !== undefined && isIdle(known) && known.logLevel === undefined && known.uris.size === 0) this.#known.delete(key)
  }

  /**
   * Makes news known here at once, and to the other replicas unless it was about something that is here. Resolves when the bus has taken it, or has had its
   * time: whoever is answered then finds that all of them know. Never rejects.
   */
  async tell (key: string, news: News): Promise<void> {
    const bus = this.#bus
    if (this.#apply(key, news) || bus === undefined) return
    const taken = createDeferred<undefined>()
    const over = (): void => { taken.resolve(undefined) }
    const failed = (err: unknown): void => {
      this.#log.error({ err }, 'other replicas could not be told of an MCP session')
      over()
    }
    const packet = { topic: this.#topic, origin: this.#origin, session: key, news }
    const timer = setTimeout(over, TAKE)
    settle(() => {
      const returned: unknown = bus.emit(packet, err => { err === undefined || err === null ? over() : failed(err) })
      // One whose emit knows neither callback nor promise has taken it on return.
      if (isThenable(returned)) return returned.then(over)
      if (bus.emit.length === 1) over()
      return undefined
    }, () => {}, failed)
    await taken.promise
    clearTimeout(timer)
  }

  #hear ({ origin, session, news }: { readonly [key: string]: unknown }): void {
    // The bus is the operator's; what is on it under this topic was put there by `tell`.
    if (origin !== this.#origin && typeof session === 'string' && isObject(news)) this.#apply(session, news as unknown as News)
  }

  /** Whether nobody else is concerned. */
  #apply (key: string, news: News): boolean {
    const known = this.#known.get(key)
    switch (news.type) {
      case 'cancelled': {
        const call = known?.calls.get(JSON.stringify(news.requestId))
        call?.cancel(news.reason)
        return call !== undefined
      }
      case 'answered': {
        const take = known?.questions.get(news.id)
        take?.(news.answer)
        return take !== undefined
      }
      case 'level':
        this.get(key).logLevel = news.level
        return false
      case 'subscribed':
        this.get(key).uris.add(news.uri)
        known?.standing?.subscribe(news.uri)
        return false
      case 'unsubscribed':
        known?.uris.delete(news.uri)
        known?.standing?.unsubscribe(news.uri)
        this.release(key)
        return false
      case 'opened':
        known?.standing?.close()
        return false
      case 'ended':
        revoke(this.#controller, key)
        this.#end(key, known)
        return false
    }
  }

  #end (key: string, known: Known | undefined): void {
    this.#known.delete(key)
    known?.standing?.close()
    for (const call of known?.calls.values() ?? []) call.cancel()
  }

  #forget (): void {
    let looked = 0
    for (const [key, known] of this.#known) {
      if (this.#known.size <= MAX_REMEMBERED || ++looked > LOOKS) break
      this.#known.delete(key)
      // One in use counts as touched, so that those behind it are looked at too.
      if (!isIdle(known)) this.#known.set(key, known)
    }
  }
}

function isIdle ({ calls, questions, standing }: Known): boolean {
  return calls.size === 0 && questions.size === 0 && standing === undefined
}
