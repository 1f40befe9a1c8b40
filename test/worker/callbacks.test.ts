import { test } from 'tap'
import Fastify from 'fastify'
import genMcp, { defineServer, fail, inputRequired, listRoots, McpError, messageType, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { call, mount } from '../helpers/mount.js'
import { bareServer, info, toolServer } from '../helpers/servers.js'
import { alarms, gate, stage } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import type { Awaitable, RequestOutcome } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }
const BARE = { code: -32603, message: 'Internal error' }
const done = () => result(toolResult.text('done'))
/** A value that TypeScript would refuse, as untyped code returns it. */
const untyped = <T>(value: unknown) => value as T

// ---- setup

test('setup is called once a mount, with the instance and the arg, before ready() resolves', async t => {
  const calls: unknown[] = []
  const server = defineServer({
    setup: async (fastify, arg: string) => {
      await new Promise(resolve => { setImmediate(resolve) })
      calls.push([typeof fastify.register, arg])
    },
    init: (arg: string) => arg,
    handleRequest: (_request, _channel, state) => result(toolResult.text(state))
  })
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  await app.register(genMcp, { prefix: '/one', server: [server, 'first'] })
  await app.register(genMcp, { prefix: '/two', server: [server, 'second'] })
  await app.ready()
  t.strictSame(calls, [['function', 'first'], ['function', 'second']])

  await call(app, 'tools/call', tool, { url: '/one' })
  t.equal(calls.length, 2, 'and not for a request')
})

test('a throw of setup rejects ready()', async t => {
  const broken = new Error('no database')
  for (const setup of [() => { throw broken }, async () => { throw broken }]) {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    await t.rejects(async () => {
      await app.register(genMcp, { prefix: '/mcp', server: { setup, handleRequest: done } })
      await app.ready()
    }, broken)
  }
})

// ---- capabilities, 3.4

test('capabilities that are a function are asked first, once a request, also when they wait', async t => {
  for (const wait of [false, true]) {
    const order: string[] = []
    const app = await mount(t, {
      server: defineServer({
        info,
        capabilities: ({ request }) => {
          order.push(`capabilities of ${request.method}`)
          return wait ? Promise.resolve({ tools: {} }) : { tools: {} }
        },
        init: () => { order.push('init') },
        handleRequest: () => { order.push('handleRequest'); return done() }
      })
    })
    t.match((await call(app, 'tools/call', tool)).json(), { result: { content: [{ text: 'done' }] } })
    t.strictSame(order, ['capabilities of tools/call', 'init', 'handleRequest'])
    t.match((await call(app, 'server/discover')).json(), { result: { capabilities: { tools: {} } } })
    t.match((await call(app, 'prompts/list')).json(), { error: { code: -32601 } })
    t.strictSame(order.slice(3), ['capabilities of server/discover', 'capabilities of prompts/list'], 'the core answers these')
  }
})

test('an McpError that capabilities throw is the answer', async t => {
  const error = new McpError({ kind: 'internal', message: 'Not for you' })
  for (const capabilities of [() => { throw error }, async () => { throw error }]) {
    const app = await mount(t, { server: toolServer(() => t.fail('the handler ran') as never, { capabilities }) })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 200)
    t.match(response.json(), { id: 1, error: { code: -32603, message: 'Not for you' } })
  }
})

test('anything else that capabilities throw is a crash', async t => {
  for (const capabilities of [() => { throw new Error('secret') }, async () => { throw new Error('secret') }]) {
    const { app, lines } = await stage(t, toolServer(() => t.fail('the handler ran') as never, { capabilities }), { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json().error, BARE)
    t.match(alarms(lines), [{ err: { message: 'secret' } }])
    t.equal(alarms(lines).length, 1)
  }
})

test('capabilities that give no capabilities are a crash', async t => {
  for (const given of [undefined, null, 'tools']) {
    for (const wait of [false, true]) {
      let ran = false
      const server = toolServer(() => { ran = true; return done() }, { capabilities: () => untyped(wait ? Promise.resolve(given) : given) })
      const { app } = await stage(t, server, { listen: false, limits: { drain: 50 } })
      const response = await call(app, 'server/discover')
      t.equal(response.statusCode, 500, `${wait ? 'a promise of ' : ''}${given}`)
      t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: BARE })
      t.notOk(ran)
    }
  }
})

