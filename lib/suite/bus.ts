import { EventEmitter } from 'node:events'
import { stream } from '../outcome.js'
import { SubscriptionsEntry, type Kind } from './subscriptions.js'
import type { BusListener, BusPacket, MessageBus, ServerNotification } from '../../types/channel.js'
import type { BusSubscriptions, BusSubscriptionsOptions } from '../../types/providers.js'

/** How long changes of one kind are gathered for one stream, in ms. */
const MERGE = 50
/** How many kinds and URIs a stream remembers before it forgets those that are over. */
const KEPT = 100
const EVENT = 'change'

/** What changed, and whom it is told to. */
interface Change { readonly kind: Kind, readonly uri?: string, readonly principal?: string }
/** What a stream was told when, by kind and URI, and what it is to be told. */
interface Told {
  readonly at: Map<string, number>
  readonly waiting: Map<string, Change>
  /** There is such a message in the mailbox, or on its way. One is enough for all that waits, so that no flood of changes fills a mailbox. */
  readonly on: Record<Message, boolean>
}
/** What a stream is woken by: something changed, or the time of something has come. */
type Message = 'changed' | 'due'

const methods = {
  toolsListChanged: 'notifications/tools/list_changed',
  promptsListChanged: 'notifications/prompts/list_changed',
  resourcesListChanged: 'notifications/resources/list_changed'
} as const

/** Subscriptions that are told of changes over a bus: an MQEmitter, or anything of its shape, which may span processes. */
export function busSubscriptions (options: BusSubscriptionsOptions = {}): BusSubscriptions {
  // The provider's brand is a phantom.
  return new BusEntry(options) as unknown as BusSubscriptions
}

class BusEntry extends SubscriptionsEntry {
  readonly #bus: MessageBus | undefined
  readonly #topic: string
  /** Who listens in this process: one subscription to the bus serves them all. */
  readonly #streams = new EventEmitter().setMaxListeners(0)
  #count = 0
  #listener: BusListener | undefined

  constructor ({ bus, topic = 'mcp' }: BusSubscriptionsOptions) {
    super({
      kinds: ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged', 'resourceSubscriptions'],
      subscribe: (filter, channel) => {
        const { principal } = channel
        const told: Told = { at: new Map(), waiting: new Map(), on: { changed: false, due: false } }
        const uris = new Set(filter.resourceSubscriptions)
        this.#join()
        channel.defer(() => { this.#leave() })
        channel.on(this.#streams, EVENT, (change: Change): Message | undefined => {
          if (change.principal !== undefined && change.principal !== principal) return undefined
          if (change.uri === undefined ? filter[change.kind] !== true : !covers(uris, change.uri)) return undefined
          told.waiting.set(`${change.kind} ${change.uri ?? ''}`, change)
          if (told.on.changed) return undefined
          told.on.changed = true
          return 'changed'
        })
        return stream(told)
      },
      handleMessage: (message, channel, live) => {
        // The messages and the state are those of the function above.
        const told = live as Told
        told.on[message as Message] = false
        const ms = tell(told, notification => { channel.sendNotification(notification) })
        if (ms !== undefined && !told.on.due) {
          told.on.due = true
          channel.after(ms, 'due')
        }
        return stream(told)
      }
    })
    this.#bus = bus
    this.#topic = topic
  }

  toolsChanged (to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'toolsListChanged', ...to }) }
  promptsChanged (to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'promptsListChanged', ...to }) }
  resourcesChanged (to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'resourcesListChanged', ...to }) }
  resourceUpdated (uri: string, to: { readonly principal?: string } = {}): void { this.#emit({ kind: 'resourceSubscriptions', uri, ...to }) }

  override announce (kind: Kind): void {
    this.#emit({ kind })
  }

  #emit (change: Change): void {
    if (this.#bus === undefined) this.#streams.emit(EVENT, change)
    else this.#bus.emit({ topic: this.#topic, ...change })
  }

  #join (): void {
    if (this.#count++ > 0 || this.#bus === undefined) return
    // A new one each time: an MQEmitter removes a listener some time later, which must not be this one.
    this.#listener = (packet, done) => {
      done()
      if (isChange(packet)) this.#streams.emit(EVENT, packet)
    }
    this.#bus.on(this.#topic, this.#listener)
  }

  #leave (): void {
    if (--this.#count > 0 || this.#listener === undefined) return
    this.#bus?.removeListener(this.#topic, this.#listener)
    this.#listener = undefined
  }
}

/** Tells a stream of what waits and may be told of again; gives the time in ms until the rest may. */
function tell ({ at, waiting }: Told, send: (notification: ServerNotification) => void): number | undefined {
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
  return kind === 'resourceSubscriptions' ? { method: 'notifications/resources/updated', params: { uri } } : { method: methods[kind] }
}

/** What other processes put on the bus is looked at like anything that comes from outside. */
function isChange (packet: object): packet is Change & BusPacket {
  const { kind, uri, principal } = packet as Partial<Record<keyof Change, unknown>>
  if (principal !== undefined && typeof principal !== 'string') return false
  return kind === 'resourceSubscriptions' ? typeof uri === 'string' : typeof kind === 'string' && Object.hasOwn(methods, kind)
}
