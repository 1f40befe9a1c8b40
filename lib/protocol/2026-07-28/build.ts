import type { Implementation, JsonObject, Role } from './base.js'
import type { ServerCapabilities } from './capabilities.js'
import { MAX_COMPLETION_VALUES, type CompleteResult } from './completion.js'
import type { ContentBlock, TextContent } from './content.js'
import type { DiscoverResult } from './discover.js'
import { jsonFlaw, toDecimals } from './json.js'
import type { GetPromptResult, ListPromptsResult, Prompt } from './prompts.js'
import type { ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate } from './resources.js'
import { REVISION } from './revision.js'
import type { ListToolsResult, Tool } from './tools.js'
import type { CacheHint, CallToolResult, ListOptions, ReadOptions, WithBytes } from '../../../types/results.js'

const complete = { resultType: 'complete' } as const
const unkept = { ...complete, cacheScope: 'private', ttlMs: 0 } as const
const supportedVersions = Object.freeze([REVISION])

/** Results of a tool. */
export const toolResult = {
  /** Says something, a block for each text. */
  text (...texts: string[]): CallToolResult<undefined> {
    return { resultType: 'complete', content: texts.map(textBlock) }
  },

  /** Says and shows things. */
  content (...blocks: WithBytes<ContentBlock>[]): CallToolResult<undefined> {
    return { ...complete, content: blocks.map(encodeBlock) }
  },

  /**
   * Structured content, and its JSON as a text block; a string as `text` takes the place of that JSON, false leaves `content` empty. What is not plain JSON
   * throws a TypeError that says where: class instances too, so turn dates into strings first. A bigint becomes its decimal text, since no reader of JSON is
   * sure to keep its digits.
   */
  data<const T> (value: T, options: { readonly text?: string | false } = {}): CallToolResult<T> {
    const sent = jsonFlaw(value) === undefined ? value : withDecimals(value)
    const { text = JSON.stringify(sent) } = options
    return { ...complete, content: text === false ? [] : [textBlock(text)], structuredContent: sent }
  },

  /** The tool failed, and the model may read why. */
  error (message: string, ...blocks: WithBytes<ContentBlock>[]): CallToolResult<never> {
    return { ...complete, content: [textBlock(message), ...blocks.map(encodeBlock)], isError: true }
  }
}

/** Of the same type but for its bigints: a promised output is held against what is sent. */
function withDecimals<T> (value: T): T {
  const flaw = jsonFlaw(value, true)
  if (flaw !== undefined) throw new TypeError(`structuredContent${flaw}, which is not JSON`)
  return toDecimals(value) as T
}

/** One page of tools. */
export function listToolsResult (tools: readonly Tool[], options?: ListOptions): ListToolsResult {
  return { ...paged(options), tools }
}

/** One page of resources. */
export function listResourcesResult (resources: readonly Resource[], options?: ListOptions): ListResourcesResult {
  return { ...paged(options), resources }
}

/** One page of resource templates. */
export function listResourceTemplatesResult (templates: readonly ResourceTemplate[], options?: ListOptions): ListResourceTemplatesResult {
  return { ...paged(options), resourceTemplates: templates }
}

/** What a resource contains, or several for a directory. */
export function readResourceResult (
  contents: WithBytes<ResourceContents> | readonly WithBytes<ResourceContents>[], options?: ReadOptions
): ReadResourceResult {
  return { ...kept(options?.cache), contents: [contents].flat().map(encodeContents) }
}

/** One page of prompts. */
export function listPromptsResult (prompts: readonly Prompt[], options?: ListOptions): ListPromptsResult {
  return { ...paged(options), prompts }
}

/** A prompt's messages; a string as content is a text block. */
export function getPromptResult (
  messages: readonly { readonly role: Role, readonly content: string | WithBytes<ContentBlock> }[], options?: { readonly description?: string }
): GetPromptResult {
  return {
    ...complete,
    ...given('description', options?.description),
    messages: messages.map(({ role, content }) => ({ role, content: typeof content === 'string' ? textBlock(content) : encodeBlock(content) }))
  }
}

/** Suggestions: sends at most 100 values and then says hasMore. */
export function completeResult (
  values: readonly string[], options?: { readonly total?: number, readonly hasMore?: boolean }
): CompleteResult {
  return {
    ...complete,
    completion: {
      values: values.slice(0, MAX_COMPLETION_VALUES),
      ...given('total', options?.total),
      ...given('hasMore', values.length > MAX_COMPLETION_VALUES || options?.hasMore)
    }
  }
}

/** What a server without `info` answers to `server/discover`. */
export function discoverResult (
  capabilities: ServerCapabilities, options?: ReadOptions & { readonly instructions?: string }
): DiscoverResult {
  return { ...kept(options?.cache), supportedVersions, capabilities, ...given('instructions', options?.instructions) }
}

/** The `_meta` that names the server, for results of a server without `info`. */
export function serverInfo (info: Implementation): JsonObject & { readonly 'io.modelcontextprotocol/serverInfo': Implementation } {
  // An Implementation is JSON, which TypeScript cannot see of an interface.
  return { 'io.modelcontextprotocol/serverInfo': info as Implementation & JsonObject }
}

function textBlock (text: string): TextContent {
  return { type: 'text', text }
}

function encodeBlock (block: WithBytes<ContentBlock>): ContentBlock {
  switch (block.type) {
    case 'image':
    case 'audio': return { ...block, data: base64(block.data) }
    case 'resource': return { ...block, resource: encodeContents(block.resource) }
    default: return block
  }
}

function encodeContents (contents: WithBytes<ResourceContents>): ResourceContents {
  return 'blob' in contents ? { ...contents, blob: base64(contents.blob) } : contents
}

function base64 (bytes: string | Uint8Array): string {
  return typeof bytes === 'string' ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

function paged (options: ListOptions | undefined) {
  return { ...kept(options?.cache), ...given('nextCursor', options?.nextCursor) }
}

function kept (cache: CacheHint | undefined) {
  if (cache === undefined) return unkept
  const { scope, ttlMs } = cache
  if (scope !== 'public' && scope !== 'private') throw new TypeError(`cache.scope must be 'public' or 'private', got ${String(scope)}`)
  if (!Number.isSafeInteger(ttlMs) || ttlMs < 0) throw new RangeError(`cache.ttlMs must be a whole number of milliseconds from 0 up, got ${String(ttlMs)}`)
  return { ...complete, cacheScope: scope, ttlMs }
}

/** A member that is left out when it has no value. */
function given<Name extends string, T> (name: Name, value: T | undefined): { readonly [N in Name]?: T } {
  // A computed key has the type string.
  return value === undefined ? {} : { [name]: value } as { readonly [N in Name]: T }
}