test('a client that leaves while capabilities wait: neither init nor the handler runs', async t => {
  for (const withInit of [false, true]) {
    const { promise, open } = gate<{}>()
    const ran: string[] = []
    const exchange = testExchange(toolServer(() => { ran.push('handler'); return done() }, {
      capabilities: async () => { await promise; return { tools: {} } },
      ...(withInit && { init: () => { ran.push('init'); return undefined } })
    }), 'tools/call', tool)
    exchange.disconnect()
    open({})
    t.match(await exchange.ended, { cause: 'disconnect' })
    t.strictSame(ran, [])
  }
})

// ---- init

// Rules 9 and 10 of the life of a request: nothing carries over.
test('init is called once an exchange, before the handler, with the arg and a context that cannot send', async t => {
  const seen: unknown[] = []
  const server = defineServer({
    init: (arg: { readonly base: number }, context) => {
      seen.push(arg, context.request.method, 'sendProgress' in context, 'ref' in context)
      return { count: arg.base }
    },
    handleRequest: (_request, _channel, state) => {
      state.count++
      return result(toolResult.text(String(state.count)))
    }
  })
  const arg = { base: 1 }
  const app = await mount(t, { server: [server, arg] })
  for (let round = 0; round < 2; round++) {
    t.equal((await call(app, 'tools/call', tool)).json().result.content[0].text, '2', 'a state of its own')
  }
  t.strictSame(seen, [arg, 'tools/call', false, false, arg, 'tools/call', false, false])
  t.equal(seen[0], arg, 'unchanged')
})

test('requests whose init waits start at the same time', async t => {
  let started = 0
  const all = gate()
  const app = await mount(t, {
    server: defineServer({
      init: async () => {
        if (++started === 3) all.open()
        await all.promise
      },
      handleRequest: done
    })
  })
  const responses = await Promise.all([1, 2, 3].map(async id => await call(app, 'tools/call', tool, { id })))
  t.strictSame(responses.map(({ statusCode }) => statusCode), [200, 200, 200])
})

test('stop of init is answered as fail would be, and nothing else runs', async t => {
  const cases: readonly (readonly [reason: unknown, statusCode: number, error: object])[] = [
    ['closed today', 200, { code: -32603, message: 'closed today' }],
    [{ kind: 'unknownTool', name: 'tool' }, 200, { code: -32602, data: { tool: 'tool' } }],
    [new McpError({ kind: 'missingClientCapability', required: { roots: {} } }), 400, { code: -32021 }],
    [{ kind: 'custom', rpcCode: 7, message: 'seven', statusCode: 409 }, 409, { code: 7, message: 'seven' }]
  ]
  for (const [reason, statusCode, error] of cases) {
    for (const wait of [false, true]) {
      const ran: string[] = []
      const { app, ends, lines } = await stage(t, defineServer({
        init: () => wait ? Promise.resolve(stop(reason)) : stop(reason),
        handleRequest: () => { ran.push('handleRequest'); return stream(1) },
        handleClose: () => { ran.push('handleClose') }
      }), { listen: false })
      const response = await call(app, 'tools/call', tool)
      t.equal(response.statusCode, statusCode)
      t.match(response.json(), { id: 1, error })
      t.match(ends, [{ cause: 'error', statusCode }])
      t.strictSame(ran, [])
      t.strictSame(alarms(lines), [], 'no fault of ours')
    }
  }
})

test('stop of init with a reason that fail does not take is a bare 500', async t => {
  const reserved = { kind: 'custom', rpcCode: -32001, message: 'reserved' }
  for (const reason of [undefined, null, 7, new Error('secret'), { kind: 7 }, { kind: 'unheardOf' }, reserved]) {
    const server = defineServer({ init: () => stop(reason), handleRequest: () => t.fail('the handler ran') as never })
    const { app, ends } = await stage(t, server, { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: BARE })
    t.match(ends, [{ cause: 'crash' }])
  }
})

