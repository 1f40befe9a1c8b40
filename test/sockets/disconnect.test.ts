import { connect } from 'node:net'
import { test } from 'tap'
import { createTestClient, type TestStream } from 'fastify-gen-mcp/testing'
import { defineServer, messageType, result, stream, toolResult, type Channel, type ExchangeEnd, type SendStatus } from 'fastify-gen-mcp'
import {
  alarms, eventsOf, gate, NOTHING_HELD, openSession, openWire, postCall, postListen, sendHttp2, stage, until, type Stage, type StageOptions, within
} from '../helpers/sockets.js'
import { constants } from 'node:http2'
import type { Test } from 'tap'

/** Where in its life a request is when its client leaves. */
type Point = 'init' | 'a call that has said nothing' | 'a call that streams' | 'a stream that waits for a message' | 'handleMessage'

/** A server that records what is called, and lingers at one point until it is let go. */
function createLingering (point: Point) {
  const reached = gate()
  const go = gate()
  const aborted = gate<unknown>()
  const calls: string[] = []
  const late: SendStatus[] = []

  async function linger (signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => { aborted.open(signal.reason) })
    reached.open()
    await go.promise
  }

  const server = defineServer({
    messages: messageType<string>(),
    async init (_arg, context) {
      context.defer(() => { calls.push('deferred') })
      calls.push('init')
      if (point === 'init') await linger(context.signal)
    },
    handleRequest: {
      async 'tools/call' (_request, channel) {
        calls.push('handleRequest')
        if (point === 'a call that streams') channel.sendProgress(1)
        if (point === 'a call that has said nothing' || point === 'a call that streams') {
          await linger(channel.signal)
          late.push(channel.sendProgress(2))
        }
        if (point === 'handleMessage') channel.ref.post('work')
        if (point === 'a stream that waits for a message') {
          channel.sendProgress(1)
          channel.signal.addEventListener('abort', () => { aborted.open(channel.signal.reason) })
          setImmediate(reached.open)
        }
        return stream('first')
      }
    },
    async handleMessage (_message, channel) {
      calls.push('handleMessage')
      await linger(channel.signal)
      late.push(channel.sendProgress(2))
      return stream('second')
    },
    handleClose (context, live, reason) { calls.push(`handleClose ${live} ${reason} ${context.signal.aborted}`) }
  })
  return { server, reached: reached.promise, go: go.open, aborted: aborted.promise, calls, late }
}

const expected: Readonly<Record<Point, { readonly calls: readonly string[], readonly late: readonly SendStatus[] }>> = {
  init: { calls: ['init', 'deferred'], late: [] },
  'a call that has said nothing': { calls: ['init', 'handleRequest', 'handleClose first disconnect true', 'deferred'], late: ['closed'] },
  'a call that streams': { calls: ['init', 'handleRequest', 'handleClose first disconnect true', 'deferred'], late: ['closed'] },
  'a stream that waits for a message': { calls: ['init', 'handleRequest', 'handleClose first disconnect true', 'deferred'], late: [] },
  handleMessage: { calls: ['init', 'handleRequest', 'handleMessage', 'handleClose second disconnect true', 'deferred'], late: ['closed'] }
}
const points = Object.keys(expected) as Point[]

/** Drives one request to the point, lets the client leave there, and holds what happened against what must. */
async function leaveAt (t: Test, point: Point, fastify: NonNullable<StageOptions['fastify']>, open: (subject: Stage) => Promise<() => void>): Promise<void> {
  const { server, reached, go, aborted, calls, late } = createLingering(point)
  const subject = await stage(t, server, { fastify })
  const leave = await open(subject)
  await reached
  leave()
  // CAN-01, CAN-03: while the callback still runs.
  const reason = await aborted as Error & { readonly cause: ExchangeEnd }
  t.equal(reason.name, 'AbortError')
  t.equal(reason.cause.cause, 'disconnect')
  go()
  t.match(await subject.ended(), [{ cause: 'disconnect', reason: undefined }])
  t.same(calls, expected[point].calls)
  // CAN-02, CAN-10
  t.same(late, expected[point].late)
  t.equal(subject.ends.length, 1)
  t.same(subject.gauges(), NOTHING_HELD)
  t.same(alarms(subject.lines), [])
}

