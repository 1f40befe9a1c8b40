import { MCP_ERR_BAD_RETURN } from '../errors.js'
import { badReturn } from '../outcome.js'
import {
  CallToolResult, CompleteResult, GetPromptResult, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult, ListToolsResult, ReadResourceResult, jsonFlaw,
  type ContentBlock, type ResourceContents
} from '../protocol/index.js'
import { compileTypeBox } from '../schema.js'
import { iconFlaw } from './definition.js'
import { normalizeUri } from './template.js'
import type { TSchema } from '@sinclair/typebox'
import type { McpMethod } from '../../types/request.js'
import type { TypeBoxSchema } from '../../types/schema.js'

type Answered = Exclude<McpMethod, 'server/discover' | 'subscriptions/listen'>

const schemas: Readonly<Record<Answered, TSchema>> = {
  'tools/list': ListToolsResult,
  'tools/call': CallToolResult,
  'resources/list': ListResourcesResult,
  'resources/templates/list': ListResourceTemplatesResult,
  'resources/read': ReadResourceResult,
  'prompts/list': ListPromptsResult,
  'prompts/get': GetPromptResult,
  'completion/complete': CompleteResult
}

/** RFC 6838, 4.2, with or without parameters. */
const MEDIA_TYPE = /^[A-Za-z0-9][\w!#$&^.+-]*\/[A-Za-z0-9][\w!#$&^.+-]*(?:\s*;.*)?$/

/** Throws MCP_ERR_BAD_RETURN, which names the callback, unless this is a result of the method that a client can take. */
export function checkResult (callback: string, method: McpMethod, value: unknown, returned: unknown = value): void {
  // Nobody but the core answers the other two. A TSchema has the phantom members that TypeBoxSchema names.
  const check = compileTypeBox(schemas[method as Answered] as unknown as TypeBoxSchema)
  if (!check.Check(value)) throw badReturn(callback, returned)
  const flaw = flawOf(method, value)
  if (flaw !== undefined) throw new MCP_ERR_BAD_RETURN(callback, flaw)
}

/** What is wrong with a result that its schema lets through, and where. */
function flawOf (method: McpMethod, value: unknown): string | undefined {
  // Each has been held against the schema of its method.
  switch (method) {
    case 'tools/call': {
      const { content, structuredContent } = value as CallToolResult
      return first(content, (block, at) => flawOfBlock(block, `content[${at}]`)) ?? flawOfJson(structuredContent)
    }
    case 'prompts/get': return first((value as GetPromptResult).messages, ({ content }, at) => flawOfBlock(content, `messages[${at}].content`) ?? flawOfEmbedded(content, at))
    case 'resources/read': {
      const { contents } = value as ReadResourceResult
      if (contents.length === 0) return 'no contents: null says that there is no such resource, and one that is empty has one content with an empty text'
      return first(contents, (item, at) => flawOfContents(item, `contents[${at}]`))
    }
    default: return undefined
  }
}

function flawOfBlock (block: ContentBlock, at: string): string | undefined {
  switch (block.type) {
    case 'image':
    case 'audio':
      if (!isBase64(block.data)) return `${at} with data that is no Base64`
      return MEDIA_TYPE.test(block.mimeType) ? undefined : `${at} with the mimeType ${JSON.stringify(block.mimeType)}, which is none`
    case 'resource': return flawOfContents(block.resource, `${at}.resource`)
    case 'resource_link': {
      const flaw = iconFlaw(block.icons)
      return flaw && `${at} that ${flaw}`
    }
    default: return undefined
  }
}

function flawOfContents (contents: ResourceContents, at: string): string | undefined {
  return 'blob' in contents && !isBase64(contents.blob) ? `${at} with a blob that is no Base64` : undefined
}

/** 2026-07-28, Prompts, Embedded Resources: stricter than the schema. */
function flawOfEmbedded (block: ContentBlock, at: number): string | undefined {
  if (block.type !== 'resource') return undefined
  const { uri, mimeType } = block.resource
  if (normalizeUri(uri) === undefined) return `messages[${at}].content.resource with the uri ${JSON.stringify(uri)}, which is no absolute URI`
  if (mimeType !== undefined && !MEDIA_TYPE.test(mimeType)) return `messages[${at}].content.resource with the mimeType ${JSON.stringify(mimeType)}, which is none`
  return undefined
}

function flawOfJson (structuredContent: unknown): string | undefined {
  const flaw = structuredContent === undefined ? undefined : jsonFlaw(structuredContent)
  return flaw && `structuredContent${flaw}, which is not JSON`
}

/** RFC 4648, 4: padded, in one line. Looked at in a way that costs little next to its JSON, since it may be long. */
function isBase64 (text: string): boolean {
  if (text.length % 4 !== 0 || /[^A-Za-z0-9+/=]/.test(text)) return false
  const padding = text.indexOf('=')
  return padding === -1 || /^==?$/.test(text.slice(padding))
}

function first<T> (items: readonly T[], flawOf: (item: T, at: number) => string | undefined): string | undefined {
  for (const [at, item] of items.entries()) {
    const flaw = flawOf(item, at)
    if (flaw !== undefined) return flaw
  }
  return undefined
}
