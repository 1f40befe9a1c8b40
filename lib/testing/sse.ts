import type { JsonValue } from '../protocol/index.js'

/** One event of an SSE body. */
export interface SseEvent {
  /** `message`, unless the event names another. */
  readonly event: string
  /** That of the event itself, not of an earlier one. */
  readonly id?: string
  readonly data: JsonValue
}

const BOM = '\uFEFF'

/** The events of an SSE body, their data parsed as JSON. Data that is no JSON makes the iteration throw. */
export async function * readSse (body: AsyncIterable<string | Uint8Array>): AsyncGenerator<SseEvent, void, undefined> {
  const parser = new SseParser()
  for await (const chunk of body) yield * parser.push(chunk)
}

/** Takes an SSE body in pieces, cut anywhere (WHATWG HTML, Server-sent events, Interpreting an event stream). */
export class SseParser {
  // The mark is kept, so that a body of strings and one of bytes are treated alike.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #onComment: () => void
  #text = ''
  #begun = false
  /** The last line ended with CR: a LF that follows belongs to it. */
  #afterReturn = false
  #data: string[] = []
  #event = ''
  #id: string | undefined

  constructor (onComment: () => void = () => {}) {
    this.#onComment = onComment
  }

  /** The events that this piece completes. */
  * push (chunk: string | Uint8Array): Generator<SseEvent, void, undefined> {
    this.#text += typeof chunk === 'string' ? chunk : this.#decoder.decode(chunk, { stream: true })
    if (!this.#begun && this.#text !== '') {
      this.#begun = true
      if (this.#text.startsWith(BOM)) this.#text = this.#text.slice(BOM.length)
    }
    for (const line of this.#lines()) {
      const event = this.#take(line)
      if (event !== undefined) yield event
    }
  }

  #lines (): string[] {
    const lines = []
    let from = 0
    for (let at = 0; at < this.#text.length; at++) {
      const character = this.#text[at]
      if (character === '\n' && this.#afterReturn) from = at + 1
      else if (character === '\n' || character === '\r') {
        lines.push(this.#text.slice(from, at))
        from = at + 1
      }
      this.#afterReturn = character === '\r'
    }
    this.#text = this.#text.slice(from)
    return lines
  }

  #take (line: string): SseEvent | undefined {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) {
      this.#onComment()
      return undefined
    }
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.#id = value
    return undefined
  }

  #dispatch (): SseEvent | undefined {
    const data = this.#data.join('\n')
    const head = { event: this.#event === '' ? 'message' : this.#event, ...(this.#id !== undefined && { id: this.#id }) }
    this.#data = []
    this.#event = ''
    this.#id = undefined
    return data === '' ? undefined : { ...head, data: parse(data) }
  }
}

function parse (data: string): JsonValue {
  try {
    // JSON.parse gives nothing but JSON.
    return JSON.parse(data) as JsonValue
  } catch (cause) {
    throw new SyntaxError(`The data of an SSE event is no JSON: ${data.slice(0, 100)}`, { cause })
  }
}
