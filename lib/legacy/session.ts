import { createHash, randomBytes } from 'node:crypto'
import { createRandomKeyRing, forPrincipal } from '../token.js'
import type { FastifyRequest } from 'fastify'
import type { Mount } from '../mount.js'
import type { ClientCapabilities, Implementation } from '../protocol/index.js'
import type { TokenSealer } from '../../types/channel.js'
import type { Session, SessionController } from '../../types/legacy.js'

const PURPOSE = 'session'
const DEFAULT_MAX_AGE = 86_400_000
/** Ended sessions that are remembered until they would have expired. */
const MAX_REVOKED = 100_000
const RANDOM_BYTES = 16
/** Characters of a client's name, in an id that travels with each request. */
const MAX_NAME = 80
/** Bytes of JSON: of what a client says of a capability, and of those that only some clients have. */
const MAX_CAPABILITY = 256
const MAX_EXTRAS = 512

/** What stands in an id, but for what no two have in common. */
type Sealed = readonly [random: string, session: Session]

/** Lends the mount's sealer, bound to whoever calls, to the controller that is asked about a request. */
const sealers = new WeakMap<FastifyRequest, TokenSealer>()

export function lendSealer ({ tokens }: Mount, httpRequest: FastifyRequest, principal: string | undefined): void {
  if (!sealers.has(httpRequest)) sealers.set(httpRequest, forPrincipal(tokens, principal, 'package'))
}

/** The name of a session in maps and on the bus, where its id would be one secret too many. */
export function keyOf (id: string): string {
  return createHash('sha256').update(id).digest('base64url')
}

/** What has ended before its time, by the keys of sessions. */
class Revoked {
  readonly #maxAge: number
  /** When each is forgotten; the first one first. */
  readonly #until = new Map<string, number>()

  constructor (maxAge: number) {
    this.#maxAge = maxAge
  }

  add (key: string): void {
    const now = Date.now()
    for (const [old, until] of this.#until) {
      if (until > now && this.#until.size < MAX_REVOKED) break
      this.#until.delete(old)
    }
    this.#until.set(key, now + this.#maxAge)
  }

  has (key: string): boolean {
    return this.#until.has(key)
  }
}

const revocations = new WeakMap<SessionController, Revoked>()

/** Makes an end that was told over the bus known to a controller that keeps nothing; one with a store knows. */
export function revoke (controller: SessionController, key: string): void {
  revocations.get(controller)?.add(key)
}

/**
 * Keeps nothing: the id is the session, sealed with the mount's keys for whoever opened it, so that every replica with the same `secrets` knows it.
 * `maxAge` in ms, default 86,400,000. What DELETE ended is remembered in this process, and by the replicas that share a bus.
 */
export function sealedSessions ({ maxAge = DEFAULT_MAX_AGE }: { readonly maxAge?: number } = {}): SessionController {
  const revoked = new Revoked(maxAge)
  // For requests of no mount, such as a test's.
  const own = createRandomKeyRing(() => {})
  const sealerOf = (httpRequest: FastifyRequest): TokenSealer => sealers.get(httpRequest) ?? own

  const controller: SessionController = {
    create (session, httpRequest) {
      const sealed: Sealed = [randomBytes(RANDOM_BYTES).toString('base64url'), shorten(session)]
      return sealerOf(httpRequest).seal(PURPOSE, sealed, { maxAge })
    },
    fetch (id, httpRequest) {
      const opened = sealerOf(httpRequest).open(PURPOSE, id)
      if (!opened.ok || revoked.has(keyOf(id))) return undefined
      // What opens under the package's own purpose was sealed by `create`.
      const [, session] = opened.value as unknown as Sealed
      return { ...session, principal: session.principal }
    },
    delete (id) {
      revoked.add(keyOf(id))
    }
  }
  revocations.set(controller, revoked)
  return controller
}

/** Clients may say much of themselves, and a header holds little. */
function shorten ({ protocolVersion, clientInfo: { name, version, title }, clientCapabilities, principal }: Session): Session {
  const clientInfo: Implementation = { name: name.slice(0, MAX_NAME), version: version.slice(0, MAX_NAME), ...(title !== undefined && { title: title.slice(0, MAX_NAME) }) }
  const capabilities = Object.entries(clientCapabilities).flatMap(([name, value]) => {
    if (name === 'experimental' || name === 'extensions') return isSmall(value, MAX_EXTRAS) ? [[name, value]] : []
    // What remains is that there is one.
    return [[name, isSmall(value, MAX_CAPABILITY) ? value : {}]]
  })
  return { protocolVersion, clientInfo, clientCapabilities: Object.fromEntries(capabilities) as ClientCapabilities, principal }
}

function isSmall (value: unknown, bytes: number): boolean {
  return Buffer.byteLength(JSON.stringify(value)) <= bytes
}
