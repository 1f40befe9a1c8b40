import { Type } from '@sinclair/typebox'
import { baseMetadata, Cursor, JsonObject } from './base.js'
import { InputResponses } from './input.js'
import { RequestMetaObject } from './meta.js'
import { SubscriptionFilter } from './subscriptions.js'
import { dictionary, named, type Wire } from './wire.js'

const meta = { _meta: named<RequestMetaObject>(RequestMetaObject) }

/** What a client adds when it calls again after `input_required`. */
const retry = {
  inputResponses: Type.Optional(InputResponses),
  requestState: Type.Optional(Type.String())
}

/** The params of a request that has none of its own, such as `server/discover`. */
export const RequestParams = Type.Object(meta)
export interface RequestParams extends Wire<typeof RequestParams> {}

/** The params of a request that may be a second call. */
export const InputResponseRequestParams = Type.Object({ ...meta, ...retry })
export interface InputResponseRequestParams extends Wire<typeof InputResponseRequestParams> {}

/** The params of the four list requests. */
export const PaginatedRequestParams = Type.Object({ ...meta, cursor: Type.Optional(Cursor) })
export interface PaginatedRequestParams extends Wire<typeof PaginatedRequestParams> {}

/** The params of `tools/call`. */
export const CallToolRequestParams = Type.Object({ ...meta, ...retry, name: Type.String(), arguments: Type.Optional(JsonObject) })
export interface CallToolRequestParams extends Wire<typeof CallToolRequestParams> {}

/** The params of `resources/read`. */
export const ReadResourceRequestParams = Type.Object({ ...meta, ...retry, uri: Type.String() })
export interface ReadResourceRequestParams extends Wire<typeof ReadResourceRequestParams> {}

/** The params of `prompts/get`; arguments of a prompt are strings. */
export const GetPromptRequestParams = Type.Object({
  ...meta,
  ...retry,
  name: Type.String(),
  arguments: Type.Optional(dictionary<string>(Type.String()))
})
export interface GetPromptRequestParams extends Wire<typeof GetPromptRequestParams> {}

/** A prompt whose argument is completed. */
export const PromptReference = Type.Object({ ...baseMetadata, type: Type.Literal('ref/prompt') })
export interface PromptReference extends Wire<typeof PromptReference> {}

/** A resource template whose variable is completed. */
export const ResourceTemplateReference = Type.Object({ type: Type.Literal('ref/resource'), uri: Type.String() })
export interface ResourceTemplateReference extends Wire<typeof ResourceTemplateReference> {}

/** The params of `completion/complete`: what is typed so far, and the other arguments as chosen. */
export const CompleteRequestParams = Type.Object({
  ...meta,
  ref: Type.Union([named<PromptReference>(PromptReference), named<ResourceTemplateReference>(ResourceTemplateReference)]),
  argument: Type.Object({ name: Type.String(), value: Type.String() }),
  context: Type.Optional(Type.Object({ arguments: Type.Optional(dictionary<string>(Type.String())) }))
})
export interface CompleteRequestParams extends Wire<typeof CompleteRequestParams> {}

/** The params of `subscriptions/listen`. */
export const SubscriptionsListenRequestParams = Type.Object({ ...meta, notifications: named<SubscriptionFilter>(SubscriptionFilter) })
export interface SubscriptionsListenRequestParams extends Wire<typeof SubscriptionsListenRequestParams> {}