for (const point of points) {
  for (const how of ['vanish', 'reset', 'halfClose'] as const) {
    test(`HTTP/1.1: a client that leaves (${how}) closes its request: ${point}`, async t => {
      await leaveAt(t, point, {}, async ({ app }) => {
        const client = createTestClient(app)
        t.teardown(async () => await client.close())
        const call: TestStream<'tools/call'> = await client.open('tools/call', { name: 'tool', arguments: {} }, { progressToken: 'p' })
        return () => { call[how]() }
      })
    })
  }

  for (const how of ['a reset of its stream', 'the end of its connection'] as const) {
    test(`HTTP/2: a client that leaves (${how}) closes its request: ${point}`, async t => {
      await leaveAt(t, point, { http2: true }, async ({ port }) => {
        const session = await openSession(t, `http://127.0.0.1:${port}`)
        const { stream: call } = sendHttp2(session, postCall())
        return () => {
          if (how === 'the end of its connection') session.destroy()
          else call.close(constants.NGHTTP2_CANCEL)
        }
      })
    })
  }
}

test('a client that leaves while handleClose runs changes nothing', async t => {
  const closing = gate()
  const go = gate()
  const calls: unknown[] = []
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.startStream()
        channel.ref.post('close')
        return stream('live')
      }
    },
    handleMessage (_message, channel) {
      channel.close()
      return stream('later')
    },
    async handleClose (_context, live, reason) {
      calls.push([live, reason])
      closing.open()
      await go.promise
    }
  })
  const subject = await stage(t, server)
  const wire = await openWire(t, subject.port)
  wire.send(postCall())
  await closing.promise
  wire.socket.resetAndDestroy()
  await wire.closed
  go.open()
  t.match(await subject.ended(), [{ cause: 'closed' }])
  t.same(calls, [['later', 'closed']])
  t.same(subject.gauges(), NOTHING_HELD)
  t.same(alarms(subject.lines), [])
})

test('a client that has left before its request reached the server closes it', async t => {
  for (const http2 of [false, true]) {
    const arrived = gate()
    const left = gate()
    const signals: boolean[] = []
    const server = defineServer({
      messages: messageType<never>(),
      handleRequest: {
        async 'tools/call' (_request, channel) {
          await left.promise
          signals.push(channel.signal.aborted)
          return stream('live')
        }
      },
      handleClose: (_context, live, reason) => { signals.push(live === 'live' && reason === 'disconnect') }
    })
    const subject = await stage(t, server, {
      fastify: { http2 },
      before (app) {
        app.addHook('preHandler', async (_request, { raw }) => {
          const closed = new Promise(resolve => raw.once('close', resolve))
          arrived.open()
          await closed
          left.open()
        })
      }
    })
    if (http2) {
      const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
      const { stream: call } = sendHttp2(session, postCall())
      await arrived.promise
      call.close(constants.NGHTTP2_CANCEL)
    } else {
      const wire = await openWire(t, subject.port)
      wire.send(postCall())
      await arrived.promise
      wire.socket.destroy()
    }
    t.match(await subject.ended(), [{ cause: 'disconnect' }], `HTTP/${http2 ? 2 : 1}`)
    t.same(signals, [true, true])
    t.same(subject.gauges(), NOTHING_HELD)
  }
})

test('a client that leaves while a hook still works on the head of its stream leaves no timer behind: case 019', async t => {
  // Longer than the times of anybody else.
  const KEEP_ALIVE = 2_000_000_000
  const timers = new Set<unknown>()
  const { setInterval: set, clearInterval: clear } = globalThis
  t.teardown(() => {
    Object.assign(globalThis, { setInterval: set, clearInterval: clear })
    // What is left would keep the process alive.
    for (const timer of timers) clear(timer as NodeJS.Timeout)
  })
  Object.assign(globalThis, {
    setInterval (work: () => void, ms: number) {
      const timer = set(work, ms)
      if (ms >= KEEP_ALIVE / 100) timers.add(timer)
      return timer
    },
    clearInterval (timer: NodeJS.Timeout | undefined) {
      timers.delete(timer)
      clear(timer)
    }
  })

  const opening = gate()
  const head = gate()
  const sent = gate()
  const server = defineServer({
    messages: messageType<never>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.sendProgress(1)
        return stream('live')
      }
    }
  })
  const subject = await stage(t, server, {
    keepAlive: KEEP_ALIVE,
    before (app) {
      app.addHook('onSend', async () => {
        opening.open()
        await head.promise
        setImmediate(sent.open)
      })
    }
  })
  const wire = await openWire(t, subject.port)
  wire.send(postCall())
  await opening.promise
  wire.socket.destroy()
  t.match(await subject.ended(), [{ cause: 'disconnect' }])
  head.open()
  await sent.promise
  t.equal(timers.size, 0)

  // The spy sees what it is for: a stream that is open has a timer somewhere.
  const open = await openWire(t, subject.port)
  open.send(postCall())
  await open.received('"progress":1')
  t.equal(timers.size, 1)
  open.socket.destroy()
  await subject.ended(2)
  t.equal(timers.size, 0)
  t.same(alarms(subject.lines), [])
})

