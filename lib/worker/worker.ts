import { randomUUID } from 'node:crypto'
import { declaresExtension } from '../client-capabilities.js'
import { isObject } from '../decode/envelope.js'
import { McpError, toMcpError } from '../errors.js'
import { publishDeadLetter, traceCallback, withinTrace } from '../observe.js'
import { badReturn, isOutcome } from '../outcome.js'
import { closing, isClose, stopping } from './ending.js'
import { Mailbox } from './mailbox.js'
import { createOffer } from './offer.js'
import { promiseOr, settle } from '../awaitable.js'
import type { Job } from './job.js'
import type { Alive } from './registry.js'
import type { Ending } from './sink.js'
import type { Source } from '../../types/channel.js'
import type { CloseReason, ExchangeEnd, ExchangeRef } from '../../types/exchange.js'
import type { ErrorReason } from '../../types/errors.js'
import type { McpRequest } from '../../types/request.js'
import type { Awaitable } from '../../types/schema.js'

/** After so many messages the loop lets I/O have its turn: a chain of microtasks would starve it. */
const MESSAGES_A_TURN = 64

/** A source as the worker holds it. */
export interface HeldSource extends Source { readonly timer: boolean }

type Callback = 'capabilities' | 'init' | 'handleRequest' | 'handleNotification' | 'handleMessage' | 'handleClose'

/**
 * The run of one request or notification. It ends answered, by what a callback returned, or closed, by anything else; once no callback runs it winds
 * up: handleClose, clean-ups, `ended`.
 */
export class Worker implements Alive {
  readonly #job: Job
  readonly #startedAt = performance.now()
  #endedAt: number | undefined

  /** Undefined until it is answered or closed. */
  #cause: ExchangeEnd['cause'] | undefined
  #reason: unknown
  /** The answer is being handed on, which runs hooks of the app's. */
  #ending = false
  /** Callbacks that run, or are about to: what winds up waits for them. */
  #running = 0
  #draining = false
  #live: { readonly state: unknown } | undefined

  #mailbox: Mailbox<unknown> | undefined
  /** Messages are handled as they come: the stream is open. */
  #serving = false
  /** One is being handled, or is about to be. */
  #pumping = false
  #taken = 0
  #undelivered = 0
  #sources: Set<HeldSource> | undefined
  #cleanups: (() => Awaitable<void>)[] | undefined
  #controller: AbortController | undefined
  #ref: ExchangeRef<unknown> | undefined
  #whenEnded: ((end: ExchangeEnd) => void)[] | undefined

  constructor (job: Job) {
    this.#job = job
  }

  // ---- what is known of it

