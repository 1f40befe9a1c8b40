import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { busSubscriptions, createSuite, defineResources, defineServer, defineTool, discoverResult, fail, result, stream, toolResult, type Channel, type SuiteOptions } from 'fastify-gen-mcp'
import { messagesOf } from '../helpers/messages.js'
import { bareServer, createListenServer, info, toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, openWire, stage, until, within } from '../helpers/sockets.js'
import type { Session, SessionController } from 'fastify-gen-mcp/legacy'
import { createHeldSessions, messagesIn, open, read, readStream, sendGet, VERSIONS } from './helpers.js'

const BOUND = { timeout: 30_000 }
const SSE = { accept: 'text/event-stream' }
const toolsChanged = { method: 'notifications/tools/list_changed' } as const
const updated = (uri: string) => ({ method: 'notifications/resources/updated', params: { uri } }) as const

/** A Suite whose lists and resources may change, with tools as they are given. */
function createChanging (tools: NonNullable<SuiteOptions['tools']> = []) {
  const bus = busSubscriptions()
  const resources = defineResources({ prefix: 'test://', read: () => null })
  const suite = createSuite({ info, tools, resources: [resources], subscriptions: bus })
  return { suite, bus }
}

/** A server that gives the channel of its listen away. */
function createTelling () {
  const told = gate<Channel>()
  const server = defineServer({
    info,
    capabilities: { tools: { listChanged: true } },
    handleRequest (_request, channel) {
      channel.acknowledge()
      told.open(channel as Channel)
      return stream(undefined)
    }
  })
  return { server, told }
}

