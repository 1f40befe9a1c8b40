import { andThen } from '../awaitable.js'
import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { badReturn, isOutcome, stop, stream } from '../outcome.js'
import { compileTypeBox } from '../schema.js'
import { checkFunction } from './definition.js'
import { Provider } from './provider.js'
import { normalizeUri } from './template.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Catalog } from './catalog.js'
import type { ResourcesEntry } from './resources.js'
import type { SubscriptionFilter } from '../protocol/index.js'
import type { Channel, MessageBus, RequestContext } from '../../types/channel.js'
import type { CloseReason } from '../../types/exchange.js'
import type { MessageOutcome, RequestOutcome, StreamOutcome } from '../../types/outcome.js'
import type { SubscriptionProvider, SubscriptionsDefinition } from '../../types/providers.js'
import type { RequestOf } from '../../types/request.js'
import type { Awaitable } from '../../types/schema.js'

type AnyDefinition = SubscriptionsDefinition<unknown, unknown>
export type Kind = keyof SubscriptionFilter

const KINDS = new Set<string>(['toolsListChanged', 'promptsListChanged', 'resourcesListChanged', 'resourceSubscriptions'] satisfies Kind[])

/** What a listen keeps: the provider's state, and who has to agree that it goes on: nobody where the provider has not heard of it. */
export interface Listened {
  readonly live: unknown
  /** Whose access is asked for before each event. */
  readonly guards: readonly Provider[]
  /** By the provider, and not just held open with nothing to tell. */
  readonly served: boolean
}

/** Serves listens, with the types of its state and messages inferred. */
export function defineSubscriptions<Live = never, Msg = never> (definition: SubscriptionsDefinition<Live, Msg>): SubscriptionProvider {
  // What the provider's callbacks are given is what they made.
  return new SubscriptionsEntry(definition as unknown as AnyDefinition) as unknown as SubscriptionProvider
}

/** The one provider that serves the listens of a Suite. */
export class SubscriptionsEntry extends Provider {
  readonly key = 'subscriptions'
  readonly kinds: ReadonlySet<Kind>
  /** What it cannot do without. */
  readonly buses: readonly MessageBus[] = []
  readonly #definition: AnyDefinition
  readonly #messages: { Check: (value: unknown) => boolean } | undefined

  constructor (definition: AnyDefinition) {
    super(definition)
    const owner = 'The subscription provider'
    checkFunction(owner, 'subscribe', definition.subscribe)
    const stranger = Array.isArray(definition.kinds) ? definition.kinds.find(kind => !KINDS.has(kind)) : 'none'
    if (stranger !== undefined) throw new MCP_ERR_BAD_PROVIDER(owner, `has the kind ${stranger}, which is none`)
    this.kinds = new Set(definition.kinds)
    this.#definition = definition
    this.#messages = definition.messages && compileTypeBox(definition.messages)
  }

  /** What it cannot do is said here, wherever it is mounted last. */
  mounted (_log: FastifyBaseLogger): void {}

  /** Tells of a change of the Suite's own providers, where it can. */
  announce (_kind: Kind): void {}

  async subscribe ({ params }: RequestOf<'subscriptions/listen'>, channel: Channel<unknown>, resources: Catalog<ResourcesEntry>): Promise<RequestOutcome<Listened, 'subscriptions/listen'>> {
    // Hidden from this caller: there is nothing to tell, and no difference to a server that has nothing.
    if (!await this.isVisible(channel)) return nothing(channel)
    const { filter, guards } = await readable(params.notifications, this.kinds, channel, resources)
    if (Object.keys(filter).length === 0) return nothing(channel)
    const outcome = await this.#definition.subscribe(filter, narrow(channel, filter))
    if (!isOutcome(outcome) || (outcome.type !== 'stream' && outcome.type !== 'error')) throw badReturn('The subscription provider: subscribe', outcome)
    if (outcome.type === 'error') return outcome
    channel.acknowledge(filter)
    return stream({ live: outcome.state, guards: this.access === undefined ? guards : [this, ...guards], served: true })
  }

