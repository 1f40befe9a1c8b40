import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { fail, result, toolResult, type Channel, type JsonObject } from 'fastify-gen-mcp'
import { messagesOf } from '../helpers/messages.js'
import { createListenServer, toolServer } from '../helpers/servers.js'
import { alarms, bodyOf, gate, NOTHING_HELD, openWire, stage, until, within } from '../helpers/sockets.js'
import { messagesIn, open, read, readStream, send, VERSIONS } from './helpers.js'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'

const IN_PROCESS = { listen: false }
const TOOL = { name: 'tool', arguments: {} }
const WITH_TOKEN = { ...TOOL, _meta: { progressToken: 'p' } }
const done = { content: [{ type: 'text', text: 'done' }] }

/** A server of one tool, which does this and answers 'done'. */
function tool (work: (channel: Channel, args: JsonObject) => unknown) {
  return toolServer(async ({ params }, channel) => {
    await work(channel, params.arguments)
    return result(toolResult.text('done'))
  })
}

for (const version of VERSIONS) {
  test(`${version}: an answer with nothing before it is one JSON object, and what is sent before it makes it a stream (LEG-36, LEG-38, LEG-39, LEG-42)`, async t => {
    const subject = await stage(t, tool((channel, { say }) => { if (say === true) channel.sendProgress(1, 2, 'half') }), IN_PROCESS)
    const session = await open(subject.app, version)
    const silent = await session.request('tools/call', TOOL)
    t.match(silent, { statusCode: 200, headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' } })
    t.strictSame(silent.json(), { jsonrpc: '2.0', id: 1, result: done })

    const said = await session.request('tools/call', { ...WITH_TOKEN, arguments: { say: true } })
    t.match(said, { statusCode: 200, headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' } })
    const blocks = said.body.split('\n\n')
    // The stream ends after the answer.
    t.equal(blocks.pop(), '')
    if (version === '2025-11-25') t.match(blocks.shift(), /^id: [\w-]{22}_0\ndata: $/)
    t.match(blocks, [/^id: [\w-]{22}_\d\ndata: \{.*"progress":1,"total":2,"message":"half"\}\}$/, /^id: [\w-]{22}_\d\ndata: \{"jsonrpc":"2.0","id":1,"result":\{/])
    t.equal(blocks.length, 2)
    t.match(subject.ends.slice(1), [{ streamed: false, events: 1, protocolVersion: version }, { streamed: true, events: 2, bytes: Buffer.byteLength(said.body) }])
    t.match(subject.ends[1], { bytes: Buffer.byteLength(silent.body) })
    t.strictSame(subject.gauges(), NOTHING_HELD)
  })
}

test('without event storage no event has an id, and there is none without data (LEG-42)', async t => {
  const { app } = await stage(t, tool(channel => { channel.sendProgress(1) }), { ...IN_PROCESS, legacy: { events: false } })
  const session = await open(app)
  const { body } = await session.request('tools/call', WITH_TOKEN)
  t.match(body.split('\n\n'), [/^data: \{.*"progress":1/, /^data: \{.*"result"/, ''])
})

test('a client that takes event streams alone gets every answer in one, errors too (LEG-36, LEG-37)', async t => {
  const subject = await stage(t, toolServer(({ params }, { log }) => {
    log.debug('called')
    if (params.arguments['crash'] === true) throw new Error('secret')
    return params.arguments['fail'] === true ? fail('no') : result(toolResult.text('done'))
  }), IN_PROCESS)
  const session = await open(subject.app)
  const only = { headers: { accept: 'text/event-stream' } }
  const answers = await Promise.all([{}, { fail: true }, { crash: true }].map(async (args, id) => await session.request('tools/call', { name: 'tool', arguments: args }, { id, ...only })))
  for (const answer of answers) t.match(answer, { statusCode: 200, headers: { 'content-type': 'text/event-stream' } })
  t.match(messagesIn(answers.flatMap(({ body }) => body.split('\n').filter(line => line.startsWith('data: {')).map(line => ({ data: line.slice(6) })))), [
    { id: 0, result: done }, { id: 1, error: { message: 'no' } }, { id: 2, error: { code: -32603, message: 'Internal error' } }
  ])
  t.match(await session.request('ping', undefined, only), { statusCode: 200, headers: { 'content-type': 'text/event-stream' }, body: /data: \{.*"result":\{\}/ })
  t.notMatch(answers[2]?.body, 'secret')
})

test('a client that takes JSON alone gets JSON, whatever is sent before (LEG-36, LEG-37)', async t => {
  const sent: unknown[] = []
  const { app } = await stage(t, tool(channel => { sent.push(channel.sendProgress(1), channel.sendLog('error', 'x'), channel.startStream()) }), IN_PROCESS)
  const session = await open(app)
  const answer = await session.request('tools/call', WITH_TOKEN, { headers: { accept: 'application/json' } })
  t.match(answer, { statusCode: 200, headers: { 'content-type': 'application/json; charset=utf-8' } })
  t.strictSame(answer.json(), { jsonrpc: '2.0', id: 1, result: done })
  t.strictSame(sent, ['filtered', 'filtered', false])
  t.match(await session.request('tools/call', TOOL, { headers: { accept: 'text/html' } }), { statusCode: 406 })
})

test('a call that has been silent for long becomes a stream, and one that takes JSON alone does not (LEG-36)', async t => {
  const go = gate()
  const subject = await stage(t, tool(async () => await go.promise), { streamAfter: 20 })
  const session = await open(subject.app)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', TOOL))
  t.equal(reading.response.headers['content-type'], 'text/event-stream')
  t.match(await reading.next(), { data: '' })
  const json = session.request('tools/call', TOOL, { id: 2, headers: { accept: 'application/json' } })
  await until(() => subject.gauges().exchanges === 2)
  t.match(subject.gauges(), { streams: 1, timers: 1 }, 'the keep-alive of the one, and nothing for the other')
  go.open()
  t.match(await reading.message(), { id: 1, result: done })
  t.match((await json).json(), { id: 2, result: done })
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a handler may set headers until the head has left, and not one that Node refuses', async t => {
  const { app } = await stage(t, tool(channel => {
    channel.header('x-first', '1')
    t.throws(() => { channel.header('x-bad', 'a\nb') }, { code: 'ERR_INVALID_CHAR' })
    t.throws(() => { channel.header('bad name', 'a') }, { code: 'ERR_INVALID_HTTP_TOKEN' })
    channel.startStream()
    t.throws(() => { channel.header('x-late', '1') }, { code: 'MCP_ERR_HEAD_SENT' })
  }), IN_PROCESS)
  const { headers } = await (await open(app)).request('tools/call', TOOL)
  t.match(headers, { 'x-first': '1' })
  t.notOk('x-late' in headers)
})

test('1,000 calls answered as JSON and 1,000 as streams leave nothing of a session: case 010', { timeout: 60_000 }, async t => {
  const subject = await stage(t, tool((channel, { say }) => { if (say === true) channel.startStream() }), { ...IN_PROCESS, fastify: { logger: false } })
  const session = await open(subject.app)
  const duplicates: unknown[] = []
  for (let n = 0; n < 2_000; n += 100) {
    const params = { name: 'tool', arguments: { say: (n / 100) % 2 === 0 } }
    const answers = await Promise.all(Array.from({ length: 100 }, async (_, index) => await session.request('tools/call', params, { id: index })))
    duplicates.push(...answers.filter(({ statusCode }) => statusCode !== 200))
  }
  // An id that was kept would be refused the next time.
  t.strictSame(duplicates, [])
  t.equal(subject.ends.length, 2_001)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a producer may wait for a slow reader', async t => {
  const drained: boolean[] = []
  const subject = await stage(t, tool(async channel => {
    channel.startStream()
    for (let n = 1; n <= 200; n++) {
      channel.sendProgress(n, undefined, 'x'.repeat(100_000))
      drained.push(false)
      await channel.drained()
      drained[drained.length - 1] = true
    }
  }), { limits: { sendBuffer: 1_000_000 } })
  const session = await open(subject.app)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', WITH_TOKEN))
  reading.stall()
  await delay(100)
  t.ok(drained.length < 200 && drained.at(-1) === false, `it waits at ${drained.length}`)
  reading.goOn()
  t.match(messagesIn(await reading.rest()).at(-1), { id: 1, result: done })
  t.equal(drained.filter(value => value).length, 200)
})

// ---- batches that become streams

test('2025-03-26: answers of a batch that were ready before it became a stream are on the stream', async t => {
  const { app } = await stage(t, tool(async channel => {
    await delay(5)
    channel.sendProgress(1)
  }), IN_PROCESS)
  const session = await open(app, '2025-03-26')
  const requests = [{ id: 'a', method: 'ping' }, { id: 'b', method: 'tools/call', params: WITH_TOKEN }, { id: 'c', method: 'ping' }]
  const response = await session.post(requests.map(request => ({ jsonrpc: '2.0', ...request })))
  t.match(response.headers, { 'content-type': 'text/event-stream' })
  const messages = await messagesOf(response)
  t.strictSame(messages.map(({ id, method }) => id ?? method).sort(), ['a', 'b', 'c', 'notifications/progress'])
  t.equal(messages.at(-1)?.id, 'b', 'the stream ends after the last answer')
})

for (const [cancelled, expected] of [['b', ['a']], ['a', ['b']]] as const) {
  test(`2025-03-26: a batch of which one was cancelled has the other answers, as a stream: ${cancelled}`, async t => {
    const started = gate()
    const go = gate()
    const { app } = await stage(t, tool(async (channel, { slow }) => {
      channel.startStream()
      started.open()
      if (slow === true) await new Promise<void>(resolve => { channel.signal.addEventListener('abort', () => { resolve() }) })
      else await go.promise
    }), IN_PROCESS)
    const session = await open(app, '2025-03-26')
    const response = session.post(['a', 'b'].map(id => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'tool', arguments: { slow: id === cancelled } } })))
    await started.promise
    if (cancelled === 'a') {
      await session.notify('notifications/cancelled', { requestId: cancelled })
      go.open()
    } else {
      go.open()
      await delay(5)
      await session.notify('notifications/cancelled', { requestId: cancelled })
    }
    t.strictSame((await messagesOf(await response)).map(({ id }) => id), expected)
  })

  test(`2025-03-26: a batch of which one was cancelled has the other answers, as JSON: ${cancelled}`, async t => {
    const started = gate()
    const go = gate()
    const { app } = await stage(t, tool(async (channel, { slow }) => {
      started.open()
      if (slow === true) await new Promise<void>(resolve => { channel.signal.addEventListener('abort', () => { resolve() }) })
      else await go.promise
    }), IN_PROCESS)
    const session = await open(app, '2025-03-26')
    const response = session.post(['a', 'b'].map(id => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'tool', arguments: { slow: id === cancelled } } })))
    await started.promise
    if (cancelled === 'b') go.open()
    await delay(5)
    await session.notify('notifications/cancelled', { requestId: cancelled })
    go.open()
    t.match((await response).json(), expected.map(id => ({ id, result: done })))
  })
}

// ---- heads that Node refuses

const badHeader: Readonly<Record<string, (app: FastifyInstance, isBad: () => boolean) => void>> = {
  'set by a hook with a callback' (app, isBad) {
    app.addHook('onSend', (_request, reply, payload, next) => {
      if (isBad()) reply.header('x-bad', 'a\nb')
      next(null, payload)
    })
  },
  'set by an asynchronous hook' (app, isBad) {
    app.addHook('onSend', async (_request, reply) => {
      await delay(1)
      if (isBad()) reply.header('x-bad', 'a\nb')
    })
  },
  'set before' (app, isBad) {
    app.addHook('preHandler', (_request, reply, next) => {
      if (isBad()) reply.header('x-bad', 'a\nb')
      next()
    })
  }
}

for (const [name, addHook] of Object.entries(badHeader)) {
  test(`a header that Node refuses is a crash, and the client is answered all the same: ${name}`, async t => {
    let bad = false
    const { server } = createListenServer()
    const subject = await stage(t, {
      ...server,
      async handleRequest (request, channel, state) {
        if (request.method !== 'tools/call') return await server.handleRequest(request, channel, state)
        if (request.params.arguments['say'] === true) channel.startStream()
        if (request.params.arguments['crash'] === true) throw new Error('secret')
        return result(toolResult.text('done'))
      }
    }, { before: app => { addHook(app, () => bad) } })
    const session = await open(subject.app)
    bad = true
    for (const [what, accept, args] of [
      ['JSON', 'application/json', {}], ['a stream', 'text/event-stream', {}], ['a stream that is opened', '*/*', { say: true }], ['a crash', '*/*', { crash: true }]
    ] as const) {
      const answer = await within(session.request('tools/call', { name: 'tool', arguments: args }, { headers: { accept } }), what)
      t.equal(answer.statusCode, 500, what)
      t.strictSame(answer.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } }, what)
    }
    const get = await within(readStream(t, subject.port, session), 'the stream')
    t.equal(get.statusCode, 500)
    await get.closed
    t.match(get.response.headers, { 'content-type': /^application\/json/ })
    bad = false
    await until(() => subject.gauges().exchanges === 0)
    t.strictSame(subject.gauges(), NOTHING_HELD)
    t.ok(alarms(subject.lines).length >= 5, 'each is logged')
    t.strictSame(subject.lines.filter(({ msg }) => /already sent/i.test(msg)), [], 'each is answered once')
  })
}

