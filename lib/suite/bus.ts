import { EventEmitter } from 'node:events'
import { isThenable, settle } from '../awaitable.js'
import { createDeferred } from '../deferred.js'
import { stream } from '../outcome.js'
import { listChanges } from '../protocol/index.js'
import { SubscriptionsEntry, type Kind } from './subscriptions.js'
import type { FastifyBaseLogger } from 'fastify'
import type { BusListener, BusPacket, MessageBus, RequestContext, ServerNotification } from '../../types/channel.js'
import type { BusSubscriptions, BusSubscriptionsOptions } from '../../types/providers.js'

/** How long changes of one kind are gathered for one stream, in ms. */
const MERGE = 50
/** How many kinds and URIs a stream remembers before it forgets those that are over. */
const KEPT = 100
/** How long a bus may take to confirm a subscription, in ms. */
const CONFIRM = 5_000
const EVENT = 'change'
const NONE: ReadonlySet<string> = new Set()

/** What changed, and whom it is told to. */
interface Change { readonly kind: Kind, readonly uri?: string, readonly principal?: string }
/** What a stream was told when, by kind and URI, and what it is to be told. */
interface Told {
  /** Undefined until something changes: most streams just wait, and there may be many. */
  at: Map<string, number> | undefined
  waiting: Map<string, Change> | undefined
  /** There is such a message in the mailbox, or on its way. One is enough for all that waits, so that no flood of changes fills a mailbox. */
  changed: boolean
  due: boolean
}
/** The subscription to the bus that serves all streams of a process. */
interface Joined { readonly leave: () => unknown, /** Until it has been confirmed. */ confirming?: Promise<void> | undefined }
/** What a stream is woken by: something changed, or the time of something has come. */
type Message = 'changed' | 'due'

/** Subscriptions that are told of changes over a bus: an MQEmitter, or anything of its shape, which may span processes. */
export function busSubscriptions (options: BusSubscriptionsOptions = {}): BusSubscriptions {
  // The provider's brand is a phantom.
  return new BusEntry(options) as unknown as BusSubscriptions
}

class BusEntry extends SubscriptionsEntry {
  override readonly buses: readonly MessageBus[]
  readonly #bus: MessageBus | undefined
  readonly #topic: string
  /** Who listens in this process: one subscription to the bus serves them all. */
  readonly #streams = new EventEmitter().setMaxListeners(0)
  #count = 0
  #joined: Joined | undefined
  #log: FastifyBaseLogger | undefined

