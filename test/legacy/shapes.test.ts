import { existsSync, readFileSync } from 'node:fs'
import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import {
  completeResult, createSuite, defineServer, defineTool, getPromptResult, listPromptsResult, listResourcesResult, listResourceTemplatesResult, listToolsResult,
  readResourceResult, result, toolResult,
  type ContentBlock, type JsonObject, type Prompt, type Resource, type ResourceTemplate, type Tool
} from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { messagesOf } from '../helpers/messages.js'
import { createListenServer, toolServer } from '../helpers/servers.js'
import { open, VERSIONS, type LegacySession } from './helpers.js'
import type { LegacyVersion } from 'fastify-gen-mcp/legacy'
import type { Message } from '../helpers/messages.js'

// ---- a server that uses all that 2026-07-28 has

const icons = [{ src: 'https://example.com/a.png', mimeType: 'image/png', sizes: ['48x48'], theme: 'light' as const }]
const annotations = { audience: ['user' as const], priority: 0.5, lastModified: '2026-01-01T00:00:00Z' }
const _meta = { 'example.com/own': { a: 1 } }
const info = { name: 'rich', version: '1.0.0', title: 'Rich', description: 'All there is', websiteUrl: 'https://example.com', icons }

const objectTool: Tool = {
  name: 'object',
  title: 'Object',
  description: 'Gives an object',
  icons,
  inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
  outputSchema: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
  annotations: { title: 'An object', readOnlyHint: true },
  _meta
}
const arrayTool: Tool = { name: 'array', inputSchema: { type: 'object' }, outputSchema: { type: 'array', items: { type: 'number' } } }
const unionTool: Tool = { name: 'union', inputSchema: { type: 'object' }, outputSchema: { anyOf: [{ type: 'object' }, { type: 'null' }] } }
const blocks: readonly ContentBlock[] = [
  { type: 'text', text: 'said', annotations, _meta },
  { type: 'image', data: 'AAAA', mimeType: 'image/png', annotations },
  { type: 'audio', data: 'AAAA', mimeType: 'audio/wav', _meta },
  { type: 'resource_link', uri: 'x://a', name: 'a', title: 'A', description: 'The first', mimeType: 'text/plain', size: 5, icons, annotations, _meta },
  { type: 'resource_link', uri: 'x://b', name: 'b' },
  { type: 'resource', resource: { uri: 'x://a', mimeType: 'text/plain', text: 'a', _meta }, annotations, _meta }
]
const resource: Resource = { uri: 'x://a', name: 'a', title: 'A', description: 'The first', mimeType: 'text/plain', size: 5, annotations, icons, _meta }
const template: ResourceTemplate = { uriTemplate: 'x://{id}', name: 'letters', title: 'Letters', description: 'All', mimeType: 'text/plain', annotations, icons, _meta }
const prompt: Prompt = { name: 'greet', title: 'Greet', description: 'Greets', icons, arguments: [{ name: 'who', title: 'Who', description: 'Whom to greet', required: true }], _meta }

const rich = defineServer({
  info,
  instructions: 'Use it.',
  capabilities: { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true }, prompts: {}, completions: {}, logging: {}, extensions: { 'example.com/e': {} } },
  handleRequest: {
    'tools/list': () => result({
      ...listToolsResult([objectTool, arrayTool, unionTool], { nextCursor: 'next', cache: { scope: 'public', ttlMs: 1_000 } }),
      _meta: { ..._meta, 'io.modelcontextprotocol/serverInfo': info }
    }),
    'tools/call': ({ params: { name } }) => {
      if (name === 'object') return result({ ...toolResult.data({ a: 1 }), _meta })
      if (name === 'array') return result(toolResult.data([1, 2]))
      if (name === 'silent array') return result(toolResult.data([1, 2], { text: false }))
      if (name === 'silent object') return result(toolResult.data({ a: 1 }, { text: false }))
      if (name === 'null') return result(toolResult.data(null, { text: 'nothing' }))
      return result(name === 'error' ? toolResult.error('It failed', ...blocks) : toolResult.content(...blocks))
    },
    'resources/list': () => result(listResourcesResult([resource], { nextCursor: 'next' })),
    'resources/templates/list': () => result(listResourceTemplatesResult([template])),
    'resources/read': () => result(readResourceResult([{ uri: 'x://a', mimeType: 'text/plain', text: 'a', _meta }, { uri: 'x://b', blob: 'AAAA' }])),
    'prompts/list': () => result(listPromptsResult([prompt, { name: 'bare' }])),
    'prompts/get': () => result(getPromptResult(blocks.map(content => ({ role: 'user' as const, content })), { description: 'Greets' })),
    'completion/complete': () => result(completeResult(['a', 'b'], { total: 2 }))
  }
})

