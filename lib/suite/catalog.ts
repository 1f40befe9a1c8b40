import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import type { Provider } from './provider.js'
import type { RequestContext } from '../../types/channel.js'
import type { Awaitable } from '../../types/schema.js'

/** Providers found for one request. */
export type Found<P> = (context: RequestContext) => Awaitable<readonly P[]>

/** The providers of one kind: those of the Suite, then those that extensions find for a request. The first of a key wins. */
export class Catalog<P extends Provider> {
  readonly #own = new Map<string, P>()
  readonly #found: readonly Found<P>[]
  /** Grows with each provider that comes or goes. */
  revision = 0

  /** Throws MCP_ERR_BAD_PROVIDER for two of one key. */
  constructor (own: readonly P[], found: readonly Found<P>[]) {
    this.#found = found
    for (const provider of own) this.add(provider)
  }

  get own (): readonly P[] {
    return [...this.#own.values()]
  }

  /** Nothing in it depends on who asks. */
  get isPublic (): boolean {
    return this.#found.length === 0 && this.own.every(({ access }) => access === undefined)
  }

  add (provider: P): void {
    if (this.#own.has(provider.key)) throw new MCP_ERR_BAD_PROVIDER(`The provider ${provider.key}`, 'is there already')
    this.#own.set(provider.key, provider)
    this.revision++
  }

  remove (provider: P): boolean {
    if (this.#own.get(provider.key) !== provider) return false
    this.revision++
    return this.#own.delete(provider.key)
  }

  /** The first visible provider of a key; at once where nobody has to be asked. */
  find (key: string, context: RequestContext): Awaitable<P | undefined> {
    const own = this.#own.get(key)
    return own !== undefined && own.access === undefined ? own : this.#ask(own, key, context)
  }

  async #ask (own: P | undefined, key: string, context: RequestContext): Promise<P | undefined> {
    if (own !== undefined && await own.isVisible(context)) return own
    return await this.#search(this.#found, provider => provider.key === key, context)
  }

  /** The first visible provider that fits; extensions are asked one by one, and only as far as needed. */
  async search (fits: (provider: P) => boolean, context: RequestContext): Promise<P | undefined> {
    return await this.#search([() => this.own, ...this.#found], fits, context)
  }

  /** Whether another caller may find another one than this, or none: an extension found it, or access was asked on the way to it. */
  isPersonal (found: P, fits: (provider: P) => boolean): boolean {
    const own = this.own
    const at = own.indexOf(found)
    return at === -1 || own.slice(0, at + 1).some(provider => provider.access !== undefined && fits(provider))
  }

  async #search (found: readonly Found<P>[], fits: (provider: P) => boolean, context: RequestContext): Promise<P | undefined> {
    for (const find of found) {
      for (const provider of await find(context)) {
        if (fits(provider) && await provider.isVisible(context)) return provider
      }
    }
    return undefined
  }

  /** All visible providers, in order. */
  async visible (context: RequestContext): Promise<readonly P[]> {
    // Where nothing depends on the caller nobody has to be asked.
    if (this.isPublic) return this.own
    const visible = new Map<string, P>()
    for (const find of [() => this.own, ...this.#found]) {
      for (const provider of await find(context)) {
        if (!visible.has(provider.key) && await provider.isVisible(context)) visible.set(provider.key, provider)
      }
    }
    return [...visible.values()]
  }
}
