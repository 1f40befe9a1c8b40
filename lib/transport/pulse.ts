/** What is quiet until it is told of a beat it missed. */
export interface Beating {
  /** Called about as often as the period is long while it is quiet. */
  beat (): void
  /** Parts of the period for which it has been quiet: set to 0 by whatever it sends. */
  quiet: number
}

/** How many times a period it is looked who is quiet: a quiet time is at most this part of it too long. */
const LOOKS = 8

/** One timer for all open streams of a mount: a timer for each would cost more than the stream says. */
export class Pulse {
  readonly #period: number
  readonly #beating = new Set<Beating>()
  #timer: NodeJS.Timeout | undefined

  /** `period` in ms; 0 for none. */
  constructor (period: number) {
    this.#period = period
  }

  /** False where nothing beats. */
  add (beating: Beating): boolean {
    if (this.#period === 0) return false
    this.#beating.add(beating)
    this.#timer ??= setInterval(() => { this.#look() }, this.#period / LOOKS)
    return true
  }

  remove (beating: Beating): void {
    if (!this.#beating.delete(beating) || this.#beating.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look (): void {
    for (const beating of this.#beating) {
      if (++beating.quiet < LOOKS) continue
      beating.quiet = 0
      beating.beat()
    }
  }
}
