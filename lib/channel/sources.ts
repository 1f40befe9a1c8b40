import { setImmediate } from 'node:timers/promises'
import { settle } from '../awaitable.js'
import type { HeldSource, Worker } from '../worker/worker.js'
import type { BusListener, Emitter, MessageBus, Source } from '../../types/channel.js'

/** A source that delivers while it is held, and nothing more once it is released. */
class LiveSource implements HeldSource {
  readonly #worker: Worker
  #release: () => void
  readonly timer: boolean
  #active = true

  constructor (worker: Worker, release: () => void = ignore, timer = false) {
    this.#worker = worker
    this.#release = release
    this.timer = timer
    worker.hold(this)
  }

  get active (): boolean { return this.#active }

  /** Begins to listen, unless its exchange is over, and leaves only then: a bus that counts its listeners would take one that never was for another. */
  listen (begin: () => void, leave: () => void): this {
    if (this.#active) {
      this.#release = leave
      begin()
    }
    return this
  }

  /** Puts the message of an event in; its ticket, or undefined if there is none. A mapping that throws is a fault of its exchange. */
  deliver (toMessage: () => unknown): number | undefined {
    if (!this.#active) return undefined
    try {
      const message = toMessage()
      return message === undefined ? undefined : this.send(message)
    } catch (error) {
      this.#worker.crash(error)
      return undefined
    }
  }

  /** Puts a message in, whatever it is. */
  send (message: unknown): number | undefined {
    return this.#active ? this.#worker.deliver(message) : undefined
  }

  /** The last thing that comes of it: with no mapping for a failure, that is the exchange's. */
  fail (reason: unknown, toMessage: ((reason: unknown) => unknown) | undefined): void {
    if (!this.#active) return
    if (toMessage === undefined) this.#worker.crash(reason)
    else this.deliver(() => toMessage(reason))
    this.stop()
  }

  stop (): void {
    if (!this.#active) return
    this.#active = false
    this.#worker.release(this)
    this.#release()
  }
}

export function watch<T> (
  worker: Worker, work: PromiseLike<T> | ((signal: AbortSignal) => PromiseLike<T>), onFulfilled: (value: T) => unknown, onRejected?: (reason: unknown) => unknown
): Source {
  const controller = new AbortController()
  const source = new LiveSource(worker, () => { controller.abort() })
  if (!source.active && typeof work === 'function') return source
  settle(async () => await (typeof work === 'function' ? work(controller.signal) : work), value => {
    source.deliver(() => onFulfilled(value))
    source.stop()
  }, reason => { source.fail(reason, onRejected) })
  return source
}

export function consume<T> (
  worker: Worker, drained: () => Promise<void>, items: AsyncIterable<T> | Iterable<T>,
  to: { readonly next: (item: T) => unknown, readonly done?: () => unknown, readonly error?: (reason: unknown) => unknown }
): Source {
  let iterator: AsyncIterator<T> | Iterator<T> | undefined
  let finished = false
  const source = new LiveSource(worker, () => {
    // return() of a generator that waits settles when its wait does, and what it throws then concerns nobody any more.
    if (!finished) settle(async () => await iterator?.return?.(), ignore, ignore)
  })

  async function pull (): Promise<void> {
    // A string is iterable too, and no object.
    iterator = Symbol.asyncIterator in Object(items) ? (items as AsyncIterable<T>)[Symbol.asyncIterator]() : (items as Iterable<T>)[Symbol.iterator]()
    while (source.active) {
      const { done, value } = await iterator.next()
      if (done === true) {
        finished = true
        if (to.done !== undefined) source.deliver(to.done)
        source.stop()
        return
      }
      const ticket = source.deliver(() => to.next(value))
      // Nothing was taken in: without a pause an iterable that never waits would let nobody else have a turn.
      if (ticket === undefined) await setImmediate()
      else await worker.whenHandled(ticket)
      await drained()
    }
  }
  settle(pull, ignore, reason => {
    finished = true
    source.fail(reason, to.error)
  })
  return source
}

export function on<Args extends readonly unknown[]> (worker: Worker, emitter: Emitter | EventTarget, event: string, toMessage: (...args: Args) => unknown): Source {
  // An emitter calls its listeners with whatever was emitted: the author's annotation says what that is.
  const listener = (...args: unknown[]): void => { source.deliver(() => toMessage(...args as unknown as Args)) }
  const source = new LiveSource(worker)
  return 'addEventListener' in emitter
    ? source.listen(() => { emitter.addEventListener(event, listener) }, () => { emitter.removeEventListener(event, listener) })
    : source.listen(() => { emitter.on(event, listener) }, () => { emitter.off(event, listener) })
}

export function subscribe<Packet> (
  worker: Worker, bus: MessageBus, topic: string, toMessage: (packet: Packet) => unknown, check: ((message: unknown) => boolean) | undefined
): Source {
  const listener: BusListener = (packet, done) => {
    // At once and always: a listener that is slow, or gone, must not hold up a bus with a concurrency limit.
    done()
    source.deliver(() => {
      // The author says what packets of the topic are; `check` holds the message against the server's schema.
      const message = toMessage(packet as Packet)
      return message === undefined || check === undefined || check(message) ? message : undefined
    })
  }
  const source = new LiveSource(worker)
  return source.listen(() => { bus.on(topic, listener) }, () => { bus.removeListener(topic, listener) })
}

export function after (worker: Worker, ms: number, message: unknown): Source {
  const timer = setTimeout(() => {
    source.send(message)
    source.stop()
  }, ms)
  const source: LiveSource = new LiveSource(worker, () => { clearTimeout(timer) }, true)
  return source
}

export function every (worker: Worker, ms: number, toMessage: () => unknown): Source {
  const timer = setInterval(() => { source.deliver(toMessage) }, ms)
  const source: LiveSource = new LiveSource(worker, () => { clearInterval(timer) }, true)
  return source
}

function ignore (): void {}
