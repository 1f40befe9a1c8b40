import { EventEmitter } from 'node:events'
import { test, type Test } from 'tap'
import mqemitter from 'mqemitter'
import { fail, messageType, result, stop, stream, toolResult, type Channel, type ExchangeEnd, type SendStatus, type ServerNotification } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { ProgressNotification } from '../../lib/protocol/index.js'
import { Value } from '@sinclair/typebox/value'
import { call, mount } from '../helpers/mount.js'
import { isStream, messagesOf, split } from '../helpers/messages.js'
import { toolServer } from '../helpers/servers.js'

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const EXTENSION = 'com.example/ticker'
const JSON_ONLY = { accept: 'application/json' }

/** Everything that a client can ask to be told. */
const curious = { progressToken: 'p', [LOG_LEVEL]: 'debug', [CAPABILITIES]: { extensions: { [EXTENSION]: {} } } }
const changes: ServerNotification[] = [
  { method: 'notifications/tools/list_changed' },
  { method: 'notifications/prompts/list_changed' },
  { method: 'notifications/resources/list_changed' },
  { method: 'notifications/resources/updated', params: { uri: 'file:///a' } }
]
const tick: ServerNotification = { extension: EXTENSION, method: 'notifications/com.example/tick', params: { at: 1 } }

interface Run { readonly app: Awaited<ReturnType<typeof mount>>, readonly channel: () => Channel }

/** A tool that does what the test says with its channel, and then answers. */
async function tool (t: Test, work: (channel: Channel) => unknown): Promise<Run> {
  let used: Channel | undefined
  const app = await mount(t, {
    server: toolServer(async (_request, channel) => {
      used = channel
      await work(channel)
      return result(toolResult.text('done'))
    })
  })
  return {
    app,
    channel () {
      if (used === undefined) throw new Error('The tool has not been called')
      return used
    }
  }
}

/** What came of each send, and the response. */
async function statusesOf (t: Test, work: (channel: Channel) => readonly SendStatus[], overrides: Parameters<typeof call>[3] = {}) {
  let statuses: readonly SendStatus[] = []
  const { app } = await tool(t, channel => { statuses = work(channel) })
  const response = await call(app, 'tools/call', { name: 'tool' }, overrides)
  return { statuses, response }
}

/** Each send once. */
function sendEverything (channel: Channel): SendStatus[] {
  const notifications = [tick, ...changes].map(notification => channel.sendNotification(notification))
  return [...notifications, channel.sendProgress(2), channel.sendLog('emergency', 'x'), channel.acknowledge()]
}

/** Values that are no JSON, or hard to look at. */
function oddities (): { readonly [name: string]: unknown } {
  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  const bareCycle = Object.assign(Object.create(null) as Record<string, unknown>, { big: 1n })
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return {
    undefined,
    null: null,
    NaN,
    Infinity,
    BigInt: 1n,
    symbol: Symbol('s'),
    function: () => {},
    text: 'x',
    array: [1n],
    cycle,
    'no JSON without a prototype': bareCycle,
    'a getter that throws': { get a () { throw new Error('a') } },
    'a toJSON that throws': { toJSON () { throw new Error('toJSON') }, toString () { throw new Error('toString') } },
    'a revoked proxy': proxy,
    'an invalid date': new Date(NaN)
  }
}

// ---- progress

test('progress goes to the stream of the call, with the token as it came: PRG-02', async t => {
  for (const token of [0, -1, '', '0', '1', 'p', Number.MAX_SAFE_INTEGER, '__proto__']) {
    // PRG-05: the call's own stream has it, ahead of the answer.
    const { statuses, response } = await statusesOf(t, channel => [channel.sendProgress(1, 2, 'half')], { meta: { progressToken: token } })
    t.strictSame(statuses, ['sent'])
    const { notifications, answer } = await split(response)
    t.strictSame(notifications, [{ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: token, progress: 1, total: 2, message: 'half' } }])
    t.match(answer, { id: 1, result: { content: [{ text: 'done' }] } })
  }
})