test('a request behind another one on its connection is closed too when the client leaves', async t => {
  const server = defineServer({
    messages: messageType<never>(),
    handleRequest: { 'tools/call': () => stream('live') }
  })
  const subject = await stage(t, server, { limits: { drain: 8_000 } })
  const wire = await openWire(t, subject.port)
  wire.send(postCall({}, { id: 1 }))
  wire.send(postCall({}, { id: 2 }))
  await until(() => subject.gauges().exchanges === 2)
  wire.socket.destroy()
  const ends = await subject.ended(2)
  t.match(ends, [{ cause: 'disconnect' }, { cause: 'disconnect' }])
  t.same(new Set(ends.map(({ requestId }) => requestId)), new Set([1, 2]))
  t.same(subject.gauges(), NOTHING_HELD)
  // Nothing is kept for a response that can never leave: with it the shutdown would take all of its bound.
  await within(subject.app.close(), 'the shutdown', 4_000)
})

test('the normal end of a response is no disconnect (CAN-04): of JSON, of a stream, with Connection: close', async t => {
  const signals: AbortSignal[] = []
  const server = defineServer({
    handleRequest: {
      async 'tools/call' ({ params }, channel) {
        signals.push(channel.signal)
        if (params.arguments['stream'] === true) channel.sendProgress(1)
        await new Promise(resolve => setImmediate(resolve))
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server)
  for (const args of [{}, { stream: true }]) {
    const wire = await openWire(t, subject.port)
    wire.send(postCall(args, { headers: { connection: 'close' } }))
    await wire.closed
    t.match(wire.text, /"text":"done"/)
  }
  t.match(await subject.ended(2), [{ cause: 'result' }, { cause: 'result' }])
  t.same(signals.map(({ aborted }) => aborted), [false, false])
})

test('an app that allows half-open connections answers a client that has half-closed its own', async t => {
  const closed = gate()
  const server = defineServer({
    handleRequest: {
      async 'tools/call' (_request, channel) {
        channel.sendProgress(1)
        await closed.promise
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server, {
    before (app) {
      Object.assign(app.server, { httpAllowHalfOpen: true })
      app.server.on('connection', socket => { socket.on('end', closed.open) })
    }
  })
  const wire = await openWire(t, subject.port)
  wire.send(postCall())
  await wire.received('"progress":1')
  wire.socket.end()
  t.match(await wire.received('"result"'), /"text":"done"/)
  t.match(await subject.ended(), [{ cause: 'result' }])
})

test('one stream of an HTTP/2 connection is reset, and the others go on (CAN-05)', async t => {
  const channels: Channel<string>[] = []
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channels.push(channel)
        channel.sendProgress(1)
        return stream('live')
      }
    },
    handleMessage: message => result(toolResult.text(message))
  })
  const subject = await stage(t, server, { fastify: { http2: true } })
  const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
  const calls = [1, 2, 3].map(id => sendHttp2(session, postCall({}, { id })))
  await Promise.all(calls.map(async call => await call.received('"progress":1')))
  calls[1]?.stream.close(constants.NGHTTP2_CANCEL)
  t.match(await subject.ended(), [{ cause: 'disconnect', requestId: 2 }])
  for (const { ref } of channels) ref.post('done')
  for (const [index, id] of [[0, 1], [2, 3]] as const) {
    const call = calls[index]
    await call?.closed
    t.match(eventsOf(call?.text ?? ''), [{ method: 'notifications/progress' }, { id, result: { content: [{ text: 'done' }] } }])
  }
  t.equal((await subject.ended(3)).filter(({ cause }) => cause === 'result').length, 2)
  t.equal(session.destroyed, false)
})

test('a request on one connection is not touched by a disconnect of another with the same id', async t => {
  const channels: Channel<string>[] = []
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channels.push(channel)
        channel.sendProgress(1)
        return stream('live')
      }
    },
    handleMessage: message => result(toolResult.text(message))
  })
  const subject = await stage(t, server)
  const [first, second] = [await openWire(t, subject.port), await openWire(t, subject.port)]
  for (const wire of [first, second]) {
    wire.send(postCall())
    await wire.received('"progress":1')
  }
  first.socket.destroy()
  await subject.ended()
  t.same(channels.map(({ ref }) => ref.post('done')), ['closed', 'queued'])
  t.match(await second.received('"result"'), /"text":"done"/)
})

