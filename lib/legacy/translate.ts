import { isObject } from '../decode/envelope.js'
import type { Implementation, JsonObject, JsonValue, ServerCapabilities } from '../protocol/index.js'
import type { LegacyVersion } from '../../types/legacy.js'

type Members = Readonly<Record<string, unknown>>

/** What a revision does not know of what this package sends. Members that are left out are nobody's to miss; a result means the same without them. */
interface Dialect {
  /** Members of whatever is listed: tools, resources, templates, prompts and their arguments. */
  readonly listed: readonly string[]
  /** Members of contents of resources and of blocks of content. */
  readonly content: readonly string[]
  /** Members of who the server is. */
  readonly implementation: readonly string[]
  /** It has `structuredContent`, `outputSchema` and `resource_link`. */
  readonly structured: boolean
}

const dialects: Readonly<Record<LegacyVersion, Dialect>> = {
  '2025-11-25': { listed: [], content: [], implementation: ['name', 'version', 'title', 'description', 'websiteUrl', 'icons'], structured: true },
  '2025-06-18': { listed: ['icons'], content: ['icons'], implementation: ['name', 'version', 'title'], structured: true },
  '2025-03-26': { listed: ['icons', 'title', '_meta'], content: ['icons', '_meta'], implementation: ['name', 'version'], structured: false }
}

const MODERN_RESULT = ['resultType', 'ttlMs', 'cacheScope', '_meta']
const MODERN_META = /^io\.modelcontextprotocol\//

/** A result of 2026-07-28 as a client of an older revision knows it (each revision's schema). */
export function translateResult (version: LegacyVersion, result: Members): Members {
  const dialect = dialects[version]
  const translated: Record<string, unknown> = without(result, MODERN_RESULT)
  const meta = ownMeta(result['_meta'])
  if (meta !== undefined) translated['_meta'] = meta
  for (const list of ['tools', 'resources', 'resourceTemplates', 'prompts']) each(translated, list, item => translateListed(dialect, item))
  each(translated, 'contents', item => without(item, dialect.content))
  each(translated, 'content', block => translateBlock(dialect, block))
  each(translated, 'messages', message => ({ ...message, content: isObject(message['content']) ? translateBlock(dialect, message['content']) : message['content'] }))
  const { structuredContent, ...rest } = translated
  // An object alone, since these revisions know no other.
  if (structuredContent === undefined || (dialect.structured && isObject(structuredContent))) return translated
  // The text beside it says the same, unless its author wanted none.
  return Array.isArray(rest['content']) && rest['content'].length === 0 ? { ...rest, content: [{ type: 'text', text: JSON.stringify(structuredContent) }] } : rest
}

/** The params of a notification without what only a listen has. */
export function translateParams (params: JsonObject | undefined): JsonObject | undefined {
  if (params?.['_meta'] === undefined) return params
  const { _meta, ...rest } = params
  const meta = ownMeta(_meta)
  if (meta !== undefined) return { ...rest, _meta: meta as JsonValue }
  return Object.keys(rest).length === 0 ? undefined : rest
}

export function translateInfo (version: LegacyVersion, info: Implementation): Members {
  return Object.fromEntries(Object.entries(info).filter(([name]) => dialects[version].implementation.includes(name)))
}

/** What is offered to a session; without one there is no stream to tell of changes. */
export function translateCapabilities ({ extensions: _, ...capabilities }: ServerCapabilities, sessions: boolean): Members {
  if (sessions) return capabilities
  const { tools, prompts, resources, ...rest } = capabilities
  return { ...rest, ...(tools && { tools: {} }), ...(prompts && { prompts: {} }), ...(resources && { resources: {} }) }
}

function translateListed (dialect: Dialect, item: Members): Members {
  const translated: Record<string, unknown> = without(item, dialect.listed)
  each(translated, 'arguments', argument => without(argument, dialect.listed))
  const { outputSchema } = item
  if (outputSchema !== undefined && !(dialect.structured && isObject(outputSchema) && outputSchema['type'] === 'object')) delete translated['outputSchema']
  return translated
}

function translateBlock (dialect: Dialect, block: Members): Members {
  if (!dialect.structured && block['type'] === 'resource_link') return { type: 'text', text: `${block['title'] ?? block['name']}: ${block['uri']}` }
  const { resource } = block
  return { ...without(block, dialect.content), ...(isObject(resource) && { resource: without(resource, dialect.content) }) }
}

/** What an author put into a `_meta`, beside what the protocol did. */
function ownMeta (meta: unknown): Members | undefined {
  if (!isObject(meta)) return undefined
  const own = Object.entries(meta).filter(([key]) => !MODERN_META.test(key))
  return own.length === 0 ? undefined : Object.fromEntries(own)
}

function without (members: Members, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)))
}

/** Replaces each object of a list, if the list is there. */
function each (members: Record<string, unknown>, name: string, translate: (item: Members) => Members): void {
  const list = members[name]
  if (Array.isArray(list)) members[name] = list.map((item: unknown) => isObject(item) ? translate(item) : item)
}
