import { createHash } from 'node:crypto'
import { McpError } from '../errors.js'
import { badReturn } from '../outcome.js'
import { methods, type InputRequiredResult, type JsonObject, type JsonValue } from '../protocol/index.js'
import { compileTypeBox } from '../schema.js'
import { missingCapabilities } from './client-capabilities.js'
import { answers, needsOf } from './questions.js'
import type { TokenSealer } from '../../types/channel.js'
import type { InputRequests, InputResponses } from '../../types/input.js'
import type { InputRequiredOutcome } from '../../types/outcome.js'
import type { McpMethod, McpRequest } from '../../types/request.js'
import type { TypeBoxSchema } from '../../types/schema.js'

const PURPOSE = 'requestState'
/** bytes of JSON */
const MAX_STATE = 16_384

/** What a client brought back: the state it was given, and its answers. */
export interface Retry {
  /** Absent on a first call. */
  readonly state?: { readonly value: JsonValue }
  /** Answers of earlier rounds, which were in the state. */
  readonly kept: JsonObject
  /** Answers of this round, as the client sent them. */
  readonly given: JsonObject
}

/** What is sealed: `[digest of the request, state, responses so far]`. */
type Sealed = readonly [digest: string, state: JsonValue, responses: JsonObject]

const NOTHING: Retry = { kept: {}, given: {} }

/**
 * What the params of a request bring back, if anything. A state that does not open, or was sealed for another request, throws McpError 'requestState'
 * (2026-07-28, Multi Round-Trip Requests, Security).
 */
export function readRetry (request: McpRequest, params: JsonObject, tokens: () => TokenSealer): Retry | undefined {
  const { requestState, inputResponses } = params
  if ((requestState ?? inputResponses) === undefined || methods[request.method].asks !== true) return undefined
  // The schema of the method has made it an object or null.
  const given = (inputResponses ?? {}) as JsonObject
  if (requestState === undefined) return { kept: {}, given }

  const opened = tokens().open(PURPOSE, requestState as string)
  if (!opened.ok) throw new McpError({ kind: 'requestState' })
  // What opened under this purpose was sealed by `seal` below.
  const [digest, value, kept] = opened.value as unknown as Sealed
  if (digest !== digestOf(request)) throw new McpError({ kind: 'requestState' })
  return { state: { value }, kept, given }
}

/** The questions of one request to its client, and the answers to earlier ones. */
export class Asking {
  readonly #request: McpRequest
  readonly #tokens: TokenSealer
  readonly #retry: Retry
  /** Answers that have been held against their question, in this round or an earlier one. */
  readonly #answers: Map<string, JsonValue | undefined>

  constructor (request: McpRequest, tokens: TokenSealer, retry: Retry = NOTHING) {
    this.#request = request
    this.#tokens = tokens
    this.#retry = retry
    this.#answers = new Map(Object.entries(retry.kept))
  }

  inputResponses<Q extends InputRequests> (requests: Q): InputResponses<Q> | undefined {
    const keys = Object.keys(requests)
    if (!keys.every(key => this.#isAnswered(requests, key))) return undefined
    // Each response has been held against its question.
    return Object.fromEntries(keys.map(key => [key, this.#answers.get(key)])) as unknown as InputResponses<Q>
  }

  requestState<T> (schema: TypeBoxSchema<T>): T | undefined {
    const { state } = this.#retry
    if (state === undefined) return undefined
    if (!compileTypeBox(schema).Check(state.value)) throw new McpError({ kind: 'requestState' })
    // Checked on the line above.
    return state.value as T
  }

  /** The answer that asks what is still open, or just to call again. Throws where the method or the client does not allow it. */
  result (outcome: InputRequiredOutcome): InputRequiredResult {
    if (methods[this.#request.method as McpMethod].asks !== true) throw badReturn(`The handler of ${this.#request.method}`, outcome)
    const open = Object.entries(outcome.requests).filter(([key]) => !this.#isAnswered(outcome.requests, key))
    for (const [key, question] of open) {
      const needs = needsOf(question)
      if (needs === undefined) throw new TypeError(`inputRequired was given "${key}", which no function of this package made`)
      const missing = missingCapabilities(this.#request.meta.clientCapabilities, needs)
      if (missing !== undefined) throw new McpError({ kind: 'missingClientCapability', required: missing })
    }
    return {
      resultType: 'input_required',
      ...(open.length > 0 && { inputRequests: Object.fromEntries(open.map(([key, { method, params }]) => [key, { method, params }])) }),
      requestState: this.#seal(outcome.state)
    }
  }

  #isAnswered (requests: InputRequests, key: string): boolean {
    const question = requests[key]
    if (question === undefined) return false
    const { given } = this.#retry
    // A new answer to a question that was answered before replaces the old one.
    if (Object.hasOwn(given, key) && answers(question, given[key])) this.#answers.set(key, given[key])
    return this.#answers.has(key) && answers(question, this.#answers.get(key))
  }

  #seal (state: unknown): string {
    const text = JSON.stringify(state ?? null)
    if (text === undefined || Buffer.byteLength(text) > MAX_STATE) throw new RangeError(`The state of inputRequired must be JSON of at most ${MAX_STATE} bytes`)
    return this.#tokens.seal(PURPOSE, [digestOf(this.#request), state ?? null, Object.fromEntries(this.#answers)])
  }
}

/** What a state is bound to beside its principal: the method, and the params as sent, but for what differs from round to round. */
function digestOf ({ method, params }: McpRequest): string {
  return createHash('sha256').update(JSON.stringify([method, canonical(params as unknown as JsonValue)])).digest('base64url')
}

/** The same value with its keys in order, so that another client library's order gives the same digest. */
function canonical (value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(canonical)
  if (typeof value !== 'object' || value === null) return value
  const object = value as JsonObject
  return Object.fromEntries(Object.keys(object).sort().map(key => [key, canonical(object[key] as JsonValue)]))
}
