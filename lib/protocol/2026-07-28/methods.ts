import { Type, type TObject, type TSchema } from '@sinclair/typebox'
import { CancelledNotificationParams } from './notifications.js'
import {
  CallToolRequestParams, CompleteRequestParams, GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams, RequestParams,
  SubscriptionsListenRequestParams
} from './requests.js'

/** What is to be known of a method to decode, route and answer it. */
export interface Method {
  readonly kind: 'request' | 'notification'
  /** the params without `_meta` */ readonly params: TSchema
  /** the member of the params that the header `Mcp-Name` repeats */ readonly name?: 'name' | 'uri'
  /** the server capability that opens it; absent: always open */ readonly capability?: 'tools' | 'prompts' | 'resources' | 'completions'
  /** it may be answered `input_required` */ readonly asks?: true
  /** its result has cache hints */ readonly cacheable?: true
}

/** Params without what each request says of itself. */
const own = (params: TObject) => Type.Omit(params, ['_meta'])

// Answers are held against the questions, by whoever knows these; a client without any may say null.
const unchecked = Type.Object({ inputResponses: Type.Optional(Type.Union([Type.Object({}), Type.Null()])) })
const retried = (params: TObject) => Type.Composite([Type.Omit(params, ['_meta', 'inputResponses']), unchecked])

const table = {
  'server/discover': { kind: 'request', params: own(RequestParams), cacheable: true },
  'tools/list': { kind: 'request', params: own(PaginatedRequestParams), capability: 'tools', cacheable: true },
  'tools/call': { kind: 'request', params: retried(CallToolRequestParams), name: 'name', capability: 'tools', asks: true },
  'resources/list': { kind: 'request', params: own(PaginatedRequestParams), capability: 'resources', cacheable: true },
  'resources/templates/list': { kind: 'request', params: own(PaginatedRequestParams), capability: 'resources', cacheable: true },
  'resources/read': { kind: 'request', params: retried(ReadResourceRequestParams), name: 'uri', capability: 'resources', asks: true, cacheable: true },
  'prompts/list': { kind: 'request', params: own(PaginatedRequestParams), capability: 'prompts', cacheable: true },
  'prompts/get': { kind: 'request', params: retried(GetPromptRequestParams), name: 'name', capability: 'prompts', asks: true },
  'completion/complete': { kind: 'request', params: own(CompleteRequestParams), capability: 'completions' },
  'subscriptions/listen': { kind: 'request', params: own(SubscriptionsListenRequestParams) },
  'notifications/cancelled': { kind: 'notification', params: own(CancelledNotificationParams) }
} satisfies Record<string, Method>

/** The name of a method that a client may call. */
export type MethodName = keyof typeof table

/** Every request and notification that a client of this revision may send; nothing else lists them. */
export const methods: Readonly<Record<MethodName, Method>> = table