test('a listen ends when its client leaves, everything of it is free at once, and nothing of it is there for the next one', async t => {
  const listening: { toolsChanged (): void }[] = []
  const server = defineServer({
    messages: messageType<'changed'>(),
    handleRequest: {
      'subscriptions/listen' (_request, channel) {
        const subscriber = { toolsChanged: () => { channel.ref.post('changed') } }
        listening.push(subscriber)
        channel.defer(() => { listening.splice(listening.indexOf(subscriber), 1) })
        return stream('live')
      }
    },
    handleMessage (_message, channel, live) {
      channel.sendNotification({ method: 'notifications/tools/list_changed' })
      return stream(live)
    }
  })
  const subject = await stage(t, server)
  const first = await openWire(t, subject.port)
  first.send(postListen())
  await first.received('acknowledged')
  // SUB-02: it stays open.
  t.match(subject.gauges(), { listens: 1, streams: 1 })
  first.socket.destroy()
  // SUB-11
  t.match(await subject.ended(), [{ cause: 'disconnect', method: 'subscriptions/listen' }])
  t.equal(listening.length, 0)
  t.same(subject.gauges(), NOTHING_HELD)

  for (const { toolsChanged } of listening) toolsChanged()
  const second = await openWire(t, subject.port)
  second.send(postListen({ toolsListChanged: true }, { headers: { 'last-event-id': '1' } }))
  await second.received('acknowledged')
  listening[0]?.toolsChanged()
  await second.received('list_changed')
  // SUB-12: the acknowledgement and the one change since.
  t.equal(second.text.match(/data: /g)?.length, 2)
})

test('resets during the body, before the head and mid stream are nobody\'s alarm, a hundred times each: case 018', async t => {
  const server = defineServer({
    messages: messageType<never>(),
    handleRequest: {
      'tools/call' ({ params }, channel) {
        if (params.arguments['quick'] === true) return result(toolResult.text('done'))
        if (params.arguments['stream'] === true) channel.sendProgress(1)
        return stream('live')
      }
    }
  })
  const subject = await stage(t, server)
  for (let round = 0; round < 100; round++) {
    const body = await openWire(t, subject.port)
    body.socket.write('POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"jsonrpc"')
    const silent = await openWire(t, subject.port)
    silent.send(postCall({}, { headers: { accept: 'application/json' } }))
    const streaming = await openWire(t, subject.port)
    streaming.send(postCall({ stream: true }))
    await streaming.received('"progress":1')
    await until(() => subject.gauges().exchanges === 2)
    for (const { socket } of [body, silent, streaming]) socket.resetAndDestroy()
    await subject.ended(2 * (round + 1))
  }
  t.same(alarms(subject.lines), [])
  t.ok(subject.ends.every(({ cause }) => cause === 'disconnect'))
  t.same(subject.gauges(), NOTHING_HELD)
  t.equal((await subject.app.inject({ method: 'POST', url: '/mcp', ...postCall({ quick: true }) })).statusCode, 200)
})

test('streams that are dropped at any moment of their keep-alive leave nothing behind: case 019', async t => {
  const server = defineServer({ handleRequest: { 'subscriptions/listen': () => stream({}) } })
  const subject = await stage(t, server, { keepAlive: 2 })
  await Promise.all(Array.from({ length: 200 }, async (_, index) => {
    const wire = await openWire(t, subject.port)
    wire.send(postListen())
    await wire.received('acknowledged')
    await new Promise(resolve => setTimeout(resolve, index % 23))
    wire.socket.destroy()
    await wire.closed
  }))
  await subject.ended(200)
  t.same(subject.gauges(), NOTHING_HELD)
  t.same(alarms(subject.lines), [])
})

test('a socket that connects and leaves at once is no exchange', async t => {
  const subject = await stage(t, defineServer({ handleRequest: {} }))
  const socket = connect(subject.port, '127.0.0.1')
  const closed = new Promise(resolve => socket.on('close', resolve))
  socket.on('connect', () => { socket.resetAndDestroy() }).on('error', () => {})
  await closed
  t.same(subject.gauges(), NOTHING_HELD)
  t.same(alarms(subject.lines), [])
})