test('an McpError that init throws is the answer', async t => {
  for (const init of [() => { throw McpError.unsupportedMethod('tools/call') }, async () => { throw McpError.unsupportedMethod('tools/call') }]) {
    const app = await mount(t, { server: defineServer({ init, handleRequest: () => t.fail('the handler ran') as never }) })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 404)
    t.match(response.json(), { error: { code: -32601 } })
  }
})

test('anything else that init throws is a crash, with its details in the log alone', async t => {
  for (const init of [() => { throw new Error('secret') }, async () => { throw new Error('secret') }]) {
    const { app, lines } = await stage(t, defineServer({ init, handleRequest: () => t.fail('the handler ran') as never }), { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json().error, BARE)
    t.match(alarms(lines), [{ err: { message: 'secret' } }])
    t.equal(alarms(lines).length, 1)
  }
})

test('an outcome other than stop that init returns is a crash', async t => {
  for (const outcome of [done(), fail('no'), stream(1), inputRequired({})]) {
    const { app, ends } = await stage(t, defineServer({ init: () => outcome, handleRequest: () => t.fail('the handler ran') as never }), { listen: false })
    t.equal((await call(app, 'tools/call', tool)).statusCode, 500)
    t.match(ends, [{ cause: 'crash', reason: { code: 'MCP_ERR_BAD_RETURN', message: /^init returned the outcome/ } }])
  }
})

test('a client that leaves while init waits: it runs on, and the exchange ends without a handler', async t => {
  for (const gives of ['a state', 'stop', 'an error']) {
    const { promise, open } = gate()
    const cleaned = gate()
    let finished = false
    const exchange = testExchange(defineServer({
      init: async (_arg: undefined, context) => {
        context.defer(() => { t.ok(finished, 'after init'); cleaned.open() })
        await promise
        finished = true
        if (gives === 'an error') throw new Error('too late')
        return gives === 'stop' ? stop('too late') : undefined
      },
      handleRequest: () => t.fail('the handler ran') as never,
      handleClose: () => { t.fail('there is no live state') }
    }), 'tools/call', tool)
    exchange.disconnect()
    open()
    await cleaned.promise
    t.match(await exchange.ended, { cause: 'disconnect' }, gives)
  }
})

// ---- handleRequest

test('a result with nothing sent before is one JSON reply with the id of the request', async t => {
  for (const handler of [done, async () => done()]) {
    const app = await mount(t, { server: toolServer(handler) })
    const response = await call(app, 'tools/call', tool, { id: 'seven' })
    t.equal(response.statusCode, 200)
    t.match(response.headers['content-type'], /^application\/json/)
    t.match(response.json(), { jsonrpc: '2.0', id: 'seven', result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] } })
  }
})

test('the stopReason of a result is told to onEnd and not to the client', async t => {
  const { app, ends } = await stage(t, toolServer(() => result(toolResult.text('done'), { stopReason: { internal: 'cached' } })), { listen: false })
  const response = await call(app, 'tools/call', tool)
  t.notMatch(response.body, /internal|cached/)
  t.match(ends, [{ cause: 'result', reason: { internal: 'cached' } }])
})

test('fail with nothing sent before has the status and code of its reason', async t => {
  const server = toolServer(({ params: { name } }) => name === 'tool' ? fail({ kind: 'unknownTool', name }) : fail(McpError.unsupportedMethod('x')))
  const { app, ends } = await stage(t, server, { listen: false })
  const unknown = await call(app, 'tools/call', tool)
  t.equal(unknown.statusCode, 200)
  t.match(unknown.json(), { id: 1, error: { code: -32602 } })
  const unsupported = await call(app, 'tools/call', { name: 'other' })
  t.equal(unsupported.statusCode, 404)
  t.match(unsupported.json(), { id: 1, error: { code: -32601 } })
  t.match(ends, [{ cause: 'error', reason: { code: 'MCP_ERR_UNKNOWN_TOOL' } }, { cause: 'error', reason: { code: 'MCP_ERR_UNSUPPORTED_METHOD' } }])
})

