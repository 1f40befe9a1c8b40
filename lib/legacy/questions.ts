import { randomUUID } from 'node:crypto'
import { isObject } from '../decode/envelope.js'
import { McpError } from '../errors.js'
import type { JsonObject, JsonValue } from '../protocol/index.js'
import type { LegacyVersion } from '../../types/legacy.js'
import type { RequestId } from '../../types/request.js'

/** A question as a result of 2026-07-28 holds it. */
export interface Question { readonly method: string, readonly params?: JsonObject }

/** How questions leave, and what comes of them. */
export interface Asker {
  send (id: RequestId, method: string, params: object): void
  /** Nobody waits for the answer any more. */
  withdraw (id: RequestId): void
  /** All answers, by the keys of their questions; called once, unless `failed` is. */
  answered (answers: JsonObject): void
  failed (error: McpError): void
}

type Waiting = Map<RequestId, (answer: JsonObject) => void>

/** The questions of one round, as requests of the server's to the client, and its answers, posted to whichever replica. */
export class Questions {
  readonly #waiting: Waiting
  readonly #asker: Asker
  readonly #open = new Set<RequestId>()
  readonly #answers: { [key: string]: JsonValue } = {}
  readonly #timer: NodeJS.Timeout

  constructor (requests: Readonly<Record<string, Question>>, version: LegacyVersion, waiting: Waiting, asker: Asker, timeout: number) {
    this.#waiting = waiting
    this.#asker = asker
    this.#timer = setTimeout(() => { this.#expire() }, timeout)
    const asked = Object.entries(requests).map(([key, question]) => {
      // Unique in the session, and across replicas.
      const id = randomUUID()
      this.#open.add(id)
      waiting.set(id, answer => { this.#take(id, key, answer) })
      return { id, question }
    })
    // The whole round first, since an answer may come at once.
    for (const { id, question: { method, params } } of asked) asker.send(id, method, translateQuestion(version, method, params))
  }

  /** Nobody waits any more. */
  end (): void {
    clearTimeout(this.#timer)
    for (const id of this.#open) this.#waiting.delete(id)
    this.#open.clear()
  }

  #take (id: RequestId, key: string, { result, error }: JsonObject): void {
    this.#waiting.delete(id)
    this.#open.delete(id)
    if (!isObject(result)) {
      this.#withdraw()
      const said = isObject(error) && typeof error['message'] === 'string' ? error['message'].slice(0, 500) : 'no reason given'
      return this.#asker.failed(new McpError({ kind: 'internal', message: `The client did not answer "${key}": ${said}` }))
    }
    this.#answers[key] = result
    if (this.#open.size > 0) return
    this.end()
    this.#asker.answered(this.#answers)
  }

  #expire (): void {
    this.#withdraw()
    this.#asker.failed(new McpError({ kind: 'internal', message: 'The client did not answer in time' }))
  }

  #withdraw (): void {
    const open = [...this.#open]
    this.end()
    for (const id of open) this.#asker.withdraw(id)
  }
}

/** The params of a question as the revision has them. */
function translateQuestion (version: LegacyVersion, method: string, params: JsonObject = {}): object {
  if (method !== 'elicitation/create') return params
  if (version === '2025-11-25') return params['mode'] === 'url' ? { ...params, elicitationId: randomUUID() } : params
  // Forms are all there is.
  const { mode: _, ...form } = params
  return form
}
