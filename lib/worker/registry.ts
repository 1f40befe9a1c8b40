import type { Gauges } from '../../types/fastify.js'

/** How long the last answers of a shutdown may take to leave, in ms, before their connections are dropped. */
const FLUSH_GRACE = 250

/** What a mount wants to know of an exchange that runs. */
export interface Alive {
  readonly listen: boolean
  /** A request that is no listen. */
  readonly call: boolean
  readonly streaming: boolean
  readonly queuedMessages: number
  readonly bufferedBytes: number
  readonly sources: number
  readonly timers: number
  /** Ends it for a shutdown: what only waits at once, and with `now` also what runs. */
  shutdown (now: boolean): void
  /** Resolves when it has ended and its response has left, or the client has. */
  whenGone (): Promise<unknown>
  /** Drops the connection of a response that does not get through. */
  abandon (): void
}

/** Who is alive on one mount: for shutdown, limits and gauges. */
export class Registry {
  readonly #alive = new Set<Alive>()
  readonly #leaving = new Set<Alive>()
  #listens = 0
  #calls = 0

  get calls (): number {
    return this.#calls
  }

  get listens (): number {
    return this.#listens
  }

  add (exchange: Alive): void {
    this.#alive.add(exchange)
    if (exchange.listen) this.#listens++
    else if (exchange.call) this.#calls++
  }

  remove (exchange: Alive): void {
    if (!this.#alive.delete(exchange)) return
    if (exchange.listen) this.#listens--
    else if (exchange.call) this.#calls--
  }

  /** Waits, at a shutdown, for an answer that is still leaving: the server would cut it off. */
  keep (leaving: Alive): void {
    this.#leaving.add(leaving)
    leaving.whenGone().finally(() => { this.#leaving.delete(leaving) })
  }

  /** What its exchanges hold; of buses it knows nothing. */
  gauges (): Omit<Gauges, 'busesDown'> {
    const gauges = { exchanges: this.#alive.size, streams: 0, listens: this.#listens, queuedMessages: 0, bufferedBytes: 0, sources: 0, timers: 0 }
    for (const exchange of this.#alive) {
      if (exchange.streaming) gauges.streams++
      gauges.queuedMessages += exchange.queuedMessages
      gauges.bufferedBytes += exchange.bufferedBytes
      gauges.sources += exchange.sources
      gauges.timers += exchange.timers
    }
    return gauges
  }

  /** Ends what waits at once and what runs after `ms` at the latest; resolves when all have gone, or shortly after `ms`. */
  async drain (ms: number): Promise<void> {
    const exchanges = [...this.#alive, ...this.#leaving]
    const gone = Promise.all(exchanges.map(exchange => exchange.whenGone()))

    for (const exchange of exchanges) exchange.shutdown(false)
    if (await within(ms, gone)) return
    for (const exchange of exchanges) exchange.shutdown(true)
    if (await within(FLUSH_GRACE, gone)) return
    for (const exchange of exchanges) exchange.abandon()
  }
}

/** Whether the work settles within so many milliseconds. */
async function within (ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>(resolve => { timer = setTimeout(resolve, ms, false) })
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