  /** Answered or closed. */
  get over (): boolean { return this.#cause !== undefined || this.#ending }
  /** Over, and nothing is left to do. */
  get ended (): boolean { return this.#endedAt !== undefined }
  get listen (): boolean { return this.#job.listening !== undefined }
  get call (): boolean { return 'id' in this.#job.request && !this.listen }
  get streaming (): boolean { return this.#job.sink.streaming }
  get queuedMessages (): number { return this.#mailbox?.length ?? 0 }
  get bufferedBytes (): number { return this.#job.sink.bufferedBytes }
  get sources (): number { return this.#sources?.size ?? 0 }

  get timers (): number {
    let { timers } = this.#job.sink
    for (const source of this.#sources ?? []) if (source.timer) timers++
    return timers
  }

  get signal (): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (isClose(this.#cause)) this.#abort()
    }
    return this.#controller.signal
  }

  get ref (): ExchangeRef<unknown> {
    this.#ref ??= Object.freeze({ id: randomUUID(), post: (message: unknown) => this.post(message), ended: this.#endPromise() })
    return this.#ref
  }

  /** How it ended, or what is known so far. */
  end (): ExchangeEnd {
    const { request, sink, protocolVersion } = this.#job
    return Object.freeze({
      // Whoever asks before the end is told of a close, which has set it.
      cause: this.#cause as ExchangeEnd['cause'],
      reason: this.#reason,
      method: request.method,
      name: nameOf(request.params),
      protocolVersion,
      requestId: 'id' in request ? request.id : null,
      statusCode: sink.statusCode,
      streamed: sink.streaming,
      events: sink.events,
      bytes: sink.bytes,
      undelivered: this.#undelivered,
      durationMs: (this.#endedAt ?? performance.now()) - this.#startedAt
    })
  }

  // ---- what the channel, its sources and the mount do to it

  post (message: unknown): 'queued' | 'closed' | 'overflow' {
    if (this.over) {
      publishDeadLetter({ id: this.ref.id, message })
      return 'closed'
    }
    return this.deliver(message) === undefined ? 'overflow' : 'queued'
  }

  /** Puts a message in and gives its ticket; undefined if it was not taken. */
  deliver (message: unknown): number | undefined {
    if (this.over) return undefined
    const mailbox = this.#mailbox ??= new Mailbox()
    const { mailbox: limit, onOverflow } = this.#job.limits
    if (mailbox.length >= limit) {
      this.#undelivered++
      if (onOverflow === 'end') this.close('overflow')
      if (onOverflow !== 'dropOldest') return undefined
      mailbox.dropOldest()
    }
    const ticket = mailbox.put(message)
    this.#wake()
    return ticket
  }

  async whenHandled (ticket: number): Promise<void> {
    await this.#mailbox?.whenHandled(ticket)
  }

  hold (source: HeldSource): void {
    if (this.over) source.stop()
    else (this.#sources ??= new Set()).add(source)
  }

  release (source: HeldSource): void {
    this.#sources?.delete(source)
  }

  defer (cleanup: () => Awaitable<void>): void {
    if (this.ended) settle(cleanup, ignore, error => { this.#log(error, 'a deferred clean-up failed') })
    else (this.#cleanups ??= []).push(cleanup)
  }

  /** Ends it from outside; false if it was over. */
  close (cause: Exclude<CloseReason, 'crash'>): boolean {
    return this.#end(cause, closing(cause, this, this.#job.limits.retryAfter))
  }

  /** A fault of ours, wherever it was seen; false if it was over. */
  crash (reason: unknown): boolean {
    if (this.over) return false
    this.#log(reason, 'a request crashed')
    return this.#end('crash', { type: 'error', error: new McpError({ kind: 'crash' }, { cause: reason }) }, reason)
  }

  shutdown (now: boolean): void {
    this.#draining = true
    if (now || this.listen || this.#running === 0) this.close('shutdown')
  }

  async whenGone (): Promise<void> {
    await this.#endPromise()
    await this.#job.sink.whenFlushed()
  }

  abandon (): void {
    this.#job.sink.abort()
  }

  // ---- its life

  run (): void {
    this.#running++
    const { server } = this.#job
    const { capabilities } = server
    if (server.info === undefined || typeof capabilities !== 'function' || !('id' in this.#job.request)) {
      this.#begin()
    } else {
      this.#call('capabilities', () => capabilities.call(server, this.#job.context), declared => {
        if (this.over) return
        // What an author's code gives may be anything.
        if (!isObject(declared)) return this.#fault('capabilities', declared)
        this.#job.offer = createOffer(server, declared)
        this.#begin()
      })
    }
    this.#settled()
  }

  #begin (): void {
    const { request, offer, listening } = this.#job
    if (!('id' in request)) return this.#notified()
    if (offer !== undefined) {
      if (!offer.opens(request.method)) return this.#fail(McpError.unsupportedMethod(request.method))
      if (request.method === 'server/discover') return this.#answer(offer.discover)
      if (listening?.idle === true) return this.#open()
    }
    if (this.#job.server.init === undefined) this.#requested(request, undefined)
    else this.#init(state => { this.#requested(request, state) })
  }

  #requested (request: McpRequest, state: unknown): void {
    const { server, channel } = this.#job
    this.#call('handleRequest', () => server.handleRequest(request, channel, state), outcome => { this.#follow(outcome, 'handleRequest') })
  }

  #notified (): void {
    const { server, request } = this.#job
    const { handleNotification } = server
    if (handleNotification === undefined || 'id' in request) return this.#accept()
    this.#init(state => {
      this.#call('handleNotification', () => handleNotification.call(server, request, this.#job.context, state), () => { this.#accept() })
    })
  }

  #init (then: (state: unknown) => void): void {
    const { server, arg } = this.#job
    const { init } = server
    if (init === undefined) return then(undefined)
    this.#call('init', () => init.call(server, arg, this.#job.context), state => {
      if (this.over) return
      if (!isOutcome(state)) then(state)
      else if (state.type === 'stop') this.#refuse(state.reason)
      else this.crash(badReturn('init', state))
    })
  }

  /**
   * Runs one callback; `then` is told what it gave, also when the exchange is over by then. Whether it settled at once; if not, `later` is told when it has.
   */
  #call<T> (callback: Callback, work: () => Awaitable<T>, then: (value: T) => void, later?: () => void): boolean {
    const { request, httpRequest } = this.#job
    this.#running++
    let given: T | Promise<T>
    try {
      given = promiseOr(traceCallback(callback, request, httpRequest, work))
    } catch (error) {
      this.#thrown(error)
      this.#settled()
      return true
    }
    if (given instanceof Promise) {
      this.#await(given, then, later)
      return false
    }
    then(given)
    this.#settled()
    return true
  }

  /** Apart from its caller, which so makes no closures for a callback that gives its value at once. */
  #await<T> (promise: Promise<T>, then: (value: T) => void, later: (() => void) | undefined): void {
    promise.then(value => {
      then(value)
      this.#settled()
      later?.()
    }, error => {
      this.#thrown(error)
      this.#settled()
      later?.()
    })
  }

  #settled (): void {
    this.#running--
    if (this.#running === 0 && this.over) this.#windUp()
  }

  #follow (outcome: unknown, callback: 'handleRequest' | 'handleMessage'): void {
    // A handler that was too late still gives handleClose its state.
    if (isOutcome(outcome) && outcome.type === 'stream') this.#live = { state: outcome.state }
    if (this.over) return
    if (!isOutcome(outcome)) return this.#fault(callback, outcome)
    switch (outcome.type) {
      case 'stream':
        this.#open()
        this.#serving = true
        return this.#wake()
      case 'result':
        if (this.listen || !this.#takes(outcome.result)) return this.#fault(callback, outcome)
        return this.#answer(outcome.result, outcome.stopReason)
      case 'error':
        return this.#fail(outcome.error)
      case 'inputRequired':
        return this.#try(() => { this.#answer(this.#job.askingResult(outcome)) })
      case 'stop':
        if (callback === 'handleRequest') return this.#fault(callback, outcome)
        return this.#stop(outcome.reason)
    }
  }

  /** Handles what is in the mailbox, soon: nobody's post runs a callback. */
  #wake (): void {
    if (!this.#serving || this.#pumping) return
    this.#pumping = true
    queueMicrotask(() => { withinTrace(this.#job.traced, () => { this.#pump() }) })
  }

  /** One message after the other, each when the one before has settled. A close wins over what is queued. */
  #pump (): void {
    while (!this.over) {
      if (this.queuedMessages === 0) {
        this.#pumping = false
        if (this.#draining && this.#running === 0) this.close('shutdown')
        return
      }
      this.#taken++
      if (!this.#handle(this.#mailbox?.take())) return
      if (this.#taken % MESSAGES_A_TURN === 0) {
        setImmediate(() => { this.#pump() })
        return
      }
    }
  }

  /** Whether it has settled; if not, the pump goes on when it does. */
  #handle (message: unknown): boolean {
    const { server, channel } = this.#job
    const { handleMessage } = server
    if (handleMessage === undefined) {
      this.#undelivered++
      this.#mailbox?.handled()
      return true
    }
    const settled = this.#call('handleMessage', () => handleMessage.call(server, message, channel, this.#live?.state), outcome => { this.#follow(outcome, 'handleMessage') }, () => {
      this.#mailbox?.handled()
      this.#pump()
    })
    if (settled) this.#mailbox?.handled()
    return settled
  }

  #open (): void {
    this.#job.listening?.acknowledge()
    this.#job.sink.open()
  }

  // ---- its end

  #fault (callback: Callback, returned: unknown): void {
    this.crash(badReturn(callback, returned))
  }

  #thrown (error: unknown): void {
    if (error instanceof McpError) this.#fail(error)
    else this.crash(error)
  }

  #try (work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#thrown(error)
    }
  }

  /** `stop(reason)` of init: answered as fail(reason) would be. */
  #refuse (reason: unknown): void {
    if (reason instanceof McpError || typeof reason === 'string' || isErrorReason(reason)) this.#try(() => { this.#fail(toMcpError(reason)) })
    else this.crash(reason)
  }

  /**
   * Another type of result is an extension's: for clients that declare one which the server declares too, if it says what it does. A question to the client
   * is `inputRequired`'s to make.
   */
  #takes (result: unknown): boolean {
    if (!isObject(result)) return false
    const { resultType = 'complete' } = result
    if (resultType === 'complete') return true
    const { offer, request: { meta: { clientCapabilities = {} } } } = this.#job
    const { extensions = {} } = offer?.discover.capabilities ?? clientCapabilities
    return resultType !== 'input_required' && Object.keys(extensions).some(extension => declaresExtension(clientCapabilities, extension))
  }

  #answer (result: object, stopReason?: unknown): void {
    this.#end('result', { type: 'result', result }, stopReason)
  }