test('an McpError that the handler throws does what fail does', async t => {
  const error = new McpError({ kind: 'resourceNotFound', uri: 'x:y' })
  for (const throws of [() => { throw error }, async () => { throw error }]) {
    const { app, ends, lines } = await stage(t, bareServer(throws), { listen: false })
    const response = await call(app, 'resources/read', { uri: 'x:y' })
    t.equal(response.statusCode, 200)
    t.match(response.json(), { error: { code: -32602, data: { uri: 'x:y' } } })
    t.match(ends, [{ cause: 'error' }])
    t.strictSame(alarms(lines), [])
  }
})

// M14 and rule 97
test('a crash of the handler before a stream is a 500 that says nothing, logged once with its cause', async t => {
  for (const throws of [() => { throw new Error('secret') }, async () => { throw new Error('secret') }]) {
    const { app, ends, lines } = await stage(t, toolServer(throws), { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: BARE })
    t.match(alarms(lines), [{ err: { message: 'secret', stack: /Error: secret/ } }])
    t.equal(alarms(lines).length, 1)
    t.match(ends, [{ cause: 'crash', reason: { message: 'secret' }, statusCode: 500, streamed: false }])
  }
})

test('anything thrown that is no Error is a crash as well', async t => {
  for (const thrown of [undefined, null, 'text', 7, { kind: 'internal', message: 'not fail' }]) {
    const { app, ends } = await stage(t, toolServer(() => { throw thrown }), { listen: false })
    t.equal((await call(app, 'tools/call', tool)).statusCode, 500)
    t.match(ends, [{ cause: 'crash', reason: thrown }])
  }
})

// M10, rule 102
test('a return of the handler outside its union is a crash', async t => {
  const returned = [undefined, null, 'text', {}, toolResult.text('a result without result()'), { type: 'result', result: {} }, stop(), stop('enough')]
  for (const value of returned) {
    for (const wait of [false, true]) {
      const returns = () => untyped<Awaitable<RequestOutcome<never, 'tools/call'>>>(wait ? Promise.resolve(value) : value)
      const { app, ends, lines } = await stage(t, toolServer(returns), { listen: false })
      const response = await call(app, 'tools/call', tool)
      t.equal(response.statusCode, 500)
      t.strictSame(response.json().error, BARE)
      t.match(ends, [{ cause: 'crash', reason: { code: 'MCP_ERR_BAD_RETURN', message: /^handleRequest returned/ } }])
      t.equal(alarms(lines).length, 1)
    }
  }
})

test('inputRequired asks the client', async t => {
  const app = await mount(t, { server: toolServer(() => inputRequired({ roots: listRoots() })) })
  const { result: asked } = await createTestClient(app).request('tools/call', tool, { capabilities: { roots: {} } })
  t.match(asked, { resultType: 'input_required', inputRequests: { roots: { method: 'roots/list' } }, requestState: String })
})

test('inputRequired where nobody may ask is a crash', async t => {
  const { app, ends } = await stage(t, bareServer(() => untyped(inputRequired({ roots: listRoots() }))), { listen: false })
  t.equal((await call(app, 'tools/list')).statusCode, 500)
  t.match(ends, [{ cause: 'crash', reason: { code: 'MCP_ERR_BAD_RETURN' } }])
})

test('inputRequired that the client cannot answer is refused with what it lacks', async t => {
  const { app, ends } = await stage(t, toolServer(() => inputRequired({ roots: listRoots() })), { listen: false })
  const response = await call(app, 'tools/call', tool)
  t.equal(response.statusCode, 400)
  t.match(response.json(), { error: { code: -32021, data: { requiredCapabilities: { roots: {} } } } })
  t.match(ends, [{ cause: 'error' }])
})

