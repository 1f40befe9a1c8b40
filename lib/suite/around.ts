import { createDeferred } from '../deferred.js'
import { McpError, toMcpError } from '../errors.js'
import { fail, inputRequired, result, type Outcome } from '../outcome.js'
import type { Channel } from '../../types/channel.js'
import type { InputRequests } from '../../types/input.js'
import type { InputRequiredOutcome, RequestOutcome } from '../../types/outcome.js'
import type { Middleware } from '../../types/providers.js'
import type { McpRequest, McpResult } from '../../types/request.js'

/** What the middleware of a stream says in the end: a message that the Suite sends itself. */
export class Settled {
  readonly outcome: RequestOutcome<never>

  constructor (outcome: RequestOutcome<never>) {
    this.outcome = outcome
  }
}

/** One request inside its middleware. The innermost may open a stream; its final answer then goes through `finish`. */
export class Around {
  readonly #answer = createDeferred<McpResult>()
  readonly #opened = createDeferred<unknown>()
  /** What middleware sees instead of a question to the client, and the question itself. */
  #asked: { readonly shown: McpResult, readonly outcome: InputRequiredOutcome } | undefined
  readonly #settled: Promise<RequestOutcome<never>>

  constructor (middleware: readonly Middleware[], request: McpRequest, channel: Channel, work: () => Promise<RequestOutcome<unknown>>) {
    // Whoever does not call next, or does not wait for it, leaves these without a handler.
    this.#answer.promise.catch(ignore)
    const innermost = async (): Promise<McpResult> => {
      const outcome = await work()
      if (outcome.type !== 'stream') return this.#show(outcome)
      this.#opened.resolve(outcome.state)
      return await this.#answer.promise
    }
    this.#settled = compose(middleware, request, channel, innermost)().then(value => this.#unshow(value), error => this.#failed(error))
    this.#settled.catch(ignore)
  }

  /** Resolves with the outcome, or when the innermost has opened a stream with its state. */
  async first (): Promise<{ readonly outcome: RequestOutcome<never> } | { readonly live: unknown }> {
    return await Promise.race([this.#settled.then(outcome => ({ outcome })), this.#opened.promise.then(live => ({ live }))])
  }

  /** Calls back with what the middleware says in the end. */
  whenSettled (done: (outcome: RequestOutcome<never>) => void, crashed: (error: unknown) => void): void {
    this.#settled.then(done, crashed)
  }

  /** The stream's final answer. */
  finish (outcome: Exclude<RequestOutcome<unknown>, { type: 'stream' }>): void {
    try {
      this.#answer.resolve(this.#show(outcome))
    } catch (error) {
      this.#answer.reject(error)
    }
  }

  /** The stream was closed; resolves when the middleware has had its say. */
  async abort (reason: unknown): Promise<void> {
    this.#answer.reject(reason)
    await this.#settled.catch(ignore)
  }

  #show (outcome: Exclude<Outcome | RequestOutcome<unknown>, { type: 'stream' }>): McpResult {
    if (outcome.type === 'result') return outcome.result
    if (outcome.type === 'error') throw outcome.error
    if (outcome.type === 'stop') throw new McpError({ kind: 'closed' })
    // A result of another type, which middleware hands on.
    const shown = Object.freeze({ resultType: 'input_required', inputRequests: outcome.requests }) as unknown as McpResult
    this.#asked = { shown, outcome }
    return shown
  }

  #unshow (value: McpResult): RequestOutcome<never> {
    if (this.#asked !== undefined && (value.resultType as string) === 'input_required') {
      const { outcome } = this.#asked
      return inputRequired(outcome.requests as InputRequests, outcome.state) as RequestOutcome<never>
    }
    return result(value)
  }

  #failed (error: unknown): RequestOutcome<never> {
    if (error instanceof McpError) return fail(toMcpError(error))
    throw error
  }
}

function compose (middleware: readonly Middleware[], request: McpRequest, channel: Channel, innermost: () => Promise<McpResult>): () => Promise<McpResult> {
  return middleware.reduceRight<() => Promise<McpResult>>((inner, around) => {
    // Called twice it is the same call: what is inside must not run again.
    let once: Promise<McpResult> | undefined
    const next = async (): Promise<McpResult> => {
      once ??= inner()
      return await once
    }
    return async () => await around(request, channel, next)
  }, innermost)
}

function ignore (): void {}
