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
/** What a stream was told when, by kind and URI, and what waits to be told. */
interface Told { readonly at: Map<string, number>, readonly waiting: Set<string> }
/** A message of a stream: a change, or one whose time has come. */
type Message = Change | { readonly due: Change }

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
      subscribe: (_filter, channel) => {
        const { principal } = channel
        this.#join()
        channel.defer(() => { this.#leave() })
        channel.on(this.#streams, EVENT, (change: Change) => change.principal === undefined || change.principal === principal ? change : undefined)
        return stream<Told>({ at: new Map(), waiting: new Set() })
      },
      handleMessage: (message, channel, told) => {
        // The messages and the state are those of the functions above and below.
        tell(message as Message, told as Told, notification => { channel.sendNotification(notification) }, (ms, due) => { channel.after(ms, due) })
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

/** Tells a stream of a change: at once, or when it may be told of that again. */
function tell (message: Message, { at, waiting }: Told, send: (notification: ServerNotification) => void, after: (ms: number, due: Message) => void): void {
  const change = 'due' in message ? message.due : message
  const key = `${change.kind} ${change.uri ?? ''}`
  if ('due' in message) waiting.delete(key)
  else if (waiting.has(key)) return

  const now = performance.now()
  const ms = 'due' in message ? 0 : (at.get(key) ?? -Infinity) + MERGE - now
  if (ms > 0) {
    waiting.add(key)
    after(Math.ceil(ms), { due: change })
    return
  }
  // Times that no longer hold anything back are of no use.
  if (at.size >= KEPT) for (const [old, then] of at) if (then + MERGE <= now) at.delete(old)
  at.set(key, now)
  send(toNotification(change))
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
