/** What is told when it has been quiet for a while. */
export interface Beating {
  /** Called when it has been quiet for a period or up to a part of one longer, and then again each period. */
  beat (): void
  /** Looks at it since it was last heard of: set to 0 by whatever it sends. */
  quiet: number
}

/** How many times a period it is looked who is quiet: a quiet time is at most this part of it too long. */
const LOOKS = 8

/** One timer for all that wait on a mount: a timer for each would cost a call a tenth of its time. */
export class Pulse {
  readonly #period: number
  readonly #lingers: boolean
  readonly #beating = new Set<Beating>()
  #timer: NodeJS.Timeout | undefined

  /** `period` in ms; 0 for none. With `lingers` the timer stays a part of the period longer than what it is for: calls come and go faster than one is made. */
  constructor (period: number, lingers = false) {
    this.#period = period
    this.#lingers = lingers
  }

  /** False where nothing beats. */
  add (beating: Beating): boolean {
    if (this.#period === 0) return false
    beating.quiet = 0
    this.#beating.add(beating)
    // It holds nobody's process: whoever waits has a connection, which does.
    this.#timer ??= setInterval(() => { this.#look() }, this.#period / LOOKS).unref()
    return true
  }

  remove (beating: Beating): void {
    this.#beating.delete(beating)
    if (!this.#lingers) this.#stopIfIdle()
  }

  #look (): void {
    this.#stopIfIdle()
    for (const beating of this.#beating) {
      // The first look may come at once, so that it takes one more.
      if (++beating.quiet <= LOOKS) continue
      beating.quiet = 0
      beating.beat()
    }
  }

  #stopIfIdle (): void {
    if (this.#beating.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** The pulses of a mount. */
export interface Pulses {
  /** Of open streams, which send a comment. */
  readonly keepAlive: Pulse
  /** Of silent calls, which become streams. */
  readonly streamAfter: Pulse
}

export function createPulses ({ keepAlive, streamAfter }: { readonly [K in keyof Pulses]: /** ms */ number }): Pulses {
  return { keepAlive: new Pulse(keepAlive), streamAfter: new Pulse(streamAfter, true) }
}
