import { AsyncLocalStorage } from 'node:async_hooks'
import { readRetry } from '../channel/asking.js'
import { Exchange } from '../channel/exchange.js'
import { isObject } from '../decode/envelope.js'
import { McpError, toWireError } from '../errors.js'
import { createTrace, traceExchange } from '../observe.js'
import { forPrincipal } from '../token.js'
import { shutdown } from '../transport/admit.js'
import { codecs, type LegacyCodec } from './codec.js'
import { Questions, type Question } from './questions.js'
import type { FastifyRequest } from 'fastify'
import type { Mount } from '../mount.js'
import type { InputRequiredResult, JsonObject } from '../protocol/index.js'
import type { Alive } from '../worker/registry.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { Session } from '../../types/legacy.js'
import type { McpRequest, RequestId } from '../../types/request.js'
import type { Output } from './output.js'
import type { Known, RunningCall } from './sessions.js'

/** Rounds of questions that one call may take. */
const MAX_ROUNDS = 8
/** Characters of a client's words in the log. */
const MAX_REASON = 200

/** What is asked, of whom, and where the answer goes. */
export interface CallFacts {
  readonly mount: Mount
  readonly request: McpRequest
  readonly httpRequest: FastifyRequest
  readonly session: Session
  /** The session in this process; undefined where there is none. */
  readonly known: Known | undefined
  readonly output: Output
  /** ms */
  readonly answerTimeout: number
  readonly onEnded: (exchange: Exchange) => void
  /** What is answered instead of the result, if that is another; a rejection is a crash. */
  readonly complete?: (result: object) => Promise<object>
  /** Called once, last of all. */
  readonly over: () => void
}

/**
 * One request of a 2025 client: an exchange, and another one with the answers each time that the one before asked the client. It goes on when the client
 * has lost its connection, since in these revisions that cancels nothing (2025-11-25, Transports, Sending Messages).
 */
export class Call implements Sink, Alive, RunningCall {
  readonly #facts: CallFacts
  readonly #codec: LegacyCodec
  readonly #within = AsyncLocalStorage.snapshot()
  #exchange: Exchange | undefined
  #questions: Questions | undefined
  #rounds = 0
  #over = false
  #events = 0
  #whenOver: (() => void)[] = []

  constructor (facts: CallFacts) {
    this.#facts = facts
    this.#codec = codecs[facts.session.protocolVersion]
  }

  // ---- as the sink of its exchanges