test('without a token there is no progress, and the answer stays JSON: PRG-01', async t => {
  const { statuses, response } = await statusesOf(t, channel => [channel.sendProgress(1), channel.sendProgress(2, 3, 'x')])
  t.strictSame(statuses, ['noProgressToken', 'noProgressToken'])
  t.notOk(isStream(response))
})

test('only progress that grows is sent: PRG-03', async t => {
  const values = [-1.5, 0, 50, 50, 40, 50.5, NaN, Infinity, -Infinity, 51]
  const { statuses, response } = await statusesOf(t, channel => values.map(value => channel.sendProgress(value)), { meta: { progressToken: 'p' } })
  t.strictSame(statuses, [
    'sent', 'sent', 'sent', 'notIncreasing', 'notIncreasing', 'sent', 'notIncreasing', 'notIncreasing', 'notIncreasing', 'sent'
  ])
  const { notifications } = await split(response)
  t.strictSame(notifications.map(({ params }) => params?.['progress']), [-1.5, 0, 50, 50.5, 51])
  for (const notification of notifications) t.ok(Value.Check(ProgressNotification, notification))
})

test('a total that is no number is left out', async t => {
  const { response } = await statusesOf(t, channel => [channel.sendProgress(1, NaN), channel.sendProgress(2, Infinity, 'm')], { meta: { progressToken: 'p' } })
  const { notifications } = await split(response)
  t.strictSame(notifications.map(({ params }) => params), [{ progressToken: 'p', progress: 1 }, { progressToken: 'p', progress: 2, message: 'm' }])
})

test('a client that takes JSON alone gets the plain result, and its progress is not kept: PRG-07', async t => {
  const jsonOnly = { meta: { progressToken: 'p' }, headers: JSON_ONLY }
  const { statuses, response } = await statusesOf(t, channel => [channel.sendProgress(1), channel.sendProgress(1)], jsonOnly)
  t.strictSame(statuses, ['filtered', 'filtered'], 'what was not sent was not reported')
  t.notOk(isStream(response))
  t.strictSame(Object.keys(response.json<{ result: object }>().result).sort(), ['_meta', 'content', 'resultType'])
})

test('a token that is none is refused: PRG-08', async t => {
  const { app } = await tool(t, () => {})
  for (const progressToken of [null, {}, [], true, 1.5, 2 ** 53]) {
    const response = await call(app, 'tools/call', { name: 'tool' }, { meta: { progressToken } })
    t.equal(response.statusCode, 400)
    t.match(response.json(), { error: { code: -32602 } }, JSON.stringify(progressToken))
  }
})

// ---- other notifications

test('a change notification on a call is sent to nobody', async t => {
  const { statuses, response } = await statusesOf(t, channel => changes.map(change => channel.sendNotification(change)), { meta: curious })
  t.strictSame(statuses, ['notSubscribed', 'notSubscribed', 'notSubscribed', 'notSubscribed'])
  t.notOk(isStream(response))
})

test('a notification of an extension goes to a client that declared it', async t => {
  const bare: ServerNotification = { extension: EXTENSION, method: 'notifications/x' }
  const { statuses, response } = await statusesOf(t, channel => [tick, bare].map(notification => channel.sendNotification(notification)), { meta: curious })
  t.strictSame(statuses, ['sent', 'sent'])
  const { notifications } = await split(response)
  t.strictSame(notifications, [{ jsonrpc: '2.0', method: 'notifications/com.example/tick', params: { at: 1 } }, { jsonrpc: '2.0', method: 'notifications/x' }])

  const other = await statusesOf(t, channel => [channel.sendNotification(tick)], { meta: { [CAPABILITIES]: { extensions: { other: {} } } } })
  t.strictSame(other.statuses, ['filtered'])
  t.notOk(isStream(other.response))
})

