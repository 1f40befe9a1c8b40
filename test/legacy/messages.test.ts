import { test } from 'tap'
import { createSuite, defineResources, discoverResult, fail, readResourceResult, result, stream, toolResult, type JsonObject } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { isStream, messagesOf, split } from '../helpers/messages.js'
import { refused } from '../helpers/refusal.js'
import { bareServer, createListenServer, echo, info, toolServer } from '../helpers/servers.js'
import { gate, stage, until } from '../helpers/sockets.js'
import { open, send, VERSIONS } from './helpers.js'
import type { Message } from '../helpers/messages.js'

const tools = [{ name: 'echo', inputSchema: { type: 'object' } }]
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const

/** A tool that runs until it is cancelled or `go` is called with what it is to say, and what it made of each. */
function createSlow () {
  const started = gate()
  const running: string[] = []
  const ended = gate<string>()
  const answer = gate<string>()
  const server = toolServer(async ({ params }, channel) => {
    if (params.name === 'loud') channel.startStream()
    running.push(params.name)
    started.open()
    const cancelled = new Promise<string>(resolve => { channel.signal.addEventListener('abort', () => { resolve('cancelled') }) })
    const came = await Promise.race([cancelled, answer.promise])
    ended.open(came)
    return result(toolResult.text(came))
  })
  return { server, running, started: started.promise, ended: ended.promise, go: answer.open }
}

// ---- bodies and their answers

test('one request, notification or answer is a body, and the last two are 202 without one: LEG-34, LEG-35, LEG-64', async t => {
  const app = await mount(t, { server: echo })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    const silent = [
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', method: 'notifications/roots/list_changed' },
      { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } },
      { jsonrpc: '2.0', method: 'notifications/progress', params: 'nonsense' },
      { jsonrpc: '2.0', method: 'notifications/made/up' },
      { jsonrpc: '2.0', method: 'tools/list' },
      { jsonrpc: '2.0', id: 1, result: {} },
      { jsonrpc: '2.0', id: 'unknown', result: { action: 'accept' } },
      { jsonrpc: '2.0', id: 1, error: { code: -1, message: 'No' } }
    ]
    for (const body of silent) {
      const response = await session.post(body)
      t.equal(response.statusCode, 202, JSON.stringify(body))
      t.equal(response.body, '', JSON.stringify(body))
    }
    t.strictSame((await session.request('tools/list')).json(), { jsonrpc: '2.0', id: 1, result: { tools } }, version)
  }
})

test('what is no message is refused as such, with its id if that can be read: LEG-35', async t => {
  const session = await open(await mount(t, { server: echo }))
  const bodies: readonly (readonly [unknown, (string | number)?])[] = [
    [{}], [5], ['x'], [null], [{ jsonrpc: '2.0' }], [{ jsonrpc: '1.0', id: 1, method: 'ping' }, 1], [{ id: 1, method: 'ping' }, 1], [{ jsonrpc: '2.0', id: 1 }, 1],
    [{ jsonrpc: '2.0', id: null, result: {} }], [{ jsonrpc: '2.0', result: {} }], [{ jsonrpc: '2.0', id: 1, result: null }, 1], [{ jsonrpc: '2.0', id: 1, error: null }, 1], [{ jsonrpc: '2.0', id: 1.5, method: 'ping' }],
    [{ jsonrpc: '2.0', id: 1, method: 5 }, 1], [{ jsonrpc: '2.0', method: null }]
  ]
  for (const [body, id] of bodies) refused(t, await session.post(body), { status: 400, code: -32600, ...(id !== undefined && { id }) }, JSON.stringify(body))
  const broken = await session.post(undefined, { 'content-length': '0' })
  t.match(broken.json(), { error: { code: -32700 } })
})

