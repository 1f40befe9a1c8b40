import { compileTypeBox } from './schema.js'
import { createKeyRing, createRandomKeyRing } from './token.js'
import { createOffer, type Offer } from './worker/offer.js'
import { Registry } from './worker/registry.js'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { readOptions, type Registration, type Settings } from './options.js'
import type { BusProbe } from './bus-probe.js'
import type { AnyServer } from './worker/job.js'
import type { MessageBus, TokenSealer } from '../types/channel.js'

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
  /** Who serves the clients of older revisions, if anybody does. */
  otherEra: OtherEra | undefined
  /** Undefined where there is no bus to probe. */
  probe: BusProbe | undefined
}

/** What answers requests of other revisions than the current one, on the same routes. */
export interface OtherEra {
  /** Answers a POST without the current revision's envelope; false if it is none of its own. */
  post (httpRequest: FastifyRequest, reply: FastifyReply): boolean
  /** The verbs that are served beside POST. */
  readonly verbs: Readonly<Record<string, (httpRequest: FastifyRequest, reply: FastifyReply) => void>>
  /** What it cannot do without, if anything. */
  readonly bus: MessageBus | undefined
}

const mounts = new WeakMap<AnyServer, Mount>()

/** The first mount of a server: who a caller is, and what it may do, is told by that. A server that is not mounted is as if mounted by default. */
export function mountOf (server: AnyServer, log: FastifyBaseLogger): Mount {
  return mounts.get(server) ?? createMount(readOptions({ server }), log)
}

/** Makes a mount the one that its server is known by, unless another is. */
export function rememberMount (mount: Mount): void {
  if (!mounts.has(mount.server)) mounts.set(mount.server, mount)
}

/** The mount of one registration. `log` is told when it seals with a secret that nobody gave it. */
export function createMount ({ server, arg, settings }: Registration, log: FastifyBaseLogger): Mount {
  const { info, capabilities = {}, messages } = server
  const check = messages === undefined ? undefined : compileTypeBox(messages)
  return {
    settings,
    server,
    arg,
    offer: info === undefined || typeof capabilities === 'function' ? undefined : createOffer(server, capabilities),
    checkMessage: check && ((message, { log }) => {
      const fits = check.Check(message)
      if (!fits) log.warn({ mcp: { source: 'subscribe' } }, 'a message that does not fit the server\'s schema was skipped')
      return fits
    }),
    tokens: createTokens(settings, log),
    registry: new Registry(),
    draining: false,
    otherEra: undefined,
    probe: undefined
  }
}

function createTokens ({ tokens, secrets }: Settings, log: FastifyBaseLogger): TokenSealer {
  if (tokens !== undefined) return tokens
  const [first, ...rest] = secrets ?? []
  if (first !== undefined) return createKeyRing([first, ...rest])
  return createRandomKeyRing(() => {
    log.warn({ mcp: { option: 'secrets' } }, 'an MCP mount seals with a random secret: what it seals is refused after a restart and by every other replica')
  })
}