test('acknowledge is for listens', async t => {
  const { statuses, response } = await statusesOf(t, channel => [channel.acknowledge(), channel.acknowledge({ toolsListChanged: true })], { meta: curious })
  t.strictSame(statuses, ['notSubscribed', 'notSubscribed'])
  t.notOk(isStream(response))
})

test('a call whose sends all came to nothing stays JSON', async t => {
  const { statuses, response } = await statusesOf(t, sendEverything)
  t.notOk(statuses.includes('sent'))
  t.notOk(isStream(response))
  t.match(response.json(), { result: { content: [{ text: 'done' }] } })
})

test('a notification that is no JSON is not sent, and opens no stream', async t => {
  const big = { ...tick, params: { big: 1n } } as unknown as ServerNotification
  const { statuses, response } = await statusesOf(t, channel => [channel.sendNotification(big)], { meta: curious })
  t.strictSame(statuses, ['filtered'])
  t.notOk(isStream(response))
})

// ---- sends never throw

test('sendProgress throws nothing, whatever it is given', async t => {
  const { thrown, answer } = await trying(t, (channel, value) => {
    channel.sendProgress(value as number)
    channel.sendProgress(1, value as number)
    channel.sendProgress(2, 2, value as string)
  })
  t.strictSame(thrown, [])
  t.match(answer, { result: { content: [{ text: 'done' }] } })
})

test('sendLog throws nothing, whatever it is given', async t => {
  const { thrown, answer } = await trying(t, (channel, value) => {
    channel.sendLog('info', value)
    channel.sendLog('info', { value })
    channel.sendLog(value as 'info', 'x')
    channel.sendLog('info', 'x', value as string)
  })
  t.strictSame(thrown, [])
  t.match(answer, { result: { content: [{ text: 'done' }] } })
})

test('sendNotification throws nothing, whatever it is given', async t => {
  const { thrown, answer } = await trying(t, (channel, value) => {
    channel.sendNotification(value as ServerNotification)
    channel.sendNotification({ method: value } as unknown as ServerNotification)
    channel.sendNotification({ ...tick, extension: value } as unknown as ServerNotification)
    channel.sendNotification({ ...tick, method: value } as unknown as ServerNotification)
    channel.sendNotification({ ...tick, params: value } as unknown as ServerNotification)
    channel.sendNotification({ ...tick, params: { value } } as unknown as ServerNotification)
  })
  t.strictSame(thrown, [])
  t.match(answer, { result: { content: [{ text: 'done' }] } })
})

/** Does something with every oddity, and tells at which it threw. */
async function trying (t: Test, work: (channel: Channel, value: unknown) => void) {
  const thrown: string[] = []
  const { app } = await tool(t, channel => {
    for (const [name, value] of Object.entries(oddities())) {
      try {
        work(channel, value)
      } catch (error) {
        thrown.push(`${name}: ${String(error)}`)
      }
    }
  })
  const messages = await messagesOf(await call(app, 'tools/call', { name: 'tool' }, { meta: curious }))
  return { thrown, answer: messages.at(-1) }
}

// ---- after the end

test('after the answer every send is closed and reaches nobody: PRG-04', async t => {
  const { app, channel } = await tool(t, channel => { channel.sendProgress(1) })
  const response = await call(app, 'tools/call', { name: 'tool' }, { meta: curious })
  t.equal((await messagesOf(response)).length, 2)

  const late = channel()
  t.ok(late.closed)
  t.strictSame(sendEverything(late), Array.from({ length: 8 }, () => 'closed'))
  t.equal(late.startStream(), false)
  t.equal(late.close(), false)
  t.throws(() => { late.header('x-late', '1') }, { code: 'MCP_ERR_HEAD_SENT' })
  await late.drained()
})

