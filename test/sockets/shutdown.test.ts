import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { createTestClient } from 'fastify-gen-mcp/testing'
import genMcp, { defineServer, messageType, result, stream, toolResult, type Channel, type CloseReason } from 'fastify-gen-mcp'
import {
  alarms, bodyOf, eventsOf, gate, NOTHING_HELD, openSession, openWire, post, postCall, postListen, sendHttp2, stage, until
} from '../helpers/sockets.js'

const SHUTTING_DOWN = { code: -32603, message: 'The server is shutting down' }

/** Listens, and calls that wait for a message, that run until they are let go, or that never come back. */
function createServer () {
  const go = gate()
  const closes: [unknown, CloseReason][] = []
  const channels: Channel<string>[] = []
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'subscriptions/listen': () => stream('a listen'),
      async 'tools/call' ({ params }, channel) {
        const { streams, runs, hangs } = params.arguments
        channels.push(channel)
        if (streams === true) channel.sendProgress(1)
        if (runs === true) await go.promise
        if (hangs === true) await new Promise(() => {})
        return runs === true ? result(toolResult.text('done')) : stream('a call')
      }
    },
    async handleMessage (message, _channel, live) {
      if (message === 'run') await go.promise
      return stream(live)
    },
    handleClose: (_context, live, reason) => { closes.push([live, reason]) }
  })
  return { server, go: go.open, closes, channels }
}

test('a shutdown ends listens with their result, before the socket closes (HTTP-25)', async t => {
  const { server, closes } = createServer()
  const subject = await stage(t, server)
  const wire = await openWire(t, subject.port)
  wire.send(postListen({ toolsListChanged: true }, { id: 'listen-1' }))
  await wire.received('acknowledged')
  await subject.app.close()
  await wire.closed
  // SUB-17
  t.match(eventsOf(bodyOf(wire.text)), [
    { method: 'notifications/subscriptions/acknowledged' },
    { jsonrpc: '2.0', id: 'listen-1', result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 'listen-1' } } }
  ])
  t.same(closes, [['a listen', 'shutdown']])
  t.match(subject.ends, [{ cause: 'shutdown' }])
  t.same(subject.gauges(), NOTHING_HELD)
  t.same(alarms(subject.lines), [])
})

test('a shutdown ends streams that wait for a message with an error event, and one JSON body with 503', async t => {
  const { server, closes } = createServer()
  const subject = await stage(t, server, { limits: { drain: 5000 } })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const streaming = await client.open('tools/call', { name: 'tool', arguments: {} })
  await streaming.head
  const json = await client.open('tools/call', { name: 'tool', arguments: {} }, { headers: { accept: 'application/json' } })
  await until(() => subject.gauges().exchanges === 2)
  await subject.app.close()
  t.match(await streaming.answer, { statusCode: 200, error: SHUTTING_DOWN })
  t.match(await json.answer, { statusCode: 503, headers: { 'retry-after': '5' }, error: SHUTTING_DOWN })
  t.same(closes, [['a call', 'shutdown'], ['a call', 'shutdown']])
  t.match(subject.ends, [{ cause: 'shutdown' }, { cause: 'shutdown' }])
})

test('calls that run may finish and are answered, while what waits ends at once: case 024', async t => {
  const { server, go, channels } = createServer()
  const subject = await stage(t, server)
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const waiting = await Promise.all([1, 2, 3, 4, 5].map(async () => await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })))
  await Promise.all(waiting.map(async ({ head }) => await head))
  const calls = [
    await client.open('tools/call', { name: 'tool', arguments: { runs: true } }),
    await client.open('tools/call', { name: 'tool', arguments: { runs: true, streams: true } }, { progressToken: 'p' })
  ]
  await until(() => channels.length === 2)
  let closed = false
  const closing = subject.app.close().then(() => { closed = true })
  for (const { answer } of waiting) t.match(await answer, { result: { resultType: 'complete' } })
  t.equal(closed, false, 'it waits for the calls')
  t.same(channels.map(({ signal }) => signal.aborted), [false, false])
  go()
  for (const { answer } of calls) t.match(await answer, { statusCode: 200, result: { content: [{ text: 'done' }] } })
  await closing
  t.equal(subject.ends.filter(({ cause }) => cause === 'result').length, 2)
  t.same(subject.gauges(), NOTHING_HELD)
})

