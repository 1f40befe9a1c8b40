import { gate, within } from '../helpers/sockets.js'
import type { JsonObject, JsonValue } from 'fastify-gen-mcp'

/** How long anything may take to come, in ms. */
export const PATIENCE = 20_000
const MARK = /#(\d+)#/g
const LATE = /"late"/

/** What one request is answered with, held against what it may be as it comes. A client that comes back for the rest reads on in the same one. */
export class Answer {
  readonly #number: number
  readonly problems: string[] = []
  status: number | undefined
  /** The answer has come; at the end of the response, nothing was cut off. */
  answered = false
  whole = false
  /** Nothing more comes. */
  over = false
  events = 0
  /** Responses: one, unless the rest of it was asked for. */
  heads = 0
  eventId: string | undefined
  /** The id of a question of the server's. */
  asked: string | number | undefined
  #progress = 0
  #stream = false
  #text = ''
  #waiting = gate()

  constructor (number: number) {
    this.#number = number
  }

  head (status: number, contentType: string | undefined): void {
    this.status = status
    this.heads++
    this.#stream = contentType?.startsWith('text/event-stream') === true
    this.#text = ''
    this.over = this.whole = false
    this.#wake()
  }

  body (chunk: string): void {
    if (chunk === '') return
    this.#text += chunk
    if (!this.#stream) return
    const blocks = this.#text.split('\n\n')
    // split gives at least one.
    this.#text = blocks.pop() as string
    for (const block of blocks) this.#take(block)
    this.#wake()
  }

  /** The rest of it comes on another response. */
  reopen (): void {
    this.over = false
  }

  /** The response is whole. */
  end (): void {
    this.whole = true
    if (this.#stream && this.#text !== '') this.#problem(`the stream ends in the middle of an event: ${this.#text}`)
    if (!this.#stream && this.#text !== '') this.#parse(this.#text)
    this.cut()
  }

  /** Nothing more comes, whole or not. */
  cut (): void {
    this.over = true
    this.#wake()
  }

  async until (holds: () => boolean, what: string): Promise<void> {
    const deadline = performance.now() + PATIENCE
    while (!holds() && !this.over) await within(this.#waiting.promise, `request ${this.#number}: ${what}`, Math.max(deadline - performance.now(), 1))
  }

  #wake (): void {
    this.#waiting.open()
    this.#waiting = gate()
  }

  #problem (problem: string): void {
    this.problems.push(problem.slice(0, 400))
  }

  #take (block: string): void {
    if (block.startsWith(':')) return
    let data = ''
    for (const line of block.split('\n')) {
      const [, name, value = ''] = /^(id|data|retry): ?(.*)$/.exec(line) ?? []
      if (name === undefined) this.#problem(`not a line of an event: ${line}`)
      if (name === 'id') this.eventId = value
      if (name === 'data') data = value
    }
    this.events++
    if (data !== '') this.#parse(data)
  }

  #parse (json: string): void {
    let message: JsonValue
    try {
      message = JSON.parse(json) as JsonValue
    } catch {
      return this.#problem(`not JSON: ${json}`)
    }
    if (typeof message !== 'object' || message === null || Array.isArray(message)) return this.#problem(`not a message: ${json}`)
    for (const [, number] of json.matchAll(MARK)) if (Number(number) !== this.#number) this.#problem(`it holds what belongs to request ${number}`)
    if (LATE.test(json)) this.#problem('it holds what was sent after an end')
    if (this.answered) this.#problem(`something follows the answer: ${json}`)
    // An array has been refused.
    this.#check(message as JsonObject, json)
  }

  #check (message: JsonObject, json: string): void {
    const { id, method, params } = message
    if (method === undefined) {
      this.answered = true
      // What is refused before it could be read has no id.
      if (id !== this.#number && !((id ?? null) === null && this.status !== 200)) this.#problem(`the answer has another id: ${json}`)
      if ((message['result'] === undefined) === (message['error'] === undefined)) this.#problem(`neither a result nor an error: ${json}`)
      return
    }
    if (id !== undefined) {
      this.asked = id as string | number
      return
    }
    const { progressToken, progress, _meta: meta } = (params ?? {}) as { readonly progressToken?: string, readonly progress?: number, readonly _meta?: JsonObject }
    if (method === 'notifications/progress') return this.#report(progressToken, progress ?? NaN)
    const subscription = meta?.['io.modelcontextprotocol/subscriptionId']
    if (subscription !== undefined && subscription !== this.#number) this.#problem(`it belongs to the listen ${JSON.stringify(subscription)}`)
  }

  #report (token: string | undefined, progress: number): void {
    if (token !== tokenOf(this.#number)) this.#problem(`it reports progress of ${token}`)
    // What the mount reports by itself is below 0.
    if (progress < 0) return
    if (progress !== this.#progress + 1) this.#problem(`progress ${progress} follows ${this.#progress}`)
    this.#progress = progress
  }
}

export function tokenOf (number: number): string {
  return `p${number}`
}