test('sends to a client that has left are closed and throw nothing: case 017', async t => {
  const statuses: SendStatus[] = []
  const exchange = testExchange(toolServer(async (_request, channel) => {
    await new Promise(resolve => { channel.signal.addEventListener('abort', resolve) })
    statuses.push(channel.sendProgress(1), channel.sendLog('error', 'x'), channel.sendNotification(tick))
    return result(toolResult.text('nobody hears it'))
  }), 'tools/call', { name: 'tool', arguments: {} }, { progressToken: 'p', logLevel: 'debug', capabilities: { extensions: { [EXTENSION]: {} } } })
  exchange.disconnect()
  t.match(await exchange.ended, { cause: 'disconnect', events: 0 })
  t.strictSame(statuses, ['closed', 'closed', 'closed'])
  t.strictSame(exchange.notifications, [])
})

// ---- the response

test('what is sent arrives in its order, and the answer is last', async t => {
  const { response } = await statusesOf(t, channel => [
    channel.sendProgress(1), channel.sendLog('info', 'a'), channel.sendNotification(tick), channel.sendProgress(2)
  ], { meta: curious })
  const messages = await messagesOf(response)
  const [progress, log] = ['notifications/progress', 'notifications/message']
  t.strictSame(messages.map(({ method }) => method), [progress, log, tick.method, progress, undefined])
})

test('startStream opens one stream, however often and whatever follows', async t => {
  const seen: unknown[] = []
  const { app } = await tool(t, channel => {
    seen.push(channel.streaming, channel.startStream(), channel.streaming, channel.startStream(), channel.sendProgress(1), channel.closed)
  })
  const response = await call(app, 'tools/call', { name: 'tool' }, { meta: curious })
  t.strictSame(seen, [false, true, true, true, 'sent', false])
  t.ok(isStream(response))
  t.equal((await messagesOf(response)).length, 2)
})

test('startStream is false for a client that takes JSON alone', async t => {
  const seen: unknown[] = []
  const { app } = await tool(t, channel => { seen.push(channel.startStream(), channel.streaming) })
  const response = await call(app, 'tools/call', { name: 'tool' }, { headers: JSON_ONLY })
  t.strictSame(seen, [false, false])
  t.notOk(isStream(response))
})

test('a header is set until the head has left', async t => {
  const { app } = await tool(t, channel => {
    channel.header('x-cost', '7')
    t.throws(() => { channel.header('x y', '1') }, { code: 'ERR_INVALID_HTTP_TOKEN' })
    t.throws(() => { channel.header('x-broken', 'a\r\nset-cookie: b') }, { code: 'ERR_INVALID_CHAR' })
    channel.sendProgress(1)
    t.throws(() => { channel.header('x-late', '1') }, { code: 'MCP_ERR_HEAD_SENT', message: /x-late/ })
  })
  const { headers } = await call(app, 'tools/call', { name: 'tool' }, { meta: { progressToken: 'p' } })
  t.match(headers, { 'x-cost': '7', 'content-type': 'text/event-stream' })
  for (const name of ['x-broken', 'x-late', 'set-cookie']) t.notOk(name in headers, name)
})

test('close ends a call that has sent nothing with an error, and a stream with nothing more', async t => {
  const seen: unknown[] = []
  const { app } = await tool(t, channel => {
    channel.sendProgress(1)
    seen.push(channel.close(), channel.close(), channel.closed, channel.sendProgress(2))
  })
  const silent = await call(app, 'tools/call', { name: 'tool' })
  t.equal(silent.statusCode, 200)
  t.match(silent.json(), { id: 1, error: { code: -32603, message: 'Request closed by the server' } })
  const streamed = await messagesOf(await call(app, 'tools/call', { name: 'tool' }, { meta: { progressToken: 'p' } }))
  t.strictSame(streamed.map(({ method }) => method), ['notifications/progress'])
  t.strictSame(seen, [true, false, true, 'closed', true, false, true, 'closed'])
})

test('drained resolves at once where nothing waits', async t => {
  const { app } = await tool(t, async channel => {
    await channel.drained()
    channel.startStream()
    await channel.drained()
  })
  t.ok(isStream(await call(app, 'tools/call', { name: 'tool' })))
})

// ---- what it tells, and what reaches it

