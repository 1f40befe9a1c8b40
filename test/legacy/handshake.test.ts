import { test, type Test } from 'tap'
import {
  createSuite, defineServer, discoverResult, elicitForm, fail, inputRequired, result, serverInfo, toolResult,
  type ClientCapabilities, type Implementation, type JsonObject, type RequestMeta
} from 'fastify-gen-mcp'
import { Type } from '@sinclair/typebox'
import { mount } from '../helpers/mount.js'
import { messagesOf, type Message } from '../helpers/messages.js'
import { bareServer, echo, info, toolServer } from '../helpers/servers.js'
import { stage } from '../helpers/sockets.js'
import { initializeParams, open, send, VERSIONS } from './helpers.js'

const initialize = (params: unknown) => ({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
const everything: Implementation = {
  name: 'server', version: '2.0.0', title: 'Server', description: 'All there is', websiteUrl: 'https://example.com', icons: [{ src: 'https://example.com/a.png' }]
}

/** A server that tells what it knows of its client. */
const teller = toolServer(({ meta }) => result(toolResult.data(meta)))

async function metaAfter (t: Test, version: string, capabilities: JsonObject, clientInfo: JsonObject = { name: 'c', version: '1' }): Promise<RequestMeta> {
  const app = await mount(t, { server: teller })
  const opened = await send(app, initialize({ protocolVersion: version, capabilities, clientInfo }))
  const response = await send(app, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }, { 'mcp-session-id': String(opened.headers['mcp-session-id']) })
  // As text, since the first revision has no other form of data.
  return JSON.parse(response.json<{ readonly result: { readonly content: readonly [{ readonly text: string }] } }>().result.content[0].text) as RequestMeta
}

// ---- what is agreed on

test('initialize is answered with version, capabilities and server, and nothing else: LEG-02, LEG-03, LEG-13', async t => {
  const app = await mount(t, { server: { ...echo, instructions: 'Echo well.' } })
  for (const version of VERSIONS) {
    const response = await send(app, initialize(initializeParams(version)))
    t.equal(response.statusCode, 200, version)
    t.match(response.headers['content-type'], /^application\/json/, version)
    t.strictSame(response.json(), {
      jsonrpc: '2.0', id: 0, result: { protocolVersion: version, capabilities: { tools: {} }, serverInfo: info, instructions: 'Echo well.' }
    }, version)
  }
  t.notOk('instructions' in (await open(await mount(t, { server: echo }))).opened.json<{ result: object }>().result, 'without instructions')
})

test('a version that is not served is answered with the latest of these revisions, as a result: LEG-04, LEG-05', async t => {
  const app = await mount(t, { server: echo })
  for (const version of ['1.0.0', '2024-11-05', '2099-01-01', '2026-07-28', '2025-11-25 ', '2025-11-2', '', '__proto__']) {
    const response = await send(app, initialize(initializeParams(version)))
    t.equal(response.statusCode, 200, version)
    t.equal(response.json<Message>().result?.['protocolVersion'], '2025-11-25', version)
    t.ok(response.headers['mcp-session-id'], version)
  }
})

test('an initialize that lacks something, or has something else there, is -32602 and opens no session: LEG-06', async t => {
  const app = await mount(t, { server: echo })
  const whole = initializeParams()
  const broken: readonly (readonly [string, unknown])[] = [
    ...['protocolVersion', 'capabilities', 'clientInfo'].map(name => [name, Object.fromEntries(Object.entries(whole).filter(([other]) => other !== name))] as const),
    ...[undefined, null, 5, [], {}].map(value => ['protocolVersion', { ...whole, protocolVersion: value }] as const),
    ...[undefined, null, 'all', []].map(value => ['capabilities', { ...whole, capabilities: value }] as const),
    ...[undefined, null, 'me', [], {}, { name: 'c' }, { version: '1' }, { name: 5, version: '1' }, { name: 'c', version: 1 }].map(value => ['clientInfo', { ...whole, clientInfo: value }] as const),
    ...[undefined, null, [], 'x'].map(params => ['protocolVersion', params] as const)
  ]
  for (const [name, params] of broken) {
    const response = await send(app, initialize(params))
    t.match(response.json(), { id: 0, error: { code: -32602, data: { issues: [{ path: `params.${name}` }] } } }, `${name}: ${JSON.stringify(params)}`)
    t.notOk('mcp-session-id' in response.headers, `${name}: no session`)
  }
})

test('the members of an Implementation are those of the revision: LEG-86', async t => {
  const app = await mount(t, { server: { ...echo, info: everything } })
  const { name, version, title } = everything
  const expected = { '2025-11-25': everything, '2025-06-18': { name, version, title }, '2025-03-26': { name, version } }
  for (const version of VERSIONS) t.strictSame((await open(app, version)).opened.json<Message>().result?.['serverInfo'], expected[version], version)
})

test('a server without info says itself who it is and what it can do, or nobody knows: LEG-02, LEG-86', async t => {
  const app = await mount(t, {
    server: bareServer(() => result({ ...discoverResult({ tools: { listChanged: true } }, { instructions: 'Hm.' }), _meta: { ...serverInfo(everything), 'example.com/x': 1 } }))
  })
  const said = await send(app, initialize(initializeParams('2025-06-18')))
  t.strictSame(said.json<Message>().result, {
    protocolVersion: '2025-06-18', capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'server', version: '2.0.0', title: 'Server' }, instructions: 'Hm.'
  })
  const silent = await mount(t, { server: bareServer(() => result(discoverResult({}))) })
  t.strictSame((await send(silent, initialize(initializeParams()))).json<Message>().result, {
    protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'server', version: '0.0.0' }
  })
})

