import { test } from 'tap'
import { defineServer, result, toolResult } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { echo, info } from '../helpers/servers.js'
import { initializeParams, open, send, VERSIONS } from './helpers.js'
import type { Message } from '../helpers/messages.js'

const tools = [{ name: 'echo', inputSchema: { type: 'object' } }]
const initialize = (version?: string) => ({ jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams(version) })

test('both eras are served on one endpoint, each request in its own shape: LEG-01, VER-07, VER-08, case 047', async t => {
  const app = await mount(t, { server: echo })
  const session = await open(app)
  const rounds = await Promise.all(Array.from({ length: 50 }, async (_, id) => {
    const [legacy, modern] = await Promise.all([
      session.request('tools/call', { name: 'echo', arguments: { legacy: id } }, { id }),
      call(app, 'tools/call', { name: 'echo', arguments: { modern: id } }, { id, headers: { 'mcp-session-id': session.id } })
    ])
    return { id, legacy, modern }
  }))
  for (const { id, legacy, modern } of rounds) {
    t.strictSame(legacy.json(), { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: `{"legacy":${id}}` }], structuredContent: { legacy: id } } }, `legacy ${id}`)
    t.match(modern.json(), { id, result: { resultType: 'complete', structuredContent: { modern: id }, _meta: { 'io.modelcontextprotocol/serverInfo': info } } }, `modern ${id}`)
    t.notOk('mcp-session-id' in modern.headers, `modern ${id}: no session`)
  }
})

test('initialize in the envelope of 2026-07-28 is an unknown method, and opens no session: VER-08, LEG-05', async t => {
  const app = await mount(t, { server: echo })
  const error = refused(t, await call(app, 'initialize', initializeParams()), { status: 404, code: -32601, id: 1 })
  t.match(error, { data: { method: 'initialize' } })
})

test('one member of the modern envelope makes a request modern, whatever its header says: VER-07', async t => {
  const app = await mount(t, { server: echo })
  const session = await open(app)
  for (const member of ['io.modelcontextprotocol/protocolVersion', 'io.modelcontextprotocol/clientCapabilities']) {
    const value = member.endsWith('Version') ? '2026-07-28' : {}
    const response = await session.request('tools/list', { _meta: { [member]: value } })
    t.equal(response.statusCode, 400, member)
    t.match(response.json(), { error: { code: member.endsWith('Version') ? -32020 : -32602 } }, member)
  }
  const free = await session.request('tools/list', { _meta: { 'example.com/trace': 1, progressToken: 'p' } })
  t.strictSame(free.json<Message>().result, { tools }, 'any other _meta is not the modern envelope')
})

test('an initialize under the header of 2026-07-28 is a malformed modern request; under none it is served: LEG-33', async t => {
  const app = await mount(t, { server: echo })
  t.match(refused(t, await send(app, initialize(), { 'mcp-protocol-version': '2026-07-28' }), { status: 400, code: -32602, id: 0 }), { data: { issues: [{ path: 'params._meta' }] } })
  t.equal((await send(app, initialize())).statusCode, 200)
})

test('on initialize no other header is a reason to refuse, the body negotiates: LEG-33, LEG-90, case 040', async t => {
  const app = await mount(t, { server: echo })
  for (const header of [...VERSIONS, '2024-11-05', '2099-01-01', 'foobar', '', '2025-11-25, 2025-11-25']) {
    const response = await send(app, initialize('2099-01-01'), { 'mcp-protocol-version': header })
    t.equal(response.statusCode, 200, header)
    t.match(response.json(), { id: 0, result: { protocolVersion: '2025-11-25' } }, header)
    t.ok(response.headers['mcp-session-id'], header)
  }
})

test('initialize is never answered with what sends a client to the transport of 2024: LEG-89, LEG-90', async t => {
  const app = await mount(t, { server: echo })
  const bodies = [
    initialize('2024-11-05'),
    { ...initialize(), id: 'text' },
    { ...initialize(), id: '' },
    { ...initialize(), params: { ...initializeParams(), _meta: { progressToken: 1 } } },
    { ...initialize(), params: { ...initializeParams(), capabilities: { sampling: {}, roots: { listChanged: true }, tasks: {}, madeUp: 5 } } },
    { ...initialize(), params: { ...initializeParams(), clientInfo: { name: '', version: '', icons: 'none' }, more: true } }
  ]
  for (const body of bodies) {
    const response = await send(app, body)
    t.equal(response.statusCode, 200, JSON.stringify(body))
    t.match(response.json(), { id: body.id, result: { protocolVersion: '2025-11-25' } }, JSON.stringify(body))
  }
  const get = await app.inject({ method: 'GET', url: '/mcp', headers: { accept: 'text/event-stream' } })
  refused(t, get, { status: 400, code: -32600 }, 'a GET without a session opens no stream with an endpoint event')
})

test('the methods of 2026-07-28 alone, and those of no revision, are unknown in a session, in-band: LEG-14, LEG-21, LEG-66', async t => {
  const app = await mount(t, { server: echo })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const method of ['server/discover', 'subscriptions/listen', 'tasks/get', 'tasks/list', 'tasks/result', 'notifications/cancelled', 'no/such', '', '__proto__', 'toString']) {
      const response = await session.request(method)
      t.equal(response.statusCode, 200, `${version}, ${method}`)
      t.match(response.json(), { id: 1, error: { code: -32601, message: 'Method not found', data: { method } } }, `${version}, ${method}`)
    }
    // What is behind a capability that the server has not declared.
    for (const method of ['resources/list', 'prompts/get', 'completion/complete']) {
      t.match((await session.request(method)).json(), { error: { code: -32601 } }, `${version}, ${method}`)
    }
    t.strictSame((await session.request('tools/list')).json<Message>().result, { tools }, `${version}: the session lives on`)
  }
})

test('the headers of 2026-07-28 are neither wanted nor looked at: LEG-15', async t => {
  const tool = { name: 'region', inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } } } as const
  const server = defineServer({
    info,
    capabilities: { tools: {} },
    handleRequest: { 'tools/call': ({ params }) => result(toolResult.data(params)) }
  })
  const session = await open(await mount(t, { server }))
  const params = { name: tool.name, arguments: { region: 'eu' } }
  const without = await session.request('tools/call', params)
  t.match(without.json(), { result: { structuredContent: params } }, 'without')
  const wrong = await session.request('tools/call', params, { headers: { 'mcp-method': 'tools/list', 'mcp-name': '=?base64?%?=', 'mcp-param-region': 'us' } })
  t.match(wrong.json(), { result: { structuredContent: params } }, 'with others')
})

test('a notification that says nothing of where it belongs is accepted, a request is told to initialize: LEG-10, LEG-35', async t => {
  const app = await mount(t, { server: echo })
  const notification = await send(app, { jsonrpc: '2.0', method: 'notifications/initialized' })
  t.equal(notification.statusCode, 202)
  t.equal(notification.body, '')
  for (const method of ['tools/list', 'ping', 'no/such']) {
    const error = refused(t, await send(app, { jsonrpc: '2.0', id: 3, method }), { status: 400, code: -32600, id: 3 }, method)
    t.match(error.message, /initialize/)
  }
})