  /** Synchronous where the provider is and nobody's access has to be asked for: a change may have many listeners. */
  handleMessage (message: unknown, channel: Channel<unknown>, listened: Listened): Awaitable<MessageOutcome<Listened>> {
    const { handleMessage } = this.#definition
    if (handleMessage === undefined) return stream(listened)
    if (this.#messages?.Check(message) === false) {
      channel.log.warn({ mcp: { source: 'subscriptions' } }, 'a message that does not fit the provider\'s schema was skipped')
      return stream(listened)
    }
    const handle = (): Awaitable<MessageOutcome<Listened>> => andThen(handleMessage.call(this.#definition, message, channel, listened.live), outcome => follow(outcome, listened))
    // What a caller may see can change while the stream is open.
    return listened.guards.length === 0 ? handle() : areVisible(listened.guards, channel).then(visible => visible ? handle() : stop())
  }

  async handleClose (context: RequestContext, { live, served }: Listened, reason: CloseReason): Promise<void> {
    if (served) await this.#definition.handleClose?.(context, live, reason)
  }
}

function nothing (channel: Channel<unknown>): StreamOutcome<Listened> {
  channel.acknowledge({})
  return stream({ live: undefined, guards: [], served: false })
}

function follow (outcome: unknown, listened: Listened): MessageOutcome<Listened> {
  if (!isOutcome(outcome) || outcome.type === 'result' || outcome.type === 'inputRequired') throw badReturn('The subscription provider: handleMessage', outcome)
  if (outcome.type !== 'stream') return outcome
  return stream(outcome.state === listened.live ? listened : { ...listened, live: outcome.state })
}

async function areVisible (guards: readonly Provider[], context: RequestContext): Promise<boolean> {
  for (const guard of guards) if (!await guard.isVisible(context)) return false
  return true
}

/** The filter without what the provider cannot tell of and the resources that this caller may not read, and the providers whose access decides on the others. */
async function readable (
  filter: SubscriptionFilter, kinds: ReadonlySet<string>, context: RequestContext, resources: Catalog<ResourcesEntry>
): Promise<{ readonly filter: SubscriptionFilter, readonly guards: readonly Provider[] }> {
  const { resourceSubscriptions, ...rest } = filter
  const guards = new Set<Provider>()
  const uris: string[] = []
  for (const uri of kinds.has('resourceSubscriptions') ? resourceSubscriptions ?? [] : []) {
    const normal = normalizeUri(uri)
    const entry = normal === undefined ? undefined : await resources.search(entry => entry.match(normal) !== undefined || entry.begins(normal), context)
    if (entry === undefined) continue
    uris.push(uri)
    if (entry.access !== undefined) guards.add(entry)
  }
  const asked = Object.fromEntries(Object.entries(rest).filter(([kind, value]) => value === true && kinds.has(kind)))
  return { filter: { ...asked, ...uris.length > 0 && { resourceSubscriptions: uris } }, guards: [...guards] }
}

/** The channel with an acknowledgement that goes no further than the filter. */
function narrow (channel: Channel<unknown>, filter: SubscriptionFilter): Channel<unknown> {
  return new Proxy(channel, {
    get (target, name) {
      if (name === 'acknowledge') return (honored: SubscriptionFilter = filter) => target.acknowledge(intersect(filter, honored))
      const value: unknown = Reflect.get(target, name, target)
      // Methods work on the channel itself, whose private members a proxy does not have.
      return typeof value === 'function' ? value.bind(target) as unknown : value
    }
  })
}

function intersect (filter: SubscriptionFilter, honored: SubscriptionFilter): SubscriptionFilter {
  const entries = Object.entries(honored).filter(([kind]) => kind in filter)
  const uris = honored.resourceSubscriptions?.filter(uri => filter.resourceSubscriptions?.includes(uri))
  return { ...Object.fromEntries(entries), ...uris !== undefined && { resourceSubscriptions: uris } }
}