test('a message that is being handled is finished, and then its stream ends', async t => {
  const { server, go, channels, closes } = createServer()
  const subject = await stage(t, server)
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: {} })
  await call.head
  channels[0]?.ref.post('run')
  // The signal is there before the shutdown.
  t.equal(channels[0]?.signal.aborted, false)
  await until(() => subject.gauges().queuedMessages === 0)
  const closing = subject.app.close()
  await until(() => subject.app.mcp.mounts[0]?.gauges().exchanges === 1)
  t.equal(channels[0]?.signal.aborted, false)
  go()
  t.match(await call.answer, { error: SHUTTING_DOWN })
  await closing
  t.same(closes, [['a call', 'shutdown']])
})

test('what has not finished within limits.drain is closed, with a reason', async t => {
  const { server, go, channels } = createServer()
  const subject = await stage(t, server, { limits: { drain: 50 } })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const calls = [
    await client.open('tools/call', { name: 'tool', arguments: { runs: true, streams: true } }, { progressToken: 'p' }),
    await client.open('tools/call', { name: 'tool', arguments: { runs: true } }, { headers: { accept: 'application/json' } })
  ]
  await until(() => channels.length === 2)
  const aborts = channels.map(async ({ signal }) => await once(signal, 'abort'))
  const closing = subject.app.close()
  await Promise.all(aborts)
  go()
  await closing
  t.match(await calls[0]?.answer, { statusCode: 200, error: SHUTTING_DOWN })
  t.match(await calls[1]?.answer, { statusCode: 503, error: SHUTTING_DOWN })
  for (const { signal } of channels) t.match(signal.reason, { name: 'AbortError', cause: { cause: 'shutdown' } })
  t.match(subject.ends, [{ cause: 'shutdown' }, { cause: 'shutdown' }])
})

test('with limits.drain 0 nothing is waited for', async t => {
  const { server, channels } = createServer()
  const subject = await stage(t, server, { limits: { drain: 0 } })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: { hangs: true, streams: true } }, { progressToken: 'p' })
  await call.head
  await until(() => channels.length === 1)
  await subject.app.close()
  t.match(await call.answer, { error: SHUTTING_DOWN })
})

test('a shutdown ends within its bound whatever callbacks do: a handler, handleClose and a clean-up that never come back', async t => {
  const never = async (): Promise<never> => await new Promise(() => {})
  const server = defineServer({
    messages: messageType<never>(),
    handleRequest: {
      async 'tools/call' ({ params }, channel) {
        if (params.arguments['in'] === 'handler') await never()
        if (params.arguments['in'] === 'clean-up') channel.defer(never)
        return stream(params.arguments['in'])
      }
    },
    async handleClose (_context, live) {
      if (live === 'handleClose') await never()
    }
  })
  const subject = await stage(t, server, { limits: { drain: 200 } })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const calls = []
  for (const hung of ['handler', 'handleClose', 'clean-up']) {
    calls.push(await client.open('tools/call', { name: 'tool', arguments: { in: hung } }))
  }
  await until(() => subject.gauges().exchanges === 3)
  const startedAt = performance.now()
  // Twice is safe: case 079.
  await Promise.all([subject.app.close(), subject.app.close()])
  const took = performance.now() - startedAt
  t.ok(took < 3000, `it took ${took} ms`)
  for (const { answer } of calls) t.match(await answer, { error: SHUTTING_DOWN })
})

test('two mounts of an app share the bound of a shutdown', async t => {
  const { server, channels } = createServer()
  const DRAIN = 2000
  const subject = await stage(t, server, {
    limits: { drain: DRAIN },
    after: async app => { await app.register(genMcp, { prefix: '/other', server, limits: { drain: DRAIN } }) }
  })
  const clients = [createTestClient(subject.app, { path: '/mcp' }), createTestClient(subject.app, { path: '/other' })]
  t.teardown(async () => { for (const client of clients) await client.close() })
  for (const client of clients) await client.open('tools/call', { name: 'tool', arguments: { hangs: true } })
  await until(() => channels.length === 2)
  const startedAt = performance.now()
  await subject.app.close()
  const took = performance.now() - startedAt
  t.ok(took < 1.8 * DRAIN, `it took ${took} ms`)
})

