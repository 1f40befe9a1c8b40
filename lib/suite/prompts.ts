import { MCP_ERR_BAD_PROVIDER, McpError } from '../errors.js'
import { isOutcome, result } from '../outcome.js'
import {
  Prompt as PromptSchema, type EmbeddedResource, type GetPromptResult, type JsonObject, type JsonSchema, type JsonValue, type Prompt, type PromptArgument, type PromptMessage
} from '../protocol/index.js'
import { Arguments } from './arguments.js'
import { checkDefinition, checkFunction, checkName, flawOfListed, pick } from './definition.js'
import { isSchema } from '../json-schema.js'
import { leaveOut, type ListSource } from './listing.js'
import { Provider } from './provider.js'
import { checkResult } from './results.js'
import type { Catalog } from './catalog.js'
import type { Throttle } from './throttle.js'
import type { Channel, RequestContext } from '../../types/channel.js'
import type { RequestOutcome } from '../../types/outcome.js'
import type { Completer, Page, PromptDefinition, PromptProvider, PromptsDefinition } from '../../types/providers.js'

type AnyDefinition = PromptDefinition<unknown>
type Sent = Readonly<Record<string, string>>
export type PromptAnswer = RequestOutcome<never, 'prompts/get'>

/** One prompt, with the types of its arguments inferred. What makes no sense throws MCP_ERR_BAD_PROVIDER. */
export function definePrompt<Args = Readonly<Record<string, string>>> (definition: PromptDefinition<Args>): PromptProvider {
  // The entry holds what clients send against the schema that the type was made from.
  return new PromptEntry(definition as unknown as AnyDefinition) as unknown as PromptProvider
}

/** The prompts under one prefix, from a store. */
export function definePrompts (definition: PromptsDefinition): PromptProvider {
  return new PromptsEntry(definition) as unknown as PromptProvider
}

/** One prompt, or those of a store: how they are listed and got. */
export abstract class AnyPrompt extends Provider {
  abstract source (context: RequestContext, told: Throttle): ListSource<Prompt>
  abstract has (name: string): boolean
  abstract get (name: string, sent: Sent, channel: Channel): Promise<PromptAnswer>
  /** The completer of an argument; null for an argument that there is not. */
  abstract completer (argument: string): Completer | undefined | null
  abstract readonly completes: boolean
}

class PromptEntry extends AnyPrompt {
  readonly key: string
  readonly completes: boolean
  readonly #definition: AnyDefinition
  readonly #arguments: Arguments | undefined
  readonly #prompt: Prompt

  constructor (definition: AnyDefinition) {
    super(definition)
    checkName('A prompt', definition.name)
    const owner = `The prompt ${definition.name}`
    checkFunction(owner, 'get', definition.get)
    this.key = definition.name
    this.completes = definition.complete !== undefined
    this.#definition = definition
    this.#arguments = definition.arguments && new Arguments(owner, definition.arguments)
    if (this.#arguments !== undefined && this.#arguments.schema['type'] !== 'object') throw new MCP_ERR_BAD_PROVIDER(owner, 'has arguments that are no object')
    this.#prompt = Object.freeze({
      ...pick(definition, 'name', 'title', 'description', 'icons', '_meta'),
      ...this.#arguments !== undefined && { arguments: listArguments(owner, this.#arguments.schema) }
    })
    checkDefinition(owner, PromptSchema, this.#prompt)
    const stranger = Object.keys(definition.complete ?? {}).find(name => this.completer(name) === null)
    if (stranger !== undefined) throw new MCP_ERR_BAD_PROVIDER(owner, `completes the argument ${stranger}, which it does not have`)
  }