// ---- the age of streams

test('2025-11-25: the stream of a call ends at its maximum age with a hint to come back, and goes on at the next one: case 012', async t => {
  const go = gate()
  const subject = await stage(t, tool(async channel => {
    channel.sendProgress(1)
    await go.promise
  }), { legacy: { maxStreamAge: 60, retry: 7 } })
  const session = await open(subject.app)
  const started = performance.now()
  const first = await read(t, subject.port, 'POST', session.compose('tools/call', WITH_TOKEN))
  const [prime, progress, hint, ...more] = await first.rest()
  const took = performance.now() - started
  t.match([prime, progress], [{ id: /_0$/, data: '' }, { id: /_1$/, data: /"progress":1/ }])
  t.strictSame([hint, ...more], [{ retry: 7 }])
  t.ok(first.response.complete, 'it was ended, and not reset')
  t.ok(took > 50, `it was open for ${took} ms`)
  const second = await readStream(t, subject.port, session, progress?.id)
  t.strictSame(await second.rest(), [{ retry: 7 }], 'which has a maximum age too')
  const third = await readStream(t, subject.port, session, progress?.id)
  go.open()
  t.match(messagesIn(await third.rest()), [{ id: 1, result: done }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

for (const version of ['2025-06-18', '2025-03-26'] as const) {
  test(`${version}: the stream of a call is not ended before its answer, whatever its age (LEG-40)`, async t => {
    const subject = await stage(t, tool(async channel => {
      channel.sendProgress(1)
      await delay(60)
    }), { legacy: { maxStreamAge: 10 } })
    const session = await open(subject.app, version)
    const reading = await read(t, subject.port, 'POST', session.compose('tools/call', WITH_TOKEN))
    t.match(messagesIn(await reading.rest()), [{ method: 'notifications/progress' }, { id: 1, result: done }])
  })
}

test('a stream that has ended, or lost its connection, leaves no timer of its age behind', async t => {
  const held = watchTimers(t, 3_000_000)
  const go = gate()
  const subject = await stage(t, tool(async (channel, { wait }) => {
    channel.startStream()
    if (wait === true) await go.promise
  }), { legacy: { maxStreamAge: 3_600_000 } })
  const session = await open(subject.app)
  await (await read(t, subject.port, 'POST', session.compose('tools/call', TOOL))).closed
  t.equal(held.size, 0)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', { name: 'tool', arguments: { wait: true } }, { id: 2 }))
  await until(() => held.size === 1)
  await reading.drop()
  await until(() => held.size === 0)
  go.open()
  await subject.ended(3)
  t.equal(held.size, 0)
})

/** The timers of at least so many ms that are set and not cleared while the test runs. */
function watchTimers (t: Test, ms: number): ReadonlySet<unknown> {
  const { setTimeout, clearTimeout } = globalThis
  const held = new Set<unknown>()
  globalThis.setTimeout = ((work: () => void, after: number) => {
    const timer = setTimeout(work, after)
    if (after >= ms) held.add(timer)
    return timer
  }) as typeof setTimeout
  globalThis.clearTimeout = timer => {
    held.delete(timer)
    clearTimeout(timer)
  }
  t.teardown(() => { Object.assign(globalThis, { setTimeout, clearTimeout }) })
  return held
}

// ---- responses that wait behind another one

test('a call whose response waits behind another one goes on when the connection is lost, and nothing of it is left', async t => {
  const go = gate()
  const subject = await stage(t, tool(async (channel, { first }) => {
    if (first === true) channel.startStream()
    await go.promise
    if (first !== true) channel.sendProgress(1)
  }), { streamAfter: 0 })
  const session = await open(subject.app)
  const wire = await openWire(t, subject.port)
  wire.send(session.compose('tools/call', { name: 'tool', arguments: { first: true } }, { id: 1 }))
  wire.send(session.compose('tools/call', WITH_TOKEN, { id: 2 }))
  await until(() => subject.gauges().exchanges === 2)
  wire.socket.resetAndDestroy()
  await wire.closed
  await delay(10)
  go.open()
  t.match(await subject.ended(3), [{}, { cause: 'result' }, { cause: 'result' }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
  await within(subject.app.close(), 'the end of the app', 3_000)
})

test('two calls on one connection are answered in their order', async t => {
  const go = gate()
  const subject = await stage(t, tool(async (channel, { first }) => {
    channel.startStream()
    if (first === true) await go.promise
  }))
  const session = await open(subject.app)
  const wire = await openWire(t, subject.port)
  wire.send(session.compose('tools/call', { name: 'tool', arguments: { first: true } }, { id: 1 }))
  wire.send({ ...session.compose('tools/call', TOOL, { id: 2, headers: { connection: 'close' } }) })
  await subject.ended(2)
  go.open()
  await wire.closed
  const second = wire.text.lastIndexOf('HTTP/1.1 200')
  t.match(bodyOf(wire.text.slice(0, second)), /"id":1,"result"/)
  t.match(bodyOf(wire.text.slice(second)), /"id":2,"result"/)
})

test('initialize is answered as JSON where that is taken, and else as a stream without ids', async t => {
  const { app } = await stage(t, tool(() => {}), IN_PROCESS)
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } }
  const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
  t.match(await send(app, body), { statusCode: 200, headers: { 'content-type': /^application\/json/, 'mcp-session-id': /./ } })
  const streamed = await send(app, body, { accept: 'text/event-stream' })
  t.match(streamed, { statusCode: 200, headers: { 'content-type': 'text/event-stream', 'mcp-session-id': /./ } })
  t.match(streamed.body, /^data: \{"jsonrpc":"2.0","id":1,"result":\{.*\}\n\n$/)
})
