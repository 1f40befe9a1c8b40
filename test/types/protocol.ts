// Checked by tsc alone: what the wire types allow, and what they refuse.
import { toolResult } from '../../lib/protocol/index.js'
import type {
  CallToolRequestParams, ClientCapabilities, ContentBlock, CreateMessageParams, CreateMessageRequestParams, JsonObject, JsonValue, ListToolsResult, MethodName,
  ResourceContents, SamplingMessage, Tool
} from '../../lib/protocol/index.js'
import type { MethodMap } from '../../types/request.js'
import type { CallToolResult, WithBytes } from '../../types/results.js'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false

export const every: true[] = [
  true satisfies Same<keyof MethodMap | 'notifications/cancelled', MethodName>,
  true satisfies Same<ListToolsResult['tools'], readonly Tool[]>,
  true satisfies Same<ListToolsResult['cacheScope'], 'public' | 'private'>,
  true satisfies Same<Tool['_meta'], JsonObject | undefined>,
  true satisfies Same<CreateMessageParams, CreateMessageRequestParams>,
  true satisfies Same<NonNullable<CallToolRequestParams['arguments']>, JsonObject>,
  true satisfies Same<Extract<ContentBlock, { type: 'image' }>['data'], string>
]

export const tool: Tool = { name: 'find', inputSchema: { type: 'object', properties: { id: { type: 'integer' } } }, icons: [{ src: 'data:,', sizes: ['any'] }] }
export const capabilities: ClientCapabilities = { elicitation: { form: {} }, extensions: { 'com.example/x': { level: 1 } } }
export const one: SamplingMessage = { role: 'user', content: { type: 'text', text: 'x' } }
export const several: SamplingMessage = { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'find', input: {} }] }
export const bytes: WithBytes<ContentBlock> = { type: 'resource', resource: { uri: 'x', blob: new Uint8Array() } }
export const fixed: JsonValue = [1, ['x', null, { a: true }]] as const

// @ts-expect-error a tool has an input schema
export const noSchema: Tool = { name: 'find' }
// @ts-expect-error a declared capability is an object
export const declared: ClientCapabilities = { sampling: true }
// @ts-expect-error an optional member is left out, not undefined
export const leftOut: ClientCapabilities = { sampling: undefined }
// @ts-expect-error contents are text or Base64
export const neither: ResourceContents = { uri: 'x' }
// @ts-expect-error bytes are for builders, the wire has Base64
export const raw: ContentBlock = { type: 'image', data: new Uint8Array(), mimeType: 'image/png' }
// @ts-expect-error JSON has no functions
export const code: JsonValue = { run: () => 1 }

export function readonly (list: ListToolsResult, first: Tool) {
  // @ts-expect-error wire types are readonly
  first.name = 'other'
  // @ts-expect-error so are their arrays
  list.tools.push(first)
  // @ts-expect-error and what is in them
  list.tools[0]!.icons![0]!.src = 'x'
}

export const failureFitsAll: CallToolResult<{ sum: number }> = toolResult.error('no')
export const typed: CallToolResult<{ readonly sum: number }> = toolResult.data({ sum: 5 })
export const exact: { readonly sum: 5 } | undefined = toolResult.data({ sum: 5 }).structuredContent
// @ts-expect-error another output
export const otherOutput: CallToolResult<{ readonly sum: number }> = toolResult.data({ sum: 'five' })
// @ts-expect-error no output where one is promised
export const noOutput: CallToolResult<{ readonly sum: number }> = toolResult.text('five')