for (const version of VERSIONS) {
  test(`${version}: what changes in the lists is told on the stream of the session, and nothing that only a listen has (LEG-45, LEG-48, LEG-65)`, BOUND, async t => {
    const { server, notify } = createListenServer()
    const subject = await stage(t, server)
    const session = await open(subject.app, version)
    const reading = await readStream(t, subject.port, session)
    t.match(reading, { statusCode: 200, response: { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' } } })
    if (version === '2025-11-25') t.match(await reading.next(), { id: /^\.[\w-]{22}_0$/, data: '' })
    for (const list of ['tools', 'prompts', 'resources'] as const) notify({ method: `notifications/${list}/list_changed` as const })
    for (const list of ['tools', 'prompts', 'resources']) t.strictSame(await reading.message(), { jsonrpc: '2.0', method: `notifications/${list}/list_changed` })
    t.match(subject.gauges(), { listens: 1 })
    await reading.drop()
    await until(() => subject.gauges().listens === 0)
    t.strictSame(subject.gauges(), NOTHING_HELD)
    t.match(subject.ends.slice(-1), [{ cause: 'disconnect', protocolVersion: version, method: 'subscriptions/listen' }])
    t.strictSame(alarms(subject.lines), [])
  })

  test(`${version}: a resource that changed is told of to sessions that subscribed to it, until they have unsubscribed (LEG-61, LEG-48)`, BOUND, async t => {
    const { server, notify } = createListenServer()
    const subject = await stage(t, server)
    const [before, after, never] = [await open(subject.app, version), await open(subject.app, version), await open(subject.app, version)]
    // Before there is a stream, and while there is one.
    t.match((await before.request('resources/subscribe', { uri: 'test://a' })).json(), { result: {} })
    const streams = [await readStream(t, subject.port, before), await readStream(t, subject.port, after), await readStream(t, subject.port, never)] as const
    t.match((await after.request('resources/subscribe', { uri: 'test://a' })).json(), { result: {} })
    t.match((await after.request('resources/subscribe', { uri: 'test://a' })).json(), { result: {} }, 'twice is no mistake')
    t.equal(subject.gauges().listens, 5)
    notify(updated('test://a'))
    notify(updated('test://b'))
    await delay(5)
    notify(toolsChanged)
    for (const reading of streams.slice(0, 2)) {
      t.strictSame(await reading.message(), { jsonrpc: '2.0', ...updated('test://a') })
      t.strictSame(await reading.message(), { jsonrpc: '2.0', ...toolsChanged })
    }
    t.strictSame(await streams[2].message(), { jsonrpc: '2.0', ...toolsChanged })

    t.match((await before.request('resources/unsubscribe', { uri: 'test://a' })).json(), { result: {} })
    t.match((await before.request('resources/unsubscribe', { uri: 'test://never' })).json(), { result: {} })
    t.equal(subject.gauges().listens, 4)
    notify(updated('test://a'))
    await delay(5)
    notify(toolsChanged)
    t.strictSame(await streams[0].message(), { jsonrpc: '2.0', ...toolsChanged })
    t.strictSame(await streams[1].message(), { jsonrpc: '2.0', ...updated('test://a') })
  })
}

test('a Suite tells of its changes on the stream of the session, with no code of the author\'s (LEG-61, LEG-65)', BOUND, async t => {
  const { suite, bus } = createChanging([defineTool({ name: 'tool', call: () => toolResult.text('done') } as never)])
  const subject = await stage(t, suite)
  const session = await open(subject.app)
  const reading = await readStream(t, subject.port, session)
  t.match((await session.request('resources/subscribe', { uri: 'test://a' })).json(), { result: {} })
  bus.toolsChanged()
  t.strictSame(await reading.message(), { jsonrpc: '2.0', ...toolsChanged })
  bus.resourceUpdated('test://a')
  t.strictSame(await reading.message(), { jsonrpc: '2.0', ...updated('test://a') })
})

test('the answer to a call is on its own response and never on the stream of the session (LEG-49)', BOUND, async t => {
  const { server, notify } = createListenServer()
  const subject = await stage(t, {
    ...server,
    async handleRequest (request, channel, state) {
      if (request.method !== 'tools/call') return await server.handleRequest(request, channel, state)
      channel.sendProgress(1)
      channel.sendLog('error', 'x')
      return result(toolResult.text('done'))
    }
  })
  const session = await open(subject.app)
  const reading = await readStream(t, subject.port, session)
  const call = await session.request('tools/call', { name: 'tool', arguments: {}, _meta: { progressToken: 'p' } })
  t.match((await messagesOf(call)).at(-1), { id: 1, result: {} })
  await session.request('ping')
  notify(toolsChanged)
  await reading.message()
  t.strictSame(messagesIn(reading.frames), [{ jsonrpc: '2.0', ...toolsChanged }])
})

test('a second stream takes the place of the first, and each change comes on one of them alone (LEG-50, LEG-51)', BOUND, async t => {
  const { server, notify } = createListenServer()
  const subject = await stage(t, server, { legacy: { retry: 9 } })
  const session = await open(subject.app)
  const other = await open(subject.app)
  const first = await readStream(t, subject.port, session)
  const others = await readStream(t, subject.port, other)
  notify(toolsChanged)
  await first.message()
  const second = await readStream(t, subject.port, session)
  notify(toolsChanged)
  await second.message()
  t.strictSame(await first.rest(), [{ retry: 9 }])
  t.ok(first.response.complete)
  t.equal([...messagesIn(first.frames), ...messagesIn(second.frames)].length, 2, 'each came once in sum')
  t.strictSame([await others.message(), await others.message()].length, 2, 'another session keeps its own')
  t.equal(subject.gauges().listens, 2)
  const ids = [...first.frames, ...second.frames, ...others.frames].flatMap(({ id = [] }) => id)
  // LEG-52
  t.equal(new Set(ids).size, ids.length)
})

test('a session whose stream was black-holed opens another, and its running call is not disturbed: case 030', BOUND, async t => {
  const go = gate()
  const { server, notify } = createListenServer()
  const subject = await stage(t, {
    ...server,
    async handleRequest (request, channel, state) {
      if (request.method !== 'tools/call') return await server.handleRequest(request, channel, state)
      channel.sendProgress(1)
      await go.promise
      return result(toolResult.text(`aborted: ${channel.signal.aborted}`))
    }
  }, { keepAlive: 20 })
  const session = await open(subject.app)
  const dead = await readStream(t, subject.port, session)
  dead.stall()
  const call = await read(t, subject.port, 'POST', session.compose('tools/call', { name: 'tool', arguments: {}, _meta: { progressToken: 'p' } }))
  t.match(await call.message(), { params: { progress: 1 } })
  const second = await readStream(t, subject.port, session)
  t.equal(second.statusCode, 200)
  notify(toolsChanged)
  t.match(await within(second.message(), 'the change'), toolsChanged)
  t.match(subject.gauges(), { listens: 1 })
  go.open()
  t.match(await call.message(), { result: { content: [{ text: 'aborted: false' }] } })
})

test('a stream whose reader does not read is given up when too much is unsent: case 030', BOUND, async t => {
  let channel: Channel | undefined
  const subject = await stage(t, {
    info,
    capabilities: { tools: { listChanged: true } },
    handleRequest (_request, listening) {
      channel = listening as Channel
      channel.acknowledge()
      return stream(undefined)
    }
  }, { limits: { sendBuffer: 200_000 } })
  const session = await open(subject.app)
  const dead = await readStream(t, subject.port, session)
  dead.stall()
  while (subject.gauges().listens === 1) {
    for (let n = 0; n < 1_000; n++) channel?.sendNotification({ ...toolsChanged })
    await new Promise(resolve => setImmediate(resolve))
  }
  t.match(subject.ends.slice(-1), [{ cause: 'overflow' }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
  t.equal((await readStream(t, subject.port, session)).statusCode, 200, 'and may come back')
})

test('a producer may wait for a slow reader of the stream', BOUND, async t => {
  const waited = gate<boolean>()
  const { server, told } = createTelling()
  const subject = await stage(t, server, { limits: { sendBuffer: 100_000_000 } })
  const session = await open(subject.app)
  const reading = await readStream(t, subject.port, session)
  const channel = await told.promise
  t.equal(channel.sendProgress(1), 'filtered', 'a listen has no progress')
  t.throws(() => { channel.header('x-late', '1') }, { code: 'MCP_ERR_HEAD_SENT' })
  t.equal(channel.startStream(), true)
  reading.stall()
  while (subject.gauges().bufferedBytes < 20_000) {
    for (let n = 0; n < 1_000; n++) channel.sendNotification({ ...toolsChanged })
    await new Promise(resolve => setImmediate(resolve))
  }
  let drained = false
  channel.drained().then(() => {
    drained = true
    waited.open(true)
  }, () => {})
  await delay(10)
  t.equal(drained, false)
  reading.goOn()
  t.equal(await waited.promise, true)
})

// ---- refusals

test('GET and HEAD where no stream is offered are 405 and name what is served (LEG-45): case 031', async t => {
  const { server } = createListenServer()
  for (const legacy of [false, { sessions: false }] as const) {
    const { app } = await stage(t, server, { listen: false, legacy })
    for (const [method, headers] of [['GET', SSE], ['GET', {}], ['GET', { accept: 'text/html' }], ['HEAD', SSE], ['DELETE', {}]] as const) {
      const response = await app.inject({ method, url: '/mcp', headers })
      t.match(response, { statusCode: 405, headers: { allow: 'POST' } }, `${method} ${JSON.stringify(legacy)}`)
      if (method !== 'HEAD') t.match(response.json(), { jsonrpc: '2.0', error: { code: -32600 } })
    }
  }
})

test('GET needs a session and an Accept of event streams; HEAD opens nothing (LEG-46, LEG-47): case 031', BOUND, async t => {
  const { server } = createListenServer()
  const subject = await stage(t, server)
  const session = await open(subject.app)
  const get = async (headers: Record<string, string>) => await subject.app.inject({ method: 'GET', url: '/mcp', headers })
  t.match(await get(SSE), { statusCode: 400 }, 'LEG-19')
  t.match(await get({ ...SSE, 'mcp-session-id': 'unknown' }), { statusCode: 404 }, 'LEG-20')
  t.match(await get({ ...session.headers, accept: 'application/json' }), { statusCode: 406 })
  t.match(await get({ accept: 'text/html,application/xhtml+xml' }), { statusCode: 406 }, 'a browser')
  t.match(await get({ ...session.headers, ...SSE, 'mcp-protocol-version': '2099-01-01' }), { statusCode: 400 })
  t.match(await subject.app.inject({ method: 'HEAD', url: '/mcp', headers: { ...session.headers, ...SSE } }), { statusCode: 405, headers: { allow: 'POST, GET, DELETE' }, body: '' })
  t.strictSame(subject.gauges(), NOTHING_HELD)
  await session.delete()
  t.match(await get({ ...session.headers, ...SSE }), { statusCode: 404 }, 'LEG-20')
})

test('a server without subscriptions of its own refuses the stream with 405, and the session goes on (LEG-45): case 031', async t => {
  // Without `info` the server itself is asked what it offers.
  const { app } = await stage(t, bareServer(request => {
    if (request.method === 'server/discover') return result(discoverResult({ tools: {} }))
    return request.method === 'tools/call' ? result(toolResult.text('done')) : fail({ kind: 'unsupportedMethod', method: request.method })
  }), { listen: false })
  const session = await open(app)
  const response = await app.inject({ method: 'GET', url: '/mcp', headers: { ...session.headers, ...SSE } })
  t.match(response, { statusCode: 405, headers: { allow: 'POST, DELETE' } })
  t.match(response.json(), { error: { message: /no stream/ } })
  t.match((await session.request('tools/call', { name: 'tool', arguments: {} })).json(), { result: {} })
})

test('a controller without delete leaves DELETE out of what a refused GET may be replaced by', async t => {
  const sessions = new Map<string, never>()
  const { app } = await stage(t, bareServer(request => {
    if (request.method === 'server/discover') return result(discoverResult({}))
    return fail({ kind: 'unsupportedMethod', method: request.method })
  }), {
    listen: false,
    legacy: {
      sessions: {
        create (session) {
          sessions.set(`session-${sessions.size}`, session as never)
          return `session-${sessions.size - 1}`
        },
        fetch: id => sessions.get(id)
      }
    }
  })
  const session = await open(app)
  t.match(await app.inject({ method: 'GET', url: '/mcp', headers: { ...session.headers, ...SSE } }), { statusCode: 405, headers: { allow: 'POST' } })
  // LEG-23
  t.match(await session.delete(), { statusCode: 405, headers: { allow: 'POST, GET' } })
})

test('a server that declares nothing that changes offers a stream all the same, which stays silent and open', BOUND, async t => {
  const subject = await stage(t, toolServer(() => result(toolResult.text('done'))), { keepAlive: 10 })
  const session = await open(subject.app)
  const reading = await readStream(t, subject.port, session)
  t.equal(reading.statusCode, 200)
  while (reading.comments < 2) await reading.changed()
  t.strictSame(messagesIn(reading.frames), [])
  // LEG-61
  t.match((await session.request('resources/subscribe', { uri: 'test://a' })).json(), { error: { code: -32601 } })
})

test('more streams than the mount may have are refused with 503', BOUND, async t => {
  const { server } = createListenServer()
  const subject = await stage(t, server, { limits: { maxStreams: 1 } })
  const [one, other] = [await open(subject.app), await open(subject.app)]
  await readStream(t, subject.port, one)
  const refused = await readStream(t, subject.port, other)
  t.match(refused, { statusCode: 503, response: { headers: { 'retry-after': '1' } } })
})

// ---- its end

test('an idle stream stays open, with keep-alives, and one with a maximum age ends after a retry field and not by a reset: case 012', BOUND, async t => {
  const { server, notify } = createListenServer()
  const open1 = await stage(t, server, { keepAlive: 10 })
  const idle = await readStream(t, open1.port, await open(open1.app))
  while (idle.comments < 10) await idle.changed()
  t.match(open1.gauges(), { listens: 1, timers: 0 })
  notify(toolsChanged)
  t.match(await idle.message(), toolsChanged)

  const aged = await stage(t, createListenServer().server, { legacy: { maxStreamAge: 100, retry: 11 } })
  const session = await open(aged.app)
  const lives: number[] = []
  for (let n = 0; n < 5; n++) {
    const started = performance.now()
    const reading = await readStream(t, aged.port, session)
    const frames = await reading.rest()
    lives.push(performance.now() - started)
    t.match(frames, [{ data: '' }, { retry: 11 }])
    t.equal(frames.length, 2)
    t.ok(reading.response.complete)
  }
  t.ok(lives.every(life => life >= 88), `each lives for about that long: ${lives}`)
  await until(() => aged.gauges().listens === 0)
  t.strictSame(aged.gauges(), NOTHING_HELD)
})

test('a stream that is replaced or lost leaves no timer of its age', BOUND, async t => {
  const { server } = createListenServer()
  const { setTimeout, clearTimeout } = globalThis
  const held = new Set<unknown>()
  Object.assign(globalThis, {
    setTimeout (work: () => void, after: number) {
      const timer = setTimeout(work, after)
      if (after > 3_000_000) held.add(timer)
      return timer
    },
    clearTimeout (timer: NodeJS.Timeout) {
      held.delete(timer)
      clearTimeout(timer)
    }
  })
  t.teardown(() => { Object.assign(globalThis, { setTimeout, clearTimeout }) })
  const subject = await stage(t, server, { legacy: { maxStreamAge: 3_600_000 } })
  const session = await open(subject.app)
  const first = await readStream(t, subject.port, session)
  const second = await readStream(t, subject.port, session)
  await first.closed
  await until(() => held.size === 1)
  await second.drop()
  await until(() => held.size === 0)
  t.equal(held.size, 0)
})

test('whoever comes back for a stream of the session is told what it may have missed (LEG-53)', BOUND, async t => {
  const { server, notify } = createListenServer()
  const subject = await stage(t, server)
  const session = await open(subject.app)
  await session.request('resources/subscribe', { uri: 'test://a' })
  const first = await readStream(t, subject.port, session)
  const { id } = await first.next()
  await first.drop()
  await until(() => subject.gauges().listens === 0)
  notify(toolsChanged)
  const second = await readStream(t, subject.port, session, id)
  const told = [await second.message(), await second.message(), await second.message(), await second.message()]
  t.strictSame(told.map(({ method }) => method).sort(), [
    'notifications/prompts/list_changed', 'notifications/resources/list_changed', 'notifications/resources/updated', 'notifications/tools/list_changed'
  ])
  t.match(told.find(({ params }) => params !== undefined), updated('test://a'))
  notify(toolsChanged)
  t.match(await second.message(), toolsChanged)
})

test('whoever comes back to a server that honours nothing is told of nothing', BOUND, async t => {
  const subject = await stage(t, toolServer(() => result(toolResult.text('done'))), { keepAlive: 10 })
  const session = await open(subject.app)
  const first = await readStream(t, subject.port, session)
  const { id } = await first.next()
  await first.drop()
  const second = await readStream(t, subject.port, session, id)
  while (second.comments < 2) await second.changed()
  t.strictSame(messagesIn(second.frames), [])
})

test('without event storage the stream has no ids and no event without data', BOUND, async t => {
  const { server, notify } = createListenServer()
  const subject = await stage(t, server, { legacy: { events: false } })
  const reading = await readStream(t, subject.port, await open(subject.app))
  notify(toolsChanged)
  t.strictSame(await reading.next(), { data: JSON.stringify({ jsonrpc: '2.0', ...toolsChanged }) })
})

test('a server that ends its listen ends the stream, with a hint to come back; one that fails later leaves it open', BOUND, async t => {
  const channels: Channel[] = []
  const go = gate()
  const subject = await stage(t, {
    info,
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
    async handleRequest (_request, channel) {
      channels.push(channel as Channel)
      channel.acknowledge()
      if (channels.length > 2) {
        await go.promise
        throw new Error('broken')
      }
      return stream(undefined)
    }
  }, { legacy: { retry: 4 }, keepAlive: 10 })
  const session = await open(subject.app)
  await session.request('resources/subscribe', { uri: 'test://a' })
  const first = await readStream(t, subject.port, session)
  channels[1]?.close()
  await delay(5)
  t.match(subject.gauges(), { listens: 1 }, 'the end of one resource ends that alone')
  channels[0]?.close()
  t.strictSame((await first.rest()).at(-1), { retry: 4 })
  t.strictSame(subject.gauges(), NOTHING_HELD)

  const second = await readStream(t, subject.port, session)
  go.open()
  await until(() => subject.gauges().listens === 0)
  const { comments } = second
  while (second.comments < comments + 3) await second.changed()
  t.equal(second.response.complete, false)
  t.match(alarms(subject.lines).at(-1), { err: { message: 'broken' } })
})

test('a stream that waits behind another response ends with its connection', BOUND, async t => {
  const go = gate()
  const { server } = createListenServer()
  const subject = await stage(t, {
    ...server,
    async handleRequest (request, channel, state) {
      if (request.method !== 'tools/call') return await server.handleRequest(request, channel, state)
      channel.startStream()
      await go.promise
      return result(toolResult.text('done'))
    }
  })
  const session = await open(subject.app)
  const wire = await openWire(t, subject.port)
  wire.send(session.compose('tools/call', { name: 'tool', arguments: {} }))
  sendGet(wire, session)
  await until(() => subject.gauges().listens === 1)
  wire.socket.resetAndDestroy()
  await wire.closed
  await within(until(() => subject.gauges().listens === 0), 'the end of the stream', 5_000)
  go.open()
  await subject.ended(3)
  await until(() => subject.gauges().exchanges === 0)
  t.strictSame(subject.gauges(), NOTHING_HELD)
  await within(subject.app.close(), 'the end of the app', 3_000)
})

test('a client that has left while its session was fetched leaves no stream', BOUND, async t => {
  const { sessions, fetching, fetched } = createHeldSessions()
  const { server } = createListenServer()
  const subject = await stage(t, server, { legacy: { sessions } })
  const opened = await open(subject.app)
  const wire = await openWire(t, subject.port)
  sendGet(wire, opened)
  await fetching.promise
  wire.socket.resetAndDestroy()
  await wire.closed
  await delay(10)
  fetched.open()
  await subject.ended(2)
  t.match(subject.ends.slice(-1), [{ cause: 'disconnect' }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
  t.strictSame(alarms(subject.lines), [])
})

test('the end of a session ends its stream', BOUND, async t => {
  const { server } = createListenServer()
  const subject = await stage(t, server)
  const [session, other] = [await open(subject.app), await open(subject.app)]
  const reading = await readStream(t, subject.port, session)
  const others = await readStream(t, subject.port, other)
  t.equal((await session.delete()).statusCode, 204)
  await reading.closed
  t.ok(reading.response.complete)
  t.match(subject.gauges(), { listens: 1 })
  t.equal(others.response.complete, false)
})

test('a shutdown ends streams at once, with a hint to come back', BOUND, async t => {
  const { server } = createListenServer()
  const subject = await stage(t, server, { legacy: { retry: 8 } })
  const session = await open(subject.app)
  await session.request('resources/subscribe', { uri: 'test://a' })
  const reading = await readStream(t, subject.port, session)
  const started = performance.now()
  const closed = subject.app.close()
  t.strictSame((await reading.rest()).at(-1), { retry: 8 })
  t.ok(reading.response.complete)
  await closed
  t.ok(performance.now() - started < 2_000)
  t.match(subject.ends.slice(-2), [{ cause: 'shutdown' }, { cause: 'shutdown' }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a shutdown drops a stream whose reader does not read', BOUND, async t => {
  const { server, told } = createTelling()
  const subject = await stage(t, server, { limits: { sendBuffer: 100_000_000, drain: 50 } })
  const reading = await readStream(t, subject.port, await open(subject.app))
  const channel = await told.promise
  reading.stall()
  while (subject.gauges().bufferedBytes < 1_000_000) {
    for (let n = 0; n < 5_000; n++) channel.sendNotification({ ...toolsChanged })
    await new Promise(resolve => setImmediate(resolve))
  }
  await within(subject.app.close(), 'the end of the app', 5_000)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('the stream of a session stays open past the handlerTimeout of the app', BOUND, async t => {
  const { server, notify } = createListenServer()
  const subject = await stage(t, server, { fastify: { handlerTimeout: 100 } })
  const session = await open(subject.app, '2025-06-18')
  const reading = await readStream(t, subject.port, session)
  await delay(400)
  notify(toolsChanged)
  t.match(await reading.message(), toolsChanged)
  t.match(subject.gauges(), { listens: 1 })
  await reading.drop()
})

test('the stream of a session that expires or is somebody else\'s by now is ended, and one whose store is at fault stays: LEG-26', BOUND, async t => {
  const { server } = createListenServer()
  const kept = new Map<string, Session>()
  let isDown = false
  const sessions: SessionController = {
    create (session) {
      const id = crypto.randomUUID()
      kept.set(id, session)
      return id
    },
    fetch (id) {
      if (isDown) throw new Error('no store')
      return kept.get(id)
    }
  }
  const subject = await stage(t, server, { legacy: { sessions, sessionCheck: 80 } })
  const [expiring, moving, staying] = [await open(subject.app, '2025-06-18'), await open(subject.app, '2025-06-18'), await open(subject.app, '2025-06-18')]
  const streams = [await readStream(t, subject.port, expiring), await readStream(t, subject.port, moving), await readStream(t, subject.port, staying)] as const
  isDown = true
  await until(() => alarms(subject.lines).length >= 3)
  t.match(subject.gauges(), { listens: 3 })
  isDown = false
  kept.delete(String(expiring.id))
  kept.set(String(moving.id), { ...kept.get(String(moving.id)) as Session, principal: 'another' })
  await Promise.all([streams[0].closed, streams[1].closed])
  t.match(subject.gauges(), { listens: 1 })
  t.match(alarms(subject.lines)[0], { msg: 'an MCP session could not be looked up', err: { message: 'no store' } })
  await streams[2].drop()
  await until(() => subject.gauges().listens === 0)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})
