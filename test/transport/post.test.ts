import { setTimeout } from 'node:timers/promises'
import { Value } from '@sinclair/typebox/value'
import Fastify, { type FastifyInstance } from 'fastify'
import genMcp, { fail, inputRequired, listToolsResult, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { test } from 'tap'
import { JSONRPCResultResponse } from '../../lib/protocol/index.js'
import { senderTo, type SocketAnswer } from '../helpers/agent.js'
import { call, meta, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer, echo, info, toolServer } from '../helpers/servers.js'
import { gate } from '../helpers/sockets.js'
import type { Response } from 'light-my-request'
import type { McpResult, RequestContext } from 'fastify-gen-mcp'
import type { Test } from 'tap'

const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const NO_HEADERS = { 'mcp-protocol-version': undefined, 'mcp-method': undefined, 'mcp-name': undefined }

/** Calls a tool over a socket, always with the id 1. */
type Caller = (args: object, headers?: Readonly<Record<string, string>>, members?: Readonly<Record<string, unknown>>) => Promise<SocketAnswer>

async function callerTo (t: Test, app: FastifyInstance, maxSockets?: number): Promise<Caller> {
  const send = await senderTo(t, app, maxSockets)
  const own = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'x' }
  return async (args, headers = {}, members = {}) => {
    const params = { name: 'x', arguments: args, _meta: meta(members) }
    return await send({ ...own, ...headers }, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }))
  }
}

// ---- the endpoint

test('the first request that a server ever sees is served, with one JSON object under its id: HTTP-01, HTTP-03, VER-01, RPC-04', async t => {
  const app = await mount(t, { server: echo })
  const response = await call(app, 'tools/list', {}, { id: 'first' })
  t.equal(response.statusCode, 200)
  t.match(response.headers['content-type'], /^application\/json/)
  t.ok(Value.Check(JSONRPCResultResponse, response.json()))
  t.equal(response.json().id, 'first')
})

