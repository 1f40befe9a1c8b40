import { discoverResult, methods, type DiscoverResult, type ServerCapabilities, type SubscriptionFilter } from '../protocol/index.js'
import type { AnyServer } from './job.js'

/** What a server that has `info` offers: the core answers and refuses by it. */
export interface Offer {
  readonly discover: DiscoverResult
  readonly logging: boolean
  /** Whether the capability that a method belongs to is declared. */
  opens (method: string): boolean
  /** The part of a filter that is behind declared capabilities. */
  honours (filter: SubscriptionFilter): SubscriptionFilter
}

/** Works the offer out: once a mount, or once a request where the capabilities depend on it. */
export function createOffer ({ instructions, cache }: Pick<AnyServer, 'instructions' | 'cache'>, capabilities: ServerCapabilities): Offer {
  return {
    // Frozen, so that its JSON is made once.
    discover: Object.freeze(discoverResult(capabilities, { ...(instructions !== undefined && { instructions }), ...(cache !== undefined && { cache }) })),
    logging: capabilities.logging !== undefined,
    opens (method) {
      const capability = capabilityOf.get(method)
      return capability === undefined || capabilities[capability] !== undefined
    },
    honours: filter => ({
      ...(filter.toolsListChanged === true && capabilities.tools?.listChanged === true && { toolsListChanged: true }),
      ...(filter.promptsListChanged === true && capabilities.prompts?.listChanged === true && { promptsListChanged: true }),
      ...(filter.resourcesListChanged === true && capabilities.resources?.listChanged === true && { resourcesListChanged: true }),
      ...((filter.resourceSubscriptions?.length ?? 0) > 0 && capabilities.resources?.subscribe === true && { resourceSubscriptions: filter.resourceSubscriptions })
    })
  }
}

const capabilityOf = new Map(Object.entries(methods).flatMap(([method, spec]) => 'capability' in spec ? [[method, spec.capability]] : []))
