import type {
  ClientCapabilities, CompleteResult, DiscoverResult, GetPromptResult, Implementation, JsonObject, ListPromptsResult, ListResourcesResult,
  ListResourceTemplatesResult, ListToolsResult, ReadResourceResult, SubscriptionFilter
} from '../lib/protocol/index.js'
import type { CallToolResult } from './results.js'

export type RequestId = string | number
export type LogLevel = 'debug' | 'info' | 'notice' | 'warning' | 'error' | 'critical' | 'alert' | 'emergency'
export type ProtocolVersion = '2026-07-28' | '2025-11-25' | '2025-06-18' | '2025-03-26'

/** The request's `_meta`; of a 2025 client, what its session knows. Self-reported: choose by it, never trust it. */
export interface RequestMeta {
  readonly protocolVersion: ProtocolVersion
  readonly clientCapabilities: ClientCapabilities
  readonly clientInfo?: Implementation
  /** The least severe level the client wants to be sent; absent: no logs at all. */
  readonly logLevel?: LogLevel
  /** Present when the client wants progress; sent back as it came. */
  readonly progressToken?: RequestId
  /**
   * W3C Trace Context: the parent of what this request does, from `_meta`, else from the HTTP header of that name. Where both name one, the header's is
   * still in `httpRequest.headers`, to link to. As sent; what is malformed is left out, here and below. Of a client's making: never authorize by it.
   */
  readonly traceparent?: string
  /** From where `traceparent` is; at most 512 characters. */
  readonly tracestate?: string
  /** W3C Baggage, from `_meta`, else from the header if `traceparent` is from there; at most 8192 characters. It may hold what is no log's business. */
  readonly baggage?: string
  /** Every other key, untouched. */
  readonly extra: JsonObject
}

/** Method to params and result. A listen's result is the core's own. `requestState` and `inputResponses` are read through the channel. */
export interface MethodMap {
  'server/discover': { params: {}; result: DiscoverResult }
  'tools/list': { params: { readonly cursor?: string }; result: ListToolsResult }
  'tools/call': { params: { readonly name: string; readonly arguments: JsonObject }; result: CallToolResult }
  'resources/list': { params: { readonly cursor?: string }; result: ListResourcesResult }
  'resources/templates/list': { params: { readonly cursor?: string }; result: ListResourceTemplatesResult }
  'resources/read': { params: { readonly uri: string }; result: ReadResourceResult }
  'prompts/list': { params: { readonly cursor?: string }; result: ListPromptsResult }
  'prompts/get': { params: { readonly name: string; readonly arguments: Readonly<Record<string, string>> }; result: GetPromptResult }
  'completion/complete': { params: CompleteParams; result: CompleteResult }
  'subscriptions/listen': { params: { readonly notifications: SubscriptionFilter }; result: never }
}

export interface CompleteParams {
  readonly ref: { readonly type: 'ref/prompt'; readonly name: string } | { readonly type: 'ref/resource'; readonly uri: string }
  readonly argument: { readonly name: string; readonly value: string }
  /** The other arguments, already chosen; `{}` when the client sent none. */
  readonly context: { readonly arguments: Readonly<Record<string, string>> }
}

export type McpMethod = keyof MethodMap
export type ParamsOf<M extends McpMethod> = MethodMap[M]['params']
export type ResultMap = { [M in McpMethod]: MethodMap[M]['result'] }

/** RequestOf<'tools/call'> is the specification's CallToolRequest; McpRequest, the union, is discriminated on `method`. */
export type RequestOf<M extends McpMethod> = {
  [K in M]: { readonly method: K; readonly id: RequestId; readonly params: ParamsOf<K>; readonly meta: RequestMeta }
}[M]
/** A request as decoded: frozen, and params that the method does not define are dropped. */
export type McpRequest = RequestOf<McpMethod>
export type CallToolRequest = RequestOf<'tools/call'>
export type CompleteRequest = RequestOf<'completion/complete'>
export type McpResult = ResultMap[McpMethod]

/** The notifications of the revision that a client may send. */
export interface McpNotification {
  readonly method: 'notifications/cancelled'
  readonly params: { readonly requestId: RequestId; readonly reason?: string }
  readonly meta: Partial<RequestMeta>
}
