import { validateHeaderName, validateHeaderValue } from 'node:http'
import { isObject } from '../decode/envelope.js'
import { MCP_ERR_HEAD_SENT } from '../errors.js'
import { declaresExtension } from '../client-capabilities.js'
import { Context } from './context.js'
import { isChange, type ChangeNotification, type Listening } from './listening.js'
import { isLogged } from './log-level.js'
import * as sources from './sources.js'
import type { Exchange } from './exchange.js'
import type { JsonObject, JsonValue, SubscriptionFilter } from '../protocol/index.js'
import type {
  BusPacket, Channel as PublicChannel, Emitter, MessageBus, SendStatus, ServerNotification, Source
} from '../../types/channel.js'
import type { ExchangeRef } from '../../types/exchange.js'
import type { InputRequests, InputResponses } from '../../types/input.js'
import type { LogLevel, McpRequest } from '../../types/request.js'
import type { TypeBoxSchema } from '../../types/schema.js'

/** The protocol's own, which no extension may send. */
const OWN_METHODS = new Set([
  'notifications/progress', 'notifications/message', 'notifications/cancelled', 'notifications/subscriptions/acknowledged',
  'notifications/tools/list_changed', 'notifications/prompts/list_changed', 'notifications/resources/list_changed', 'notifications/resources/updated'
])

/** What one request is answered through. */
export class Channel<Msg> extends Context implements PublicChannel<Msg> {
  readonly #exchange: Exchange
  #progress = -Infinity

  constructor (exchange: Exchange) {
    super(exchange)
    this.#exchange = exchange
  }

