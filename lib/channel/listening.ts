import { metaKeys, type SubscriptionFilter } from '../protocol/index.js'
import type { ServerNotification } from '../../types/channel.js'
import type { RequestId } from '../../types/request.js'
import type { ListenJob } from '../worker/job.js'
import type { Offer } from '../worker/offer.js'
import type { Sink } from '../worker/sink.js'

/** Which member of the filter asks for a notification. */
const members = {
  'notifications/tools/list_changed': 'toolsListChanged',
  'notifications/prompts/list_changed': 'promptsListChanged',
  'notifications/resources/list_changed': 'resourcesListChanged',
  'notifications/resources/updated': 'resourceSubscriptions'
} as const

export type ChangeNotification = Exclude<ServerNotification, { readonly extension: string }>

/** One of the four changes that a listen may be told of. */
export function isChange (notification: ServerNotification): notification is ChangeNotification {
  return Object.hasOwn(members, notification.method) && !('extension' in notification)
}

/** One `subscriptions/listen`: what was asked for, what is honoured, and what may therefore be sent (2026-07-28, Subscriptions). */
export class Listening implements ListenJob {
  readonly #requested: SubscriptionFilter
  readonly #job: { readonly offer: Offer | undefined, readonly sink: Sink }
  /** Stamped on everything that is sent. */
  readonly meta: { readonly [metaKeys.subscriptionId]: RequestId }
  #honored: SubscriptionFilter | undefined
  #uris: ReadonlySet<string> | undefined

  constructor (id: RequestId, requested: SubscriptionFilter, job: { readonly offer: Offer | undefined, readonly sink: Sink }) {
    this.#requested = requested
    this.#job = job
    this.meta = { [metaKeys.subscriptionId]: id }
  }

  get acknowledged (): boolean {
    return this.#honored !== undefined
  }

  get idle (): boolean {
    return Object.keys(this.#honourable()).length === 0
  }

  /** Accepts the listen, for what was requested, cut to `limit` and to what the server offers; false if it was accepted already. */
  acknowledge (limit: SubscriptionFilter = this.#requested): boolean {
    if (this.#honored !== undefined) return false
    this.#honored = intersect(this.#honourable(), limit)
    this.#job.sink.notify('notifications/subscriptions/acknowledged', { _meta: this.meta, notifications: { ...this.#honored } })
    return true
  }

  /** Whether a change is one that this client is told of. */
  admits (notification: ChangeNotification): boolean {
    const asked = this.#honored?.[members[notification.method]]
    if (notification.method !== 'notifications/resources/updated') return asked === true
    return this.#covers(notification.params?.uri)
  }

  /** A resource that was subscribed to, or one below it. Looked for from the bottom up, since there may be many. */
  #covers (uri: unknown): boolean {
    if (typeof uri !== 'string') return false
    this.#uris ??= new Set(this.#honored?.resourceSubscriptions)
    for (let at = uri.length; at > 0; at = uri.lastIndexOf('/', at - 1)) {
      if (this.#uris.has(uri.slice(0, at)) || this.#uris.has(uri.slice(0, at + 1))) return true
    }
    return false
  }

  #honourable (): SubscriptionFilter {
    return this.#job.offer === undefined ? intersect(this.#requested, this.#requested) : this.#job.offer.honours(this.#requested)
  }
}

function intersect (asked: SubscriptionFilter, given: SubscriptionFilter): SubscriptionFilter {
  // An author's limit may be anything in JavaScript; what is no filter allows nothing.
  const limit: SubscriptionFilter = typeof given === 'object' && given !== null ? given : {}
  const limits = new Set<unknown>(Array.isArray(limit.resourceSubscriptions) ? limit.resourceSubscriptions : [])
  const uris = asked.resourceSubscriptions?.filter(uri => limits.has(uri))
  return {
    ...(asked.toolsListChanged === true && limit.toolsListChanged === true && { toolsListChanged: true }),
    ...(asked.promptsListChanged === true && limit.promptsListChanged === true && { promptsListChanged: true }),
    ...(asked.resourcesListChanged === true && limit.resourcesListChanged === true && { resourcesListChanged: true }),
    ...(uris !== undefined && uris.length > 0 && { resourceSubscriptions: uris })
  }
}