test('a result that is no JSON is a crash', async t => {
  const cycle: Record<string, unknown> = {}
  cycle['itself'] = cycle
  for (const value of [cycle, { big: 1n }, [], null, 'text', { toJSON: () => undefined }]) {
    const { app, ends, lines } = await stage(t, bareServer(() => result(untyped(value))), { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json().error, BARE)
    t.match(ends, [{ cause: 'crash', reason: Error }])
    t.equal(alarms(lines).length, 1)
  }
})

test('a result of an extension\'s type is for clients that declare what the server declares, and a question made by hand for nobody: EXT-03', async t => {
  const capabilities = { tools: {}, extensions: { 'com.example/tasks': {} } }
  const { app, ends } = await stage(t, toolServer(({ params: { name } }) => result(untyped({ resultType: name })), { capabilities }), { listen: false })
  const client = createTestClient(app)
  const answerOf = async (name: string, extensions?: { [name: string]: {} }) =>
    await client.request('tools/call', { name, arguments: {} }, extensions === undefined ? {} : { capabilities: { extensions } })

  t.match(await answerOf('task', { 'com.example/tasks': {} }), { statusCode: 200, result: { resultType: 'task' } })
  t.match(await answerOf('task'), { statusCode: 500, error: BARE })
  t.match(await answerOf('task', { 'com.example/other': {} }), { statusCode: 500, error: BARE })
  t.match(await answerOf('task', {}), { statusCode: 500, error: BARE })
  t.match(await answerOf('input_required', { 'com.example/tasks': {} }), { statusCode: 500, error: BARE })
  for (const end of ends.slice(1)) t.match(end, { cause: 'crash', reason: { code: 'MCP_ERR_BAD_RETURN' } })
  t.equal(ends.length, 5)

  const silent = createTestClient((await stage(t, bareServer(() => result(untyped({ resultType: 'task' }))), { listen: false })).app)
  const askSilent = async (extensions: { [name: string]: {} }) => await silent.request('tools/call', { name: 'any', arguments: {} }, { capabilities: { extensions } })
  t.match(await askSilent({ 'com.example/any': {} }), { result: { resultType: 'task' } }, 'a server that does not say what it does is trusted')
  t.match(await askSilent({}), { statusCode: 500, error: BARE })
})

test('a result on a listen, which is the core\'s to answer, is a crash', async t => {
  const { app, ends } = await stage(t, bareServer(() => result(toolResult.text('no'))), { listen: false })
  t.equal((await call(app, 'subscriptions/listen', { notifications: {} })).statusCode, 500)
  t.match(ends, [{ cause: 'crash', reason: { code: 'MCP_ERR_BAD_RETURN' } }])
})

test('a stream opens at once, with nothing to send', async t => {
  const { app } = await stage(t, toolServer<number, string>(() => stream(1), { handleMessage: done }))
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const opened = await client.open('tools/call', tool)
  t.match(await opened.head, { statusCode: 200, headers: { 'content-type': /^text\/event-stream/ } })
  opened.vanish()
})

test('what was sent before the answer comes before it, in one stream', async t => {
  const app = await mount(t, {
    server: toolServer(async (_request, channel) => {
      channel.sendProgress(1)
      await null
      channel.sendProgress(2)
      return done()
    })
  })
  const answer = await createTestClient(app).request('tools/call', tool, { progressToken: 'p' })
  t.match(answer.headers, { 'content-type': /^text\/event-stream/ })
  t.strictSame(answer.notifications.map(({ params }) => params), [{ progressToken: 'p', progress: 1 }, { progressToken: 'p', progress: 2 }])
  t.match(answer.result, { content: [{ text: 'done' }] })
})

// Rule 28
test('what a handler sends while it waits reaches the client meanwhile', async t => {
  const { promise, open } = gate()
  const { app } = await stage(t, toolServer(async (_request, channel) => {
    channel.sendProgress(1)
    await promise
    return done()
  }))
  const opened = await createTestClient(app, { progressToken: 'p' }).open('tools/call', tool)
  t.match(await take(opened, 1), [{ params: { progress: 1 } }])
  open()
  t.match(await opened.answer, { result: { content: [{ text: 'done' }] } })
})

test('no callback follows an answer', async t => {
  const ran: string[] = []
  const server = toolServer<number, string>((_request, channel) => {
    channel.ref.post('queued before')
    channel.after(0, 'later')
    return done()
  }, { handleMessage: () => { ran.push('handleMessage'); return done() }, handleClose: () => { ran.push('handleClose') } })
  const exchange = testExchange(server, 'tools/call', tool)
  await exchange.ended
  await new Promise(resolve => { setTimeout(resolve, 20) })
  t.strictSame(ran, [])
})

// ---- handleMessage

const messages = messageType<string>()

test('a result of handleMessage is the last event, with the id of the request', async t => {
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, { handleMessage: async () => result(toolResult.text('done'), { stopReason: 'all' }) }), { listen: false })
  const response = await call(app, 'tools/call', tool, { id: 'x' })
  t.equal(response.statusCode, 200)
  t.match(response.body, /^data: \{"jsonrpc":"2.0","id":"x","result":.*\}\n\n$/)
  t.match(ends, [{ cause: 'result', reason: 'all', streamed: true, events: 1 }])
})