test('a request is answered as JSON, or in a stream where something comes before: LEG-36, LEG-37', async t => {
  const server = toolServer(({ params }, channel) => {
    if (params.name === 'loud') channel.sendLog('info', 'hello')
    return result(toolResult.text(params.name))
  })
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    const answer = (name: string) => ({ jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: name }] } })
    const quiet = await session.request('tools/call', { name: 'quiet' })
    t.match(quiet.headers['content-type'], /^application\/json/, version)
    t.strictSame(quiet.json(), answer('quiet'), version)

    const loud = await session.request('tools/call', { name: 'loud' })
    t.ok(isStream(loud), version)
    const messages = (await messagesOf(loud)).filter(({ id, method }) => (id ?? method) !== undefined)
    t.strictSame(messages, [{ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'hello' } }, answer('loud')], version)

    const jsonOnly = await session.request('tools/call', { name: 'loud' }, { headers: { accept: 'application/json' } })
    t.strictSame(jsonOnly.json(), answer('loud'), `${version}, JSON alone`)
    for (const name of ['quiet', 'ping']) {
      const streamOnly = await session.request(name === 'ping' ? 'ping' : 'tools/call', { name }, { headers: { accept: 'text/event-stream' } })
      t.ok(isStream(streamOnly), `${version}, ${name}, a stream alone`)
    }
    for (const accept of ['*/*', 'application/*']) t.strictSame((await session.request('tools/call', { name: 'quiet' }, { headers: { accept } })).json(), answer('quiet'), accept)
    refused(t, await session.request('tools/call', { name: 'quiet' }, { headers: { accept: 'text/html' } }), { status: 406, code: -32600, id: 1 }, version)
  }
})

test('params that do not fit are -32602 in-band, and what they are not is said', async t => {
  const session = await open(await mount(t, { server: echo }))
  const cases = [
    ['tools/call', {}, '/name'], ['tools/call', { name: 5 }, '/name'], ['tools/list', { cursor: 5 }, '/cursor'], ['ping', [], 'params'], ['tools/list', 'x', 'params'],
    ['ping', null, undefined]
  ] as const
  for (const [method, params, path] of cases) {
    const response = await session.post({ jsonrpc: '2.0', id: 1, method, params })
    t.equal(response.statusCode, 200, method)
    if (path === undefined) t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, result: {} }, 'null is none')
    else t.match(response.json(), { id: 1, error: { code: -32602, data: { issues: [{ path }] } } }, `${method} ${JSON.stringify(params)}`)
  }
})

test('what a handler answers on purpose is in-band, whatever its code; a crash is 500, and says nothing: LEG-21', async t => {
  const { app, lines } = await stage(t, toolServer(({ params: { name } }) => {
    if (name === 'crash') throw new Error('secret')
    return fail({ kind: 'custom', rpcCode: Number(name), message: 'relayed', data: { a: 1 } })
  }), { listen: false })
  const session = await open(app)
  // Codes that have no meaning in these revisions are invalid requests there.
  for (const [code, expected] of [[-32601, -32601], [-32600, -32600], [-32603, -32603], [7, 7], [-32020, -32600], [-32021, -32600], [-32022, -32600]] as const) {
    const response = await session.request('tools/call', { name: String(code) })
    t.equal(response.statusCode, 200, String(code))
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: expected, message: 'relayed', data: { a: 1 } } })
  }
  const crash = await session.request('tools/call', { name: 'crash' })
  t.equal(crash.statusCode, 500)
  t.strictSame(crash.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.equal(lines.filter(({ level }) => level >= 50).length, 1)
})

test('an answer that cannot be JSON is a crash, and an error gets through without data that cannot', async t => {
  const loop: Record<string, unknown> = {}
  loop['loop'] = loop
  const results: Readonly<Record<string, object>> = {
    loop: { ...toolResult.text('x'), _meta: loop as JsonObject },
    toJSON: { ...toolResult.text('x'), toJSON: () => 5 },
    list: { toJSON: () => [] }
  }
  const server = bareServer(request => {
    if (request.method !== 'tools/call') return result(discoverResult({}))
    const { name } = request.params
    if (name === 'error') return fail({ kind: 'custom', rpcCode: 7, message: 'no', data: loop as JsonObject })
    if (name === 'own') return result({ toJSON: () => toolResult.text('made up') } as unknown as ReturnType<typeof toolResult.text>)
    return result(results[name] as ReturnType<typeof toolResult.text>)
  })
  const { app, lines } = await stage(t, server, { listen: false })
  const session = await open(app)
  for (const name of Object.keys(results)) {
    const response = await session.request('tools/call', { name })
    t.equal(response.statusCode, 500, name)
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } }, name)
  }
  t.equal(lines.filter(({ level }) => level >= 50).length, 3)
  t.strictSame((await session.request('tools/call', { name: 'error' })).json(), { jsonrpc: '2.0', id: 1, error: { code: 7, message: 'no' } })
  t.strictSame((await session.request('tools/call', { name: 'own' })).json<Message>().result, { content: [{ type: 'text', text: 'made up' }] }, 'a toJSON that gives an object counts')
})

