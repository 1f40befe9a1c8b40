import { Type } from '@sinclair/typebox'
import { baseMetadata, described, Role } from './base.js'
import { ContentBlock } from './content.js'
import { complete, page } from './result.js'
import { named, type Wire } from './wire.js'

/** One argument of a prompt; its value is a string. */
export const PromptArgument = Type.Object({
  ...baseMetadata,
  description: Type.Optional(Type.String()),
  required: Type.Optional(Type.Boolean())
})
export interface PromptArgument extends Wire<typeof PromptArgument> {}

/** A prompt as it is listed. */
export const Prompt = Type.Object({ ...described, arguments: Type.Optional(Type.Array(named<PromptArgument>(PromptArgument))) })
export interface Prompt extends Wire<typeof Prompt> {}

/** One message of a prompt, with one block of content. */
export const PromptMessage = Type.Object({ role: Role, content: ContentBlock })
export interface PromptMessage extends Wire<typeof PromptMessage> {}

/** One page of the prompts. */
export const ListPromptsResult = Type.Object({ ...page, prompts: Type.Array(named<Prompt>(Prompt)) })
export interface ListPromptsResult extends Wire<typeof ListPromptsResult> {}

/** A prompt with its arguments filled in. */
export const GetPromptResult = Type.Object({
  ...complete,
  description: Type.Optional(Type.String()),
  messages: Type.Array(named<PromptMessage>(PromptMessage))
})
export interface GetPromptResult extends Wire<typeof GetPromptResult> {}
