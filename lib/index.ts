export { genMcp, genMcp as default } from './plugin.js'
export { defineServer, messageType, routeRequests, withArg } from './define-server.js'
export { fail, inputRequired, result, stop, stream } from './outcome.js'
export { McpError, MCP_ERR_BAD_OPTION, MCP_ERR_BAD_PROVIDER, MCP_ERR_BAD_RETURN, MCP_ERR_BUS_DOWN, MCP_ERR_HEAD_SENT } from './errors.js'
export { createMessage, elicitForm, elicitUrl, listRoots } from './channel/questions.js'
export { createSuite } from './suite/suite.js'
export { defineTool } from './suite/tool.js'
export { defineResources } from './suite/resources.js'
export { definePrompt, definePrompts } from './suite/prompts.js'
export { defineSubscriptions } from './suite/subscriptions.js'
export { busSubscriptions } from './suite/bus.js'
export { checkParamHeaders } from './transport/param-headers.js'
export {
  completeResult, discoverResult, getPromptResult, listPromptsResult, listResourcesResult, listResourceTemplatesResult, listToolsResult, readResourceResult,
  serverInfo, toolResult
} from './protocol/index.js'

export type * from './protocol/index.js'
// The contract's own forms of what the wire has too.
export type { CacheHint, CallToolResult, ListOptions, ReadOptions, WithBytes } from '../types/results.js'
export type { FormResponse, InputRequest, InputRequests, InputResponses } from '../types/input.js'
export type {
  CallToolRequest, CompleteParams, CompleteRequest, LogLevel, McpMethod, McpNotification, McpRequest, McpResult, MethodMap, ParamsOf, ProtocolVersion,
  RequestId, RequestMeta, RequestOf, ResultMap
} from '../types/request.js'
export type {
  BusListener, BusPacket, Channel, Emitter, MessageBus, RequestContext, SendStatus, ServerNotification, Source, Sources, TokenSealer
} from '../types/channel.js'
export type { CloseReason, ExchangeEnd, ExchangeRef } from '../types/exchange.js'
export type { ErrorReason } from '../types/errors.js'
export type {
  ErrorOutcome, InputRequiredOutcome, MessageOutcome, RequestOutcome, ResultOutcome, StopOutcome, StreamOutcome
} from '../types/outcome.js'
export type { ArgOf, Configurable, Routes, Server, ServerDefinition, Streaming } from '../types/server.js'
export type {
  BusSubscriptions, BusSubscriptionsOptions, Completer, Guarded, LogUpdate, Middleware, Page, ProgressUpdate, PromptDefinition, PromptProvider,
  PromptsDefinition, ReadOutcome, ResourceProvider, ResourcesDefinition, SubscriptionProvider, SubscriptionsDefinition, Suite, SuiteExtension, SuiteOptions,
  ToolDefinition, ToolOutcome, ToolProvider
} from '../types/providers.js'
export type { TemplateVars } from '../types/template-vars.js'
export type { Awaitable, DeepReadonly, Schema, StandardSchema, TypeBoxSchema } from '../types/schema.js'
export type { GenMcpOptions, Limits } from '../types/options.js'
export type { Gauges, Mount } from '../types/fastify.js'
