/** First-in, first-out messages of one worker. */
export class Mailbox<Msg> {
  #queue: Msg[] = []
  /** How many were put in, and how many were taken out, since the beginning: the numbers of their tickets. */
  #put = 0
  #taken = 0
  #handling: number | undefined
  #waiters: Map<number, () => void> | undefined

  get length (): number {
    return this.#queue.length
  }

  /** Puts a message in; the ticket is for `whenHandled`. */
  put (message: Msg): number {
    this.#queue.push(message)
    return ++this.#put
  }

  /** Takes the oldest message out, to be handled: `handled` says when it is. */
  take (): Msg | undefined {
    this.#handling = ++this.#taken
    return this.#queue.shift()
  }

  handled (): void {
    const ticket = this.#handling
    this.#handling = undefined
    if (ticket !== undefined) this.#tell(ticket)
  }

  /** Takes the oldest message out, and nobody handles it. */
  dropOldest (): void {
    this.#queue.shift()
    this.#tell(++this.#taken)
  }

  /** Resolves when the message of this ticket has been handled or dropped. */
  async whenHandled (ticket: number): Promise<void> {
    if (ticket <= this.#taken && ticket !== this.#handling) return
    await new Promise<void>(resolve => { (this.#waiters ??= new Map()).set(ticket, resolve) })
  }

  /** Ends it: lets go whoever waits, and tells how many messages nobody will handle. */
  close (): number {
    const left = this.#queue.length
    this.#queue = []
    this.#taken = this.#put
    for (const resolve of this.#waiters?.values() ?? []) resolve()
    this.#waiters = undefined
    return left
  }

  #tell (ticket: number): void {
    this.#waiters?.get(ticket)?.()
    this.#waiters?.delete(ticket)
  }
}
