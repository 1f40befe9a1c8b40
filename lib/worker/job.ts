import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { InputRequiredResult } from '../protocol/index.js'
import type { Channel, RequestContext } from '../../types/channel.js'
import type { InputRequiredOutcome } from '../../types/outcome.js'
import type { McpNotification, McpRequest, ProtocolVersion } from '../../types/request.js'
import type { Server } from '../../types/server.js'
import type { Traced } from '../observe.js'
import type { Offer } from './offer.js'
import type { Sink } from './sink.js'

/** A server whose types nobody needs to know any more. */
export type AnyServer = Server<unknown, unknown, unknown, unknown>

/** The bounds of one exchange: `limits` of the options, filled in. */
export interface WorkerLimits {
  readonly mailbox: number
  readonly onOverflow: 'end' | 'dropOldest' | 'dropNewest'
  /** ms; Infinity for none */
  readonly maxDuration: number
  /** seconds that a client is told to stay away during a shutdown */
  readonly retryAfter: number
}

/** A listen, as the worker needs it. */
export interface ListenJob {
  /** Nothing of what was asked for can be honoured: there is no use in asking the server. */
  readonly idle: boolean
  /** Accepts the listen, if nobody did. */
  acknowledge (): void
}

/** What a worker runs: a request or notification, for whom, and where the output goes. */
export interface Job {
  readonly server: AnyServer
  readonly arg: unknown
  readonly limits: WorkerLimits
  readonly request: McpRequest | McpNotification
  readonly protocolVersion: ProtocolVersion
  readonly httpRequest: FastifyRequest
  readonly log: FastifyBaseLogger
  readonly sink: Sink
  readonly context: RequestContext
  readonly channel: Channel<unknown>
  readonly listening: ListenJob | undefined
  /** Set by the worker where the capabilities are a function. */
  offer: Offer | undefined
  /** The answer that asks the client. Throws McpError 'missingClientCapability', and for questions that nobody may ask here. */
  askingResult (outcome: InputRequiredOutcome): InputRequiredResult
  readonly traced: Traced | undefined
  /** The worker has ended; called once, last of all. */
  ended (): void
}