test('a channel tells of its request, its caller and its end', async t => {
  const log: unknown[] = []
  let ended: Promise<ExchangeEnd> | undefined
  const app = await mount(t, {
    principal: ({ headers }) => headers['x-user']?.toString(),
    server: toolServer((request, channel) => {
      t.equal(channel.request, request)
      t.equal(channel.principal, 'alice')
      t.equal(channel.httpRequest.headers['x-user'], 'alice')
      t.equal(channel.log, channel.httpRequest.log)
      t.equal(channel.signal.aborted, false)
      t.equal(channel.ref, channel.ref, 'it is one ref')
      channel.defer(() => { log.push('first in') })
      channel.defer(() => { log.push('last in') })
      ended = channel.ref.ended
      return result(toolResult.text('done'))
    })
  })
  await call(app, 'tools/call', { name: 'tool' }, { headers: { 'x-user': 'alice' } })
  t.match(await ended, { cause: 'result', method: 'tools/call', name: 'tool', requestId: 1 })
  t.strictSame(log, ['last in', 'first in'])
})

test('every kind of source reaches handleMessage', async t => {
  const bus = mqemitter()
  t.teardown(async () => { await new Promise<void>(resolve => { bus.close(() => { resolve() }) }) })
  const emitter = new EventEmitter()
  const got = new Set<string>()
  const exchange = testExchange(toolServer<string, string>((_request, channel) => {
    channel.watch(Promise.resolve('promise'), value => value)
    channel.watch(async () => { throw new Error('rejection') }, () => 'not this', error => error instanceof Error ? error.message : 'nor this')
    channel.consume(['item'], { next: item => item, done: () => 'items done' })
    channel.on(emitter, 'event', (value: unknown) => typeof value === 'string' ? value : undefined)
    channel.subscribe<{ topic: string, text: string }>(bus, 'some/+', ({ text }) => text)
    channel.after(1, 'timer')
    channel.every(1, () => 'interval')
    emitter.emit('event', 'emitted')
    bus.emit({ topic: 'some/topic', text: 'packet' })
    return stream('live')
  }, {
    messages: messageType<string>(),
    handleMessage (message, _channel, live) {
      got.add(message)
      return got.size === 8 ? result(toolResult.text('all of them')) : stream(live)
    }
  }), 'tools/call', { name: 'tool', arguments: {} })
  t.match(await exchange.answer, { result: { content: [{ text: 'all of them' }] } })
  t.strictSame([...got].sort(), ['emitted', 'interval', 'item', 'items done', 'packet', 'promise', 'rejection', 'timer'])
})

test('what one client asks to be told, no other is', async t => {
  const { app } = await tool(t, channel => {
    channel.sendProgress(1)
    channel.sendLog('info', 'x')
  })
  const [told, untold] = await Promise.all([
    createTestClient(app, { progressToken: 'a', logLevel: 'debug' }).request('tools/call', { name: 'tool', arguments: {} }),
    createTestClient(app).request('tools/call', { name: 'tool', arguments: {} })
  ])
  t.equal(told.notifications.length, 2)
  t.strictSame(untold.notifications, [])
})

test('a stream that stops or fails after a send says so last', async t => {
  const failing = toolServer<undefined, string>((_request, channel) => {
    channel.sendProgress(1)
    return fail({ kind: 'internal', message: 'no more' })
  })
  t.match(await messagesOf(await call(await mount(t, { server: failing }), 'tools/call', { name: 'tool' }, { meta: curious })), [
    { method: 'notifications/progress' }, { id: 1, error: { code: -32603, message: 'no more' } }
  ])
  const stopping = toolServer<undefined, string>((_request, { ref }) => {
    ref.post('go')
    return stream(undefined)
  }, {
    handleMessage (_message, channel) {
      channel.sendProgress(1)
      return stop()
    }
  })
  const stopped = await messagesOf(await call(await mount(t, { server: stopping }), 'tools/call', { name: 'tool' }, { meta: curious }))
  t.strictSame(stopped.map(({ method }) => method), ['notifications/progress'])
})
