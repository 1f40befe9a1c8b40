import { KindGuard, type TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import t from 'tap'
import * as protocol from '../../lib/protocol/index.js'

type Exports = typeof protocol
type SchemaName = { [Name in keyof Exports]: Exports[Name] extends TSchema ? Name : never }[keyof Exports]
interface Samples { readonly fits: readonly unknown[], readonly refused: readonly unknown[] }

const schemas = new Map(Object.entries<unknown>(protocol).filter((entry): entry is [string, TSchema] => KindGuard.IsSchema(entry[1])))

const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} }
const info = { name: 'orders', version: '1.4.0' }
const done = { resultType: 'complete' }
const kept = { ...done, cacheScope: 'public', ttlMs: 30_000 }
const text = { type: 'text', text: 'seven orders are open' }
const image = { type: 'image', data: 'AAEC', mimeType: 'image/png' }
const audio = { type: 'audio', data: 'AAEC', mimeType: 'audio/wav' }
const order = { uri: 'orders://7', name: 'order-7' }
const link = { type: 'resource_link', ...order }
const embedded = { type: 'resource', resource: { uri: 'orders://7', text: 'two lamps' } }
const use = { type: 'tool_use', id: 'u1', name: 'find', input: { id: 7 } }
const answer = { type: 'tool_result', toolUseId: 'u1', content: [text] }
const tool = { name: 'find', inputSchema: { type: 'object' } }
const turn = { role: 'user', content: text }
const generated = { role: 'assistant', content: [text, use], model: 'small' }
const sampling = { messages: [turn], maxTokens: 200 }
const form = { message: 'Which colour?', requestedSchema: { type: 'object', properties: { colour: { type: 'string', enum: ['red', 'blue'] } } } }
const page = { mode: 'url', message: 'Please sign in', url: 'https://orders.example/sign-in' }
const titled = [{ const: 'r', title: 'Red' }]
const notify = (method: string, params?: unknown) => ({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })
const error = (code: number, data?: unknown) => ({ code, message: 'no', ...(data === undefined ? {} : { data }) })
const response = (content: object) => ({ jsonrpc: '2.0', id: 1, ...content })

