import { setTimeout as delay } from 'node:timers/promises'
import { gate, within } from '../helpers/sockets.js'
import type { FastifyRequest } from 'fastify'
import type { Channel, CloseReason, ExchangeEnd, RequestContext } from 'fastify-gen-mcp'

/** Says which request an HTTP request carries, where callbacks are not told by its arguments. */
export const NUMBER = 'x-number'
/** Where a request is, as far as the server can tell. */
export type Place = 'held' | 'streaming' | 'closing'

/** What the server has counted of one request; of a 2025 call that asks, of both its exchanges. */
export class Entry {
  readonly number: number
  began = 0
  /** A state was given to `stream`. */
  live = false
  readonly ends: ExchangeEnd[] = []
  readonly closes: CloseReason[] = []
  deferred = 0
  cleaned = 0
  /** Sources that tell of their release. */
  held = 0
  released = 0
  /** Listeners of its signals, and how often they were called. */
  listening = 0
  aborted = 0
  /** What must not happen, and did. */
  readonly problems: string[] = []
  readonly #places = { held: gate(), streaming: gate(), closing: gate() }
  readonly #go = gate()
  #channels: Channel<never>[] = []
  #gone = false

  constructor (number: number) {
    this.number = number
  }

  /** The client may go on. */
  get gone (): boolean { return this.#gone }
  /** The server knows that the client has left, or has ended it anyway. */
  get noticed (): boolean { return this.aborted > 0 || this.ends.length > 0 }

  reach (place: Place): void {
    this.#places[place].open()
  }

  async reached (place: Place): Promise<void> {
    await within(this.#places[place].promise, `request ${this.number}: ${place}`, 20_000)
  }

  /** What holds a callback, until the client says so. */
  async wait (): Promise<void> {
    await this.#go.promise
  }

  letGo (): void {
    this.#gone = true
    this.#go.open()
  }

  /** Counts what is there of each exchange: clean-ups, and, where it is wanted, a listener. */
  begin (context: RequestContext, listens: boolean): void {
    this.began++
    for (const slow of [false, true]) {
      this.deferred++
      context.defer(async () => {
        if (slow) await delay(1)
        this.cleaned++
      })
    }
    if (!listens) return
    this.listening++
    context.signal.addEventListener('abort', () => { this.aborted++ })
  }

  /** What is sent through it when all is over must reach nobody. */
  keep (channel: Channel<never>): void {
    this.#channels.push(channel)
  }

  /** A source has an event. */
  heard (): void {
    if (this.ends.length > 0) this.problems.push('a source told of something after the end')
  }

  end (end: ExchangeEnd): void {
    this.ends.push(end)
    const channels = this.#channels
    this.#channels = []
    for (const channel of channels) {
      const sent = [channel.sendProgress(1_000_000, undefined, 'late'), channel.sendLog('emergency', 'late'), channel.startStream(), channel.closed]
      if (String(sent) !== 'closed,closed,false,true') this.problems.push(`what was sent after the end was ${String(sent)}`)
    }
  }
}

/** What servers know of the requests of a round. */
export class Ledger {
  #entries = new Map<number, Entry>()
  /** The HTTP requests of the latest exchanges that ended. */
  #requests: WeakRef<FastifyRequest>[] = []
  /** Of requests that nobody made. */
  readonly strangers: string[] = []

  entry (number: number): Entry {
    const entry = this.#entries.get(number) ?? new Entry(number)
    this.#entries.set(number, entry)
    return entry
  }

  of ({ httpRequest }: Pick<RequestContext, 'httpRequest'>): Entry {
    return this.entry(Number(httpRequest.headers[NUMBER]))
  }

  /** The `onEnd` of every mount. */
  readonly onEnd = (end: ExchangeEnd, httpRequest: FastifyRequest): void => {
    const number = Number(httpRequest.headers[NUMBER])
    this.#requests.push(new WeakRef(httpRequest))
    // Sessions are opened under no number.
    if (number === 0) return
    if (!this.#entries.has(number)) this.strangers.push(`an exchange of request ${number} ended, which is none of this round's`)
    this.entry(number).end(end)
  }

  /** Whether all that was made for requests has been taken back. */
  get settled (): boolean {
    return [...this.#entries.values()].every(({ began, ends, deferred, cleaned, held, released }) => began === ends.length && deferred === cleaned && held === released)
  }

  /** Forgets a round. */
  clear (): void {
    for (const entry of this.#entries.values()) entry.letGo()
    this.#entries.clear()
    this.#requests = this.#requests.slice(-1_000)
  }

  get remembered (): number { return this.#requests.length }
  /** HTTP requests that nothing has collected though their exchanges are over. */
  get alive (): number { return this.#requests.filter(reference => reference.deref() !== undefined).length }
}
