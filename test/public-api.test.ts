import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test, type Test } from 'tap'
import * as api from 'fastify-gen-mcp'
import * as legacy from 'fastify-gen-mcp/legacy'
import * as testing from 'fastify-gen-mcp/testing'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

// What is exported is a promise: these lists grow on purpose, and shrink with a major version.

const values = [
  'MCP_ERR_BAD_OPTION', 'MCP_ERR_BAD_PROVIDER', 'MCP_ERR_BAD_RETURN', 'MCP_ERR_BUS_DOWN', 'MCP_ERR_HEAD_SENT', 'McpError',
  'checkParamHeaders', 'completeResult', 'createMessage', 'default', 'defineServer', 'discoverResult', 'elicitForm', 'elicitUrl', 'fail', 'genMcp', 'getPromptResult',
  'inputRequired', 'listPromptsResult', 'listResourceTemplatesResult', 'listResourcesResult', 'listRoots', 'listToolsResult', 'messageType', 'readResourceResult', 'result',
  'routeRequests', 'serverInfo', 'stop', 'stream', 'toolResult', 'withArg'
]

/** Beside those that the specification defines. */
const types = [
  'ArgOf', 'Awaitable', 'BusListener', 'BusPacket', 'CacheHint', 'CallToolRequest', 'CallToolResult', 'Channel', 'CloseReason', 'CompleteParams', 'CompleteRequest',
  'Configurable', 'DeepReadonly', 'Emitter', 'ErrorOutcome', 'ErrorReason', 'ExchangeEnd', 'ExchangeRef', 'FormResponse', 'Gauges', 'GenMcpOptions', 'InputRequest',
  'InputRequests', 'InputRequiredOutcome', 'InputResponses', 'Limits', 'ListOptions', 'LogLevel', 'McpMethod', 'McpNotification', 'McpRequest', 'McpResult', 'MessageBus',
  'MessageOutcome', 'MethodMap', 'Mount', 'ParamsOf', 'ProtocolVersion', 'ReadOptions', 'RequestContext', 'RequestId', 'RequestMeta', 'RequestOf', 'RequestOutcome',
  'ResultMap', 'ResultOutcome', 'Routes', 'Schema', 'SendStatus', 'Server', 'ServerDefinition', 'ServerNotification', 'Source', 'Sources', 'StandardSchema', 'StopOutcome',
  'StreamOutcome', 'Streaming', 'TokenSealer', 'TypeBoxSchema', 'WithBytes'
]

/** What the Suite adds. */
const suiteValues = ['busSubscriptions', 'createSuite', 'definePrompt', 'definePrompts', 'defineResources', 'defineSubscriptions', 'defineTool']

const suiteTypes = [
  'BusSubscriptions', 'BusSubscriptionsOptions', 'Completer', 'Guarded', 'LogUpdate', 'Middleware', 'Page', 'ProgressUpdate', 'PromptDefinition', 'PromptProvider',
  'PromptsDefinition', 'ReadOutcome', 'ResourceProvider', 'ResourcesDefinition', 'SubscriptionProvider', 'SubscriptionsDefinition', 'Suite', 'SuiteExtension', 'SuiteOptions',
  'TemplateVars', 'ToolDefinition', 'ToolOutcome', 'ToolProvider'
]

test('fastify-gen-mcp exports these values and no others', async t => {
  t.strictSame(Object.keys(api).sort(), [...values, ...suiteValues].sort())
  t.equal(api.default, api.genMcp, 'the plugin, under both names')
})

test('fastify-gen-mcp exports these types and no others, and those of the specification', async t => {
  const { named, wholes } = typesOf('lib/index.ts')
  t.strictSame(named, [...types, ...suiteTypes].sort())
  t.strictSame(wholes, ['./protocol/index.js'])
})

test('fastify-gen-mcp/testing exports these values and types and no others', async t => {
  t.strictSame(Object.keys(testing).sort(), ['createTestClient', 'readSse', 'testExchange'])
  t.strictSame(typesOf('lib/testing/index.ts'), { named: ['SseEvent', 'TestAnswer', 'TestClient', 'TestExchange', 'TestRequestOptions', 'TestStream'], wholes: [] })
})

test('fastify-gen-mcp/legacy exports these values and types and no others', async t => {
  t.strictSame(Object.keys(legacy).sort(), ['memoryEvents', 'pauseStream', 'sealedSessions', 'sessionControllerTests'])
  t.strictSame(typesOf('lib/legacy/index.ts'), {
    named: ['EventStore', 'LegacyOptions', 'LegacyVersion', 'Session', 'SessionController', 'StoredEvent'], wholes: []
  })
})

test('what is exported to be called is a function, and what is thrown an error', async t => {
  for (const [name, value] of Object.entries(api)) isOfItsKind(t, name, value)
})

function isOfItsKind (t: Test, name: string, value: unknown): void {
  if (name === 'toolResult') t.strictSame(Object.keys(value as object).sort(), ['content', 'data', 'error', 'text'])
  else t.type(value, 'function', name)
  if (/^MCP_ERR_|Error$/.test(name)) t.ok((value as { readonly prototype: unknown }).prototype instanceof Error, name)
}

/** The types that a module exports by name, and the modules of which it exports all types. */
function typesOf (file: string): { readonly named: readonly string[], readonly wholes: readonly string[] } {
  const text = readFileSync(join(root, file), 'utf8').replaceAll(/\/\/.*/g, '')
  const lists = [...text.matchAll(/export type \{([^}]*)\}/g)].flatMap(([, list = '']) => list.split(','))
  return {
    named: lists.map(name => name.trim().replace(/^.* as /, '')).filter(name => name !== '').sort(),
    wholes: [...text.matchAll(/export type \* from '([^']*)'/g)].map(([, path = '']) => path)
  }
}