const inherited = {
  fits: [{}, { 'com.example/key': [1] }],
  refused: [[], null, 'x', 1]
}
const id = {
  // RPC-02, RPC-03: falsy ids are ids, what JavaScript cannot send back unchanged is none.
  fits: ['', 'a', 0, -7, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
  refused: [null, true, 1.5, Number.MAX_SAFE_INTEGER + 1, Number.MIN_SAFE_INTEGER - 1, {}, []]
}
const block = {
  // TOOL-21
  fits: [text, image, audio, link, embedded, { ...text, annotations: { priority: 1 }, _meta: {} }],
  refused: [{ type: 'text' }, { type: 'video', data: '', mimeType: 'video/mp4' }, { ...image, data: 1 }, { type: 'resource', resource: order }, 'text']
}
const json = { fits: [null, false, 0, '', [], {}], refused: [undefined, () => 1, 1n, NaN, Symbol('no')] }
const noParams = (method: string): Samples => ({
  fits: [notify(method), notify(method, {}), notify(method, { _meta: { 'io.modelcontextprotocol/subscriptionId': 0 } })],
  refused: [notify('notifications/other'), notify(method, []), notify(method, { _meta: { 'io.modelcontextprotocol/subscriptionId': null } })]
})
const withoutMeta = [{}, { _meta: {} }, { _meta: { ...meta, 'io.modelcontextprotocol/clientCapabilities': [] } }]

const samples: { readonly [Name in SchemaName]: Samples } = {
  JsonValue: json,
  JSONValue: json,
  JsonObject: inherited,
  JSONObject: inherited,
  JsonSchema: inherited,
  MetaObject: inherited,
  RequestId: id,
  ProgressToken: id,
  Cursor: { fits: ['', 'next'], refused: [null, 1] },
  Role: { fits: ['user', 'assistant'], refused: ['system', null] },
  LoggingLevel: { fits: ['debug', 'emergency'], refused: ['trace', 3] },
  Icon: {
    // ICON-03
    fits: [{ src: 'https://orders.example/i.png' }, { src: 'data:,', mimeType: 'image/png', sizes: ['48x48', 'any'], theme: 'dark' }],
    refused: [{}, { src: 'x', sizes: '48x48' }, { src: 'x', theme: 'blue' }]
  },
  Annotations: {
    // RES-18
    fits: [{}, { audience: ['user'], priority: 0.5, lastModified: '2026-08-01T00:00:00Z' }],
    refused: [{ priority: 1.1 }, { priority: -0.1 }, { audience: 'user' }, { audience: ['nobody'] }, { lastModified: 5 }]
  },
  Implementation: { fits: [info, { ...info, title: 'Orders', icons: [{ src: 'data:,' }] }], refused: [{ name: 'orders' }, { version: '1' }, { ...info, icons: [{}] }] },
  ClientCapabilities: {
    // CAP-07, EXT-05, RPC-13
    fits: [{}, { elicitation: {} }, { elicitation: { form: {}, url: {} }, sampling: { context: {}, tools: {} }, roots: {} }, { extensions: { 'com.example/x': {} } }, { later: true }],
    refused: [
      [], { elicitation: true }, { elicitation: null }, { elicitation: [] }, { elicitation: { form: [] } }, { elicitation: { url: false } },
      { sampling: [] }, { sampling: { tools: null } }, { roots: true }, { roots: [] },
      { extensions: [] }, { extensions: { 'com.example/x': true } }, { extensions: { 'com.example/x\n': [] } }, { experimental: { x: null } }
    ]
  },
  ServerCapabilities: {
    // DSC-05
    fits: [{}, { tools: { listChanged: true }, prompts: {}, resources: { subscribe: false, listChanged: true }, completions: {}, logging: {} }],
    refused: [{ tools: true }, { tools: [] }, { prompts: { listChanged: 'yes' } }, { resources: { subscribe: 1 } }, { completions: [] }, { logging: true }, { extensions: { 'com.example/x': 1 } }]
  },
  RequestMetaObject: {
    // META-01, META-02, META-10
    fits: [meta, { ...meta, 'io.modelcontextprotocol/clientInfo': info, 'io.modelcontextprotocol/logLevel': 'info', progressToken: 0, traceparent: 't', 'com.example/x': null }],
    refused: [
      {}, { ...meta, 'io.modelcontextprotocol/protocolVersion': 1 }, { ...meta, 'io.modelcontextprotocol/clientCapabilities': [] },
      { ...meta, 'io.modelcontextprotocol/clientInfo': 5 }, { ...meta, 'io.modelcontextprotocol/logLevel': 'loud' }, { ...meta, progressToken: {} }
    ]
  },
  NotificationMetaObject: { fits: [{}, { 'io.modelcontextprotocol/subscriptionId': '' }], refused: [[], { 'io.modelcontextprotocol/subscriptionId': null }] },
  ResultMetaObject: { fits: [{}, { 'io.modelcontextprotocol/serverInfo': info, x: 1 }], refused: [[], { 'io.modelcontextprotocol/serverInfo': { name: 'x' } }] },
  // RPC-05
  Result: { fits: [done, { resultType: 'task', taskId: '1' }], refused: [{}, { resultType: 1 }, { ...done, _meta: [] }] },
  ResultBase: { fits: [done, { ...done, _meta: { x: 1 } }], refused: [{}, { resultType: 'input_required' }] },
  EmptyResult: { fits: [done], refused: [{}] },
  // CACHE-01, CACHE-02, CACHE-03
  CacheableResult: { fits: [kept, { ...kept, ttlMs: 0 }], refused: [done, { ...kept, ttlMs: -1 }, { ...kept, ttlMs: 1.5 }, { ...kept, cacheScope: 'shared' }, { ...done, ttlMs: 0 }] },
  // PAG-02
  PageResult: { fits: [kept, { ...kept, nextCursor: 'n' }], refused: [done, { ...kept, nextCursor: null }] },
  PaginatedResult: { fits: [done, { ...done, nextCursor: 'n' }], refused: [{}, { ...done, nextCursor: 1 }] },
  // DSC-02
  DiscoverResult: {
    fits: [{ ...kept, supportedVersions: ['2026-07-28'], capabilities: {} }],
    refused: [{ ...kept, capabilities: {} }, { ...kept, supportedVersions: [1], capabilities: {} }, { ...done, supportedVersions: [], capabilities: {} }]
  },
  RequestParams: { fits: [{ _meta: meta }, { _meta: meta, extra: 1 }], refused: withoutMeta },
  InputResponseRequestParams: {
    fits: [{ _meta: meta }, { _meta: meta, requestState: '', inputResponses: { q: { action: 'cancel' } } }],
    refused: [...withoutMeta, { _meta: meta, requestState: 1 }, { _meta: meta, inputResponses: { q: 1 } }]
  },
  // PAG-01, PAG-05
  PaginatedRequestParams: { fits: [{ _meta: meta }, { _meta: meta, cursor: '' }], refused: [...withoutMeta, { _meta: meta, cursor: 1 }] },
  CallToolRequestParams: {
    // TOOL-12
    fits: [{ _meta: meta, name: 'find' }, { _meta: meta, name: 'find', arguments: { id: 7 } }],
    refused: [{ name: 'find' }, { _meta: meta }, { _meta: meta, name: 7 }, { _meta: meta, name: 'find', arguments: [] }, { _meta: meta, name: 'find', arguments: 'x' }]
  },
  ReadResourceRequestParams: { fits: [{ _meta: meta, uri: 'orders://7' }], refused: [{ _meta: meta }, { _meta: meta, uri: 7 }] },
  GetPromptRequestParams: {
    // PRM-04
    fits: [{ _meta: meta, name: 'greet' }, { _meta: meta, name: 'greet', arguments: { who: 'Ada' } }],
    refused: [{ _meta: meta }, { _meta: meta, name: 'greet', arguments: { who: 1 } }, { _meta: meta, name: 'greet', arguments: { 'a\nb': 1 } }, { _meta: meta, name: 'greet', arguments: [] }]
  },
  PromptReference: { fits: [{ type: 'ref/prompt', name: 'greet', title: 'Greet' }], refused: [{ type: 'ref/prompt' }, { type: 'ref/tool', name: 'x' }] },
  ResourceTemplateReference: { fits: [{ type: 'ref/resource', uri: 'orders://{id}' }], refused: [{ type: 'ref/resource', name: 'x' }] },
  CompleteRequestParams: {
    // CMP-02
    fits: [
      { _meta: meta, ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'who', value: '' } },
      { _meta: meta, ref: { type: 'ref/resource', uri: 'orders://{id}' }, argument: { name: 'id', value: '7' }, context: { arguments: { year: '2026' } } }
    ],
    refused: [
      { _meta: meta, ref: { type: 'ref/tool', name: 'x' }, argument: { name: 'who', value: '' } },
      { _meta: meta, ref: { type: 'ref/prompt', name: 'greet' } },
      { _meta: meta, ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'who', value: 1 } },
      { _meta: meta, ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'who', value: '' }, context: { arguments: { year: 2026 } } }
    ]
  },
  SubscriptionsListenRequestParams: {
    // SUB-01
    fits: [{ _meta: meta, notifications: {} }],
    refused: [{ _meta: meta }, { _meta: meta, notifications: [] }, { _meta: meta, notifications: { resourceSubscriptions: 'x' } }]
  },
  TextContent: { fits: [text], refused: [{ type: 'text' }, { ...text, text: 1 }] },
  ImageContent: { fits: [image], refused: [{ type: 'image', data: '' }, { ...image, type: 'audio' }] },
  AudioContent: { fits: [audio], refused: [{ type: 'audio', mimeType: 'audio/wav' }, image] },
  ResourceLink: { fits: [link], refused: [{ type: 'resource_link', uri: 'x' }, order] },
  EmbeddedResource: { fits: [embedded, { type: 'resource', resource: { uri: 'x', blob: '' } }], refused: [{ type: 'resource' }, { type: 'resource', resource: { uri: 'x' } }] },
  ContentBlock: block,
  ToolUseContent: { fits: [use], refused: [{ ...use, input: [] }, { ...use, id: 1 }] },
  ToolResultContent: { fits: [answer, { ...answer, structuredContent: null, isError: true }], refused: [{ ...answer, content: text }, { ...answer, isError: 'no' }] },
  SamplingBlock: { fits: [text, image, audio, use, answer], refused: [link, embedded] },
  SamplingMessageContentBlock: { fits: [use], refused: [link] },
  Resource: {
    // RES-03
    fits: [order, { ...order, size: 12, mimeType: 'text/plain', annotations: {}, icons: [], _meta: {} }],
    refused: [{ uri: 'x' }, { name: 'x' }, { ...order, size: 1.5 }, { ...order, icons: {} }]
  },
  // RES-04
  ResourceTemplate: { fits: [{ uriTemplate: 'orders://{id}', name: 'order' }], refused: [order, { uriTemplate: 'x' }] },
  // RES-05
  TextResourceContents: { fits: [{ uri: 'x', text: '' }], refused: [{ uri: 'x', blob: '' }, { text: '' }] },
  BlobResourceContents: { fits: [{ uri: 'x', blob: '', mimeType: 'image/png' }], refused: [{ uri: 'x', text: '' }, { uri: 'x', blob: 1 }] },
  ResourceContents: { fits: [{ uri: 'x', text: '' }, { uri: 'x', blob: '' }], refused: [{ uri: 'x' }, { uri: 1, text: '' }] },
  ListResourcesResult: { fits: [{ ...kept, resources: [order] }], refused: [kept, { ...done, resources: [] }, { ...kept, resources: [{}] }] },
  ListResourceTemplatesResult: { fits: [{ ...kept, resourceTemplates: [] }], refused: [kept, { ...kept, resourceTemplates: [order] }] },
  ReadResourceResult: { fits: [{ ...kept, contents: [{ uri: 'x', text: '' }] }], refused: [{ ...done, contents: [] }, { ...kept, contents: [{ uri: 'x' }] }] },
  ToolAnnotations: { fits: [{}, { title: 'Find', readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false }], refused: [{ readOnlyHint: 'yes' }, []] },
  Tool: {
    // TOOL-06, TOOL-07
    fits: [tool, { ...tool, outputSchema: { type: 'array' }, annotations: { title: 'Find' }, inputSchema: { $schema: 'x', type: 'object', oneOf: [] } }],
    refused: [{ name: 'find' }, { ...tool, inputSchema: null }, { ...tool, inputSchema: { type: 'string' } }, { ...tool, inputSchema: {} }, { ...tool, outputSchema: [] }]
  },
  // TOOL-03
  ListToolsResult: { fits: [{ ...kept, tools: [tool] }, { ...kept, tools: [] }], refused: [kept, { ...kept, tools: [{}] }, { ...done, tools: [] }] },
  CallToolResult: {
    // TOOL-20, TOOL-25
    fits: [{ ...done, content: [] }, ...[[1], 'x', 0, false, null, {}].map(structuredContent => ({ ...done, content: [], structuredContent }))],
    refused: [done, { ...done, content: text }, { ...done, content: [{}] }, { ...done, content: [], isError: 1 }]
  },
  PromptArgument: { fits: [{ name: 'who' }, { name: 'who', title: 'Who', required: true }], refused: [{}, { name: 'who', required: 'yes' }] },
  // PRM-03
  Prompt: { fits: [{ name: 'greet' }, { name: 'greet', arguments: [{ name: 'who' }] }], refused: [{}, { name: 'greet', arguments: {} }] },
  // PRM-07
  PromptMessage: { fits: [{ role: 'user', content: text }], refused: [{ role: 'user', content: [text] }, { role: 'system', content: text }] },
  ListPromptsResult: { fits: [{ ...kept, prompts: [{ name: 'greet' }] }], refused: [kept, { ...done, prompts: [] }] },
  GetPromptResult: { fits: [{ ...done, messages: [{ role: 'user', content: text }] }], refused: [done, { ...done, messages: [{ role: 'user' }] }] },
  CompleteResult: {
    // CMP-03
    fits: [{ ...done, completion: { values: Array(100).fill('x'), total: 250, hasMore: true } }],
    refused: [{ ...done, completion: { values: Array(101).fill('x') } }, { ...done, completion: {} }, { ...done, completion: { values: [], total: 1.5 } }, done]
  },
  NotificationParams: { fits: [{}, { _meta: {} }], refused: [[], { _meta: [] }] },
  CancelledNotificationParams: { fits: [{ requestId: 0, reason: 'late' }], refused: [{}, { requestId: null }, { requestId: 1, reason: 2 }] },
  CancelledNotification: { fits: [notify('notifications/cancelled', { requestId: 1 })], refused: [notify('notifications/cancelled'), notify('notifications/cancelled', {})] },
  // PRG-02, PRG-03
  ProgressNotificationParams: { fits: [{ progressToken: '', progress: 0.5, total: 1, message: 'half' }], refused: [{ progress: 1 }, { progressToken: 't' }, { progressToken: 1.5, progress: 1 }] },
  ProgressNotification: { fits: [notify('notifications/progress', { progressToken: 1, progress: 1 })], refused: [notify('notifications/progress')] },
  LoggingMessageNotificationParams: { fits: [{ level: 'info', data: null }, { level: 'info', logger: 'db', data: { a: 1 } }], refused: [{ level: 'info' }, { level: 'loud', data: 1 }] },
  LoggingMessageNotification: { fits: [notify('notifications/message', { level: 'info', data: 'x' })], refused: [notify('notifications/message', {})] },
  ToolListChangedNotification: noParams('notifications/tools/list_changed'),
  PromptListChangedNotification: noParams('notifications/prompts/list_changed'),
  ResourceListChangedNotification: noParams('notifications/resources/list_changed'),
  ResourceUpdatedNotificationParams: { fits: [{ uri: 'orders://7' }], refused: [{}, { uri: 7 }] },
  ResourceUpdatedNotification: { fits: [notify('notifications/resources/updated', { uri: 'x' })], refused: [notify('notifications/resources/updated')] },
  SubscriptionFilter: {
    fits: [{}, { toolsListChanged: true, promptsListChanged: false, resourcesListChanged: true, resourceSubscriptions: ['orders://7'] }, { taskIds: [] }],
    refused: [[], { toolsListChanged: 1 }, { resourceSubscriptions: [1] }]
  },
  SubscriptionsAcknowledgedNotificationParams: { fits: [{ notifications: {} }], refused: [{}, { notifications: [] }] },
  // SUB-04
  SubscriptionsAcknowledgedNotification: {
    fits: [notify('notifications/subscriptions/acknowledged', { _meta: { 'io.modelcontextprotocol/subscriptionId': 0 }, notifications: {} })],
    refused: [notify('notifications/subscriptions/acknowledged', {})]
  },
  SubscriptionsListenResultMetaObject: { fits: [{ 'io.modelcontextprotocol/subscriptionId': '' }], refused: [{}, { 'io.modelcontextprotocol/subscriptionId': null }] },
  // SUB-17
  SubscriptionsListenResult: { fits: [{ ...done, _meta: { 'io.modelcontextprotocol/subscriptionId': 7 } }], refused: [done, { ...done, _meta: {} }] },
  ElicitRequest: { fits: [{ method: 'elicitation/create', params: form }, { method: 'elicitation/create', params: page }], refused: [{ method: 'elicitation/create' }, { method: 'roots/list', params: form }] },
  ElicitRequestParams: { fits: [form, page], refused: [{ message: 'x' }, { ...page, mode: 'popup' }] },
  // ELI-01, ELI-04
  ElicitRequestFormParams: {
    fits: [form, { ...form, mode: 'form' }],
    refused: [
      { ...form, message: undefined }, { ...form, mode: 'url' }, { ...form, requestedSchema: { type: 'object' } },
      { ...form, requestedSchema: { type: 'object', properties: { a: { type: 'object', properties: {} } } } },
      { ...form, requestedSchema: { type: 'object', properties: { a: { type: 'array', items: { type: 'object' } } } } },
      { ...form, requestedSchema: { type: 'object', properties: {}, required: 'a' } }
    ]
  },
  ElicitRequestURLParams: { fits: [page], refused: [{ message: 'x', url: 'y' }, { ...page, url: 1 }] },
  // ELI-15, ELI-16
  ElicitResult: {
    fits: [{ action: 'decline' }, { action: 'accept', content: { a: 'x', b: 1.5, c: true, d: ['x'] } }],
    refused: [{}, { action: 'maybe' }, { action: 'accept', content: { a: {} } }, { action: 'accept', content: { a: null } }, { action: 'accept', content: [] }, 12345]
  },
  // ELI-05
  StringSchema: { fits: [{ type: 'string', title: 'Mail', minLength: 1, maxLength: 9, format: 'email', default: 'a' }], refused: [{ type: 'number' }, { type: 'string', format: 'phone' }, { type: 'string', minLength: 1.5 }] },
  NumberSchema: { fits: [{ type: 'number' }, { type: 'integer', minimum: 0, maximum: 9.5, default: 1 }], refused: [{ type: 'string' }, { type: 'number', default: 'x' }] },
  BooleanSchema: { fits: [{ type: 'boolean', default: false }], refused: [{ type: 'boolean', default: 'no' }] },
  UntitledSingleSelectEnumSchema: { fits: [{ type: 'string', enum: ['r'], default: 'r' }], refused: [{ type: 'string' }, { type: 'string', enum: [1] }] },
  TitledSingleSelectEnumSchema: { fits: [{ type: 'string', oneOf: titled }], refused: [{ type: 'string', oneOf: [{ const: 'r' }] }] },
  UntitledMultiSelectEnumSchema: { fits: [{ type: 'array', items: { type: 'string', enum: ['r'] }, minItems: 1, default: [] }], refused: [{ type: 'array', items: { type: 'string' } }, { type: 'array' }] },
  TitledMultiSelectEnumSchema: { fits: [{ type: 'array', items: { anyOf: titled }, maxItems: 2 }], refused: [{ type: 'array', items: { anyOf: ['r'] } }] },
  LegacyTitledEnumSchema: { fits: [{ type: 'string', enum: ['r'], enumNames: ['Red'] }], refused: [{ type: 'string', enum: ['r'], enumNames: 'Red' }] },
  SingleSelectEnumSchema: { fits: [{ type: 'string', enum: ['r'] }, { type: 'string', oneOf: titled }], refused: [{ type: 'string' }] },
  MultiSelectEnumSchema: { fits: [{ type: 'array', items: { anyOf: titled } }, { type: 'array', items: { type: 'string', enum: ['r'] } }], refused: [{ type: 'array', items: {} }] },
  EnumSchema: { fits: [{ type: 'string', enum: ['r'] }, { type: 'array', items: { anyOf: titled } }], refused: [{ type: 'string' }] },
  PrimitiveSchemaDefinition: { fits: [{ type: 'string' }, { type: 'integer' }, { type: 'boolean' }, { type: 'string', enum: ['r'] }], refused: [{ type: 'object' }, { type: 'null' }, {}] },
  // SMP-10
  ModelHint: { fits: [{}, { name: 'small' }], refused: [{ name: 1 }] },
  ModelPreferences: { fits: [{ hints: [{ name: 'small' }], costPriority: 0, speedPriority: 1, intelligencePriority: 0.5 }], refused: [{ costPriority: 2 }, { speedPriority: -1 }, { hints: {} }] },
  ToolChoice: { fits: [{}, { mode: 'required' }], refused: [{ mode: 'maybe' }] },
  // SMP-06
  SamplingMessage: { fits: [turn, { role: 'assistant', content: [use] }], refused: [{ role: 'user' }, { role: 'user', content: [link] }, { role: 'system', content: text }] },
  // SMP-03
  CreateMessageRequestParams: {
    fits: [sampling, { ...sampling, includeContext: 'none', temperature: 0.2, metadata: {}, tools: [tool], toolChoice: { mode: 'auto' }, modelPreferences: {} }],
    refused: [{ messages: [] }, { ...sampling, maxTokens: 1.5 }, { ...sampling, messages: {} }, { ...sampling, metadata: [] }, { ...sampling, modelPreferences: { costPriority: 9 } }]
  },
  CreateMessageParams: { fits: [sampling], refused: [{}] },
  CreateMessageRequest: { fits: [{ method: 'sampling/createMessage', params: sampling }], refused: [{ method: 'sampling/createMessage' }] },
  // SMP-11
  CreateMessageResult: { fits: [generated, { ...generated, stopReason: 'anything' }], refused: [{ ...generated, model: 1 }, { ...generated, content: 'text' }, turn] },
  // ROOT-02
  Root: { fits: [{ uri: 'file:///home/ada', name: 'home' }], refused: [{}, { uri: 'https://orders.example' }, { uri: 'file:///x', name: 1 }] },
  ListRootsRequest: { fits: [{ method: 'roots/list' }, { method: 'roots/list', params: {} }], refused: [{ method: 'roots/read' }, { method: 'roots/list', params: [] }] },
  ListRootsResult: { fits: [{ roots: [] }, { roots: [{ uri: 'file:///x' }] }], refused: [{}, { roots: {} }, { roots: [{}] }] },
  // MRTR-03
  InputRequest: { fits: [{ method: 'roots/list' }, { method: 'elicitation/create', params: page }], refused: [{ method: 'tools/call', params: {} }] },
  InputRequests: { fits: [{}, { q: { method: 'roots/list' } }, { q: { method: 'elicitation/create', params: form } }], refused: [[], { q: {} }, { 'q\n': {} }] },
  // MRTR-17
  InputResponse: { fits: [{ action: 'cancel' }, generated, { roots: [] }], refused: [{}, 12345] },
  InputResponses: { fits: [{}, { q: { action: 'cancel' } }, { q: generated }], refused: [null, [], { q: 12345 }] },
  InputRequiredResult: {
    fits: [{ resultType: 'input_required', requestState: 's' }, { resultType: 'input_required', inputRequests: { q: { method: 'roots/list' } } }],
    refused: [done, { resultType: 'input_required', requestState: 1 }, { resultType: 'input_required', inputRequests: { q: {} } }]
  },
  // RPC-06, ERR-01
  ErrorObject: { fits: [error(1), error(-32603, null)], refused: [{ code: 1 }, { code: 1.5, message: 'x' }, { code: '1', message: 'x' }, { code: 1, message: 1 }] },
  ParseError: { fits: [error(-32700)], refused: [error(-32600)] },
  InvalidRequestError: { fits: [error(-32600, 'x')], refused: [error(-32700)] },
  MethodNotFoundError: { fits: [error(-32601)], refused: [error(-32602)] },
  InvalidParamsError: { fits: [error(-32602, { uri: 'x' })], refused: [error(-32002)] },
  InternalError: { fits: [error(-32603)], refused: [{ code: -32603 }] },
  HeaderMismatchError: { fits: [response({ error: error(-32020) })], refused: [response({ error: error(-32602) }), response({}), { error: error(-32020) }] },
  // CAP-02
  MissingRequiredClientCapabilityError: {
    fits: [response({ error: error(-32021, { requiredCapabilities: { sampling: {} } }) })],
    refused: [response({ error: error(-32021) }), response({ error: error(-32021, { requiredCapabilities: ['sampling'] }) })]
  },
  UnsupportedProtocolVersionError: {
    fits: [response({ error: error(-32022, { supported: ['2026-07-28'], requested: '2030-01-01' }) })],
    refused: [response({ error: error(-32022, { supported: [] }) }), response({ error: error(-32022) })]
  },
  // RPC-12
  JSONRPCRequest: { fits: [response({ method: 'x' }), response({ method: 'x', params: {} })], refused: [notify('x'), response({ method: 1 }), response({ method: 'x', params: [] }), { ...response({ method: 'x' }), jsonrpc: '1.0' }] },
  JSONRPCNotification: { fits: [notify('x'), notify('x', {})], refused: [notify('x', 5), { method: 'x' }] },
  JSONRPCResultResponse: { fits: [response({ result: done })], refused: [response({ result: {} }), { jsonrpc: '2.0', result: done }] },
  // RPC-08
  JSONRPCErrorResponse: { fits: [response({ error: error(1) }), { jsonrpc: '2.0', error: error(1) }], refused: [response({}), { jsonrpc: '2.0', id: null, error: error(1) }] },
  JSONRPCResponse: { fits: [response({ result: done }), response({ error: error(1) })], refused: [notify('x')] },
  JSONRPCMessage: { fits: [notify('x'), response({ result: done })], refused: [{}, [], { jsonrpc: '2.0', id: null, error: error(1) }] }
}