  #accept (): void {
    this.#end('accepted', { type: 'accepted' })
  }

  #fail (error: McpError): void {
    this.#end('error', { type: 'error', error }, error)
  }

  #stop (reason: unknown): void {
    if (reason instanceof Error) this.#log(reason, 'a stream was stopped with an error')
    this.#end('stop', stopping(reason, this), reason)
  }

  /** Ends the response at once, and the rest when no callback runs; false if it was over. What cannot be sent is a crash. */
  #end (cause: ExchangeEnd['cause'], ending: Ending, reason?: unknown): boolean {
    if (this.over) return false
    this.#ending = true
    try {
      this.#job.sink.end(ending)
    } catch (error) {
      this.#ending = false
      if (cause !== 'crash') return this.crash(error)
      this.#log(error, 'the answer of a crash could not be sent')
    }
    this.#ending = false
    this.#cause = cause
    this.#reason = reason
    if (isClose(cause) && this.#controller !== undefined) this.#abort()
    if (this.#sources !== undefined) this.#stopSources(this.#sources)
    if (this.#mailbox !== undefined) this.#undelivered += this.#mailbox.close()
    if (this.#running === 0) this.#windUp()
    return true
  }

  /** Whatever an emitter does when a listener leaves it, the others are left too. */
  #stopSources (sources: ReadonlySet<HeldSource>): void {
    for (const source of sources) settle(() => { source.stop() }, ignore, error => { this.#log(error, 'a source could not be stopped') })
  }

  #windUp (): void {
    const closed = isClose(this.#cause) && this.#live !== undefined && this.#job.server.handleClose !== undefined
    if (closed || this.#cleanups !== undefined) withinTrace(this.#job.traced, () => { this.#cleanUp() })
    else this.#finish()
  }

  async #cleanUp (): Promise<void> {
    const { server, context, request, httpRequest } = this.#job
    if (isClose(this.#cause) && this.#live !== undefined && server.handleClose !== undefined) {
      const { state } = this.#live
      const cause = this.#cause
      await this.#attempt(() => traceCallback('handleClose', request, httpRequest, () => server.handleClose?.(context, state, cause)), 'handleClose failed')
    }
    for (let cleanup = this.#cleanups?.pop(); cleanup !== undefined; cleanup = this.#cleanups?.pop()) {
      await this.#attempt(cleanup, 'a deferred clean-up failed')
    }
    this.#finish()
  }

  async #attempt (work: () => Awaitable<void>, failed: string): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#log(error, failed)
    }
  }

  #finish (): void {
    this.#endedAt = performance.now()
    if (this.#whenEnded !== undefined) {
      const end = this.end()
      for (const resolve of this.#whenEnded) resolve(end)
    }
    this.#job.ended()
  }

  async #endPromise (): Promise<ExchangeEnd> {
    if (this.ended) return this.end()
    return await new Promise(resolve => { (this.#whenEnded ??= []).push(resolve) })
  }

  #abort (): void {
    const reason = new Error(`The exchange was closed: ${this.#cause}`, { cause: this.end() })
    reason.name = 'AbortError'
    this.#controller?.abort(reason)
  }

  #log (err: unknown, message: string): void {
    this.#job.log.error({ err, mcp: { method: this.#job.request.method } }, message)
  }
}

function isErrorReason (reason: unknown): reason is ErrorReason {
  return typeof reason === 'object' && reason !== null && !(reason instanceof Error) && typeof (reason as { kind?: unknown }).kind === 'string'
}

function nameOf (params: object): string | undefined {
  const { name, uri } = params as { name?: string, uri?: string }
  return name ?? uri
}

function ignore (): void {}