test('Last-Event-ID on a POST resumes nothing: LEG-57', async t => {
  const server = toolServer((_request, channel) => {
    channel.sendLog('info', 'said')
    return result(toolResult.text('done'))
  })
  const session = await open(await mount(t, { server }))
  const first = await session.request('tools/call', { name: 'x' })
  const id = /^id: (.*)$/m.exec(first.body)?.[1]
  t.ok(id)
  const again = await session.request('tools/call', { name: 'x' }, { id: 2, headers: { 'last-event-id': String(id) } })
  t.equal(again.statusCode, 200)
  t.match((await messagesOf(again)).at(-1), { id: 2 })
  t.notOk((await messagesOf(again)).some(({ id }) => id === 1))
  t.match((await session.request('tools/list', {}, { headers: { 'last-event-id': 'garbage' } })).json(), { id: 1 })
})

test('the id of a request that runs is refused for another one, in that session only: LEG-44', async t => {
  const { server, running, started, go } = createSlow()
  const app = await mount(t, { server })
  const [session, other] = [await open(app), await open(app)]
  const first = session.request('tools/call', { name: 'x' })
  await started
  refused(t, await session.request('tools/call', { name: 'y' }), { status: 400, code: -32600, id: 1 })
  t.equal((await session.request('ping')).statusCode, 200, 'what is answered at once does not mind')
  const text = session.request('tools/call', { name: 'text' }, { id: '1' })
  const theirs = other.request('tools/call', { name: 'theirs' })
  await until(() => running.length === 3)
  go('done')
  for (const response of await Promise.all([first, text, theirs])) t.match(response.json(), { result: { content: [{ text: 'done' }] } })
  t.equal((await session.request('tools/call', { name: 'x' })).statusCode, 200, 'and it may come again when that has ended')
})

// ---- ping, levels, subscriptions

test('ping is answered with nothing, at any time: LEG-58', async t => {
  const { server, started, go } = createSlow()
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    t.strictSame((await session.request('ping', undefined, { id: 'p' })).json(), { jsonrpc: '2.0', id: 'p', result: {} }, version)
    t.strictSame((await session.request('ping', { _meta: { progressToken: 1 } })).json(), { jsonrpc: '2.0', id: 1, result: {} }, version)
  }
  const session = await open(app)
  const running = session.request('tools/call', { name: 'x' })
  await started
  t.strictSame((await session.request('ping', {}, { id: 2 })).json<Message>().result, {}, 'while a call runs')
  go('done')
  await running
})

test('ping, a level and a subscription are answered also where no more calls are taken: LEG-58', async t => {
  const { server, started, go } = createSlow()
  const app = await mount(t, { server, limits: { maxConcurrent: 1 } })
  const session = await open(app)
  const running = session.request('tools/call', { name: 'slow', arguments: {} })
  await started
  t.equal((await session.request('tools/call', { name: 'other', arguments: {} })).statusCode, 503)
  t.strictSame((await session.request('ping')).json().result, {})
  t.strictSame((await session.request('logging/setLevel', { level: 'error' })).json().result, {})
  t.equal((await session.request('ping', undefined, { headers: { accept: 'image/png' } })).statusCode, 406, 'but not to who takes no answer')
  go('done')
  t.equal((await running).statusCode, 200)
})

test('a level holds for later messages of its session: LEG-59, LEG-60', async t => {
  const server = toolServer((_request, channel) => {
    for (const level of LEVELS) channel.sendLog(level, level)
    return result(toolResult.text('done'))
  })
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const [session, other] = [await open(app, version), await open(app, version)]
    const levelsOf = async (of = session): Promise<unknown[]> =>
      (await messagesOf(await of.request('tools/call', { name: 'x' }))).flatMap(({ method, params }) => method === 'notifications/message' ? [params?.['level']] : [])
    t.strictSame(await levelsOf(), LEVELS.slice(1), `${version}: from info on, while none is set`)
    for (const [at, level] of LEVELS.entries()) {
      t.strictSame((await session.request('logging/setLevel', { level })).json(), { jsonrpc: '2.0', id: 1, result: {} }, level)
      t.strictSame(await levelsOf(), LEVELS.slice(at), `${version}, ${level}`)
    }
    t.strictSame(await levelsOf(other), LEVELS.slice(1), `${version}: another session has its own`)
    for (const level of [undefined, null, 5, 'loud', 'INFO', '']) {
      t.match((await session.request('logging/setLevel', level === undefined ? {} : { level })).json(), { error: { code: -32602, data: { issues: [{ path: 'params.level' }] } } }, String(level))
    }
    t.strictSame(await levelsOf(), ['emergency'], `${version}: what is none changes nothing`)
  }
})

