import type { FastifyRequest } from 'fastify'
import type { Settings } from './options.js'
import type { AnyServer } from './worker/job.js'
import type { Offer } from './worker/offer.js'
import type { Registry } from './worker/registry.js'
import type { TokenSealer } from '../types/channel.js'

/** One registration of the plugin: what is worked out at boot and shared by all its exchanges. */
export interface Mount {
  readonly settings: Settings
  readonly server: AnyServer
  readonly arg: unknown
  /** Undefined for a server without `info`, and where the capabilities depend on the request. */
  readonly offer: Offer | undefined
  /** Whether a message that `subscribe` yields fits the server's schema, if it has one; one that does not is logged. */
  readonly checkMessage: ((message: unknown, httpRequest: FastifyRequest) => boolean) | undefined
  readonly tokens: TokenSealer
  readonly registry: Registry
  /** A shutdown has begun. */
  draining: boolean
}
