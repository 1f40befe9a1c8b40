/** Draws that a seed decides: mulberry32. */
export class Dice {
  #state: number

  constructor (seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to and without 1. */
  next (): number {
    this.#state = (this.#state + 0x6D2B79F5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  below (count: number): number {
    return Math.floor(this.next() * count)
  }

  chance (share: number): boolean {
    return this.next() < share
  }

  pick<T> (...list: readonly T[]): T {
    // Whoever picks gives one at least.
    return list[this.below(list.length)] as T
  }
}