/** The requests of a client that asks for all of it, and the definition of the schemas that each is answered by. */
const requests = {
  'tools/list': [{}, 'ListToolsResult'],
  'tools/call': [{ name: 'content' }, 'CallToolResult'],
  'resources/list': [{}, 'ListResourcesResult'],
  'resources/templates/list': [{}, 'ListResourceTemplatesResult'],
  'resources/read': [{ uri: 'x://a' }, 'ReadResourceResult'],
  'prompts/list': [{}, 'ListPromptsResult'],
  'prompts/get': [{ name: 'greet', arguments: { who: 'you' } }, 'GetPromptResult'],
  'completion/complete': [{ ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'who', value: '' } }, 'CompleteResult']
} as const

async function resultOf (session: LegacySession, method: string, params: JsonObject): Promise<JsonObject | undefined> {
  const { result } = (await session.request(method, params)).json<Message>()
  return result
}

/** An object without some of its members. */
function without<T extends object> (value: T, ...names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))
}

// ---- one server, each revision

const { outputSchema: _schema, ...plainArrayTool } = arrayTool
const { outputSchema: _other, ...plainUnionTool } = unionTool

/** What each revision has of the server, member by member. */
const expected: Readonly<Record<LegacyVersion, Readonly<Record<keyof typeof requests, object>>>> = {
  '2025-11-25': {
    'tools/list': { tools: [objectTool, plainArrayTool, plainUnionTool], nextCursor: 'next', _meta },
    'tools/call': { content: blocks },
    'resources/list': { resources: [resource], nextCursor: 'next' },
    'resources/templates/list': { resourceTemplates: [template] },
    'resources/read': { contents: [{ uri: 'x://a', mimeType: 'text/plain', text: 'a', _meta }, { uri: 'x://b', blob: 'AAAA' }] },
    'prompts/list': { prompts: [prompt, { name: 'bare' }] },
    'prompts/get': { description: 'Greets', messages: blocks.map(content => ({ role: 'user', content })) },
    'completion/complete': { completion: { values: ['a', 'b'], total: 2 } }
  },
  '2025-06-18': {
    'tools/list': { tools: [without(objectTool, 'icons'), plainArrayTool, plainUnionTool], nextCursor: 'next', _meta },
    'tools/call': { content: blocks.map(block => without(block, 'icons')) },
    'resources/list': { resources: [without(resource, 'icons')], nextCursor: 'next' },
    'resources/templates/list': { resourceTemplates: [without(template, 'icons')] },
    'resources/read': { contents: [{ uri: 'x://a', mimeType: 'text/plain', text: 'a', _meta }, { uri: 'x://b', blob: 'AAAA' }] },
    'prompts/list': { prompts: [without(prompt, 'icons'), { name: 'bare' }] },
    'prompts/get': { description: 'Greets', messages: blocks.map(block => ({ role: 'user', content: without(block, 'icons') })) },
    'completion/complete': { completion: { values: ['a', 'b'], total: 2 } }
  },
  '2025-03-26': {
    'tools/list': { tools: [without(objectTool, 'icons', 'title', 'outputSchema', '_meta'), plainArrayTool, plainUnionTool], nextCursor: 'next', _meta },
    'tools/call': {
      content: [
        { type: 'text', text: 'said', annotations },
        { type: 'image', data: 'AAAA', mimeType: 'image/png', annotations },
        { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
        { type: 'text', text: 'A: x://a' },
        { type: 'text', text: 'b: x://b' },
        { type: 'resource', resource: { uri: 'x://a', mimeType: 'text/plain', text: 'a' }, annotations }
      ]
    },
    'resources/list': { resources: [without(resource, 'icons', 'title', '_meta')], nextCursor: 'next' },
    'resources/templates/list': { resourceTemplates: [without(template, 'icons', 'title', '_meta')] },
    'resources/read': { contents: [{ uri: 'x://a', mimeType: 'text/plain', text: 'a' }, { uri: 'x://b', blob: 'AAAA' }] },
    'prompts/list': { prompts: [{ name: 'greet', description: 'Greets', arguments: [{ name: 'who', description: 'Whom to greet', required: true }] }, { name: 'bare' }] },
    'prompts/get': {
      description: 'Greets',
      messages: [
        { role: 'user', content: { type: 'text', text: 'said', annotations } },
        { role: 'user', content: { type: 'image', data: 'AAAA', mimeType: 'image/png', annotations } },
        { role: 'user', content: { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' } },
        { role: 'user', content: { type: 'text', text: 'A: x://a' } },
        { role: 'user', content: { type: 'text', text: 'b: x://b' } },
        { role: 'user', content: { type: 'resource', resource: { uri: 'x://a', mimeType: 'text/plain', text: 'a' }, annotations } }
      ]
    },
    'completion/complete': { completion: { values: ['a', 'b'], total: 2 } }
  }
}

test('one server is to each revision what that revision knows, and nothing of it is modern: LEG-13, LEG-80, LEG-84', async t => {
  const app = await mount(t, { server: rich })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const [method, [params]] of Object.entries(requests)) {
      t.strictSame(await resultOf(session, method, params), expected[version][method as keyof typeof requests], `${version}, ${method}`)
    }
  }
  const modern = { resultType: 'complete', ttlMs: 1_000, cacheScope: 'public', tools: [objectTool, arrayTool, unionTool] }
  t.match((await call(app, 'tools/list')).json(), { result: modern }, 'what older clients are not given is there for others')
})

test('a failed call is one in each revision, with its content: LEG-80, LEG-84', async t => {
  const app = await mount(t, { server: rich })
  for (const version of VERSIONS) {
    const { content } = expected[version]['tools/call'] as { readonly content: readonly object[] }
    t.strictSame(await resultOf(await open(app, version), 'tools/call', { name: 'error' }), { content: [{ type: 'text', text: 'It failed' }, ...content], isError: true }, version)
  }
})

test('structured content is an object from 2025-06-18 on, and nothing before; what is left out is said as text: LEG-81', async t => {
  const app = await mount(t, { server: rich })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    const structured = version !== '2025-03-26'
    const text = (text: string) => [{ type: 'text', text }]
    t.strictSame(await resultOf(session, 'tools/call', { name: 'object' }), { content: text('{"a":1}'), ...(structured && { structuredContent: { a: 1 } }), _meta }, `${version}: an object`)
    t.strictSame(await resultOf(session, 'tools/call', { name: 'array' }), { content: text('[1,2]') }, `${version}: an array`)
    t.strictSame(await resultOf(session, 'tools/call', { name: 'null' }), { content: text('nothing') }, `${version}: null, with a text of its own`)
    t.strictSame(await resultOf(session, 'tools/call', { name: 'silent array' }), { content: text('[1,2]') }, `${version}: an array without a text`)
    const silent = structured ? { content: [], structuredContent: { a: 1 } } : { content: text('{"a":1}') }
    t.strictSame(await resultOf(session, 'tools/call', { name: 'silent object' }), silent, `${version}: an object without a text`)
  }
})