test('two mounts of an app drain at the same time: the second one refuses and ends what waits while the first one still runs', { timeout: 20_000 }, async t => {
  const first = createServer()
  const second = createServer()
  const subject = await stage(t, first.server, {
    limits: { drain: 10_000 },
    after: async app => { await app.register(genMcp, { prefix: '/other', server: second.server }) }
  })
  const clients = [createTestClient(subject.app, { path: '/mcp' }), createTestClient(subject.app, { path: '/other' })] as const
  t.teardown(async () => { for (const client of clients) await client.close() })
  await clients[0].open('tools/call', { name: 'tool', arguments: { runs: true } })
  const listen = await clients[1].open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  await listen.head
  await until(() => first.channels.length === 1)
  t.teardown(first.go)
  const closing = subject.app.close()
  const outcome = await Promise.race([listen.answer, new Promise(resolve => setTimeout(resolve, 5000, 'it still waits'))])
  t.match(outcome, { result: { resultType: 'complete' } })
  first.go()
  await closing
})

test('while an app closes Fastify refuses for the mount', async t => {
  const { server, go, channels } = createServer()
  const subject = await stage(t, server)
  const idle = await openWire(t, subject.port)
  idle.send(postListen())
  await idle.received('acknowledged')
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: { runs: true } })
  await until(() => channels.length === 1)
  const closing = subject.app.close()
  // The listen has ended, and its connection is still there for one more.
  await idle.received('\r\n0\r\n\r\n')
  idle.take()
  idle.send(postCall())
  t.match(await idle.received('\r\n\r\n'), /^HTTP\/1\.1 503 /)
  go()
  await closing
  t.match(await call.answer, { result: {} })
})

test('with return503OnClosing false the mount answers 503 in JSON-RPC, with Retry-After', async t => {
  const { server, go, channels } = createServer()
  const notified: unknown[] = []
  const subject = await stage(t, { ...server, handleNotification: (notification: unknown) => { notified.push(notification) } }, {
    fastify: { return503OnClosing: false },
    limits: { drain: 7500 }
  })
  const wires = [await openWire(t, subject.port), await openWire(t, subject.port), await openWire(t, subject.port)] as const
  for (const wire of wires) {
    wire.send(postListen())
    await wire.received('acknowledged')
  }
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: { runs: true } })
  await until(() => channels.length === 1)
  const closing = subject.app.close()
  for (const wire of wires) {
    await wire.received('\r\n0\r\n\r\n')
    wire.take()
  }
  const [first, second, third] = wires
  first.send(postCall({}, { id: 7 }))
  const refused = await first.received('"error"')
  t.match(refused, /^HTTP\/1\.1 503 [\s\S]*\r\nretry-after: 8\r\n/i)
  t.match(JSON.parse(refused.slice(refused.indexOf('\r\n\r\n') + 4)), { jsonrpc: '2.0', id: 7, error: SHUTTING_DOWN })
  second.send(postListen())
  t.match(await second.received('"error"'), /^HTTP\/1\.1 503 /)
  const notification = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  third.send({ headers: { 'content-type': 'application/json' }, payload: JSON.stringify(notification) })
  t.match(await third.received('\r\n\r\n'), /^HTTP\/1\.1 503 /)
  t.same(notified, [])
  go()
  await closing
  t.match(await call.answer, { result: {} })
})

test('a request that had come, and whose hooks were still running when the shutdown began, is refused', async t => {
  const { server, channels } = createServer()
  const arrived = gate()
  const go = gate()
  const subject = await stage(t, server, {
    before (app) {
      app.addHook('preHandler', async () => {
        arrived.open()
        await go.promise
      })
    }
  })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: {} })
  await arrived.promise
  const closing = subject.app.close()
  await until(() => !subject.app.server.listening)
  go.open()
  t.match(await call.answer, { statusCode: 503, headers: { 'retry-after': '10' }, error: SHUTTING_DOWN })
  await closing
  t.equal(channels.length, 0)
})

