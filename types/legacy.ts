import type { FastifyRequest } from 'fastify'
import type { ClientCapabilities, Implementation } from '../lib/protocol/index.js'
import type { MessageBus } from './channel.js'
import type { LogLevel, ProtocolVersion } from './request.js'
import type { Awaitable } from './schema.js'

/** A revision with a handshake. */
export type LegacyVersion = Exclude<ProtocolVersion, '2026-07-28'>

/** How 2025 clients are served. Times are in ms. */
export interface LegacyOptions {
  /** Where sessions live; default: `sealedSessions()`. false: no session ids, no GET stream, no requests to the client, an id that a client sends is ignored. */
  readonly sessions?: SessionController | false
  /** Where the events of streams are kept for clients that lost theirs; default: `memoryEvents()`. false: nothing is kept, and no event has an id. */
  readonly events?: EventStore | false
  /**
   * Carries to every replica what concerns a session: cancellations, answers of the client, log levels, subscriptions, its end. Without one a session's
   * requests are served everywhere, but these reach the replica that they were posted to and no other.
   */
  readonly bus?: MessageBus
  /** Keeps mounts that share a bus apart; default 'mcp/legacy'. */
  readonly topic?: string
  /** How long a client may take to answer what it is asked; default 600_000. */
  readonly answerTimeout?: number
  /** Age at which a stream is ended, with a hint to come back, give or take a tenth; default 0: never. */
  readonly maxStreamAge?: number
  /**
   * How often it is looked whether the session of an open GET stream is there still, and whose it was; default 60_000, 0: never. The stream of one that has
   * expired is ended. Answers of the controller that are rejections say nothing, and are logged.
   */
  readonly sessionCheck?: number
  /** What a client that is to come back is told to wait; default 1_000. */
  readonly retry?: number
  /** Members of a batch (2025-03-26); default 100. */
  readonly maxBatch?: number
}

/** What was agreed on at `initialize`, and has been asked for since. */
export interface Session {
  readonly protocolVersion: LegacyVersion
  readonly clientInfo: Implementation
  readonly clientCapabilities: ClientCapabilities
  readonly principal: string | undefined
  readonly logLevel?: LogLevel
  readonly resourceSubscriptions?: readonly string[]
}

/** Where 2025 sessions live. A rejection is answered 500. */
export interface SessionController {
  /** At `initialize`; the id: visible ASCII, at least 128 random bits. */
  create (session: Session, httpRequest: FastifyRequest): Awaitable<string>
  /** At each later request; undefined: unknown or expired, 404. A session of another principal is refused by the mount. */
  fetch (id: string, httpRequest: FastifyRequest): Awaitable<Session | undefined>
  /** A log level or a subscription changed; left out, the change lasts as long as this process remembers it, which it does for 10,000 sessions. */
  update? (id: string, session: Session, httpRequest: FastifyRequest): Awaitable<void>
  /** At DELETE; left out, that is 405. */
  delete? (id: string, httpRequest: FastifyRequest): Awaitable<void>
}

/** An event as it is kept. */
export interface StoredEvent {
  /** From 0, one more each. */
  readonly seq: number
  /** The JSON of the message; empty where there is none. */
  readonly data: string
  /** Nothing follows it. */
  readonly last: boolean
}

/** Keeps the events of streams for a while, so that a client which lost one may read on. Streams are named by random keys, each of one session. */
export interface EventStore {
  /** Called for each event in order, without waiting for the one before; a rejection is logged. */
  append (stream: string, event: StoredEvent): Awaitable<void>
  /** The events after `seq`, in order; undefined: the stream is not known, or some of them are gone. */
  after (stream: string, seq: number): Awaitable<readonly StoredEvent[] | undefined>
}
