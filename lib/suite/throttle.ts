/** How long a name is not told of again, in ms. */
const PERIOD = 60_000
/** Names that are told of in that time: what a store gives may be of any number. */
const KEPT = 100

/** Says whether a name may be told of: once a minute, and of a bounded number of names. */
export class Throttle {
  readonly #now: () => number
  /** When each was told of, in that order. */
  readonly #told = new Map<string, number>()

  constructor (now: () => number = () => performance.now()) {
    this.#now = now
  }

  allows (name: string): boolean {
    const now = this.#now()
    for (const [old, at] of this.#told) {
      if (at + PERIOD > now) break
      this.#told.delete(old)
    }
    if (this.#told.has(name) || this.#told.size >= KEPT) return false
    this.#told.set(name, now)
    return true
  }
}