test('what is no list, and what in a list is no object, stays as it is', async t => {
  const odd = { resultType: 'complete', content: [5, null, { type: 'text', text: 'x' }], messages: [{ role: 'user', content: 'bare' }, 7], tools: 'none', structuredContent: { a: 1 } }
  const server = toolServer(() => result(odd as unknown as ReturnType<typeof toolResult.text>))
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const { resultType: _, structuredContent, ...rest } = odd
    t.strictSame(await resultOf(await open(app, version), 'tools/call', { name: 'x' }), { ...rest, ...(version !== '2025-03-26' && { structuredContent }) }, version)
  }
})

test('an empty result stays empty, and keys of the protocol in _meta go: LEG-13', async t => {
  const empty = { resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': info } }
  const app = await mount(t, { server: toolServer(() => result(empty as unknown as ReturnType<typeof toolResult.text>)) })
  for (const version of VERSIONS) t.strictSame(await resultOf(await open(app, version), 'tools/call', { name: 'x' }), {}, version)
})

test('a frozen result is rendered once for each revision, and right for each', async t => {
  let rendered = 0
  const frozen = Object.freeze({ ...listToolsResult([objectTool]), toJSON: undefined })
  const counted = Object.freeze({
    toJSON () {
      rendered++
      return { ...frozen }
    }
  })
  const server = defineServer({ info, capabilities: { tools: {} }, handleRequest: { 'tools/list': () => result(counted as unknown as typeof frozen) } })
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    const first = await resultOf(session, 'tools/list', {})
    rendered = 0
    t.strictSame(await resultOf(session, 'tools/list', {}), first, version)
    t.equal(rendered, 0, version)
    t.equal(JSON.stringify(first).includes('"icons"'), version === '2025-11-25', version)
  }
})

test('notifications lose what only a listen has, and no more: LEG-13, LEG-80', async t => {
  const server = toolServer((_request, channel) => {
    channel.sendLog('warning', { a: [1] }, 'logger')
    return result(toolResult.text('done'))
  })
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const messages = await messagesOf(await (await open(app, version)).request('tools/call', { name: 'x' }))
    t.strictSame(messages.filter(({ method }) => method !== undefined), [{ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'warning', logger: 'logger', data: { a: [1] } } }], version)
  }
})