test('a server that refuses to say what it can do opens no session', async t => {
  const { app, lines } = await stage(t, bareServer(({ method }) => method === 'server/discover' ? fail('not today') : result(toolResult.text('x'))), { listen: false })
  const refusal = await send(app, initialize(initializeParams()))
  t.strictSame(refusal.json(), { jsonrpc: '2.0', id: 0, error: { code: -32603, message: 'not today' } })
  t.notOk('mcp-session-id' in refusal.headers)

  const crashing = await mount(t, { server: bareServer(() => { throw new Error('secret') }) })
  const crash = await send(crashing, initialize(initializeParams()))
  t.equal(crash.statusCode, 500)
  t.strictSame(crash.json(), { jsonrpc: '2.0', id: 0, error: { code: -32603, message: 'Internal error' } })
  t.notOk('mcp-session-id' in crash.headers)
  t.strictSame(lines.filter(({ level }) => level >= 50), [])
})

test('capabilities are those of discover, without extensions: LEG-08', async t => {
  const capabilities = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    logging: {},
    completions: {},
    experimental: { 'example.com/x': {} },
    extensions: { 'io.modelcontextprotocol/tasks': {} }
  }
  const app = await mount(t, { server: { ...echo, capabilities } })
  const { extensions: _, ...expected } = capabilities
  for (const version of VERSIONS) t.strictSame((await open(app, version)).opened.json<Message>().result?.['capabilities'], expected, version)
  // Nothing could tell of a change.
  const stateless = await mount(t, { server: { ...echo, capabilities }, legacy: { sessions: false } })
  t.strictSame((await open(stateless)).opened.json<Message>().result?.['capabilities'], {
    tools: {}, prompts: {}, resources: {}, logging: {}, completions: {}, experimental: { 'example.com/x': {} }
  })
  const few = await mount(t, { server: { ...echo, capabilities: { logging: {} } }, legacy: { sessions: false } })
  t.strictSame((await open(few)).opened.json<Message>().result?.['capabilities'], { logging: {} })
})

test('a Suite offers what its providers do: LEG-08', async t => {
  const app = await mount(t, { server: createSuite({ info, tools: [], prompts: [] }) })
  for (const version of VERSIONS) t.strictSame((await open(app, version)).opened.json<Message>().result?.['capabilities'], { logging: {}, tools: {}, prompts: {} }, version)
})