  // A channel is made for requests alone.
  override get request (): McpRequest { return this.#exchange.request as McpRequest }
  // A ref takes what its server's messages are; the worker does not know their type.
  get ref (): ExchangeRef<Msg> { return this.#exchange.worker.ref as ExchangeRef<Msg> }
  get closed (): boolean { return this.#exchange.worker.over }
  get streaming (): boolean { return this.#exchange.sink.streaming }

  // ---- sending

  sendProgress (progress: number, total?: number, message?: string): SendStatus {
    this.#exchange.stopHeartbeat()
    return this.beat(progress, total, message)
  }

  /** Sends progress that is not the author's own. */
  beat (progress: number, total?: number, message?: string): SendStatus {
    const { progressToken } = this.request.meta
    if (this.closed) return 'closed'
    if (this.#exchange.listening !== undefined) return 'filtered'
    if (progressToken === undefined) return 'noProgressToken'
    if (!Number.isFinite(progress) || progress <= this.#progress) return 'notIncreasing'
    const { sink } = this.#exchange
    if (!sink.open()) return 'filtered'
    this.#progress = progress
    sink.progress(progressToken, progress, Number.isFinite(total) ? total : undefined, typeof message === 'string' ? message : undefined)
    return 'sent'
  }

  sendLog (level: LogLevel, data: unknown, logger?: string): SendStatus {
    const { logLevel } = this.request.meta
    const { offer, listening } = this.#exchange
    if (this.closed) return 'closed'
    if (logLevel === undefined || offer?.logging === false || listening !== undefined || !isLogged(level, logLevel)) return 'filtered'
    return this.#try(() => this.#send('notifications/message', { level, data: jsonOrText(data), ...(typeof logger === 'string' && { logger }) }))
  }

  sendNotification (notification: ServerNotification): SendStatus {
    const { listening } = this.#exchange
    return this.closed ? 'closed' : this.#try(() => this.#sendAny(notification, listening))
  }

  /** Whatever an author hands over in JavaScript, a send does not throw. */
  #try (send: () => SendStatus): SendStatus {
    try {
      return send()
    } catch (error) {
      this.log.error({ mcp: { problem: describeObject(error) } }, 'a notification could not be sent')
      return 'filtered'
    }
  }

  #sendAny (notification: ServerNotification, listening: Listening | undefined): SendStatus {
    if (isChange(notification)) return this.#sendChange(notification, listening)

    const { extension, method, params } = notification as Exclude<ServerNotification, ChangeNotification>
    if (OWN_METHODS.has(method) || !declaresExtension(this.request.meta.clientCapabilities, extension)) return 'filtered'
    if (listening === undefined) return this.#send(method, params)
    if (!listening.acknowledged) return 'notSubscribed'
    return this.#send(method, stamp(params, listening))
  }

  #sendChange (notification: ChangeNotification, listening: Listening | undefined): SendStatus {
    if (listening === undefined || !listening.acknowledged) return 'notSubscribed'
    if (!listening.admits(notification)) return 'filtered'
    return this.#send(notification.method, stamp('params' in notification ? { uri: notification.params.uri } : undefined, listening))
  }

  #send (method: string, params: JsonObject | undefined): SendStatus {
    return this.#exchange.sink.notify(method, params) ? 'sent' : 'filtered'
  }

  // ---- the response

  acknowledge (honored?: SubscriptionFilter): SendStatus {
    const { listening } = this.#exchange
    if (this.closed) return 'closed'
    if (listening === undefined) return 'notSubscribed'
    return listening.acknowledge(honored) ? 'sent' : 'filtered'
  }

  startStream (): boolean {
    if (this.closed) return false
    // Nothing precedes the acknowledgement of a listen, the head included.
    this.#exchange.listening?.acknowledge()
    return this.#exchange.sink.open()
  }

  header (name: string, value: string): void {
    if (this.closed) throw new MCP_ERR_HEAD_SENT(name)
    validateHeaderName(name)
    validateHeaderValue(name, value)
    if (!this.#exchange.sink.header(name, value)) throw new MCP_ERR_HEAD_SENT(name)
  }

  close (): boolean {
    return this.#exchange.worker.close('closed')
  }

  async drained (): Promise<void> {
    if (!this.closed) await this.#exchange.sink.drained()
  }

  // ---- asking the client

  inputResponses<Q extends InputRequests> (requests: Q): InputResponses<Q> | undefined {
    return this.#exchange.asking.inputResponses(requests)
  }

  requestState<T> (schema: TypeBoxSchema<T>): T | undefined {
    return this.#exchange.asking.requestState(schema)
  }

  // ---- sources

  watch<T> (work: PromiseLike<T> | ((signal: AbortSignal) => PromiseLike<T>), onFulfilled: (value: T) => Msg, onRejected?: (reason: unknown) => Msg): Source {
    return sources.watch(this.#exchange.worker, work, onFulfilled, onRejected)
  }

  consume<T> (items: AsyncIterable<T> | Iterable<T>, to: { readonly next: (item: T) => Msg, readonly done?: () => Msg, readonly error?: (reason: unknown) => Msg }): Source {
    return sources.consume(this.#exchange.worker, () => this.drained(), items, to)
  }

  on<Args extends readonly unknown[]> (emitter: Emitter | EventTarget, event: string, toMessage: (...args: Args) => Msg | undefined): Source {
    return sources.on(this.#exchange.worker, emitter, event, toMessage)
  }

  subscribe<Packet extends { readonly topic: string } = BusPacket> (bus: MessageBus, topic: string, toMessage: (packet: Packet) => Msg | undefined): Source {
    const { worker, checkMessage } = this.#exchange
    return sources.subscribe(worker, bus, topic, toMessage, checkMessage)
  }

  after (ms: number, message: Msg): Source {
    return sources.after(this.#exchange.worker, ms, message)
  }

  every (ms: number, toMessage: () => Msg): Source {
    return sources.every(this.#exchange.worker, ms, toMessage)
  }
}

/** The params of a notification on a listen stream, which name the listen; an id that the author set stays. */
function stamp (params: JsonObject | undefined, { meta }: Listening): JsonObject {
  const own = params?.['_meta']
  return { ...params, _meta: isObject(own) ? { ...meta, ...own } : meta }
}

/** What has no JSON of its own, or one that says nothing, as a text. */
function jsonOrText (data: unknown): JsonValue {
  try {
    const says = typeof data === 'number' ? Number.isFinite(data) : !(data instanceof Error) && JSON.stringify(data) !== undefined
    // Said on the line above.
    return says ? data as JsonValue : String(data)
  } catch {
    // A BigInt inside, a cycle, a toJSON that throws.
    return describeObject(data)
  }
}

function describeObject (data: unknown): string {
  try {
    return String(data)
  } catch {
    return 'an object that has no text'
  }
}
