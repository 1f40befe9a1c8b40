import { createHash } from 'node:crypto'
import { McpError } from '../errors.js'
import { badReturn } from '../outcome.js'
import { methods, type InputRequiredResult, type JsonObject, type JsonValue } from '../protocol/index.js'
import { compileTypeBox } from '../schema.js'
import { missingCapabilities } from '../client-capabilities.js'
import { needsOf, readAnswer } from './questions.js'
import type { TokenSealer } from '../../types/channel.js'
import type { InputRequests, InputResponses } from '../../types/input.js'
import type { InputRequiredOutcome } from '../../types/outcome.js'
import type { McpRequest } from '../../types/request.js'
import type { TypeBoxSchema } from '../../types/schema.js'

const PURPOSE = 'requestState'
/** Bytes of JSON: what an author may keep, and what of the client's answers is kept for it. */
const MAX_STATE = 16_384
const MAX_ANSWERS = 65_536

/** What a client brought back: the state it was given, and its answers. */
export interface Retry {
  /** Absent where no state was given. */
  readonly state?: { readonly value: JsonValue }
  /** Answers of earlier rounds, which were in the state. */
  readonly kept: JsonObject
  /** The questions of the last round. */
  readonly asked: readonly string[]
  /** Answers of this round, as the client sent them. */
  readonly given: JsonObject
}

/** What is sealed: a digest of the request, `[state]` or nothing, answers so far, questions of this round. */
type Sealed = readonly [digest: string, state: readonly JsonValue[], kept: JsonObject, asked: readonly string[]]

const NOTHING: Retry = { kept: {}, asked: [], given: {} }

/**
 * What the params of a request bring back, if anything. A state that does not open, or was sealed for another request, throws McpError 'requestState'
 * (2026-07-28, Multi Round-Trip Requests, Security).
 */
export function readRetry (request: McpRequest, params: JsonObject, tokens: () => TokenSealer): Retry | undefined {
  const { requestState, inputResponses } = params
  if ((requestState ?? inputResponses) === undefined || methods[request.method].asks !== true) return undefined
  // The schema of the method has made it an object or null.
  const given = (inputResponses ?? {}) as JsonObject
  if (requestState === undefined) return { ...NOTHING, given }

  const opened = tokens().open(PURPOSE, requestState as string)
  if (!opened.ok) throw new McpError({ kind: 'requestState' })
  // What opens under the package's own purpose was sealed by `seal` below.
  const [digest, state, kept, asked] = opened.value as unknown as Sealed
  if (digest !== digestOf(request)) throw new McpError({ kind: 'requestState' })
  const [value] = state
  return { ...(value !== undefined && { state: { value } }), kept, asked, given }
}

/** The questions of one request to its client, and the answers to earlier ones. */
export class Asking {
  readonly #request: McpRequest
  readonly #tokens: TokenSealer
  readonly #retry: Retry
  /** Answers that have been held against their question, in this round or an earlier one. */
  readonly #answers: Map<string, JsonValue>

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
    const { requests, state } = outcome
    if (methods[this.#request.method].asks !== true) throw badReturn(`The handler of ${this.#request.method}`, outcome)
    const open = Object.entries(requests).filter(([key]) => !this.#isAnswered(requests, key))
    for (const [key, question] of open) {
      const needs = needsOf(question)
      if (needs === undefined) throw new TypeError(`inputRequired was given "${key}", which no function of this package made`)
      const missing = missingCapabilities(this.#request.meta.clientCapabilities, needs)
      if (missing !== undefined) throw new McpError({ kind: 'missingClientCapability', required: missing })
    }
    return {
      resultType: 'input_required',
      ...(open.length > 0 && { inputRequests: Object.fromEntries(open.map(([key, { method, params }]) => [key, { method, params }])) }),
      requestState: this.#seal(state, open.map(([key]) => key))
    }
  }

  #isAnswered (requests: InputRequests, key: string): boolean {
    const question = requests[key]
    if (question === undefined) return false
    const { given } = this.#retry
    // A new answer to a question that was answered before replaces the old one; one that is none leaves it.
    const answer = readAnswer(question, Object.hasOwn(given, key) ? given[key] : undefined) ?? readAnswer(question, this.#answers.get(key))
    if (answer !== undefined) this.#answers.set(key, answer)
    return answer !== undefined
  }

  #seal (state: unknown, asked: readonly string[]): string {
    const text = state === undefined ? '' : JSON.stringify(state)
    if (text === undefined || Buffer.byteLength(text) > MAX_STATE) throw new RangeError(`The state of inputRequired must be JSON of at most ${MAX_STATE} bytes`)
    const { given } = this.#retry
    // What was asked, was answered, and has not been looked at yet is for a later round.
    const unread = this.#retry.asked.filter(key => Object.hasOwn(given, key) && !this.#answers.has(key) && !asked.includes(key))
    const kept = Object.fromEntries([...this.#answers, ...unread.map(key => [key, given[key]] as const)]) as JsonObject
    if (Buffer.byteLength(JSON.stringify(kept)) > MAX_ANSWERS) {
      throw new McpError({ kind: 'invalidParams', message: `The answers are larger than the ${MAX_ANSWERS} bytes that can be kept for the next round` })
    }
    const sealed: Sealed = [digestOf(this.#request), text === '' ? [] : [state as JsonValue], kept, asked]
    return this.#tokens.seal(PURPOSE, sealed)
  }
}

/** What a state is bound to beside its principal: the method, and the params as sent, but for what differs from round to round. */
function digestOf ({ method, params }: McpRequest): string {
  return createHash('sha256').update(`${method} ${canonical(params as unknown as JsonValue)}`).digest('base64url')
}

/** One text for each value: keys in order, and numbers that JSON has no text for, such as 1e400, as JavaScript writes them. */
function canonical (value: JsonValue | undefined): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const object = value as JsonObject
  return `{${Object.keys(object).sort().map(key => `${JSON.stringify(key)}:${canonical(object[key])}`).join()}}`
}