  source (): ListSource<Prompt> {
    return { key: this.key, list: () => ({ items: [this.#prompt] }) }
  }

  has (name: string): boolean {
    return name === this.key
  }

  completer (argument: string): Completer | undefined | null {
    const { complete } = this.#definition as { complete?: Readonly<Record<string, Completer>> }
    if (this.#prompt.arguments !== undefined && !this.#prompt.arguments.some(({ name }) => name === argument)) return null
    return complete !== undefined && Object.hasOwn(complete, argument) ? complete[argument] : undefined
  }

  async get (_name: string, sent: Sent, channel: Channel): Promise<PromptAnswer> {
    const read = this.#arguments === undefined ? { ok: true as const, value: sent } : await this.#arguments.read(sent)
    if (!read.ok) throw new McpError({ kind: 'invalidParams', issues: read.issues.map(({ path, message }) => ({ path: `arguments${path}`, message })) })
    return toOutcome(await this.#definition.get(read.value, channel), this.key)
  }
}

class PromptsEntry extends AnyPrompt {
  readonly key: string
  readonly completes = false
  readonly #definition: PromptsDefinition

  constructor (definition: PromptsDefinition) {
    super(definition)
    const { prefix, list, get } = definition
    if (typeof prefix !== 'string') throw new MCP_ERR_BAD_PROVIDER('definePrompts', 'must have a prefix')
    const owner = `The prompts under ${prefix}`
    checkFunction(owner, 'list', list)
    checkFunction(owner, 'get', get)
    // A prompt may have the name that is a prefix of others.
    this.key = `${prefix}*`
    this.#definition = definition
  }

  source (context: RequestContext, told: Throttle): ListSource<Prompt> {
    return { key: this.key, asks: true, list: async cursor => await this.#list(cursor, context, told) }
  }

  async #list (cursor: JsonValue | undefined, context: RequestContext, told: Throttle): Promise<Page<Prompt>> {
    const page = await this.#definition.list(cursor, context)
    return leaveOut(page, `The prompts under ${this.#definition.prefix}`, item => flawOfListed(PromptSchema, item), context, told)
  }

  has (name: string): boolean {
    return name.startsWith(this.#definition.prefix)
  }

  completer (): undefined {
    return undefined
  }

  async get (name: string, sent: Sent, channel: Channel): Promise<PromptAnswer> {
    return toOutcome(await this.#definition.get(name, sent, channel), name)
  }
}

/** The first visible prompt of a name, or of its prefix; or throws McpError 'promptNotFound'. */
export async function findPrompt (catalog: Catalog<AnyPrompt>, name: string, context: RequestContext): Promise<AnyPrompt> {
  const entry = await catalog.search(entry => entry.has(name), context)
  if (entry === undefined) throw new McpError({ kind: 'promptNotFound', name })
  return entry
}

function toOutcome (outcome: unknown, name: string): PromptAnswer {
  if (outcome === null) throw new McpError({ kind: 'promptNotFound', name })
  if (isOutcome(outcome) && (outcome.type === 'error' || outcome.type === 'inputRequired')) return outcome
  const got: unknown = isOutcome(outcome) && outcome.type === 'result' ? outcome.result : outcome
  checkResult(`The prompt ${name}: get`, 'prompts/get', got, outcome)
  return result(withMediaTypes(got as GetPromptResult))
}

/** Resources in a prompt have a media type, which the schema does not ask for (2026-07-28, Prompts, Embedded Resources). */
function withMediaTypes (got: GetPromptResult): GetPromptResult {
  return got.messages.some(lacksMediaType) ? { ...got, messages: got.messages.map(message => lacksMediaType(message) ? withMediaType(message) : message) } : got
}

function lacksMediaType ({ content }: PromptMessage): boolean {
  return content.type === 'resource' && content.resource.mimeType === undefined
}

function withMediaType ({ role, content }: PromptMessage): PromptMessage {
  // What lacks one is a resource.
  const { resource, ...block } = content as EmbeddedResource
  return { role, content: { ...block, resource: { ...resource, mimeType: 'text' in resource ? 'text/plain' : 'application/octet-stream' } } }
}

/** Arguments as they are listed. They are strings on the wire, so that a schema of anything else could never be met. */
function listArguments (owner: string, { properties, required }: JsonSchema): readonly PromptArgument[] {
  const needed = new Set(Array.isArray(required) ? required as unknown[] : [])
  return Object.entries((properties ?? {}) as JsonObject).map(([name, schema]) => {
    if (isSchema(schema) && schema['type'] !== undefined && schema['type'] !== 'string') throw new MCP_ERR_BAD_PROVIDER(owner, `has the argument ${name}, which is no string`)
    const { title, description } = (isSchema(schema) ? schema : {}) as { title?: string, description?: string }
    return { name, ...pick({ title, description }, 'title', 'description') as object, ...needed.has(name) && { required: true } }
  })
}