// Rule 40
test('fail of handleMessage, and an McpError it throws, are an error event under status 200', async t => {
  const causes: readonly (() => Awaitable<RequestOutcome<number>>)[] = [
    () => fail({ kind: 'custom', rpcCode: 7, message: 'seven', statusCode: 409 }),
    () => { throw new McpError({ kind: 'custom', rpcCode: 7, message: 'seven', statusCode: 409 }) },
    async () => { throw new McpError({ kind: 'custom', rpcCode: 7, message: 'seven', statusCode: 409 }) }
  ]
  for (const handleMessage of causes) {
    const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, { handleMessage }), { listen: false })
    const { statusCode, error, headers } = await createTestClient(app).request('tools/call', tool)
    t.equal(statusCode, 200)
    t.match(headers, { 'content-type': /^text\/event-stream/ })
    t.strictSame(error, { code: 7, message: 'seven' })
    t.match(ends, [{ cause: 'error', statusCode: 200, streamed: true }])
  }
})

// Rule 41
test('stop of handleMessage ends the stream without an event', async t => {
  for (const reason of [undefined, 'enough', { code: 7 }]) {
    const { app, ends, lines } = await stage(t, toolServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, { handleMessage: () => stop(reason) }), { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.statusCode, 200)
    t.equal(response.body, '')
    t.match(ends, [{ cause: 'stop', reason, streamed: true, events: 0 }])
    t.strictSame(alarms(lines), [])
  }
})

// Rule 42
test('stop with an Error is reported like a crash first', async t => {
  const { app, ends, lines } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, { handleMessage: () => stop(new Error('secret')), handleClose: () => { t.fail('a stop is no close') } }), { listen: false })
  const { error } = await createTestClient(app).request('tools/call', tool)
  t.strictSame(error, BARE)
  t.match(ends, [{ cause: 'stop', reason: { message: 'secret' }, events: 1 }])
  t.match(alarms(lines), [{ err: { message: 'secret' } }])
  t.equal(alarms(lines).length, 1)
})

test('stop with an McpError tells the client what it says', async t => {
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, { handleMessage: () => stop(new McpError({ kind: 'internal', message: 'The printer is on fire' })) }), { listen: false })
  const { error } = await createTestClient(app).request('tools/call', tool)
  t.strictSame(error, { code: -32603, message: 'The printer is on fire' })
  t.match(ends, [{ cause: 'stop', events: 1 }])
})

test('stop of a listen gives the client the result of a listen, and an Error is logged', async t => {
  for (const reason of ['enough', new Error('secret')]) {
    const { app, ends, lines } = await stage(t, bareServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, { handleMessage: () => stop(reason) }), { listen: false })
    const { result: end, notifications } = await createTestClient(app).request('subscriptions/listen', { notifications: { toolsListChanged: true } })
    t.match(notifications, [{ method: 'notifications/subscriptions/acknowledged' }])
    t.match(end, { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } })
    t.match(ends, [{ cause: 'stop', reason }])
    t.equal(alarms(lines).length, reason instanceof Error ? 1 : 0)
  }
})

test('stop answers a client that takes JSON only with an error', async t => {
  const { app, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, { handleMessage: () => stop('enough') }), { listen: false })
  const response = await call(app, 'tools/call', tool, { headers: { accept: 'application/json' } })
  t.equal(response.statusCode, 200)
  t.match(response.json(), { id: 1, error: { code: -32603, message: 'Request closed by the server' } })
  t.match(await ended(), [{ cause: 'stop', reason: 'enough', streamed: false }])
})

