import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { checkFunction } from './definition.js'
import type { RequestContext } from '../../types/channel.js'
import type { Guarded } from '../../types/providers.js'
import type { Awaitable } from '../../types/schema.js'

/** What all providers have in common. */
export abstract class Provider {
  /** What a cursor and a double registration know it by. */
  abstract readonly key: string
  readonly access: Guarded['access']

  /** Throws MCP_ERR_BAD_PROVIDER for what is no definition. */
  constructor (definition: Guarded & { readonly name?: unknown }) {
    if (typeof definition !== 'object' || definition === null) throw new MCP_ERR_BAD_PROVIDER('A provider', 'must be given a definition')
    const { access, name } = definition
    if (access !== undefined) checkFunction(`The provider ${String(name)}`, 'access', access)
    this.access = access
  }

  /** Whether this caller may know of it. */
  isVisible (context: RequestContext): Awaitable<boolean> {
    return this.access === undefined || isTrue(this.access(context))
  }
}

async function isTrue (answer: Awaitable<boolean>): Promise<boolean> {
  // Only true opens: a forgotten return does not.
  return await answer === true
}