t.test('every exported schema has samples here', async t => {
  t.strictSame([...schemas.keys()].sort(), Object.keys(samples).sort())
})

for (const [name, { fits, refused }] of Object.entries(samples)) {
  t.test(`${name} takes what fits and refuses what does not`, async t => {
    const check = TypeCompiler.Compile(schemas.get(name) as TSchema)
    for (const value of fits) t.ok(check.Check(value), 'fits', { value })
    for (const value of refused) t.notOk(check.Check(value), 'is refused', { value })
  })
}

t.test('a dictionary in a dictionary is checked with the keys of each', async t => {
  const check = TypeCompiler.Compile(protocol.InputRequests)
  t.ok(check.Check({ first: { method: 'elicitation/create', params: form }, second: { method: 'elicitation/create', params: form } }))
  t.notOk(check.Check({ first: { method: 'elicitation/create', params: form }, second: {} }))
})

t.test('no schema depends on a format, which TypeBox knows only when it is registered', async t => {
  for (const [name, schema] of schemas) {
    const visit = (node: unknown): void => {
      if (typeof node !== 'object' || node === null) return
      if (KindGuard.IsSchema(node)) t.notOk('format' in node, name)
      Object.values(node).forEach(visit)
    }
    visit(schema)
  }
})

t.test('unknown members are tolerated at every level: RPC-13', async t => {
  const check = TypeCompiler.Compile(protocol.CallToolRequestParams)
  t.ok(check.Check({
    _meta: { ...meta, 'io.modelcontextprotocol/clientCapabilities': { later: 1, elicitation: { later: 1 } }, later: 1 },
    name: 'find',
    later: 1
  }))
})