for (const http2 of [false, true]) {
  test(`200 open streams end with their result, none is cut off: HTTP/${http2 ? 2 : 1}`, async t => {
    const { server, closes } = createServer()
    const subject = await stage(t, server, { fastify: { http2 } })
    const texts: (() => string)[] = []
    const closed: Promise<void>[] = []
    const session = http2 ? await openSession(t, `http://127.0.0.1:${subject.port}`) : undefined
    for (let id = 1; id <= 200; id++) {
      if (session !== undefined) {
        const response = sendHttp2(session, postListen({ toolsListChanged: true }, { id }))
        await response.received('acknowledged')
        texts.push(() => response.text)
        closed.push(response.closed)
      } else {
        const wire = await openWire(t, subject.port)
        wire.send(postListen({ toolsListChanged: true }, { id }))
        await wire.received('acknowledged')
        texts.push(() => wire.text)
        closed.push(wire.closed)
      }
    }
    t.match(subject.gauges(), { exchanges: 200, streams: 200, listens: 200 })
    const closing = subject.app.close()
    await Promise.all(closed)
    // Fastify waits for HTTP/2 connections until their clients close them, unless the app sets `forceCloseConnections`.
    session?.close()
    await closing
    const whole = texts.filter((text, index) => text().includes(`"id":${index + 1},"result":{"resultType":"complete"`))
    t.equal(whole.length, 200)
    t.equal(closes.length, 200)
    t.same(subject.gauges(), NOTHING_HELD)
    t.same(alarms(subject.lines), [])
  })
}

test('a reader that does not read holds a shutdown no longer than its bound', { timeout: 20_000 }, async t => {
  const { server, channels } = createServer()
  const subject = await stage(t, server, { limits: { drain: 100, sendBuffer: 1_000_000_000 } })
  const wire = await openWire(t, subject.port)
  wire.send(postCall({ streams: true }))
  await wire.received('"progress":1')
  wire.socket.pause()
  channels[0]?.sendProgress(2, undefined, 'x'.repeat(20_000_000))
  await subject.app.close()
  wire.socket.resume()
  await wire.closed
  t.match(subject.ends, [{ cause: 'shutdown' }])
})

test('a reader that does not read the answer it has been given holds a shutdown no longer than its bound', { timeout: 20_000 }, async t => {
  const server = defineServer({ handleRequest: { 'tools/call': () => result(toolResult.text('x'.repeat(20_000_000))) } })
  const subject = await stage(t, server, { limits: { drain: 100 } })
  const wire = await openWire(t, subject.port)
  wire.socket.pause()
  wire.send(postCall())
  await subject.ended()
  await subject.app.close()
  wire.socket.resume()
  await wire.closed
  t.match(subject.ends, [{ cause: 'result' }])
})

test('idle connections and open streams do not hold a process that was told to end: case 079', { timeout: 60_000 }, async t => {
  const fixture = fileURLToPath(new URL('shutdown-process.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, fixture], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => { child.kill('SIGKILL') })
  child.stdout.setEncoding('utf8')
  const exited = once(child, 'exit')
  const [port] = await once(child.stdout, 'data') as [string]

  const idle = await Promise.all(Array.from({ length: 5 }, async () => {
    const wire = await openWire(t, Number(port))
    wire.send(post('tools/call', { name: 'tool', arguments: {} }))
    await wire.received('"text":"done"')
    return wire
  }))
  const streams = await Promise.all(Array.from({ length: 20 }, async (_, id) => {
    const wire = await openWire(t, Number(port))
    wire.send(postListen({ toolsListChanged: true }, { id }))
    await wire.received('acknowledged')
    return wire
  }))
  child.kill('SIGTERM')
  const startedAt = performance.now()
  t.same(await exited, [0, null])
  const took = performance.now() - startedAt
  t.ok(took < 5000, `it took ${took} ms`)
  await Promise.all([...idle, ...streams].map(async ({ closed }) => { await closed }))
  t.ok(streams.every(({ text }) => text.includes('"resultType":"complete"') && text.endsWith('\r\n0\r\n\r\n')), 'streams end, and are not cut off')
})
