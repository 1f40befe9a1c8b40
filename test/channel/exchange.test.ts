import { test } from 'tap'
import { discoverResult, defineServer, McpError, messageType, result, serverInfo, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { call, mount } from '../helpers/mount.js'
import { bareServer, echo, info, toolServer } from '../helpers/servers.js'
import { gate, stage } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import type { Channel, RequestContext } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }
const done = () => result(toolResult.text('done'))
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'

// ---- the context

test('every callback of an exchange reads the same request, HTTP request, principal, log and signal', async t => {
  const contexts: RequestContext[] = []
  const app = await mount(t, {
    principal: ({ headers }) => headers['x-user'] as string | undefined,
    server: defineServer({
      init: (_arg: undefined, context) => { contexts.push(context) },
      handleRequest: (_request, channel) => { contexts.push(channel); channel.close(); return stream(1) },
      handleClose: context => { contexts.push(context) }
    })
  })
  await call(app, 'tools/call', tool, { headers: { 'x-user': 'anna' } })

  const [ofInit, ofHandler, ofClose] = contexts
  t.equal(contexts.length, 3)
  t.equal(ofInit, ofClose)
  for (const key of ['request', 'httpRequest', 'log', 'signal', 'principal'] as const) t.equal(ofInit?.[key], ofHandler?.[key], key)
  t.equal(ofInit?.principal, 'anna')
  t.match(ofInit?.request, { method: 'tools/call', id: 1, params: tool })
  t.equal(ofInit?.log, ofInit?.httpRequest.log)
  t.equal(ofInit?.httpRequest.headers['x-user'], 'anna')
  t.ok(Object.isFrozen(ofInit?.request))
})

test('the principal is asked for once an exchange, and nobody is one without the option', async t => {
  let asked = 0
  const seen: unknown[] = []
  const server = toolServer((_request, { principal, tokens }) => {
    tokens.seal('purpose', 1)
    seen.push(principal)
    return done()
  })
  const app = await mount(t, { server, principal: () => { asked++; return 'anna' } })
  await call(app, 'tools/call', tool)
  t.equal(asked, 1)
  await call(await mount(t, { server }), 'tools/call', tool)
  t.strictSame(seen, ['anna', undefined])
})

test('what was sealed for one principal opens for that one alone', async t => {
  let token = ''
  const opened: unknown[] = []
  const app = await mount(t, {
    principal: ({ headers }) => headers['x-user'] as string | undefined,
    server: toolServer((_request, { tokens, principal }) => {
      if (token === '') token = tokens.seal('purpose', { of: principal })
      opened.push(tokens.open('purpose', token))
      return done()
    })
  })
  for (const user of ['anna', 'bert', undefined, 'anna']) await call(app, 'tools/call', tool, { headers: { 'x-user': user } })
  t.strictSame(opened, [
    { ok: true, value: { of: 'anna' } }, { ok: false, reason: 'invalid' }, { ok: false, reason: 'invalid' }, { ok: true, value: { of: 'anna' } }
  ])
})

test('requireCapability throws what the client did not declare, in init as in the handler', async t => {
  const required = { elicitation: { form: {} }, roots: {} }
  const servers = [
    defineServer({ init: (_arg: undefined, context) => { context.requireCapability(required) }, handleRequest: done }),
    toolServer((_request, channel) => { channel.requireCapability(required); return done() })
  ]
  for (const server of servers) {
    const app = await mount(t, { server })
    const client = createTestClient(app)
    const lacking = await client.request('tools/call', tool, { capabilities: { roots: {} } })
    t.equal(lacking.statusCode, 400)
    t.match(lacking.error, { code: -32021, data: { requiredCapabilities: { elicitation: { form: {} }, roots: undefined } } })
    t.match(await client.request('tools/call', tool, { capabilities: required }), { statusCode: 200, result: { content: [{ text: 'done' }] } })
  }
})

test('a notification that says nothing of its client has no capabilities', async t => {
  const thrown: unknown[] = []
  const app = await mount(t, {
    server: {
      handleRequest: done,
      handleNotification: (_notification, context) => {
        try {
          context.requireCapability({ roots: {} })
        } catch (error) {
          thrown.push(error)
        }
      }
    }
  })
  const response = await call(app, 'notifications/cancelled', { requestId: 1 }, { body: { id: undefined, params: { requestId: 1 } } })
  t.equal(response.statusCode, 202)
  t.match(thrown, [{ code: 'MCP_ERR_MISSING_CLIENT_CAPABILITY', data: { requiredCapabilities: { roots: {} } } }])
  t.ok(thrown[0] instanceof McpError)
})