  constructor ({ bus, topic = 'mcp' }: BusSubscriptionsOptions) {
    super({
      kinds: ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged', 'resourceSubscriptions'],
      subscribe: async (filter, channel) => {
        const { principal } = channel
        const told: Told = { at: undefined, waiting: undefined, changed: false, due: false }
        const uris = filter.resourceSubscriptions === undefined ? NONE : new Set(filter.resourceSubscriptions)
        const joined = this.#join(channel)
        channel.defer(() => { this.#leave() })
        channel.on(this.#streams, EVENT, (change: Change): Message | undefined => {
          if (change.principal !== undefined && change.principal !== principal) return undefined
          if (change.uri === undefined ? filter[change.kind] !== true : !covers(uris, change.uri)) return undefined
          told.waiting ??= new Map()
          told.waiting.set(`${change.kind} ${change.uri ?? ''}`, change)
          if (told.changed) return undefined
          told.changed = true
          return 'changed'
        })
        // What changes after the acknowledgement must not be lost.
        await joined
        return stream(told)
      },
      handleMessage: (message, channel, live) => {
        // The messages and the state are those of the function above.
        const told = live as Told
        told[message as Message] = false
        const ms = tell(told, notification => { channel.sendNotification(notification) })
        if (ms !== undefined && !told.due) {
          told.due = true
          channel.after(ms, 'due')
        }
        return stream(told)
      }
    })
    this.buses = bus === undefined ? [] : [bus]
    this.#bus = bus
    this.#topic = topic
  }

  toolsChanged (to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'toolsListChanged' }, to) }
  promptsChanged (to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'promptsListChanged' }, to) }
  resourcesChanged (to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'resourcesListChanged' }, to) }
  resourceUpdated (uri: string, to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'resourceSubscriptions', uri }, to) }

  override announce (kind: Kind): void {
    this.#emit({ kind })
  }

  override mounted (log: FastifyBaseLogger): void {
    this.#log = log
  }

  #emit (what: Change, { principal }: { readonly principal?: string } = {}): void {
    // A member that is undefined is no member, or null, in what a bus hands on.
    const change: Change = principal === undefined ? what : { ...what, principal }
    const bus = this.#bus
    if (bus === undefined) {
      this.#streams.emit(EVENT, change)
      return
    }
    const failed = (err: unknown): void => { this.#report(err, 'a change could not be told over a bus') }
    settle(() => bus.emit({ topic: this.#topic, ...change }, err => { if (err !== undefined && err !== null) failed(err) }), () => {}, failed)
  }

  /** Resolves when the bus has this process's subscription, or is known to be at fault, or nobody waits for it any more. */
  async #join (context: RequestContext): Promise<void> {
    this.#count++
    if (this.#bus === undefined) return
    this.#joined ??= this.#subscribe(this.#bus, context.log)
    const { confirming } = this.#joined
    if (confirming === undefined) return
    const gone = createDeferred<undefined>()
    context.signal.addEventListener('abort', () => { gone.resolve(undefined) }, { once: true })
    await Promise.race([confirming, gone.promise])
  }

  #subscribe (bus: MessageBus, log: FastifyBaseLogger): Joined {
    // A new one each time: an MQEmitter removes a listener some time later, which must not be this one.
    const listener: BusListener = (packet, done) => {
      done()
      if (isChange(packet)) this.#streams.emit(EVENT, packet)
    }
    const joined: Joined = { leave: () => bus.removeListener(this.#topic, listener) }
    joined.confirming = confirm(bus, this.#topic, listener).catch((error: unknown) => {
      log.error({ err: error, mcp: { source: 'subscriptions' } }, 'a bus did not confirm a subscription')
      // One that is late may come yet. Of one that failed nothing will come, and the next stream tries again.
      if (error instanceof LateError || this.#joined !== joined) return
      this.#joined = undefined
      // That it is at fault has been said.
      settle(joined.leave, () => {}, () => {})
    }).finally(() => { joined.confirming = undefined })
    return joined
  }

  #leave (): void {
    if (--this.#count > 0 || this.#joined === undefined) return
    const { leave } = this.#joined
    this.#joined = undefined
    settle(leave, () => {}, (err: unknown) => { this.#report(err, 'a bus did not remove a subscription') })
  }

  /** Before the Suite is mounted there is nobody to tell. */
  #report (err: unknown, message: string): void {
    this.#log?.error({ err, mcp: { source: 'subscriptions' } }, message)
  }
}

/** Says what a bus at fault has not done. */
class LateError extends Error {
  override readonly name = 'LateError'
}

/** Resolves when a bus has confirmed a subscription, by the callback or by a promise. One whose `on` knows neither has it on return. */
async function confirm (bus: MessageBus, topic: string, listener: BusListener): Promise<void> {
  const answer = createDeferred<unknown>()
  const timer = setTimeout(() => { answer.reject(new LateError(`on: no answer within ${CONFIRM} ms`)) }, CONFIRM).unref()
  try {
    const returned = bus.on(topic, listener, (error?: unknown) => { error == null ? answer.resolve(undefined) : answer.reject(error) })
    if (isThenable(returned)) answer.resolve(returned)
    // Parameters that are taken together, (...args), may be those of an `on` that has three.
    else if (bus.on.length === 1 || bus.on.length === 2) answer.resolve(undefined)
    await answer.promise
  } finally {
    clearTimeout(timer)
  }
}

/** Tells a stream of what waits and may be told of again; gives the time in ms until the rest may. */
function tell (told: Told, send: (notification: ServerNotification) => void): number | undefined {
  const at = told.at ??= new Map()
  // Whoever calls has been woken by something that waits, or did.
  const waiting = told.waiting as Map<string, Change>
  const now = performance.now()
  // Times that no longer hold anything back are of no use.
  if (at.size >= KEPT) for (const [old, then] of at) if (then + MERGE <= now) at.delete(old)
  let next = Infinity
  for (const [key, change] of waiting) {
    const ms = (at.get(key) ?? -Infinity) + MERGE - now
    if (ms > 0) {
      next = Math.min(next, ms)
      continue
    }
    waiting.delete(key)
    at.set(key, now)
    send(toNotification(change))
  }
  return next === Infinity ? undefined : Math.ceil(next)
}

/** Whether a URI is one of these or lies below one. Looked for from the bottom up, since there may be many. */
function covers (uris: ReadonlySet<string>, uri: string): boolean {
  for (let at = uri.length; at > 0; at = uri.lastIndexOf('/', at - 1)) {
    if (uris.has(uri.slice(0, at)) || uris.has(uri.slice(0, at + 1))) return true
  }
  return false
}

function toNotification ({ kind, uri = '' }: Change): ServerNotification {
  return kind === 'resourceSubscriptions' ? { method: 'notifications/resources/updated', params: { uri } } : { method: listChanges[kind] }
}

/** What other processes put on the bus is looked at like anything that comes from outside. */
function isChange (packet: object): packet is Change & BusPacket {
  const { kind, uri, principal } = packet as Partial<Record<keyof Change, unknown>>
  if (principal !== undefined && typeof principal !== 'string') return false
  return kind === 'resourceSubscriptions' ? typeof uri === 'string' : typeof kind === 'string' && Object.hasOwn(listChanges, kind)
}
