import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'

/** What Fastify, or a plugin, listens for on a response that it watches. */
const WATCHED = ['close', 'end', 'error', 'finish', 'prefinish', 'abort', 'complete', 'request', 'aborted']

type Listener = (...args: unknown[]) => void

/**
 * What Fastify is given to send as a stream: it runs `onSend`, sets every header, watches both ends, and then asks for the bytes to be piped. From there on
 * the relay writes to the response itself.
 */
export class StreamHead extends EventEmitter {
  readonly #raw: ServerResponse
  readonly #piped: (endsItself: boolean) => void
  /** Who listened to the response when this end was last listened to. */
  #before: ReadonlySet<Listener> | undefined

  constructor (raw: ServerResponse, piped: (endsItself: boolean) => void) {
    super()
    this.#raw = raw
    this.#piped = piped
  }

  /** Fastify watches this end first, and then at once the response: who came between the two is none of Fastify's. */
  override on (event: string, listener: Listener): this {
    this.#before = new Set(listenersOf(this.#raw).map(([, listener]) => listener))
    return super.on(event, listener)
  }

  pipe<T> (destination: T, options?: { readonly end?: boolean }): T {
    // A transform in between, a compressor's for instance, would hold events back.
    if (destination as unknown !== this.#raw) throw new Error('The event stream was about to be piped through something that may hold it back, such as a compressor')
    this.#piped(options?.end !== false)
    return destination
  }

  /** Tells Fastify that this end is over, which leaves it nothing to watch on the other: its listeners go, since a stream may be held for days. */
  release (): void {
    this.emit('end')
    this.removeAllListeners()
    for (const [event, listener] of listenersOf(this.#raw)) if (this.#before?.has(listener) === false) this.#raw.off(event, listener)
  }

  destroy (): void {}
}

function listenersOf (raw: ServerResponse): [event: string, listener: Listener][] {
  // rawListeners, so that what was added with `once` is found as it can be removed.
  return WATCHED.flatMap(event => (raw.rawListeners(event) as Listener[]).map((listener): [string, Listener] => [event, listener]))
}
