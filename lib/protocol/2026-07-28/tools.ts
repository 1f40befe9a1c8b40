import { Type } from '@sinclair/typebox'
import { described, JsonValue, type JsonSchema } from './base.js'
import { ContentBlock } from './content.js'
import { complete, page } from './result.js'
import { named, type Wire } from './wire.js'

const hint = Type.Optional(Type.Boolean())
const dialect = { $schema: Type.Optional(Type.String()) }

/** What a tool says of its effects: hints, no promises. */
export const ToolAnnotations = Type.Object({
  title: Type.Optional(Type.String()),
  readOnlyHint: hint,
  destructiveHint: hint,
  idempotentHint: hint,
  openWorldHint: hint
})
export interface ToolAnnotations extends Wire<typeof ToolAnnotations> {}

/** A tool as it is listed; arguments are always an object. */
export const Tool = Type.Object({
  ...described,
  inputSchema: named<JsonSchema>(Type.Object({ ...dialect, type: Type.Literal('object') })),
  outputSchema: Type.Optional(named<JsonSchema>(Type.Object(dialect))),
  annotations: Type.Optional(named<ToolAnnotations>(ToolAnnotations))
})
export interface Tool extends Wire<typeof Tool> {}

/** One page of the tools. */
export const ListToolsResult = Type.Object({ ...page, tools: Type.Array(named<Tool>(Tool)) })
export interface ListToolsResult extends Wire<typeof ListToolsResult> {}

/** What a tool answered; `isError` marks a failure that the model may read. */
export const CallToolResult = Type.Object({
  ...complete,
  content: Type.Array(ContentBlock),
  structuredContent: Type.Optional(JsonValue),
  isError: Type.Optional(Type.Boolean())
})
export interface CallToolResult extends Wire<typeof CallToolResult> {}
