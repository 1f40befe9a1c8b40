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
  #line = ''
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
    const text = typeof chunk === 'string' ? chunk : this.#decoder.decode(chunk, { stream: true })
    const marked = !this.#begun && text.startsWith(BOM)
    if (text !== '') this.#begun = true
    for (const line of this.#lines(marked ? text.slice(BOM.length) : text)) {
      const event = this.#take(line)
      if (event !== undefined) yield event
    }
  }

  /** The lines that this piece of text completes; the rest of it is kept. */
  * #lines (text: string): Generator<string, void, undefined> {
    const rest = this.#afterReturn && text.startsWith('\n') ? text.slice(1) : text
    // split gives at least one.
    const [first, ...others] = rest.split(/\r\n|\r|\n/) as [string, ...string[]]
    if (text !== '') this.#afterReturn = text.endsWith('\r')
    this.#line += first
    for (const other of others) {
      const line = this.#line
      this.#line = other
      yield line
    }
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