test('capabilities that depend on the caller are told who opens the session, with sessions and without', async t => {
  for (const legacy of [true, { sessions: false }] as const) {
    const seen: unknown[] = []
    const app = await mount(t, {
      server: defineServer({
        info,
        capabilities: ({ request: { meta } }) => {
          const { protocolVersion, clientInfo, clientCapabilities } = meta as RequestMeta
          seen.push({ protocolVersion, clientInfo, clientCapabilities })
          return { tools: {} }
        },
        handleRequest: {}
      }),
      legacy
    })
    const response = await send(app, initialize(initializeParams('2025-06-18', { roots: {} })))
    t.match(response.json(), { result: { capabilities: { tools: {} } } })
    t.strictSame(seen, [{ protocolVersion: '2025-06-18', clientInfo: { name: 'client', version: '1.0.0' }, clientCapabilities: { roots: {} } }], JSON.stringify(legacy))
  }
})

// ---- what the client says of itself

test('what a client declared is known to each of its requests, as far as its revision has it: LEG-07', async t => {
  const declared: JsonObject = {
    elicitation: { form: {}, url: {} },
    sampling: { tools: {}, context: {} },
    roots: { listChanged: true },
    experimental: { x: { y: 1 } },
    extensions: { 'example.com/e': { z: 1 } },
    tasks: { list: {} },
    madeUp: {}
  }
  const { elicitation, sampling, roots, experimental, extensions } = declared
  const kept: Readonly<Record<string, object>> = {
    '2025-11-25': { elicitation, sampling, roots, experimental, extensions },
    '2025-06-18': { elicitation: {}, sampling: {}, roots, experimental, extensions },
    '2025-03-26': { sampling: {}, roots, experimental, extensions }
  }
  for (const version of VERSIONS) {
    const meta = await metaAfter(t, version, declared, { name: 'c', version: '1', title: 'C' })
    t.strictSame(meta.clientCapabilities, kept[version], version)
    t.strictSame([meta.protocolVersion, meta.clientInfo], [version, { name: 'c', version: '1', title: 'C' }], version)
  }
})

test('what makes no sense in a declaration declares as much as does', async t => {
  const cases: readonly (readonly [JsonObject, ClientCapabilities])[] = [
    [{ elicitation: true, sampling: null, roots: [], experimental: 5, extensions: 'x' }, {}],
    [{ sampling: { tools: 5 }, elicitation: {}, experimental: { a: {} }, extensions: { 'a/b': {} } }, { sampling: {}, elicitation: {} }],
    [{ elicitation: { form: 'yes' } }, { elicitation: {} }]
  ]
  for (const [declared, expected] of cases) t.strictSame((await metaAfter(t, '2025-11-25', declared)).clientCapabilities, expected, JSON.stringify(declared))

  const { clientInfo } = await metaAfter(t, '2025-11-25', {}, { name: 'c', version: '1', icons: 'none', title: 5 })
  t.strictSame(clientInfo, { name: 'c', version: '1' })
})

test('a tool that asks what the client never declared gets an error, and nothing is sent: LEG-07', async t => {
  const server = toolServer(() => inputRequired({ name: elicitForm('Who?', Type.Object({ name: Type.String() })) }))
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    // The first revision has no elicitation that could be declared.
    const session = await open(app, version, { capabilities: version === '2025-03-26' ? { elicitation: {}, roots: {} } : { roots: {} } })
    const messages = await messagesOf(await session.request('tools/call', { name: 'x' }))
    t.strictSame(messages.map(({ method }) => method), [undefined], version)
    t.match(messages, [{ id: 1, error: { code: -32600, data: { requiredCapabilities: { elicitation: { form: {} } } } } }], version)
  }
})

// ---- before and after

test('notifications/initialized is accepted, and what comes before it is served all the same: LEG-09, LEG-35', async t => {
  const app = await mount(t, { server: echo })
  const opened = await send(app, initialize(initializeParams()))
  const headers = { 'mcp-session-id': String(opened.headers['mcp-session-id']) }
  t.strictSame((await send(app, { jsonrpc: '2.0', id: 1, method: 'ping' }, headers)).json(), { jsonrpc: '2.0', id: 1, result: {} }, 'ping before it')
  const initialized = await send(app, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers)
  t.equal(initialized.statusCode, 202)
  t.equal(initialized.body, '')
  t.equal((await send(app, { jsonrpc: '2.0', id: 2, method: 'tools/list' }, headers)).statusCode, 200)
})