// M14, rule 98
test('a crash of handleMessage is an error event under status 200, logged once', async t => {
  for (const throws of [() => { throw new Error('secret') }, async () => { throw new Error('secret') }]) {
    const { app, ends, lines } = await stage(t, toolServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, { handleMessage: throws }), { listen: false })
    const { statusCode, error } = await createTestClient(app).request('tools/call', tool)
    t.equal(statusCode, 200)
    t.strictSame(error, BARE)
    t.match(ends, [{ cause: 'crash', reason: { message: 'secret' }, streamed: true }])
    t.match(alarms(lines), [{ err: { message: 'secret' } }])
    t.equal(alarms(lines).length, 1)
  }
})

test('a return of handleMessage outside its union is a crash', async t => {
  for (const value of [undefined, null, 'text', { type: 'stream', state: 1 }]) {
    const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, { handleMessage: () => untyped(value) }), { listen: false })
    t.strictSame((await createTestClient(app).request('tools/call', tool)).error, BARE)
    t.match(ends, [{ cause: 'crash', reason: { code: 'MCP_ERR_BAD_RETURN', message: /^handleMessage returned/ } }])
  }
})

test('inputRequired of handleMessage is the last event', async t => {
  const app = await mount(t, {
    server: toolServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, { handleMessage: () => inputRequired({ roots: listRoots() }) })
  })
  const answer = await createTestClient(app).request('tools/call', tool, { capabilities: { roots: {} } })
  t.match(answer.headers, { 'content-type': /^text\/event-stream/ })
  t.match(answer.result, { resultType: 'input_required', inputRequests: { roots: { method: 'roots/list' } } })
})

// Rule 34
test('each message gets the state of the last stream(), and the stream stays the same', async t => {
  const server = defineServer({
    messages,
    handleRequest: (_request, channel) => {
      for (const letter of ['a', 'b', 'c']) channel.ref.post(letter)
      return stream({ text: '' })
    },
    handleMessage: (letter, _channel, live) => {
      const text = live.text + letter
      return text.length === 3 ? result(toolResult.text(text)) : stream({ text })
    }
  })
  const exchange = testExchange(server, 'tools/call', tool)
  t.match(await exchange.answer, { result: { content: [{ text: 'abc' }] } })
  t.strictSame(exchange.notifications, [])
})

test('without handleMessage messages are dropped, and counted', async t => {
  const exchange = testExchange(toolServer<number, string>(() => stream(1)), 'tools/call', tool)
  t.equal(exchange.ref.post('a'), 'queued')
  t.equal(exchange.ref.post('b'), 'queued')
  await new Promise(resolve => { setImmediate(resolve) })
  exchange.disconnect()
  t.match(await exchange.ended, { cause: 'disconnect', undelivered: 2 })
})

// ---- handleNotification

const cancelled = { requestId: 5, reason: 'no more' }

// Rules 48 and 49
test('a notification is accepted with 202 and nothing else when its handler has settled', async t => {
  const { promise, open } = gate()
  const begun = gate()
  const { app, ends } = await stage(t, defineServer({
    init: () => 'state',
    handleRequest: done,
    handleNotification: async (notification, context, state) => {
      t.match(notification, { method: 'notifications/cancelled', params: cancelled })
      t.equal(context.request, notification)
      t.notOk('sendProgress' in context)
      t.equal(state, 'state')
      begun.open()
      await promise
    }
  }), { listen: false })
  const response = call(app, 'notifications/cancelled', cancelled, { id: undefined })
  await begun.promise
  await new Promise(resolve => { setImmediate(resolve) })
  t.strictSame(ends, [], 'it waits')
  open()
  t.equal((await response).statusCode, 202)
  t.equal((await response).body, '')
  t.match(ends, [{ cause: 'accepted', requestId: null, method: 'notifications/cancelled', streamed: false, events: 0, statusCode: 202 }])
})

test('what a notification handler returns is ignored', async t => {
  for (const value of [undefined, 7, fail('no'), stop(), stream(1)]) {
    const app = await mount(t, { server: { handleRequest: done, handleNotification: () => untyped(value) } })
    t.equal((await call(app, 'notifications/cancelled', cancelled, { id: undefined })).statusCode, 202)
  }
})