test('without the capability there is no level to set: LEG-59', async t => {
  const session = await open(await mount(t, { server: echo }))
  t.match((await session.request('logging/setLevel', { level: 'error' })).json(), { error: { code: -32601 } })
  const unknown = await open(await mount(t, { server: bareServer(() => result(discoverResult({ logging: {} }))) }))
  t.strictSame((await unknown.request('logging/setLevel', { level: 'error' })).json<Message>().result, {}, 'a server whose capabilities depend on the request may have it')
})

test('subscribe and unsubscribe are answered with nothing, as often as they come: LEG-61', async t => {
  const app = await mount(t, { server: createListenServer().server })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const method of ['resources/subscribe', 'resources/subscribe', 'resources/unsubscribe', 'resources/unsubscribe']) {
      t.strictSame((await session.request(method, { uri: 'test://a' })).json(), { jsonrpc: '2.0', id: 1, result: {} }, `${version}, ${method}`)
    }
    for (const params of [{}, { uri: 5 }, { uri: null }]) {
      for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
        t.match((await session.request(method, params)).json(), { error: { code: -32602, data: { issues: [{ path: 'params.uri' }] } } }, `${method} ${JSON.stringify(params)}`)
      }
    }
  }
})

test('without the capability nothing can be subscribed to: LEG-61', async t => {
  for (const capabilities of [{}, { resources: {} }, { resources: { listChanged: true } }]) {
    const session = await open(await mount(t, { server: { ...echo, capabilities } }))
    for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
      t.match((await session.request(method, { uri: 'test://a' })).json(), { error: { code: -32601 } }, JSON.stringify(capabilities))
    }
  }
})

test('a session may subscribe to 1,000 resources, and again to those it has', async t => {
  const session = await open(await mount(t, { server: createListenServer().server }))
  for (let at = 0; at < 1_000; at++) await session.request('resources/subscribe', { uri: `test://${at}` })
  t.match((await session.request('resources/subscribe', { uri: 'test://more' })).json(), { error: { code: -32602, message: /1000/ } })
  t.strictSame((await session.request('resources/subscribe', { uri: 'test://7' })).json<Message>().result, {})
  await session.request('resources/unsubscribe', { uri: 'test://7' })
  t.strictSame((await session.request('resources/subscribe', { uri: 'test://more' })).json<Message>().result, {})
})

test('a resource that is not there is -32002 with its URI, and in 2026-07-28 -32602: LEG-62', async t => {
  const server = createSuite({ info, resources: [defineResources({ prefix: 'x://', read: ({ uri }) => uri === 'x://a' ? readResourceResult({ uri, text: 'a' }) : null })] })
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const uri of ['x://b', 'y://a']) {
      const response = await session.request('resources/read', { uri })
      t.equal(response.statusCode, 200)
      t.match(response.json(), { id: 1, error: { code: -32002, data: { uri } } }, `${version}, ${uri}`)
    }
    t.strictSame((await session.request('resources/read', { uri: 'x://a' })).json<Message>().result, { contents: [{ uri: 'x://a', text: 'a' }] }, version)
  }
  t.match((await call(app, 'resources/read', { uri: 'x://b' }, { headers: { 'mcp-name': 'x://b' } })).json(), { error: { code: -32602 } })
})

// ---- cancellation and progress

test('a cancelled request is told so, and has no answer: LEG-63, case 016', async t => {
  for (const version of VERSIONS) {
    for (const [name, accept] of [['quiet', undefined], ['loud', undefined], ['quiet', 'application/json']] as const) {
      const { server, started, ended } = createSlow()
      const { app, lines } = await stage(t, server, { listen: false })
      const session = await open(app, version)
      const running = session.request('tools/call', { name }, { id: 7, headers: accept === undefined ? {} : { accept } })
      await started
      const cancelled = await session.notify('notifications/cancelled', { requestId: 7, reason: 'not needed' })
      t.equal(cancelled.statusCode, 202)
      t.equal(await ended, 'cancelled', `${version}, ${name}: the signal fires`)
      const response = await running
      t.notMatch(response.body, /"id":7/, `${version}, ${name}: there is no answer`)
      t.equal(response.statusCode, accept === undefined ? 200 : 202)
      t.match(lines.filter(({ msg }) => msg === 'an MCP request was cancelled'), [{ mcp: { reason: 'not needed' } }], 'the reason is logged')
      t.equal((await session.notify('notifications/cancelled', { requestId: 7 })).statusCode, 202, 'once more')
      t.equal((await session.request('ping', {}, { id: 7 })).statusCode, 200)
    }
  }
})