test('the channel is one object, and the context of init is another', async t => {
  const channels: (Channel<string> | RequestContext)[] = []
  const exchange = testExchange(defineServer({
    messages: messageType<string>(),
    init: (_arg: undefined, context) => { channels.push(context) },
    handleRequest: (_request, channel) => {
      channels.push(channel)
      channel.ref.post('go')
      return stream(1)
    },
    handleMessage: (_message, channel) => { channels.push(channel); return done() }
  }), 'tools/call', tool)
  await exchange.ended
  t.equal(channels.length, 3)
  t.equal(channels[1], channels[2])
  t.not(channels[0], channels[1])
})

// ---- discover and capabilities, 3.4

test('with info the core answers server/discover, and no callback runs', async t => {
  const app = await mount(t, {
    server: defineServer({
      info,
      instructions: 'Be kind.',
      capabilities: { tools: { listChanged: true } },
      init: () => t.fail('init ran') as never,
      handleRequest: () => t.fail('the handler ran') as never
    })
  })
  t.strictSame((await call(app, 'server/discover')).json(), {
    jsonrpc: '2.0',
    id: 1,
    result: {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: { listChanged: true } },
      instructions: 'Be kind.',
      ttlMs: 0,
      cacheScope: 'private',
      _meta: { [SERVER_INFO]: info }
    }
  })
})

test('with info a method whose capability is not declared is 404, and no callback runs', async t => {
  const methods = {
    tools: [['tools/list', {}], ['tools/call', tool]],
    prompts: [['prompts/list', {}], ['prompts/get', { name: 'p' }]],
    resources: [['resources/list', {}], ['resources/templates/list', {}], ['resources/read', { uri: 'x:y' }]],
    completions: [['completion/complete', { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: '' } }]]
  } as const
  let ran = 0
  const handleRequest = () => { ran++; return done() }
  for (const [capability, opened] of Object.entries(methods)) {
    for (const dynamic of [false, true]) {
      const server = (capabilities: object) => ({ info, handleRequest, capabilities: dynamic ? () => capabilities : capabilities })
      const open = await mount(t, { server: server({ [capability]: {} }) })
      const closed = await mount(t, { server: server({}) })
      for (const [method, params] of opened) {
        t.equal((await call(open, method, params)).statusCode, 200, method)
        ran = 0
        const response = await call(closed, method, params)
        t.equal(response.statusCode, 404, method)
        t.match(response.json(), { error: { code: -32601, data: { method } } })
        t.equal(ran, 0)
      }
    }
  }
})

test('capabilities that are left out are none', async t => {
  const app = await mount(t, { server: defineServer({ info, handleRequest: done }) })
  t.strictSame((await call(app, 'server/discover')).json().result.capabilities, {})
  t.equal((await call(app, 'tools/call', tool)).statusCode, 404)
})

test('without info everything reaches the handler, server/discover included', async t => {
  const methods: string[] = []
  const app = await mount(t, {
    server: {
      capabilities: () => t.fail('nobody asks for them') as never,
      handleRequest: ({ method }) => {
        methods.push(method)
        return method === 'server/discover' ? result({ ...discoverResult({ tools: {} }), _meta: serverInfo(info) }) : done()
      }
    }
  })
  t.match((await call(app, 'server/discover')).json(), { result: { capabilities: { tools: {} }, _meta: { [SERVER_INFO]: info } } })
  t.notOk((await call(app, 'tools/call', tool)).json().result._meta)
  await call(app, 'prompts/list')
  t.strictSame(methods, ['server/discover', 'tools/call', 'prompts/list'])
})

test('with info results that name no server are stamped, unless the mount says otherwise', async t => {
  const app = await mount(t, { server: echo })
  t.match((await call(app, 'tools/list')).json(), { result: { _meta: { [SERVER_INFO]: info } } })
  const silent = await mount(t, { server: echo, sendServerInfo: false })
  t.notOk((await call(silent, 'tools/list')).json().result._meta)

  const other = { name: 'other', version: '2' }
  const named = await mount(t, { server: toolServer(() => result({ ...toolResult.text('x'), _meta: { ...serverInfo(other), mine: 1 } })) })
  t.strictSame((await call(named, 'tools/call', tool)).json().result._meta, { ...serverInfo(other), mine: 1 })
  const unnamed = await mount(t, { server: toolServer(() => result({ ...toolResult.text('x'), _meta: { mine: 1 } })) })
  t.strictSame((await call(unnamed, 'tools/call', tool)).json().result._meta, { ...serverInfo(info), mine: 1 })
})

