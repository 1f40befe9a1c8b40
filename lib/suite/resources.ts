import { MCP_ERR_BAD_PROVIDER, McpError } from '../errors.js'
import { isOutcome, result } from '../outcome.js'
import {
  Resource as ResourceSchema, ResourceTemplate as ResourceTemplateSchema, type JsonValue, type ReadResourceResult, type Resource, type ResourceTemplate
} from '../protocol/index.js'
import { watchCaller } from './caller.js'
import { checkDefinition, checkFunction, flawOfListed } from './definition.js'
import { leaveOut, type ListSource } from './listing.js'
import { Provider } from './provider.js'
import { checkResult } from './results.js'
import { normalizeUri, traverses, UriTemplate, type Vars } from './template.js'
import type { Catalog } from './catalog.js'
import type { Throttle } from './throttle.js'
import type { Channel, RequestContext } from '../../types/channel.js'
import type { RequestOutcome } from '../../types/outcome.js'
import type { Completer, Page, ResourceProvider, ResourcesDefinition } from '../../types/providers.js'

type AnyDefinition = ResourcesDefinition<string>
export type ReadAnswer = RequestOutcome<never, 'resources/read'>

/**
 * Resources under one prefix. With a template the variables of a URI are read from it, decoded once; without one every URI that begins with the prefix is
 * read. What makes no sense throws MCP_ERR_BAD_PROVIDER.
 */
export function defineResources<T extends string = ''> (definition: ResourcesDefinition<T>): ResourceProvider {
  // The template, which the type of the variables comes from, is what they are read by.
  return new ResourcesEntry(definition as unknown as AnyDefinition) as unknown as ResourceProvider
}

/** The resources under one prefix: how they are listed, found and read. */
export class ResourcesEntry extends Provider {
  readonly key: string
  readonly template: ResourceTemplate | undefined
  readonly variables: readonly string[]
  readonly #definition: AnyDefinition
  readonly #prefix: string
  readonly #uriTemplate: UriTemplate | undefined

  constructor (definition: AnyDefinition) {
    super(definition)
    const { template, prefix = template?.uriTemplate.split('{', 1)[0] } = definition
    if (typeof prefix !== 'string' || prefix === '') throw new MCP_ERR_BAD_PROVIDER('defineResources', 'was given neither a prefix nor a template that begins with one')
    const owner = `The resources under ${prefix}`
    checkFunction(owner, 'read', definition.read)
    const normal = normalizeUri(prefix)
    if (normal === undefined) throw new MCP_ERR_BAD_PROVIDER(owner, 'have a prefix that is no beginning of an absolute URI')
    this.#definition = definition
    this.#prefix = normal
    this.#uriTemplate = template && new UriTemplate(template.uriTemplate)
    // One of the two may say more than the other, but not something else: nothing would ever fit both.
    const begin = this.#uriTemplate?.prefix ?? normal
    if (!begin.startsWith(normal) && !normal.startsWith(begin)) throw new MCP_ERR_BAD_PROVIDER(owner, `have a template that begins otherwise: ${begin}`)
    this.variables = this.#uriTemplate?.names ?? []
    this.template = template && Object.freeze({ ...template })
    this.key = template === undefined ? prefix : template.uriTemplate
    if (this.template !== undefined) checkDefinition(owner, ResourceTemplateSchema, this.template)
    const stranger = Object.keys(definition.complete ?? {}).find(name => !this.variables.includes(name))
    if (stranger !== undefined) throw new MCP_ERR_BAD_PROVIDER(owner, `complete the variable ${stranger}, which their template does not have`)
  }

  completer (variable: string): Completer | undefined {
    const { complete } = this.#definition as { complete?: Readonly<Record<string, Completer>> }
    return complete !== undefined && Object.hasOwn(complete, variable) ? complete[variable] : undefined
  }

  get completes (): boolean {
    return this.#definition.complete !== undefined
  }

  source (context: RequestContext, told: Throttle): ListSource<Resource> {
    return { key: this.key, asks: this.#definition.list !== undefined, list: async cursor => await this.#list(cursor, context, told) }
  }

  async #list (cursor: JsonValue | undefined, context: RequestContext, told: Throttle): Promise<Page<Resource>> {
    const page = await this.#definition.list?.(cursor, context) ?? { items: [] }
    return leaveOut(page, `The resources under ${this.#prefix}`, flawOfResource, context, told)
  }

  /** The variables of a URI in its normal form that is one of these; undefined if it is not. */
  match (normal: string): Vars | undefined {
    if (!normal.startsWith(this.#prefix)) return undefined
    return this.#uriTemplate === undefined ? {} : this.#uriTemplate.match(normal)
  }

  /** Whether a URI in its normal form is above all of these: what lies below it may be one. */
  begins (normal: string): boolean {
    return this.#prefix.startsWith(normal)
  }

  /** `personal`: who asks has decided on what is read. */
  async read (uri: string, vars: Vars, channel: Channel, personal: boolean): Promise<ReadAnswer> {
    const { context, looked } = watchCaller(channel)
    // The variables are those of the template that their type was made from.
    const outcome = await this.#definition.read({ uri, vars: vars as never }, context)
    if (outcome === null) throw new McpError({ kind: 'resourceNotFound', uri })
    if (isOutcome(outcome) && (outcome.type === 'error' || outcome.type === 'inputRequired')) return outcome
    const read: unknown = isOutcome(outcome) && outcome.type === 'result' ? outcome.result : outcome
    checkResult(`The resources under ${this.#prefix}: read`, 'resources/read', read, outcome)
    return result(personal || looked() ? toPrivate(read as ReadResourceResult) : read as ReadResourceResult)
  }
}

/** The provider of a URI, what its template reads from it, and whether who asks has decided on that. */
export interface FoundResource { readonly entry: ResourcesEntry, readonly vars: Vars, readonly personal: boolean }

/** Finds the resource of a URI, or throws McpError 'resourceNotFound': the same for what is not there and what this caller may not see. */
export async function findResource (catalog: Catalog<ResourcesEntry>, uri: string, context: RequestContext): Promise<FoundResource> {
  const normal = normalizeUri(uri)
  if (normal !== undefined && !traverses(uri)) {
    const fits = (entry: ResourcesEntry): boolean => entry.match(normal) !== undefined
    const entry = await catalog.search(fits, context)
    const vars = entry?.match(normal)
    if (entry !== undefined && vars !== undefined) return { entry, vars, personal: catalog.isPersonal(entry, fits) }
  }
  throw new McpError({ kind: 'resourceNotFound', uri })
}

function flawOfResource (resource: Resource): string | undefined {
  const flaw = flawOfListed(ResourceSchema, resource)
  return flaw === undefined && normalizeUri(resource.uri) === undefined ? `has the uri ${JSON.stringify(resource.uri)}, which is no absolute URI` : flaw
}

/** What depends on the caller is for no other's cache, whatever the author asked (2026-07-28, Caching, Security). */
function toPrivate<R extends { readonly cacheScope: 'public' | 'private' }> (result: R): R {
  return result.cacheScope === 'private' ? result : { ...result, cacheScope: 'private' }
}