test('every method is served at one path: HTTP-01', async t => {
  const app = await mount(t, {
    server: bareServer(({ method }) => method === 'subscriptions/listen' ? fail('no listens') : result(toolResult.text(method)))
  })
  const params = {
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
  for (const [method, own] of Object.entries(params)) t.match((await call(app, method, own)).json(), { result: { content: [{ text: method }] } })
  t.match((await call(app, 'subscriptions/listen', { notifications: {} })).json(), { error: { message: 'no listens' } })
})

test('verbs other than POST are refused with 405, Allow and a JSON body, before anything runs: HTTP-06, HTTP-07, case 031', async t => {
  const { server, ran } = createStreamer()
  let hooked = 0
  const app = await mount(t, { server, legacy: false, onRequest: async () => { hooked++ } })
  for (const method of ['GET', 'DELETE', 'PUT', 'PATCH', 'HEAD', 'OPTIONS'] as const) {
    for (const headers of [{ accept: 'text/event-stream' }, { accept: 'text/html' }, { 'content-type': 'text/plain', 'mcp-session-id': 'x' }]) {
      const response = await app.inject({ method, url: '/mcp', headers })
      t.equal(response.headers['allow'], 'POST', method)
      if (method === 'HEAD') t.equal(response.statusCode, 405)
      else refused(t, response, { status: 405, code: -32600 }, method)
    }
  }
  t.equal(hooked, 0)
  t.strictSame(ran, [])
})

test('a session or an event id of an earlier revision is ignored, and none is made: HTTP-08, HTTP-09, STL-03', async t => {
  const app = await mount(t, { server: echo })
  for (const headers of [{ 'mcp-session-id': 'abc' }, { 'last-event-id': '5' }, { 'mcp-session-id': '', 'last-event-id': '' }]) {
    const response = await call(app, 'tools/list', {}, { headers })
    t.equal(response.statusCode, 200)
    t.notOk('mcp-session-id' in response.headers)
  }
})

test('both spellings of a path are served, with a prefix, with a path and with both, and no request is ever redirected: case 061', async t => {
  const mounts = [
    [{ prefix: '' }, '/mcp'], [{ prefix: '/tools' }, '/tools'], [{ prefix: '/a', path: '/b' }, '/a/b'], [{ prefix: '', path: '/x/y' }, '/x/y'],
    [{ prefix: '', path: '/x/' }, '/x'], [{ prefix: '/a', path: '/' }, '/a']
  ] as const
  for (const [options, url] of mounts) {
    for (const fastifyOptions of [{}, { routerOptions: { ignoreTrailingSlash: true } }, { routerOptions: { ignoreDuplicateSlashes: true } }]) {
      const app = await mount(t, { ...options, server: echo }, fastifyOptions)
      for (const spelling of [url, `${url}/`, `${url}?a=1`, `${url}/?a=1`]) {
        const about = `${spelling} with ${JSON.stringify(fastifyOptions)}`
        t.equal((await call(app, 'tools/list', {}, { url: spelling })).statusCode, 200, about)
        refused(t, await call(app, 'tools/list', {}, { url: spelling, body: '{' }), { status: 400, code: -32700 }, about)
        refused(t, await app.inject({ method: 'PUT', url: spelling }), { status: 405, code: -32600 }, about)
      }
    }
  }
})

test('a mount within a prefixed plugin is served in both spellings: case 061', async t => {
  for (const [options, url] of [[{}, '/v1/mcp'], [{ prefix: '/tools' }, '/v1/tools'], [{ path: '/rpc' }, '/v1/rpc']] as const) {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    await app.register(async child => { await child.register(genMcp, { ...options, server: echo }) }, { prefix: '/v1' })
    for (const spelling of [url, `${url}/`]) t.equal((await call(app, 'tools/list', {}, { url: spelling })).statusCode, 200, spelling)
  }
})

test('a hook that wants authorization answers in both spellings: case 061', async t => {
  const error = Object.assign(new Error('Who are you?'), { statusCode: 401 })
  const app = await mount(t, { server: echo, onRequest: async () => { throw error } })
  for (const url of ['/mcp', '/mcp/']) refused(t, await call(app, 'tools/list', {}, { url }), { status: 401, code: -32600 }, url)
})

// ---- eras

test('a request of an earlier revision is told which revision there is: VER-09, VER-10, HDR-01, HDR-02', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server, legacy: false })
  const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'old', version: '1' } }
  for (const [method, params] of [['initialize', initialize], ['tools/list', {}], ['tools/list', undefined], ['ping', { _meta: { progressToken: 1 } }]] as const) {
    const send = async (version: string | undefined): Promise<Response> =>
      await call(app, method, {}, { id: 'old', headers: { ...NO_HEADERS, 'mcp-protocol-version': version }, body: { params } })
    const { message, data } = refused(t, await send(undefined), { status: 400, code: -32020, id: 'old' }, `${method} without a version`)
    t.match(message, '2026-07-28')
    t.strictSame(data, { header: 'MCP-Protocol-Version', supported: ['2026-07-28'] })
    for (const version of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', ' 2025-11-25\t']) {
      const { message, data } = refused(t, await send(version), { status: 400, code: -32022, id: 'old' }, `${method} in ${version}`)
      t.match(message, '2026-07-28')
      t.strictSame(data, { requested: version.trim(), supported: ['2026-07-28'] })
    }
    for (const version of ['2026-07-28', '1999-01-01', '']) {
      refused(t, await send(version), { status: 400, code: -32602, id: 'old' }, `${method} in ${version}`)
    }
  }
  t.strictSame(ran, [])
})

test('one of the modern members makes a request modern, whatever its headers say: VER-07, HDR-02, META-01', async t => {
  const app = await mount(t, { server: echo })
  for (const version of [undefined, '2025-11-25']) {
    const headers = { 'mcp-protocol-version': version }
    const send = async (_meta: object): Promise<Response> => await call(app, 'tools/list', {}, { headers, body: { params: { _meta } } })
    refused(t, await send({ [CAPABILITIES]: {} }), { status: 400, code: -32602, id: 1 })
    refused(t, await send({ [VERSION]: 5 }), { status: 400, code: -32602, id: 1 })
    refused(t, await send({ [VERSION]: '2026-07-28' }), { status: 400, code: -32020, id: 1 })
  }
})

// ---- admission

test('more calls at a time than the limit says are refused with 503 and Retry-After, and served again later', async t => {
  const begun = gate()
  const finish = gate()
  const app = await mount(t, {
    limits: { maxConcurrent: 1 },
    server: toolServer(async () => {
      begun.open()
      await finish.promise
      return result(toolResult.text('ok'))
    })
  })
  const running = call(app, 'tools/call', { name: 'x' })
  await begun.promise
  const response = await call(app, 'tools/call', { name: 'x' }, { id: 2 })
  refused(t, response, { status: 503, code: -32603, id: 2 })
  t.match(response.headers['retry-after'], /^[1-9]\d*$/)
  finish.open()
  t.equal((await running).statusCode, 200)
  t.equal((await call(app, 'tools/call', { name: 'x' })).statusCode, 200)
})

