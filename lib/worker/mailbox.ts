interface Waiter { readonly ticket: number, readonly resolve: () => void }

/** First-in, first-out messages of one worker. */
export class Mailbox<Msg> {
  #queue: Msg[] = []
  #wake: (() => void) | undefined
  /** How many were put in, and how many of them are done with, since the beginning. */
  #put = 0
  #done = 0
  #waiters: Waiter[] = []

  get length (): number {
    return this.#queue.length
  }

  /** Puts a message in; the ticket is for `whenHandled`. */
  put (message: Msg): number {
    this.#queue.push(message)
    this.#wake?.()
    return ++this.#put
  }

  /** Takes the oldest message out. Whoever takes one says `handled` when it is done with it. */
  take (): Msg | undefined {
    return this.#queue.shift()
  }

  /** Resolves at the next message or close. */
  async arrival (): Promise<void> {
    await new Promise<void>(resolve => { this.#wake = resolve })
    this.#wake = undefined
  }

  /** The oldest message that is not done with is. */
  handled (): void {
    this.#done++
    while (this.#waiters[0] !== undefined && this.#waiters[0].ticket <= this.#done) this.#waiters.shift()?.resolve()
  }

  /** Resolves when the message of this ticket has been handled or dropped. Tickets are waited for in their order. */
  async whenHandled (ticket: number): Promise<void> {
    if (this.#done < ticket) await new Promise<void>(resolve => { this.#waiters.push({ ticket, resolve }) })
  }

  /** Ends it: wakes whoever waits, and tells how many messages nobody will handle. */
  close (): number {
    const left = this.#queue.length
    this.#queue = []
    for (const { resolve } of this.#waiters) resolve()
    this.#waiters = []
    this.#wake?.()
    return left
  }
}
