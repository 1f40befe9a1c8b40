import { declaresExtension } from '../client-capabilities.js'
import { createDeferred } from '../deferred.js'
import { McpError } from '../errors.js'
import { badReturn, fail, inputRequired, isOutcome, result } from '../outcome.js'
import { checkResult } from './results.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Channel } from '../../types/channel.js'
import type { InputRequests } from '../../types/input.js'
import type { InputRequiredOutcome, RequestOutcome } from '../../types/outcome.js'
import type { Middleware } from '../../types/providers.js'
import type { McpRequest, McpResult } from '../../types/request.js'
import type { CallToolResult } from '../../types/results.js'
import type { Awaitable } from '../../types/schema.js'

/** Posted to a stream when its middleware has said what it says: a message that the Suite sends itself. */
export const SETTLED = Symbol('settled')

/** What a request is answered by; a tool holds what middleware makes of its result to its promise. */
export interface Work {
  readonly run: () => Awaitable<RequestOutcome<unknown>>
  readonly tool?: { hold (given: CallToolResult, log: FastifyBaseLogger): CallToolResult }
}

/** What middleware is around: a request, what it is sent through, what answers it, and the extensions that its answer may be of. */
export interface Inside {
  readonly request: McpRequest
  readonly channel: Channel
  readonly work: Work
  readonly extensions: readonly string[]
}

/** What the builders add, for middleware that does without them. */
const LEFT_OUT = { resultType: 'complete', cacheScope: 'private', ttlMs: 0 }

/** One request inside its middleware. The innermost may open a stream; its final answer then goes through `finish`. */
export class Around {
  readonly #answer = createDeferred<McpResult>()
  readonly #opened = createDeferred<unknown>()
  /** What middleware sees instead of a question to the client, and the question itself. */
  #asked: { readonly shown: McpResult, readonly outcome: InputRequiredOutcome } | undefined
  /** What the middleware says in the end; rejects with what it threw that is no McpError. */
  readonly outcome: Promise<RequestOutcome<never>>
  readonly #inside: Inside
  /** The innermost result. */
  #given: McpResult | undefined
  #isSettled = false

  constructor (middleware: readonly Middleware[], inside: Inside) {
    const { request, channel, work } = inside
    this.#inside = inside
    // Whoever does not call next, or does not wait for it, leaves these without a handler.
    this.#answer.promise.catch(ignore)
    const innermost = async (): Promise<McpResult> => {
      const outcome = await work.run()
      if (outcome.type !== 'stream') return this.#show(outcome)
      this.#opened.resolve(outcome.state)
      return await this.#answer.promise
    }
    this.outcome = compose(middleware, request, channel, innermost)().then(value => this.#unshow(value), error => this.#failed(error))
    this.whenSettled(() => { this.#isSettled = true })
  }

  /** The middleware has said what it says. */
  get isSettled (): boolean {
    return this.#isSettled
  }

  /** Resolves with the state of the stream that the innermost has opened, or with nothing when the middleware has had its say without one. */
  async first (): Promise<{ readonly live: unknown } | undefined> {
    return await Promise.race([this.outcome.then(toNothing, toNothing), this.#opened.promise.then(live => ({ live }))])
  }

  whenSettled (then: () => void): void {
    this.outcome.then(then, then)
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
    await this.outcome.catch(ignore)
  }

  #show (outcome: Exclude<RequestOutcome<unknown>, { type: 'stream' }>): McpResult {
    if (outcome.type === 'result') {
      this.#given = outcome.result
      return outcome.result
    }
    if (outcome.type === 'error') throw outcome.error
    // A result of another type, which middleware hands on.
    const shown = Object.freeze({ resultType: 'input_required', inputRequests: outcome.requests }) as unknown as McpResult
    this.#asked = { shown, outcome }
    return shown
  }

  #unshow (value: McpResult): RequestOutcome<never> {
    if (typeof value !== 'object' || value === null || isOutcome(value)) throw badReturn('A middleware', value)
    if (this.#asked !== undefined && (value.resultType as string) === 'input_required') {
      const { outcome } = this.#asked
      return inputRequired(outcome.requests as InputRequests, outcome.state) as RequestOutcome<never>
    }
    // Where it was given what nobody can change, and gives that, there is nothing to look at again.
    return result(value === this.#given && Object.isFrozen(value) ? value : this.#hold(value))
  }

  /** What middleware made, held to what the method answers. Another type of result is an extension's, for who has declared one that we have. */
  #hold (value: McpResult): McpResult {
    const { request: { method, meta: { clientCapabilities } }, channel, work, extensions } = this.#inside
    const whole = { ...LEFT_OUT, ...value }
    if (whole.resultType === 'complete') {
      checkResult('A middleware', method, whole, value)
      return work.tool?.hold(value as CallToolResult, channel.log) ?? value
    }
    if (!extensions.some(extension => declaresExtension(clientCapabilities, extension))) throw badReturn('A middleware', value)
    return value
  }

  #failed (error: unknown): RequestOutcome<never> {
    if (error instanceof McpError) return fail(error)
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

function toNothing (): undefined {
  return undefined
}
