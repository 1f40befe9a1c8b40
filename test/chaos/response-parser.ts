import type { Answer } from './answer.js'

/** Responses on an HTTP/1.1 connection, each for the request it is in turn for. Bytes that are of none are a problem of the last one. */
export class ResponseParser {
  readonly #current: () => Answer | undefined
  readonly #next: () => void
  #text = ''
  #state: 'head' | 'body' | 'size' | 'chunk' | 'trailer' = 'head'
  /** Of the body, or of a chunk with the end of its line. */
  #left = 0
  /** Whom unexpected bytes are a problem of. */
  #latest: Answer | undefined
  /** The server has said that no other response follows. */
  last = false

  /** `next` is called when a response is whole, before that is told. */
  constructor (current: () => Answer | undefined, next: () => void) {
    this.#current = current
    this.#next = next
  }

  push (chunk: string): void {
    this.#text += chunk
    while (this.#step()) { /* as far as it goes */ }
  }

  /** Whether there may be more to read. */
  #step (): boolean {
    const answer = this.#current()
    if (answer === undefined) {
      if (this.#text !== '') this.#latest?.problems.push(`bytes that nobody asked for: ${JSON.stringify(this.#text.slice(0, 300))}`)
      this.#text = ''
      return false
    }
    this.#latest = answer
    switch (this.#state) {
      case 'head': return this.#head(answer)
      case 'size': return this.#size()
      case 'body': return this.#body(answer)
      case 'chunk': return this.#chunk(answer)
      case 'trailer': return this.#trailer(answer)
    }
  }

  #head (answer: Answer): boolean {
    const end = this.#text.indexOf('\r\n\r\n')
    if (end === -1) return false
    const head = this.#text.slice(0, end)
    this.#text = this.#text.slice(end + 4)
    const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(head) ?? []
    if (status === undefined) {
      answer.problems.push(`not a head: ${JSON.stringify(head.slice(0, 300))}`)
      this.#text = ''
      return false
    }
    const field = (name: string): string | undefined => new RegExp(`\\r\\n${name}: ([^\\r]*)`, 'i').exec(head)?.[1]
    if (/^close$/i.test(field('connection') ?? '')) this.last = true
    answer.head(Number(status), field('content-type'))
    const length = field('content-length')
    if (/chunked/i.test(field('transfer-encoding') ?? '')) {
      this.#state = 'size'
    } else {
      if (length === undefined && status !== '204') answer.problems.push(`a response without a length: ${JSON.stringify(head)}`)
      this.#left = Number(length ?? 0)
      this.#state = 'body'
    }
    return true
  }

  #body (answer: Answer): boolean {
    const part = this.#take(this.#left)
    this.#left -= part.length
    answer.body(part)
    if (this.#left > 0) return false
    this.#whole(answer)
    return true
  }

  #size (): boolean {
    const end = this.#text.indexOf('\r\n')
    if (end === -1) return false
    const size = parseInt(this.#take(end + 2), 16)
    this.#state = size === 0 ? 'trailer' : 'chunk'
    this.#left = size + 2
    if (!Number.isNaN(size)) return true
    this.#latest?.problems.push('not the size of a chunk')
    return false
  }

  #chunk (answer: Answer): boolean {
    const part = this.#take(this.#left)
    this.#left -= part.length
    // The end of its line may come in two parts.
    answer.body(this.#left >= 2 ? part : part.slice(0, Math.max(0, part.length - 2 + this.#left)))
    if (this.#left > 0) return false
    this.#state = 'size'
    return true
  }

  #trailer (answer: Answer): boolean {
    if (this.#text.length < 2) return false
    if (this.#take(2) !== '\r\n') answer.problems.push('a trailer that nobody set')
    this.#whole(answer)
    return true
  }

  #whole (answer: Answer): void {
    this.#state = 'head'
    this.#next()
    answer.end()
  }

  #take (length: number): string {
    const part = this.#text.slice(0, length)
    this.#text = this.#text.slice(length)
    return part
  }
}