test('a notification of an extension goes to those who declared it, with the _meta that is its own: LEG-13', async t => {
  const server = toolServer((_request, channel) => {
    channel.sendNotification({ extension: 'example.com/e', method: 'example.com/happened', params: { a: 1, _meta: { ..._meta, 'io.modelcontextprotocol/subscriptionId': 1 } } })
    return result(toolResult.text('done'))
  })
  const app = await mount(t, { server })
  for (const [extensions, count] of [[{ 'example.com/e': {} }, 1], [{}, 0]] as const) {
    const messages = await messagesOf(await (await open(app, '2025-06-18', { capabilities: { extensions } })).request('tools/call', { name: 'x' }))
    t.strictSame(messages.slice(0, -1), Array(count).fill({ jsonrpc: '2.0', method: 'example.com/happened', params: { a: 1, _meta } }))
  }
})

// ---- what is told by errors

const suite = () => createSuite({
  info,
  tools: [defineTool({ name: 'add', input: Type.Object({ a: Type.Number() }), output: Type.Object({ sum: Type.Number() }), call: ({ a }) => toolResult.data({ sum: a }) })],
  resources: [],
  prompts: []
})

test('arguments that do not fit are a failure that the model may read, in each revision; an unknown tool is -32602: LEG-82, LEG-83', async t => {
  const app = await mount(t, { server: suite() })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    const failed = await session.request('tools/call', { name: 'add', arguments: { a: 'one' } })
    t.equal(failed.statusCode, 200)
    t.match(failed.json(), { id: 1, result: { isError: true, content: [{ type: 'text', text: /\ba\b/ }] } }, version)
    const unknown = await session.request('tools/call', { name: 'none' })
    t.equal(unknown.statusCode, 200)
    t.match(unknown.json(), { id: 1, error: { code: -32602, data: { tool: 'none' } } }, version)
    t.match((await session.request('prompts/get', { name: 'none' })).json(), { error: { code: -32602 } }, version)
  }
})

test('a task that a client asks for is not made, and the call is answered as any: LEG-85', async t => {
  const app = await mount(t, { server: suite() })
  const session = await open(app, '2025-11-25', { capabilities: { tasks: { requests: {} } } })
  t.notOk('tasks' in (session.opened.json<Message>().result?.['capabilities'] as object))
  t.strictSame(await resultOf(session, 'tools/call', { name: 'add', arguments: { a: 1 }, task: { ttl: 1_000 } }), { content: [{ type: 'text', text: '{"sum":1}' }], structuredContent: { sum: 1 } })
  const { tools } = await resultOf(session, 'tools/list', {}) as { readonly tools: readonly object[] }
  t.notOk(tools.some(tool => 'execution' in tool))
  for (const method of ['tasks/get', 'tasks/result', 'tasks/list', 'tasks/cancel']) t.match((await session.request(method, { taskId: 'x' })).json(), { error: { code: -32601 } }, method)
})

// ---- the specification's own schemas, which are not part of this project

for (const version of VERSIONS) {
  const file = new URL(`../../../shared/protocol/schema-${version}.json`, import.meta.url)
  const skip = existsSync(file) ? false : `the published schema of ${version} is not here; the test above says what each member is to be`

  test(`what a session of ${version} is sent fits the published schema: LEG-80, LEG-81, LEG-86`, { skip }, async t => {
    const check = compile(JSON.parse(readFileSync(file, 'utf8')) as JsonObject)
    t.throws(() => { check('CallToolResult', { content: 5 }) }, 'the schema refuses what does not fit')
    for (const server of [rich, suite(), createListenServer().server]) await checkServer(t, version, server, check)
  })
}

type Check = (name: string, value: unknown) => void

/** Throws for what does not fit a definition of the schema. */
function compile (schema: JsonObject): Check {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(schema, 'mcp')
  const definitions = '$defs' in schema ? '$defs' : 'definitions'
  return (name, value) => {
    const validate = ajv.getSchema(`mcp#/${definitions}/${name}`)
    if (validate === undefined) throw new Error(`There is no ${name}`)
    if (validate(value) !== true) throw new Error(`${name}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`)
  }
}

async function checkServer (t: Test, version: LegacyVersion, server: Parameters<typeof mount>[1]['server'], check: Check): Promise<void> {
  const session = await open(await mount(t, { server }), version)
  const initialized = session.opened.json<Message>()
  t.doesNotThrow(() => { check('InitializeResult', initialized.result) })
  for (const [method, [params, name]] of Object.entries(requests)) {
    const message = (await session.request(method, params)).json<Message>()
    t.doesNotThrow(() => { check(message.error === undefined ? name : version === '2025-11-25' ? 'JSONRPCErrorResponse' : 'JSONRPCError', message.result ?? message) }, method)
  }
  for (const name of ['object', 'array', 'silent array', 'null', 'error', 'add']) {
    const { result } = (await session.request('tools/call', { name, arguments: { a: 1 } })).json<Message>()
    if (result !== undefined) t.doesNotThrow(() => { check('CallToolResult', result) }, name)
  }
  const pong = (await session.request('ping')).json<Message>().result
  t.doesNotThrow(() => { check('EmptyResult', pong) })
}
