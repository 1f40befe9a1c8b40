import { Value } from '@sinclair/typebox/value'
import { test } from 'tap'
import { McpError, result, toolResult, type McpResult } from 'fastify-gen-mcp'
import { DiscoverResult, JSONRPCResultResponse } from '../../lib/protocol/index.js'
import { createCodec } from '../../lib/transport/codec.js'
import { call, mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { bareServer, echo, info } from '../helpers/servers.js'

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'
const bare = createCodec(undefined)
const named = createCodec(info)
/** What is answered: a result without cache hints, or with them, at first and when the client calls again. */
const plain = { id: 1, cacheable: false, retried: false }
const plainAgain = { id: 1, cacheable: false, retried: true }
const cacheable = { id: 1, cacheable: true, retried: false }
const cacheableAgain = { id: 1, cacheable: true, retried: true }

test('a result goes out under the id of its request, whatever that is: RPC-01, RPC-03, RPC-04', t => {
  for (const id of [0, -1, '', '1', 'a"b\n']) {
    const response = JSON.parse(bare.result({ ...plain, id }, { content: [] }))
    t.strictSame(response, { jsonrpc: '2.0', id, result: { resultType: 'complete', content: [] } })
    t.ok(Value.Check(JSONRPCResultResponse, response))
  }
  t.end()
})

test('a result that does not say what it is, is complete: RPC-05', t => {
  for (const answered of [plain, plainAgain, cacheable, cacheableAgain]) {
    const typeOf = (sent: object): unknown => JSON.parse(bare.result(answered, sent)).result.resultType
    const about = JSON.stringify(answered)
    t.equal(typeOf({ a: 1 }), 'complete', about)
    t.equal(typeOf({}), 'complete', about)
    t.equal(typeOf({ a: 1, resultType: undefined }), 'complete', `${about}, with a member that is undefined`)
    t.equal(typeOf({ resultType: 'input_required' }), 'input_required', about)
  }
  t.end()
})

test('a result that may be kept says for how long and by whom, and one that says so itself is left alone: CACHE-01', t => {
  const hints = (sent: object): object => {
    const { ttlMs, cacheScope } = JSON.parse(bare.result(cacheable, sent)).result
    return { ttlMs, cacheScope }
  }
  t.strictSame(hints({}), { ttlMs: 0, cacheScope: 'private' })
  t.strictSame(hints({ resultType: 'complete' }), { ttlMs: 0, cacheScope: 'private' })
  t.strictSame(hints({ ttlMs: 5 }), { ttlMs: 5, cacheScope: 'private' })
  t.strictSame(hints({ resultType: 'complete', cacheScope: 'public' }), { ttlMs: 0, cacheScope: 'public' })
  t.strictSame(hints({ resultType: 'complete', ttlMs: 5, cacheScope: 'public' }), { ttlMs: 5, cacheScope: 'public' })
  t.strictSame(hints({ ttlMs: undefined, cacheScope: undefined }), { ttlMs: 0, cacheScope: 'private' }, 'with members that are undefined')
  t.notMatch(bare.result(plain, { a: 1 }), /ttlMs|cacheScope/)
  t.notMatch(bare.result(cacheable, { resultType: 'input_required' }), /ttlMs|cacheScope/)
  t.end()
})

test('of a retry nothing is kept, whatever the author says: CACHE-01', t => {
  const kept = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' }
  t.match(JSON.parse(bare.result(cacheableAgain, kept)).result, { resultType: 'complete', ttlMs: 0, cacheScope: 'private' })
  t.strictSame(JSON.parse(bare.result(plainAgain, { resultType: 'complete', content: [] })).result, { resultType: 'complete', content: [] })
  t.notMatch(bare.result(cacheableAgain, { resultType: 'input_required' }), /ttlMs|cacheScope/)
  t.end()
})

test('a result that is frozen is answered again as it is, to any request: RPC-03', t => {
  const list = Object.freeze({ resultType: 'complete', tools: [{ name: 'a' }], ttlMs: 60_000, cacheScope: 'public', _meta: { 'com.example/x': 1 } })
  for (const codec of [bare, named]) {
    const answers = [1, 'b', 0].map(id => JSON.parse(codec.result({ ...cacheable, id }, list)))
    t.strictSame(answers.map(({ id }) => id), [1, 'b', 0])
    for (const { result } of answers) t.match(result, list)
  }
  t.equal(JSON.parse(named.result(cacheable, list)).result._meta[SERVER_INFO].name, info.name)
  t.notOk(SERVER_INFO in JSON.parse(bare.result(cacheable, list)).result._meta, 'each codec has its own')
  t.end()
})

test('of a retry nothing is kept, though the result is frozen and was answered before: CACHE-01', t => {
  const list = Object.freeze({ resultType: 'complete', contents: [], ttlMs: 60_000, cacheScope: 'public' })
  const hints = (answered: typeof cacheable): object => {
    const { ttlMs, cacheScope } = JSON.parse(bare.result(answered, list)).result
    return { ttlMs, cacheScope }
  }
  t.strictSame(hints(cacheable), { ttlMs: 60_000, cacheScope: 'public' })
  t.strictSame(hints(cacheableAgain), { ttlMs: 0, cacheScope: 'private' })
  t.strictSame(hints(cacheable), { ttlMs: 60_000, cacheScope: 'public' }, 'and the first kind stays as it was')
  t.end()
})

test('progress goes out as any notification does: RPC-01', t => {
  for (const [token, progress, total, message] of [
    ['a"b\n', 1, undefined, undefined], [0, 0.5, 1, 'half'], ['', 1e21, 1e-7, 'line\nbreak "quoted" \u2028'], [-1, -0.000001, 0, '']
  ] as const) {
    const params = { progressToken: token, progress, ...(total !== undefined && { total }), ...(message !== undefined && { message }) }
    t.strictSame(JSON.parse(bare.progress(token, progress, total, message)), { jsonrpc: '2.0', method: 'notifications/progress', params })
  }
  t.end()
})

test('results name the server, beside whatever _meta they have, unless they name one themselves: META-05, META-06', t => {
  const metaOf = (sent: object): unknown => JSON.parse(named.result(plain, sent)).result._meta
  t.strictSame(metaOf({ content: [] }), { [SERVER_INFO]: info })
  t.strictSame(metaOf({ _meta: {} }), { [SERVER_INFO]: info })
  t.strictSame(metaOf({ _meta: undefined }), { [SERVER_INFO]: info })
  t.strictSame(metaOf({ _meta: { 'com.example/x': 1 } }), { [SERVER_INFO]: info, 'com.example/x': 1 })
  const other = { name: 'other', version: '2' }
  t.strictSame(metaOf({ _meta: { [SERVER_INFO]: other } }), { [SERVER_INFO]: other })
  t.end()
})

test('a codec without a server to name leaves _meta as it is', t => {
  t.notOk('_meta' in JSON.parse(bare.result(plain, { content: [] })).result)
  t.strictSame(JSON.parse(bare.result(plain, { _meta: { 'com.example/x': 1 } })).result._meta, { 'com.example/x': 1 })
  t.end()
})

test('a result with its _meta fits the schema, in every form that it is written in: RPC-04, META-06', t => {
  for (const codec of [bare, named]) {
    for (const sent of [{}, { a: [1, 'x'] }, { _meta: {} }, { _meta: { a: 1 }, b: 2 }, { resultType: 'complete' }]) {
      t.ok(Value.Check(JSONRPCResultResponse, JSON.parse(codec.result(plain, sent))), JSON.stringify(sent))
    }
  }
  t.end()
})

test('what ends a listen is its result, under its id and with its subscription', t => {
  t.strictSame(JSON.parse(bare.complete({ ...plain, id: '' })),
    { jsonrpc: '2.0', id: '', result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': '' } } })
  t.strictSame(JSON.parse(named.complete({ ...plain, id: 0 })),
    { jsonrpc: '2.0', id: 0, result: { resultType: 'complete', _meta: { [SERVER_INFO]: info, 'io.modelcontextprotocol/subscriptionId': 0 } } })
  t.end()
})

test('a result that is no JSON object throws: TOOL-36', t => {
  const cyclic: { self?: object } = {}
  cyclic.self = cyclic
  for (const wrong of [cyclic, { n: 1n }, { toJSON: () => [] }, { toJSON: () => 'x' }, { toJSON: () => undefined }, { toJSON: () => ({}) }]) {
    t.throws(() => bare.result(plain, { resultType: 'complete', ...wrong }))
    t.throws(() => named.result(plain, { resultType: 'complete', ...wrong }))
  }
  t.end()
})

test('an error goes out with its code, message and data, without an id where there was none, and names no server: RPC-06, RPC-08, ERR-10', t => {
  const error = new McpError({ kind: 'unsupportedMethod', method: 'x' })
  for (const codec of [bare, named]) {
    const object = { code: -32601, message: 'Method not found', data: { method: 'x' } }
    t.strictSame(JSON.parse(codec.error(0, error)), { jsonrpc: '2.0', id: 0, error: object })
    t.strictSame(JSON.parse(codec.error(undefined, error)), { jsonrpc: '2.0', error: object })
    t.strictSame(JSON.parse(codec.error('', new McpError({ kind: 'crash' }))), { jsonrpc: '2.0', id: '', error: { code: -32603, message: 'Internal error' } })
  }
  t.end()
})

test('an error whose data is no JSON goes out without it: ERR-08', t => {
  const cyclic: { self?: object } = {}
  cyclic.self = cyclic
  for (const data of [cyclic, 1n, { n: 1n }, () => {}]) {
    const error = new McpError({ kind: 'custom', rpcCode: 5, message: 'mine', data })
    t.strictSame(JSON.parse(bare.error(1, error)), { jsonrpc: '2.0', id: 1, error: { code: 5, message: 'mine' } })
  }
  t.strictSame(JSON.parse(bare.error(1, new McpError({ kind: 'custom', rpcCode: 5, message: 'mine', data: [null] }))).error.data, [null])
  t.end()
})

test('a notification has no id, and params if it has any: RPC-01, RPC-10', t => {
  t.strictSame(JSON.parse(bare.notification('notifications/x', undefined)), { jsonrpc: '2.0', method: 'notifications/x' })
  t.strictSame(JSON.parse(named.notification('notifications/x', { a: 1 })), { jsonrpc: '2.0', method: 'notifications/x', params: { a: 1 } })
  t.end()
})

test('every method of a server with info has the server in the _meta of its results, and an option turns it off: META-05', async t => {
  // The shortest result there is, whatever the method.
  const handleRequest = () => result({ resultType: 'complete' } as McpResult)
  const server = { info, capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} }, handleRequest }
  const methods = {
    'server/discover': {},
    'tools/list': {},
    'tools/call': { name: 'x' },
    'resources/list': {},
    'resources/templates/list': {},
    'resources/read': { uri: 'a:b' },
    'prompts/list': {},
    'prompts/get': { name: 'x' },
    'completion/complete': { ref: { type: 'ref/prompt', name: 'x' }, argument: { name: 'a', value: '' } }
  }
  const app = await mount(t, { server })
  const silent = await mount(t, { server, sendServerInfo: false })
  for (const [method, params] of Object.entries(methods)) {
    const { result: answered } = (await call(app, method, params)).json()
    t.strictSame(answered._meta, { [SERVER_INFO]: info }, method)
    t.equal(answered.resultType, 'complete')
    t.notOk('serverInfo' in answered)
    t.notOk('_meta' in (await call(silent, method, params)).json().result, method)
  }
})

test('names that the core gives to members of _meta are well-formed, and reserved for the protocol: META-07, META-08, META-12', t => {
  const label = '[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?'
  const key = new RegExp(`^(?:${label}(?:\\.${label})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`)
  const results = [named.result(plain, {}), named.complete(plain)]
  const keys = results.flatMap(json => Object.keys(JSON.parse(json).result._meta))
  t.strictSame(keys, ['io.modelcontextprotocol/serverInfo', 'io.modelcontextprotocol/serverInfo', 'io.modelcontextprotocol/subscriptionId'])
  for (const name of keys) t.match(name, key)
  t.end()
})

test('discover answers as its schema says, and truly: DSC-01, DSC-02, DSC-05', async t => {
  const capabilities = {
    tools: { listChanged: true },
    prompts: {},
    resources: { subscribe: true },
    completions: {},
    logging: {},
    extensions: { 'com.example/x': {} },
    experimental: { y: {} }
  }
  const app = await mount(t, { server: { ...echo, capabilities, instructions: 'Ask me.' } })
  const response = await call(app, 'server/discover', { extra: 1 })
  t.equal(response.statusCode, 200)
  const { result: discovered } = response.json()
  t.ok(Value.Check(DiscoverResult, discovered))
  t.strictSame(discovered, {
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities,
    instructions: 'Ask me.',
    ttlMs: 0,
    cacheScope: 'private',
    _meta: { [SERVER_INFO]: info }
  })
})

test('a result that is no JSON is a crash, not a request that hangs: TOOL-36, ERR-08', async t => {
  const cyclic: { self?: object } = {}
  cyclic.self = cyclic
  for (const value of [cyclic, 1n]) {
    const app = await mount(t, { server: bareServer(() => result({ ...toolResult.text('x'), structuredContent: value })) })
    refused(t, await call(app, 'tools/call', { name: 'x' }), { status: 500, code: -32603, id: 1 })
  }
})