  get streaming (): boolean { return this.#facts.output.streaming }
  get statusCode (): number { return this.#facts.output.statusCode }
  get events (): number { return this.#events }
  get bytes (): number { return this.#facts.output.bytes }
  get bufferedBytes (): number { return this.#facts.output.bufferedBytes }
  get leaving (): boolean { return this.#over && this.#facts.output.leaving }
  get timers (): number { return this.#facts.output.timers + (this.#questions === undefined ? 0 : 1) }

  open (): boolean {
    return this.#facts.output.open()
  }

  progress (token: RequestId, progress: number, total: number | undefined, message: string | undefined): void {
    this.#send(this.#codec.notification('notifications/progress', {
      progressToken: token, progress, ...(total !== undefined && { total }), ...(message !== undefined && { message })
    }))
  }

  notify (method: string, params: JsonObject | undefined): boolean {
    const json = this.#codec.notification(method, params)
    if (!this.open()) return false
    this.#send(json)
    return true
  }

  end (ending: Ending): void {
    switch (ending.type) {
      case 'result': return isInputRequired(ending.result) ? this.#ask(ending.result) : this.#complete(ending.result)
      case 'error': return this.#fail(ending.error)
      // Neither a listen nor a notification: what else ends without a message was closed.
      default: return this.#skip()
    }
  }

  header (name: string, value: string): boolean {
    return this.#facts.output.header(name, value)
  }

  async drained (): Promise<void> {
    await this.#facts.output.drained()
  }

  async whenFlushed (): Promise<void> {
    await this.#facts.output.whenFlushed()
  }

  abort (): void {
    this.#facts.output.abort()
  }

  // ---- as what waits for the client's answers

  readonly listen = false
  readonly call = true
  readonly queuedMessages = 0
  readonly sources = 0

  shutdown (): void {
    this.#fail(shutdown(this.#facts.mount.settings.limits))
  }

  async whenGone (): Promise<void> {
    if (!this.#over) await new Promise<void>(resolve => { this.#whenOver.push(resolve) })
    await this.whenFlushed()
  }

  abandon (): void {
    this.abort()
  }

  // ---- its life

  run (): void {
    this.#round(undefined)
    if (!this.#over) this.#facts.output.attend()
  }

  cancel (reason?: string): void {
    const { httpRequest: { log }, request: { method } } = this.#facts
    log.debug({ mcp: { method, reason: reason?.slice(0, MAX_REASON) } }, 'an MCP request was cancelled')
    // To the server's author it is what a client does in 2026-07-28 by leaving.
    if (this.#questions === undefined) this.#exchange?.worker.close('disconnect')
    else this.#skip()
  }

  #round (brought: JsonObject | undefined): void {
    const { mount, request, httpRequest, session: { protocolVersion, principal }, onEnded } = this.#facts
    try {
      const retry = brought === undefined ? undefined : readRetry(request, brought, () => forPrincipal(mount.tokens, principal, 'package'))
      const traced = createTrace(request, httpRequest)
      const exchange = this.#exchange = new Exchange({ mount, request, httpRequest, protocolVersion, principal, retry, traced, onEnded }, this)
      traceExchange(traced, exchange)
    } catch (error) {
      this.#fail(toWireError(error))
    }
  }

  #send (json: string): void {
    this.#events++
    this.#facts.output.send(json)
  }

  /** Throws what the result's own JSON throws, with nothing sent. */
  #complete (result: object): void {
    const { complete, request: { id }, httpRequest } = this.#facts
    if (complete === undefined) return this.#answer(this.#codec.result(id, result))
    this.#over = true
    complete(result).then(completed => { this.#answer(this.#codec.result(id, completed)) }).catch((cause: unknown) => {
      httpRequest.log.error({ err: cause }, 'a 2025 session could not be opened')
      this.#over = false
      this.#fail(toWireError(cause))
    })
  }

  #answer (json: string): void {
    this.#events++
    this.#facts.output.answer(json)
    this.#finish()
  }

  #fail (error: McpError): void {
    if (this.#over) return
    this.#events++
    const json = this.#codec.error(this.#facts.request.id, error)
    if (error.reason.kind === 'crash') this.#facts.output.crash(error, json)
    else this.#facts.output.answer(json, error)
    this.#finish()
  }

  #skip (): void {
    this.#facts.output.skip()
    this.#finish()
  }

  #finish (): void {
    this.#over = true
    this.#questions?.end()
    this.#questions = undefined
    this.#facts.mount.registry.remove(this)
    this.#facts.over()
    for (const resolve of this.#whenOver) resolve()
  }

  // ---- asking the client

  /** What 2026-07-28 answers with, these revisions ask in requests of the server's (2025-11-25, Elicitation, Sampling, Roots). */
  #ask (result: InputRequiredResult): void {
    const { mount, output, known, session, answerTimeout } = this.#facts
    const { inputRequests = {}, requestState } = result
    const asks = Object.keys(inputRequests).length > 0
    // Nobody waits for another round.
    if (mount.draining) return this.shutdown()
    if (++this.#rounds > MAX_ROUNDS) return this.#fail(new McpError({ kind: 'internal', message: `The request asked for input more than ${MAX_ROUNDS} times` }))
    if (asks && (known === undefined || !output.reaches)) return this.#fail(new McpError({ kind: 'internal', message: 'The request needs input from the client, which has no session or takes no event stream' }))

    const again = (inputResponses: JsonObject): void => {
      mount.registry.remove(this)
      this.#questions = undefined
      this.#within(() => { this.#round({ inputResponses, ...(requestState !== undefined && { requestState }) }) })
    }
    // Whoever only wants to be called again is, when the exchange that said so has ended.
    if (!asks || known === undefined) return queueMicrotask(() => { again({}) })

    // The client has been told that the stream could not be opened.
    if (!this.open() || !output.reaches) return this.#skip()
    mount.registry.add(this)
    // `asking` has made them.
    this.#questions = new Questions(inputRequests as unknown as Readonly<Record<string, Question>>, session.protocolVersion, known.questions, {
      send: (id, method, params) => { this.#send(this.#codec.request(id, method, params)) },
      withdraw: id => { this.#send(this.#codec.notification('notifications/cancelled', { requestId: id, reason: 'Nobody answered in time' })) },
      answered: again,
      failed: error => { this.#fail(error) }
    }, answerTimeout)
  }
}

function isInputRequired (result: object): result is InputRequiredResult {
  return isObject(result) && result['resultType'] === 'input_required'
}
