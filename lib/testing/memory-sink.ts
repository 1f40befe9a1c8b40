import { isObject } from '../decode/envelope.js'
import { readReply, type Reply } from './message.js'
import type { JsonObject, JsonValue } from '../protocol/index.js'
import type { Answered, Codec } from '../transport/codec.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { McpMethod } from '../../types/request.js'

/** Keeps the output of one exchange, as a client would read it that takes both types and is never slow. */
export class MemorySink<M extends McpMethod> implements Sink {
  readonly reply: Promise<Reply<M>>
  readonly bufferedBytes = 0
  readonly leaving = false
  readonly timers = 0
  readonly #codec: Codec
  readonly #answered: Answered
  readonly #notifications: JsonObject[]
  // A promise calls its executor at once, so that both are set by the end of the constructor.
  #resolve!: (reply: Reply<M>) => void
  #reject!: (reason: Error) => void
  #streaming = false
  #over = false
  #statusCode = 200
  #events = 0
  #bytes = 0

  constructor (codec: Codec, answered: Answered, notifications: JsonObject[]) {
    this.#codec = codec
    this.#answered = answered
    this.#notifications = notifications
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get streaming (): boolean { return this.#streaming }
  get statusCode (): number { return this.#statusCode }
  get events (): number { return this.#events }
  get bytes (): number { return this.#bytes }

  header (_name: string, _value: string): boolean {
    return !this.#streaming && !this.#over
  }

  open (): boolean {
    if (!this.#over) this.#streaming = true
    return !this.#over
  }

  notify (method: string, params: JsonObject | undefined): boolean {
    const json = this.#codec.notification(method, params)
    if (!this.open()) return false
    this.#keep(json)
    return true
  }

  progress (...facts: Parameters<Sink['progress']>): void {
    this.#keep(this.#codec.progress(...facts))
  }

  end (ending: Ending): void {
    const message = this.#render(ending)
    this.#over = true
    this.#resolve(message === undefined ? {} : readReply(message))
  }

  abort (): void {
    this.#over = true
    this.#reject(new Error('The client has left'))
  }

  async drained (): Promise<void> {}
  async whenFlushed (): Promise<void> {}

  #render (ending: Ending): JsonValue | undefined {
    switch (ending.type) {
      case 'result': return this.#count(this.#codec.result(this.#answered, ending.result))
      case 'complete': return this.#count(this.#codec.complete(this.#answered))
      case 'error':
        if (!this.#streaming) this.#statusCode = ending.error.statusCode
        return this.#count(this.#codec.error(this.#answered.id, ending.error))
      // A request is never `accepted`.
      default: return undefined
    }
  }

  #keep (json: string): void {
    const notification = this.#count(json)
    // The codec has made it one.
    if (isObject(notification)) this.#notifications.push(notification)
  }

  #count (json: string): JsonValue {
    this.#events++
    this.#bytes += Buffer.byteLength(json)
    // JSON.parse gives nothing but JSON.
    return JSON.parse(json) as JsonValue
  }
}