test('what another session cancels, or nobody asked for, goes on: LEG-63, case 016', async t => {
  const { server, started, ended, go } = createSlow()
  const app = await mount(t, { server })
  const [session, other] = [await open(app), await open(app)]
  const running = session.request('tools/call', { name: 'x' }, { id: 7 })
  await started
  const strays = [{ requestId: '7' }, { requestId: 8 }, { requestId: null }, { requestId: [7] }, { requestId: {} }, {}, [], 'x', null]
  for (const params of strays) t.equal((await session.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params })).statusCode, 202, JSON.stringify(params))
  t.equal((await other.notify('notifications/cancelled', { requestId: 7 })).statusCode, 202, 'of another session')
  t.equal((await send(app, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } })).statusCode, 202, 'of none')
  t.equal((await session.notify('notifications/made_up', { requestId: 7 })).statusCode, 202, 'by another name')
  go('done')
  t.equal(await ended, 'done')
  t.match((await running).json(), { id: 7, result: { content: [{ text: 'done' }] } })
})

test('a reason that is no text, or a long one, cancels as well: LEG-63', async t => {
  for (const reason of [5, null, 'x'.repeat(10_000)]) {
    const { server, started, ended } = createSlow()
    const { app, lines } = await stage(t, server, { listen: false })
    const session = await open(app)
    const running = session.request('tools/call', { name: 'x' }, { id: 7 })
    await started
    await session.notify('notifications/cancelled', { requestId: 7, reason })
    t.equal(await ended, 'cancelled')
    const [line] = lines.filter(({ msg }) => msg === 'an MCP request was cancelled')
    t.equal((line?.['mcp'] as { readonly reason?: string }).reason, typeof reason === 'string' ? 'x'.repeat(200) : undefined)
    await running
  }
})

test('progress goes to whoever gave a token, as it was given, with a message from the first revision on: LEG-68', async t => {
  const server = toolServer((_request, channel) => {
    channel.sendProgress(1, 3, 'one')
    channel.sendProgress(3)
    return result(toolResult.text('done'))
  })
  const app = await mount(t, { server })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const progressToken of ['token', 0, 7]) {
      const { notifications, answer } = await split(await session.request('tools/call', { name: 'x', _meta: { progressToken } }))
      t.strictSame(notifications.filter(({ method }) => method !== undefined), [
        { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 1, total: 3, message: 'one' } },
        { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 3 } }
      ], `${version}, ${progressToken}`)
      t.equal(answer.id, 1)
    }
    t.notOk(isStream(await session.request('tools/call', { name: 'x' })), `${version}: without a token there is none`)
    for (const progressToken of [null, {}, 1.5, true]) {
      t.match((await session.request('tools/call', { name: 'x', _meta: { progressToken } })).json(), { id: 1, error: { code: -32602 } }, `${version}: ${JSON.stringify(progressToken)} is no token`)
    }
  }
})

test('what a handler is told of a request is what the session knows, and the free keys of its _meta', async t => {
  const server = toolServer(({ meta: { extra, traceparent, logLevel, protocolVersion } }) => result(toolResult.data({ extra, traceparent, logLevel, protocolVersion })))
  const session = await open(await mount(t, { server }))
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const { result: told } = (await session.request('tools/call', { name: 'x', _meta: { 'example.com/a': 1, traceparent, 'io.modelcontextprotocol/logLevel': 'debug' } })).json<Message>()
  t.strictSame(told?.['structuredContent'], { extra: { 'example.com/a': 1 }, traceparent, logLevel: 'info', protocolVersion: '2025-11-25' })
})

test('a stream that a server opens and ends is one here: LEG-36', async t => {
  const server = toolServer<undefined, string>((_request, channel) => {
    channel.after(0, 'go on')
    return stream(undefined)
  }, {
    handleMessage: (message, channel) => {
      channel.sendLog('info', message)
      return result(toolResult.text('done'))
    }
  })
  const session = await open(await mount(t, { server }), '2025-06-18')
  const messages = await messagesOf(await session.request('tools/call', { name: 'x' }))
  t.match(messages, [{ method: 'notifications/message' }, { id: 1, result: { content: [{ text: 'done' }] } }])
})