test('listens have a limit of their own, and calls go on beside them', async t => {
  const begun = gate()
  const finish = gate()
  const app = await mount(t, {
    limits: { maxStreams: 1 },
    server: bareServer(({ method }, channel) => {
      if (method !== 'subscriptions/listen') return result(toolResult.text('ok'))
      channel.watch(finish.promise, () => 'enough')
      begun.open()
      return stream(undefined)
    }, { handleMessage: () => stop() })
  })
  const listen = call(app, 'subscriptions/listen', { notifications: {} })
  await begun.promise
  const response = await call(app, 'subscriptions/listen', { notifications: {} }, { id: 2 })
  refused(t, response, { status: 503, code: -32603, id: 2 })
  t.match(response.headers['retry-after'], /^[1-9]\d*$/)
  t.equal((await call(app, 'tools/list')).statusCode, 200)
  finish.open()
  t.equal((await listen).statusCode, 200)
})

test('while the app shuts down new calls are refused with 503 and Retry-After, and the old are answered', async t => {
  const closing = gate()
  const begun = gate()
  const finish = gate()
  const app = Fastify({ return503OnClosing: false })
  t.teardown(async () => { await app.close() })
  app.addHook('preClose', async () => { closing.open() })
  await app.register(genMcp, {
    prefix: '/mcp',
    server: toolServer(async () => {
      begun.open()
      await finish.promise
      return result(toolResult.data('answered'))
    })
  })
  const send = await callerTo(t, app)
  const running = send({})
  await begun.promise
  const closed = app.close()
  await closing.promise
  const refusal = await send({})
  t.equal(refusal.status, 503)
  t.match(refusal.headers['retry-after'], /^[1-9]\d*$/)
  t.match(refusal.message(), { id: 1, error: { code: -32603 } })
  finish.open()
  t.match((await running).message(), { id: 1, result: { structuredContent: 'answered' } })
  await closed
})

// ---- independence

test('calls at the same time are answered each for itself: HTTP-21, STL-04', async t => {
  const app = await mount(t, { server: echo })
  const ids = [1, 'b', 0, '1']
  const answers = await Promise.all(ids.map(async id => (await call(app, 'tools/call', { name: 'echo', arguments: { id } }, { id })).json()))
  t.strictSame(answers.map(answer => answer.id), ids)
  t.strictSame(answers.map(answer => answer.result.structuredContent), ids.map(id => ({ id })))
})

test('two hundred calls of two clients, all with the same id, get each its own answer: RPC-14, STL-03, HTTP-21, case 048', async t => {
  const app = await mount(t, {
    principal: ({ headers }) => headers.authorization,
    server: toolServer(async ({ params }, { principal }) => {
      // Late ones overtake early ones.
      await setTimeout(Number(params.arguments['ms']))
      return result(toolResult.data({ ...params.arguments, principal: principal ?? null }))
    })
  })
  const send = await callerTo(t, app)
  const calls = Array.from({ length: 200 }, (_, n) => ({ token: `token-${n}`, ms: (n * 37) % 50, principal: n % 2 === 0 ? 'Bearer alice' : 'Bearer bob' }))
  const answers = await Promise.all(calls.map(async ({ principal, ...args }) => (await send(args, { authorization: principal })).message()))
  t.strictSame(answers.map(({ result }) => result?.['structuredContent']), calls)
  t.strictSame([...new Set(answers.map(({ id }) => id))], [1])
})

test('an id may be used again after its answer: RPC-14', async t => {
  const app = await mount(t, { server: echo })
  for (const n of [1, 2, 3]) {
    const response = await call(app, 'tools/call', { name: 'echo', arguments: { n } }, { id: 'same' })
    t.match(response.json(), { id: 'same', result: { structuredContent: { n } } })
  }
})

test('on one connection nothing is kept from one request for the next: STL-01', async t => {
  const app = await mount(t, {
    server: toolServer(({ meta: { clientCapabilities } }) => result(toolResult.data({ declared: Object.keys(clientCapabilities) })))
  })
  let connections = 0
  app.server.on('connection', () => { connections++ })
  const send = await callerTo(t, app, 1)
  const declared = async (capabilities: object): Promise<unknown> => (await send({}, {}, { [CAPABILITIES]: capabilities })).message().result?.['structuredContent']
  t.strictSame(await declared({ elicitation: {} }), { declared: ['elicitation'] })
  t.strictSame(await declared({}), { declared: [] })
  t.equal(connections, 1)
})