test('an initialize within a session is refused, without one it opens another: LEG-11', async t => {
  const app = await mount(t, { server: echo })
  const session = await open(app)
  const second = await session.request('initialize', initializeParams(), { id: 9 })
  t.equal(second.statusCode, 400)
  t.match(second.json(), { id: 9, error: { code: -32600 } })
  t.notOk('mcp-session-id' in second.headers)
  t.equal((await session.request('tools/list')).statusCode, 200, 'the session lives on')

  const other = await open(app)
  t.not(other.id, session.id)
  t.equal((await session.request('tools/list')).statusCode, 200, 'and so does the first')

  await session.delete()
  const after = await session.request('initialize', initializeParams())
  t.equal(after.statusCode, 200, 'with the id of a session that is over')
  t.ok(after.headers['mcp-session-id'])
  t.equal((await send(app, initialize(initializeParams()), { 'mcp-session-id': 'made-up' })).statusCode, 200, 'with an id that is none')
})

test('initialize cannot be cancelled: LEG-12', async t => {
  let go = (): void => {}
  const server = bareServer(async () => {
    await new Promise<void>(resolve => { go = resolve })
    return result(discoverResult({}))
  })
  const app = await mount(t, { server })
  const opening = send(app, initialize(initializeParams()))
  const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 0 } }
  t.equal((await send(app, cancelled)).statusCode, 202)
  go()
  const { statusCode, headers } = await opening
  t.equal(statusCode, 200)
  const id = String(headers['mcp-session-id'])
  t.equal((await send(app, cancelled, { 'mcp-session-id': id })).statusCode, 202)
  t.equal((await send(app, { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-session-id': id })).statusCode, 200)
})

test('a client that takes event streams alone is answered in one, and has its session in the head: LEG-16, LEG-36, LEG-37', async t => {
  const app = await mount(t, { server: echo })
  const response = await send(app, initialize(initializeParams()), { accept: 'text/event-stream' })
  t.match(response.headers['content-type'], /^text\/event-stream/)
  const messages = await messagesOf(response)
  t.match(messages, [{ id: 0, result: { protocolVersion: '2025-11-25' } }])
  const later = await send(app, { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-session-id': String(response.headers['mcp-session-id']) })
  t.equal(later.statusCode, 200)

  const neither = await send(app, initialize(initializeParams()), { accept: 'text/html' })
  t.equal(neither.statusCode, 406)
  t.match(neither.json(), { id: 0, error: { code: -32600 } })
})

test('its session is in the head also where that takes long, and where the server had something to say before: LEG-16', async t => {
  const server = bareServer(async (_request, channel) => {
    channel.startStream()
    await new Promise(resolve => { setTimeout(resolve, 30) })
    return result(discoverResult({}))
  })
  const app = await mount(t, { server, streamAfter: 1 })
  for (const accept of ['text/event-stream', 'application/json, text/event-stream']) {
    const response = await send(app, initialize(initializeParams()), { accept })
    t.match(await messagesOf(response), [{ id: 0, result: { protocolVersion: '2025-11-25' } }], accept)
    t.ok(response.headers['mcp-session-id'], accept)
  }
})

test('a mount that has all it can do lets nobody in', async t => {
  const app = await mount(t, { server: toolServer(async () => await new Promise(() => {})), limits: { maxConcurrent: 1, drain: 0 } })
  const session = await open(app)
  const held = session.request('tools/call', { name: 'x' })
  await new Promise(resolve => { setImmediate(resolve) })
  const refusal = await send(app, initialize(initializeParams()))
  t.equal(refusal.statusCode, 503)
  t.match(refusal.json(), { id: 0, error: { code: -32603 } })
  t.ok(refusal.headers['retry-after'])
  t.notOk('mcp-session-id' in refusal.headers)
  await app.close()
  t.match((await held).json(), { id: 1, error: { code: -32603 } })
})
