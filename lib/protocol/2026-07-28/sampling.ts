import { Type } from '@sinclair/typebox'
import { JsonObject, MetaObject, Role } from './base.js'
import { AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent } from './content.js'
import { Tool } from './tools.js'
import { named, oneOf, type Wire } from './wire.js'

/** What may stand in a sampling message. */
export type SamplingBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
export const SamplingBlock = named<SamplingBlock>(Type.Union([TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent]))
export { SamplingBlock as SamplingMessageContentBlock }

const message = {
  role: Role,
  content: Type.Union([SamplingBlock, Type.Array(SamplingBlock)]),
  _meta: Type.Optional(MetaObject)
}

/** One turn of the conversation that the client's model is given. */
export const SamplingMessage = Type.Object(message)
export interface SamplingMessage extends Wire<typeof SamplingMessage> {}

/** Part of the name of a model that would do. */
export const ModelHint = Type.Object({ name: Type.Optional(Type.String()) })
export interface ModelHint extends Wire<typeof ModelHint> {}

const weight = Type.Optional(Type.Number({ minimum: 0, maximum: 1 }))

/** Which model would be welcome; the client decides. */
export const ModelPreferences = Type.Object({
  hints: Type.Optional(Type.Array(named<ModelHint>(ModelHint))),
  costPriority: weight,
  speedPriority: weight,
  intelligencePriority: weight
})
export interface ModelPreferences extends Wire<typeof ModelPreferences> {}

/** Whether the model may, must or must not use the tools. */
export const ToolChoice = Type.Object({ mode: Type.Optional(oneOf('auto', 'required', 'none')) })
export interface ToolChoice extends Wire<typeof ToolChoice> {}

/** What the client's model is asked. */
export const CreateMessageRequestParams = Type.Object({
  messages: Type.Array(named<SamplingMessage>(SamplingMessage)),
  maxTokens: Type.Integer(),
  systemPrompt: Type.Optional(Type.String()),
  modelPreferences: Type.Optional(named<JsonObject>(ModelPreferences)),
  includeContext: Type.Optional(oneOf('none', 'thisServer', 'allServers')),
  temperature: Type.Optional(Type.Number()),
  stopSequences: Type.Optional(Type.Array(Type.String())),
  metadata: Type.Optional(JsonObject),
  tools: Type.Optional(Type.Array(named<Tool>(Tool))),
  toolChoice: Type.Optional(named<ToolChoice>(ToolChoice))
})
export interface CreateMessageRequestParams extends Wire<typeof CreateMessageRequestParams> {}
export { CreateMessageRequestParams as CreateMessageParams }

/** Asks the client's model. */
export const CreateMessageRequest = Type.Object({
  method: Type.Literal('sampling/createMessage'),
  params: named<CreateMessageRequestParams>(CreateMessageRequestParams)
})
export interface CreateMessageRequest extends Wire<typeof CreateMessageRequest> {}

/** What it said. Reasons to stop are an open set. */
export const CreateMessageResult = Type.Object({ ...message, model: Type.String(), stopReason: Type.Optional(Type.String()) })
export interface CreateMessageResult extends Wire<typeof CreateMessageResult> {}
