import { Type } from '@sinclair/typebox'
import { type JsonObject } from './base.js'
import { ElicitRequest, ElicitResult } from './elicitation.js'
import { ResultMetaObject } from './meta.js'
import { ListRootsRequest, ListRootsResult } from './roots.js'
import { CreateMessageRequest, CreateMessageResult } from './sampling.js'
import { dictionary, named, type Wire } from './wire.js'

/** One question to the client: an entry of a result, no message of its own. */
export type InputRequest = ElicitRequest | CreateMessageRequest | ListRootsRequest
export const InputRequest = named<InputRequest>(Type.Union([ElicitRequest, CreateMessageRequest, ListRootsRequest]))

/** Questions by the server's keys. */
export type InputRequests = { readonly [key: string]: InputRequest }
export const InputRequests = dictionary<InputRequest>(InputRequest)

/** One answer. It does not say to what kind of question: the key does. */
export type InputResponse = ElicitResult | CreateMessageResult | ListRootsResult
export const InputResponse = named<InputResponse>(Type.Union([ElicitResult, CreateMessageResult, ListRootsResult]))

/** Answers by the same keys. */
export type InputResponses = { readonly [key: string]: InputResponse }
export const InputResponses = dictionary<InputResponse>(InputResponse)

/** A result that asks the client to call again, with answers if there are questions. */
export const InputRequiredResult = Type.Object({
  resultType: Type.Literal('input_required'),
  inputRequests: Type.Optional(named<JsonObject>(InputRequests)),
  requestState: Type.Optional(Type.String()),
  _meta: Type.Optional(ResultMetaObject)
})
export interface InputRequiredResult extends Wire<typeof InputRequiredResult> {}