// Rule 50
test('a notification handler that crashes is a 500 without an id', async t => {
  for (const handleNotification of [() => { throw new Error('secret') }, async () => { throw new Error('secret') }]) {
    const { app, ends, lines } = await stage(t, { handleRequest: done, handleNotification }, { listen: false })
    const response = await call(app, 'notifications/cancelled', cancelled, { id: undefined })
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), { jsonrpc: '2.0', error: BARE })
    t.match(ends, [{ cause: 'crash', requestId: null }])
    t.equal(alarms(lines).length, 1)
  }
})

test('an McpError that a notification handler throws is a 400 without an id', async t => {
  const errors = [new McpError({ kind: 'invalidParams', message: 'Bad' }), new McpError({ kind: 'internal', message: 'Bad' })]
  for (const error of errors) {
    for (const handleNotification of [() => { throw error }, async () => { throw error }]) {
      const app = await mount(t, { server: { handleRequest: done, handleNotification } })
      const response = await call(app, 'notifications/cancelled', cancelled, { id: undefined })
      t.equal(response.statusCode, 400, error.code)
      t.strictSame(response.json(), { jsonrpc: '2.0', error: { code: error.rpcCode, message: 'Bad' } })
    }
  }
})

test('a notification that the server does not handle, or the revision does not define, runs no callback', async t => {
  const ran: string[] = []
  const server = { init: () => { ran.push('init') }, handleRequest: done }
  const bare = await mount(t, { server })
  t.equal((await call(bare, 'notifications/cancelled', cancelled, { id: undefined })).statusCode, 202)

  const app = await mount(t, { server: { ...server, handleNotification: () => { ran.push('handleNotification') } } })
  for (const method of ['notifications/initialized', 'notifications/unheard-of', 'notifications/roots/list_changed']) {
    t.equal((await call(app, method, {}, { id: undefined })).statusCode, 202, method)
  }
  t.strictSame(ran, [])
})

test('a notification, which no capability opens, asks for none', async t => {
  const handled: string[] = []
  const app = await mount(t, {
    server: {
      info,
      capabilities: () => t.fail('capabilities were asked for') as never,
      handleRequest: done,
      handleNotification: ({ method }) => { handled.push(method) }
    }
  })
  t.equal((await call(app, 'notifications/cancelled', cancelled, { id: undefined })).statusCode, 202)
  t.strictSame(handled, ['notifications/cancelled'])
})

test('stop and a throw of init refuse a notification', async t => {
  const handleNotification = () => { t.fail('the handler ran') }
  const stopped = await mount(t, { server: { init: () => stop({ kind: 'invalidParams', message: 'no' }), handleRequest: done, handleNotification } })
  t.equal((await call(stopped, 'notifications/cancelled', cancelled, { id: undefined })).statusCode, 400)
  const broken = await mount(t, { server: { init: () => { throw new Error('secret') }, handleRequest: done, handleNotification } })
  t.equal((await call(broken, 'notifications/cancelled', cancelled, { id: undefined })).statusCode, 500)
})

test('the clean-ups of a notification run', async t => {
  const order: string[] = []
  const app = await mount(t, {
    server: {
      handleRequest: done,
      handleNotification: (_notification, context) => {
        context.defer(() => { order.push('first') })
        context.defer(() => { order.push('second') })
      }
    }
  })
  await call(app, 'notifications/cancelled', cancelled, { id: undefined })
  t.strictSame(order, ['second', 'first'])
})

// ---- rule 103

test('the crash of one request does not touch another', async t => {
  const { promise, open } = gate()
  const app = await mount(t, {
    server: toolServer<number, string>(async ({ params: { name } }, channel) => {
      if (name === 'crash') {
        channel.watch(Promise.reject(new Error('secret')), () => 'never')
        return stream(1)
      }
      await promise
      return done()
    }, { handleMessage: done })
  })
  const patient = call(app, 'tools/call', { name: 'patient' })
  const crashed = await createTestClient(app).request('tools/call', { name: 'crash', arguments: {} })
  t.strictSame(crashed.error, BARE)
  open()
  t.equal((await patient).statusCode, 200)
})