test('a list is the same before and after other calls: STL-05', async t => {
  const app = await mount(t, { server: echo })
  const before = (await call(app, 'tools/list')).body
  await call(app, 'tools/call', { name: 'echo', arguments: {} })
  await call(app, 'no/such')
  t.equal((await call(app, 'tools/list')).body, before)
})

test('two apps with the same secrets take one another\'s states: STL-02', async t => {
  const options = {
    secrets: ['a secret of more than thirty-two characters'],
    server: bareServer((_request, channel) => {
      // The state is there in the second round alone.
      const { retried } = channel.httpRequest.body as { retried?: boolean }
      return retried === true ? result(toolResult.text('done')) : inputRequired({}, { step: 1 })
    })
  }
  const a = await mount(t, options)
  const b = await mount(t, options)
  const { requestState } = (await call(a, 'tools/call', { name: 'x' })).json().result
  t.type(requestState, 'string')
  t.match((await call(b, 'tools/call', { name: 'x', requestState }, { body: { retried: true } })).json(), { result: { content: [{ text: 'done' }] } })
  const stranger = await mount(t, { ...options, secrets: ['another secret of more than thirty-two characters'] })
  refused(t, await call(stranger, 'tools/call', { name: 'x', requestState }), { status: 200, code: -32602, id: 1 })
})

// ---- discover

test('discover says which capabilities there are, and those and no others are served: DSC-01, DSC-04, VER-04', async t => {
  const lists = { tools: 'tools/list', prompts: 'prompts/list', resources: 'resources/list' } as const
  for (const declared of [[], ['tools'], ['prompts', 'resources'], ['tools', 'prompts', 'resources']] as const) {
    const capabilities = Object.fromEntries(declared.map(name => [name, {}]))
    // The shortest result there is, whatever the method.
    const app = await mount(t, { server: { info, capabilities, handleRequest: () => result({ resultType: 'complete' } as McpResult) } })
    const { result: discovered } = (await call(app, 'server/discover')).json()
    t.strictSame(Object.keys(discovered.capabilities), declared)
    for (const [name, method] of Object.entries(lists)) {
      const { statusCode } = await call(app, method)
      t.equal(statusCode, name in discovered.capabilities ? 200 : 404, `${method} with ${declared.join()}`)
    }
  }
})

test('a server that says nothing of its capabilities promises nothing: DSC-07', async t => {
  const app = await mount(t, { server: { info, handleRequest: () => result(listToolsResult([])) } })
  const { result: discovered } = (await call(app, 'server/discover')).json()
  t.strictSame(discovered.capabilities, {})
  refused(t, await call(app, 'tools/list'), { status: 404, code: -32601, id: 1 })
})

test('what discover says may depend on who asks, and is then for nobody else: DSC-04, DSC-08, RPC-16', async t => {
  const app = await mount(t, {
    principal: ({ headers }) => headers.authorization,
    server: {
      info,
      capabilities: ({ principal }: RequestContext) => principal === 'admin' ? { tools: {} } : {},
      handleRequest: () => result(listToolsResult([]))
    }
  })
  for (const [authorization, capabilities] of [['admin', { tools: {} }], ['guest', {}]] as const) {
    const { result: discovered } = (await call(app, 'server/discover', {}, { headers: { authorization } })).json()
    t.strictSame(discovered.capabilities, capabilities)
    t.equal(discovered.cacheScope, 'private')
  }
  t.equal((await call(app, 'tools/list', {}, { headers: { authorization: 'admin' } })).statusCode, 200)
  refused(t, await call(app, 'tools/list', {}, { headers: { authorization: 'guest' } }), { status: 404, code: -32601, id: 1 })
})

test('the name of an extension has a prefix, and one without it fails the boot: EXT-01', async t => {
  const boot = async (extensions: Readonly<Record<string, {}>>): Promise<void> => {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    await app.register(genMcp, { prefix: '/mcp', server: { ...echo, capabilities: { extensions } } })
    await app.ready()
  }
  for (const name of ['io.modelcontextprotocol/tasks', 'com.example/a_b.c', 'com.example-1/x']) await t.resolves(boot({ [name]: {} }), name)
  for (const name of ['tasks', '/tasks', '', '-x/y', 'a..b/c', 'com.example/-x', 'com.example/x/y', 'com.example /x']) {
    await t.rejects(boot({ [name]: {} }), { code: 'MCP_ERR_BAD_OPTION' }, name)
  }
})
