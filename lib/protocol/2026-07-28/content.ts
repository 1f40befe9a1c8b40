import { Type } from '@sinclair/typebox'
import { Annotations, JsonObject, JsonValue, MetaObject } from './base.js'
import { ResourceContents, resource } from './resources.js'
import { named, type Wire } from './wire.js'

const block = {
  annotations: Type.Optional(named<Annotations>(Annotations)),
  _meta: Type.Optional(MetaObject)
}
const media = { ...block, data: Type.String(), mimeType: Type.String() }

/** Text. */
export const TextContent = Type.Object({ ...block, type: Type.Literal('text'), text: Type.String() })
export interface TextContent extends Wire<typeof TextContent> {}

/** A picture; `data` is Base64. */
export const ImageContent = Type.Object({ ...media, type: Type.Literal('image') })
export interface ImageContent extends Wire<typeof ImageContent> {}

/** Sound; `data` is Base64. */
export const AudioContent = Type.Object({ ...media, type: Type.Literal('audio') })
export interface AudioContent extends Wire<typeof AudioContent> {}

/** A resource to be read by whoever needs it. */
export const ResourceLink = Type.Object({ ...resource, type: Type.Literal('resource_link') })
export interface ResourceLink extends Wire<typeof ResourceLink> {}

/** A resource with what it contains. */
export const EmbeddedResource = Type.Object({ ...block, type: Type.Literal('resource'), resource: named<ResourceContents>(ResourceContents) })
export interface EmbeddedResource extends Wire<typeof EmbeddedResource> {}

/** What tools and prompts say. */
export type ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
export const ContentBlock = named<ContentBlock>(Type.Union([TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource]))

/** A model that asks for a tool, in sampling. */
export const ToolUseContent = Type.Object({
  type: Type.Literal('tool_use'),
  id: Type.String(),
  name: Type.String(),
  input: JsonObject,
  _meta: Type.Optional(MetaObject)
})
export interface ToolUseContent extends Wire<typeof ToolUseContent> {}

/** What that tool answered. */
export const ToolResultContent = Type.Object({
  type: Type.Literal('tool_result'),
  toolUseId: Type.String(),
  content: Type.Array(ContentBlock),
  structuredContent: Type.Optional(JsonValue),
  isError: Type.Optional(Type.Boolean()),
  _meta: Type.Optional(MetaObject)
})
export interface ToolResultContent extends Wire<typeof ToolResultContent> {}
