import { forPrincipal } from '../token.js'
import { Worker } from '../worker/worker.js'
import { Asking, type Retry } from './asking.js'
import { Channel } from './channel.js'
import { Context } from './context.js'
import { Listening } from './listening.js'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { Mount } from '../mount.js'
import type { Traced } from '../observe.js'
import type { InputRequiredResult } from '../protocol/index.js'
import type { TokenSealer } from '../../types/channel.js'
import type { InputRequiredOutcome } from '../../types/outcome.js'
import type { McpNotification, McpRequest, ProtocolVersion } from '../../types/request.js'
import type { AnyServer, Job, WorkerLimits } from '../worker/job.js'
import type { Offer } from '../worker/offer.js'
import type { Sink } from '../worker/sink.js'

/** Who asks what, of which mount. */
export interface Facts {
  readonly mount: Mount
  readonly request: McpRequest | McpNotification
  readonly httpRequest: FastifyRequest
  readonly protocolVersion: ProtocolVersion
  readonly principal: string | undefined
  /** What the request brings back from an earlier round. */
  readonly retry: Retry | undefined
  /** Called once, last of all. */
  readonly onEnded: (exchange: Exchange) => void
  readonly traced: Traced | undefined
}

/** One request or notification with all that belongs to it. Its parts are made when they are first asked for. */
export class Exchange implements Job {
  readonly #mount: Mount
  readonly #retry: Retry | undefined
  readonly #onEnded: Facts['onEnded']
  readonly request: McpRequest | McpNotification
  readonly httpRequest: FastifyRequest
  readonly protocolVersion: ProtocolVersion
  readonly principal: string | undefined
  readonly traced: Traced | undefined
  readonly sink: Sink
  readonly worker: Worker
  readonly listening: Listening | undefined
  offer: Offer | undefined
  #context: Context | undefined
  #channel: Channel<unknown> | undefined
  #asking: Asking | undefined
  #tokens: TokenSealer | undefined
  #duration: NodeJS.Timeout | undefined
  #heartbeat: NodeJS.Timeout | undefined
  #progressIsAutomatic = true

  constructor (facts: Facts, sink: Sink) {
    const { request, mount } = facts
    this.#mount = mount
    this.#retry = facts.retry
    this.#onEnded = facts.onEnded
    this.request = request
    this.httpRequest = facts.httpRequest
    this.protocolVersion = facts.protocolVersion
    this.principal = facts.principal
    this.traced = facts.traced
    this.sink = sink
    this.offer = mount.offer
    this.listening = request.method === 'subscriptions/listen' ? new Listening(request.id, request.params.notifications, this) : undefined
    this.worker = new Worker(this)
  }

  get server (): AnyServer { return this.#mount.server }
  get arg (): unknown { return this.#mount.arg }
  get limits (): WorkerLimits { return this.#mount.settings.limits }
  get log (): FastifyBaseLogger { return this.httpRequest.log }

  get context (): Context {
    this.#context ??= new Context(this)
    return this.#context
  }

  get channel (): Channel<unknown> {
    this.#channel ??= new Channel(this)
    return this.#channel
  }

  get tokens (): TokenSealer {
    this.#tokens ??= forPrincipal(this.#mount.tokens, this.principal)
    return this.#tokens
  }

  get asking (): Asking {
    // Notifications have no channel to ask through.
    this.#asking ??= new Asking(this.request as McpRequest, forPrincipal(this.#mount.tokens, this.principal, 'package'), this.#retry)
    return this.#asking
  }

  get checkMessage (): ((message: unknown) => boolean) | undefined {
    const { checkMessage } = this.#mount
    return checkMessage && (message => checkMessage(message, this.httpRequest))
  }

  /** Runs it. What has not ended on return goes on by itself, and counts as alive until it does. */
  run (): void {
    this.worker.run()
    if (this.worker.ended) return
    const { registry, settings: { limits, heartbeat } } = this.#mount
    registry.add(this.worker)
    if (this.worker.over || this.listening !== undefined) return
    if (limits.maxDuration !== Infinity) this.#duration = setTimeout(() => { this.worker.close('timeout') }, limits.maxDuration)
    if (heartbeat !== 0 && this.#progressIsAutomatic && 'id' in this.request && this.request.meta.progressToken !== undefined) this.#beat(heartbeat)
  }

  /** The author reports progress now. */
  stopHeartbeat (): void {
    this.#progressIsAutomatic = false
    clearInterval(this.#heartbeat)
  }

  askingResult (outcome: InputRequiredOutcome): InputRequiredResult {
    return this.asking.result(outcome)
  }

  ended (): void {
    if (this.#duration !== undefined) clearTimeout(this.#duration)
    if (this.#heartbeat !== undefined) clearInterval(this.#heartbeat)
    this.#mount.registry.remove(this.worker)
    if (this.sink.leaving) this.#mount.registry.keep(this.worker)
    this.#onEnded(this)
  }

  /** Rising, and below 0, so that what the author reports after them is an increase still. */
  #beat (ms: number): void {
    let beats = 0
    this.#heartbeat = setInterval(() => { this.channel.beat(-1 / (1_000_000 * ++beats)) }, ms)
  }
}
