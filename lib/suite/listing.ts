import { McpError } from '../errors.js'
import { shorten } from './arguments.js'
import type { Throttle } from './throttle.js'
import type { JsonValue } from '../protocol/index.js'
import type { RequestContext } from '../../types/channel.js'
import type { Page } from '../../types/providers.js'
import type { Awaitable } from '../../types/schema.js'

/** Where the entries of a list come from: a provider, with what it calls its pages. */
export interface ListSource<T> {
  readonly key: string
  /** Its entries come from an author's function, which may look at who asks. */
  readonly asks?: boolean
  list (cursor: JsonValue | undefined): Awaitable<Page<T>>
}

export interface Listed<T> { readonly items: readonly T[], readonly nextCursor: string | undefined }

/** Where a page begins: in which provider, at which of its own cursors, after which entry. Keys, so that a change of the providers cannot shift it. */
type Position = readonly [key: string, cursor: JsonValue, after: string | null]

/** Pages of providers that go into one of ours before the client is asked to come again: they may all be empty. */
const MAX_PAGES = 100

/**
 * One page of a list over several providers. A page that comes out empty does not end the list. A cursor that does not open, is another caller's or another
 * list's, or points at what is gone throws McpError 'cursor', and the client begins again (2026-07-28, Pagination).
 */
export async function listPage<T> (
  sources: readonly ListSource<T>[], idOf: (item: T) => string, { request, tokens }: RequestContext, cursor: string | undefined, pageSize: number
): Promise<Listed<T>> {
  const purpose = `cursor ${request.method}`
  const [key, inner, after] = cursor === undefined ? [undefined, null, null] : openCursor(tokens, purpose, cursor)
  const begin = key === undefined ? 0 : sources.findIndex(source => source.key === key)
  if (begin === -1) throw new McpError({ kind: 'cursor' })

  const walk = new Walk<T>(sources, idOf, pageSize)
  const next = await walk.from(begin, inner, after)
  return { items: walk.items, nextCursor: next && tokens.seal(purpose, next) }
}

function openCursor (tokens: RequestContext['tokens'], purpose: string, cursor: string): Position {
  const opened = tokens.open(purpose, cursor)
  if (!opened.ok) throw new McpError({ kind: 'cursor' })
  // What opens under this purpose was sealed above.
  return opened.value as unknown as Position
}

/** A page as a store gave it, without the entries that no client could take: for one of them a client would refuse the whole list. The log tells of each. */
export function leaveOut<T> (page: Page<T>, list: string, flawOf: (item: T) => string | undefined, { log }: RequestContext, told: Throttle): Page<T> {
  const items = page.items.filter(item => {
    const flaw = flawOf(item)
    if (flaw === undefined) return true
    const entry = nameOf(item)
    if (told.allows(`${list} ${entry}`)) log.error({ mcp: { list, entry, flaw: shorten(flaw) } }, 'an entry of a list was left out')
    return false
  })
  return items.length === page.items.length ? page : { ...page, items }
}

/** What an entry is known by, whatever it is. */
function nameOf (item: unknown): string {
  if (typeof item !== 'object' || item === null) return shorten(String(item))
  const { uri, name } = item as { readonly uri?: unknown, readonly name?: unknown }
  const known = [uri, name].find(value => typeof value === 'string')
  return known === undefined ? 'an entry without a name' : shorten(known as string)
}

class Walk<T> {
  readonly #sources: readonly ListSource<T>[]
  readonly #idOf: (item: T) => string
  readonly #pageSize: number
  readonly items: T[] = []
  #pages = 0

  constructor (sources: readonly ListSource<T>[], idOf: (item: T) => string, pageSize: number) {
    this.#sources = sources
    this.#idOf = idOf
    this.#pageSize = pageSize
  }

  /** Gathers a page; gives where the next one begins, if there is one. */
  async from (begin: number, inner: JsonValue, after: string | null): Promise<Position | undefined> {
    for (let index = begin; index < this.#sources.length; index++) {
      const source = this.#sources[index] as ListSource<T>
      if (this.#isFull) return [source.key, null, null]
      const next = index === begin ? await this.#take(source, inner, after) : await this.#take(source, null, null)
      if (next !== undefined) return next
    }
    return undefined
  }

  get #isFull (): boolean {
    return this.items.length >= this.#pageSize
  }

  async #take (source: ListSource<T>, begin: JsonValue, beginAfter: string | null): Promise<Position | undefined> {
    let after = beginAfter
    let inner = begin
    do {
      const { items: given, nextCursor } = await source.list(inner ?? undefined)
      const items = this.#once(given)
      const rest = after === null ? items : this.#after(items, after)
      after = null
      const taken = rest.slice(0, this.#pageSize - this.items.length)
      this.items.push(...taken)
      if (taken.length < rest.length) return [source.key, inner, this.#idOf(taken.at(-1) as T)]
      // A store's null says the same as none.
      inner = nextCursor ?? null
      if (inner !== null && this.#isEnough()) return [source.key, inner, null]
    } while (inner !== null)
    return undefined
  }

  /** Whether the client is asked to come again, after a page of a provider that has more. */
  #isEnough (): boolean {
    // Without a page size a provider that pages has its own idea of a page.
    return this.#isFull || (this.#pageSize === Infinity && this.items.length > 0) || ++this.#pages >= MAX_PAGES
  }

  /** The first of each name: a cursor that names one of two would never get past them. */
  #once (items: readonly T[]): readonly T[] {
    const names = new Set<string>()
    return items.filter(item => names.size < names.add(this.#idOf(item)).size)
  }

  #after (items: readonly T[], id: string): readonly T[] {
    const at = items.findIndex(item => this.#idOf(item) === id)
    if (at === -1) throw new McpError({ kind: 'cursor' })
    return items.slice(at + 1)
  }
}