test('logs go out if logging is declared, also by a function, and without info', async t => {
  const statusOf = async (rest: object) => {
    let status: unknown
    const app = await mount(t, { server: { handleRequest: (_request, channel) => { status = channel.sendLog('error', 'x'); return done() }, ...rest } })
    await createTestClient(app).request('tools/call', tool, { logLevel: 'debug' })
    return status
  }
  t.equal(await statusOf({ info, capabilities: { tools: {} } }), 'filtered')
  t.equal(await statusOf({ info, capabilities: { tools: {}, logging: {} } }), 'sent')
  t.equal(await statusOf({ info, capabilities: () => ({ tools: {} }) }), 'filtered')
  t.equal(await statusOf({ info, capabilities: async () => ({ tools: {}, logging: {} }) }), 'sent')
  t.equal(await statusOf({}), 'sent')
})

test('capabilities may depend on who asks', async t => {
  const app = await mount(t, {
    principal: ({ headers }) => headers['x-user'] as string | undefined,
    server: toolServer(done, { capabilities: ({ principal }) => principal === 'anna' ? { tools: {} } : {} })
  })
  t.equal((await call(app, 'tools/call', tool, { headers: { 'x-user': 'anna' } })).statusCode, 200)
  t.equal((await call(app, 'tools/call', tool)).statusCode, 404)
})

test('a listen of which nothing can be honoured does not reach the server, whoever declares the capabilities', async t => {
  for (const capabilities of [{ tools: {} }, () => ({ tools: {} }), async () => ({ tools: {} })]) {
    const { app } = await stage(t, bareServer(() => t.fail('the handler ran') as never, { info, capabilities }))
    const client = createTestClient(app)
    const opened = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true, promptsListChanged: true } })
    t.match(await take(opened, 1), [{ method: 'notifications/subscriptions/acknowledged', params: { notifications: {} } }])
    await app.close()
    t.match(await opened.answer, { result: { resultType: 'complete' } })
  }
})

test('a listen is cut to the capabilities that a function gives', async t => {
  const { app } = await stage(t, bareServer<number>(() => stream(1), { info, capabilities: async () => ({ tools: { listChanged: true }, prompts: {} }) }))
  const opened = await createTestClient(app).open('subscriptions/listen', { notifications: { toolsListChanged: true, promptsListChanged: true } })
  const [acknowledged] = await take(opened, 1)
  t.strictSame((acknowledged?.params as { notifications: object }).notifications, { toolsListChanged: true })
  opened.vanish()
})

// ---- what keeps an exchange

test('an exchange that is answered at once is never counted, one that waits is until it has ended', async t => {
  const { promise, open } = gate()
  const begun = gate()
  const { app, gauges } = await stage(t, toolServer(({ params: { name } }) => {
    if (name === 'now') {
      t.match(gauges(), { exchanges: 0 })
      return done()
    }
    begun.open()
    return promise.then(done)
  }), { listen: false })
  await call(app, 'tools/call', { name: 'now' })
  const waiting = call(app, 'tools/call', { name: 'later' })
  await begun.promise
  t.match(gauges(), { exchanges: 1, streams: 0, queuedMessages: 0 })
  open()
  await waiting
  t.match(gauges(), { exchanges: 0 })
})

test('messages that wait are counted while they do', async t => {
  const begun = gate<Channel<string>>()
  const { promise, open } = gate()
  const { app, gauges } = await stage(t, toolServer<number, string>(async (_request, channel) => {
    channel.ref.post('a')
    channel.ref.post('b')
    begun.open(channel)
    await promise
    return stream(1)
  }, { handleMessage: () => done() }), { listen: false })
  const answer = call(app, 'tools/call', tool)
  await begun.promise
  t.match(gauges(), { exchanges: 1, queuedMessages: 2 })
  open()
  await answer
  t.match(gauges(), { exchanges: 0, queuedMessages: 0 })
})
