import { test } from 'tap'
import { result, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { call } from '../helpers/mount.js'
import { bareServer, toolServer } from '../helpers/servers.js'
import { gate, NOTHING_HELD, stage, until } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'

const tool = { name: 'tool', arguments: {} }
const done = () => result(toolResult.text('done'))
const listenTo = { notifications: { toolsListChanged: true } }
const tooMany = { code: -32603, message: 'Too many requests at a time' }
const tooLong = { code: -32603, message: 'The request took too long' }

// SEC-06: requests at a time.
test('past maxConcurrent a request is 503 with Retry-After, and no callback runs', async t => {
  const { promise, open } = gate()
  let begun = 0
  const { app, gauges, ends } = await stage(t, bareServer(async () => {
    begun++
    await promise
    return done()
  }), { listen: false, limits: { maxConcurrent: 2 } })
  const running = [call(app, 'tools/call', tool), call(app, 'tools/call', tool)]
  await until(() => begun === 2)
  t.match(gauges(), { exchanges: 2, listens: 0 })

  const refused = await call(app, 'tools/call', tool, { id: 'third' })
  t.equal(refused.statusCode, 503)
  t.equal(refused.headers['retry-after'], '1')
  t.strictSame(refused.json(), { jsonrpc: '2.0', id: 'third', error: tooMany })
  t.equal(begun, 2)
  t.equal((await call(app, 'notifications/cancelled', { requestId: 1 }, { id: undefined })).statusCode, 202, 'a notification is no request')

  open()
  t.strictSame((await Promise.all(running)).map(({ statusCode }) => statusCode), [200, 200])
  t.equal((await call(app, 'tools/call', tool)).statusCode, 200, 'there is room again')
  t.equal(ends.filter(({ method }) => method === 'tools/call').length, 3, 'what was refused was no exchange')
})

test('a request counts until its clean-ups have run', async t => {
  const { promise, open } = gate()
  const { app, ended } = await stage(t, toolServer((_request, channel) => {
    channel.defer(async () => { await promise })
    return done()
  }), { listen: false, limits: { maxConcurrent: 1 } })
  t.equal((await call(app, 'tools/call', tool)).statusCode, 200)
  t.equal((await call(app, 'tools/call', tool)).statusCode, 503)
  open()
  await ended()
  t.equal((await call(app, 'tools/call', tool)).statusCode, 200)
})

// SEC-06: streams.
test('past maxStreams a listen is 503 with Retry-After; calls and listens do not count as each other', async t => {
  const { promise, open } = gate()
  const { app, ended, gauges } = await stage(t, bareServer<number>(async request => {
    if (request.method === 'subscriptions/listen') return stream(1)
    await promise
    return done()
  }), { limits: { maxStreams: 1, maxConcurrent: 1 } })
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const listening = await client.open('subscriptions/listen', listenTo)
  await take(listening, 1)
  t.match(gauges(), { exchanges: 1, listens: 1 })
  const running = client.request('tools/call', tool)
  await until(() => gauges().exchanges === 2)

  const refused = await client.request('subscriptions/listen', listenTo)
  t.equal(refused.statusCode, 503)
  t.match(refused.headers, { 'retry-after': '1' })
  t.strictSame(refused.error, tooMany)
  open()
  t.equal((await running).statusCode, 200)

  listening.vanish()
  await ended(2)
  const again = await client.open('subscriptions/listen', listenTo)
  await take(again, 1)
  again.vanish()
  await ended(3)
  t.strictSame(gauges(), NOTHING_HELD)
})

// SEC-06: request duration. CAN-08.
test('past maxDuration a request that hangs is aborted and answered with an error', async t => {
  let signal: AbortSignal | undefined
  const { app, ended } = await stage(t, toolServer(async (_request, channel) => {
    signal = channel.signal
    await new Promise<void>(resolve => { channel.signal.addEventListener('abort', () => { resolve() }) })
    return done()
  }), { listen: false, limits: { maxDuration: 20 } })
  const response = await call(app, 'tools/call', tool)
  t.equal(response.statusCode, 200)
  t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: tooLong })
  t.match(signal?.reason, { name: 'AbortError', cause: { cause: 'timeout' } })
  t.match(await ended(), [{ cause: 'timeout', streamed: false }])
})

// CAN-08
test('progress does not extend the time limit', async t => {
  const { app, ends } = await stage(t, toolServer<number, number>((_request, channel) => {
    let step = 0
    channel.every(5, () => ++step)
    return stream(1)
  }, {
    handleMessage: (step, channel) => {
      channel.sendProgress(step)
      return stream(1)
    }
  }), { listen: false, limits: { maxDuration: 60 } })
  const { statusCode, error, notifications } = await createTestClient(app).request('tools/call', tool, { progressToken: 'p' })
  t.equal(statusCode, 200)
  t.strictSame(error, tooLong)
  t.ok(notifications.length > 0)
  t.match(ends, [{ cause: 'timeout', streamed: true }])
})

test('maxDuration spares listens', async t => {
  const { app, ended } = await stage(t, bareServer<number, string>((_request, channel) => {
    channel.after(60, 'end')
    return stream(1)
  }, { handleMessage: (_message, channel) => { channel.close(); return stream(1) } }), { listen: false, limits: { maxDuration: 5 } })
  t.match(await createTestClient(app).request('subscriptions/listen', listenTo), { result: { resultType: 'complete' } })
  t.match(await ended(), [{ cause: 'closed' }])
})

test('a request that is over in time leaves no timer behind', async t => {
  const { app, ends } = await stage(t, toolServer(async () => { await null; return done() }), { listen: false, limits: { maxDuration: 10 } })
  t.equal((await call(app, 'tools/call', tool)).statusCode, 200)
  await new Promise(resolve => { setTimeout(resolve, 30) })
  t.match(ends, [{ cause: 'result' }])
  t.equal(ends.length, 1)
})

// ---- what keeps a long call alive

test('a heartbeat sends increasing progress while a call with a token is silent, and stops at the result: case 029', async t => {
  const { promise, open } = gate()
  const { app, ends } = await stage(t, toolServer(async () => { await promise; return done() }), { heartbeat: 10 })
  const client = createTestClient(app)
  const opened = await client.open('tools/call', tool, { progressToken: 'p' })
  const beats = await take(opened, 3)
  open()
  const { notifications, result: answer, headers } = await opened.answer
  const progress = notifications.map(({ params }) => (params as { progress: number }).progress)
  t.match(headers, { 'content-type': /^text\/event-stream/ })
  t.ok(progress.length >= 3)
  t.strictSame(progress, [...new Set(progress)].sort((a, b) => a - b), 'strictly increasing')
  t.ok(progress.every(value => value > -1 && value < 0), 'so that the 0 of an author is an increase still')
  t.match(beats, [{ method: 'notifications/progress', params: { progressToken: 'p' } }])
  t.match(answer, { content: [{ text: 'done' }] })
  t.equal(ends[0]?.events, progress.length + 1)
  await client.close()
})

test('without a token, or on a listen, there is no heartbeat: case 029', async t => {
  const { app } = await stage(t, bareServer<number, string>((_request, channel) => {
    channel.after(60, 'end')
    return stream(1)
  }, {
    handleMessage: (_message, channel) => {
      if (channel.request.method === 'tools/call') return done()
      channel.close()
      return stream(1)
    }
  }), { listen: false, heartbeat: 5 })
  const client = createTestClient(app)
  t.strictSame((await client.request('tools/call', tool)).notifications, [])
  const { notifications } = await client.request('subscriptions/listen', listenTo, { progressToken: 'p' })
  t.strictSame(notifications.map(({ method }) => method), ['notifications/subscriptions/acknowledged'])
})

test('a heartbeat stops at the author\'s first own progress', async t => {
  for (const first of ['before it waits', 'after some beats', 'refused']) {
    const { app } = await stage(t, toolServer(async (_request, channel) => {
      if (first === 'after some beats') await new Promise(resolve => { setTimeout(resolve, 40) })
      channel.sendProgress(first === 'refused' ? NaN : 1)
      await new Promise(resolve => { setTimeout(resolve, 40) })
      return done()
    }), { listen: false, heartbeat: 10 })
    const { notifications } = await createTestClient(app).request('tools/call', tool, { progressToken: 'p' })
    const progress = notifications.map(({ params }) => (params as { progress: number }).progress)
    if (first === 'refused') t.strictSame(progress, [])
    else t.equal(progress.at(-1), 1, first)
    if (first === 'before it waits') t.strictSame(progress, [1])
    if (first === 'after some beats') t.ok(progress.length > 1)
  }
})

test('a fast call is JSON, one that reports progress is a stream, and a client that takes JSON only gets JSON: case 028', async t => {
  const { app } = await stage(t, toolServer(({ params: { name } }, channel) => {
    if (name === 'progress') channel.sendProgress(1)
    return done()
  }), { listen: false })
  const client = createTestClient(app, { progressToken: 'p' })
  const type = async (name: string, accept?: string) => {
    const options = accept === undefined ? {} : { headers: { accept } }
    const { headers, notifications, result: answer } = await client.request('tools/call', { name, arguments: {} }, options)
    t.match(answer, { content: [{ text: 'done' }] })
    return [headers['content-type']?.split(';')[0], notifications.length]
  }
  t.strictSame(await type('fast'), ['application/json', 0])
  t.strictSame(await type('progress'), ['text/event-stream', 1])
  t.strictSame(await type('progress', 'application/json'), ['application/json', 0])
  t.strictSame(await type('fast', 'text/event-stream'), ['text/event-stream', 0])
})

test('a call that is silent for streamAfter becomes a stream, unless the client takes JSON only: case 028', async t => {
  const { app } = await stage(t, toolServer(async () => {
    await new Promise(resolve => { setTimeout(resolve, 60) })
    return done()
  }), { listen: false, streamAfter: 10 })
  const client = createTestClient(app)
  const streamed = await client.request('tools/call', tool)
  t.match(streamed, { statusCode: 200, headers: { 'content-type': /^text\/event-stream/ }, result: { content: [{ text: 'done' }] } })
  const json = await client.request('tools/call', tool, { headers: { accept: 'application/json' } })
  t.match(json, { statusCode: 200, headers: { 'content-type': /^application\/json/ }, result: { content: [{ text: 'done' }] } })
})

test('the head of a silent call reaches the client long before its answer, and keep-alive comments follow: case 028', async t => {
  const { promise, open } = gate()
  const { app } = await stage(t, toolServer(async () => { await promise; return done() }), { streamAfter: 10, keepAlive: 10 })
  const client = createTestClient(app)
  const opened = await client.open('tools/call', tool)
  t.match(await opened.head, { statusCode: 200, headers: { 'content-type': /^text\/event-stream/ } })
  while (opened.comments < 2) await new Promise(resolve => { setTimeout(resolve, 5) })
  open()
  t.match(await opened.answer, { notifications: [], result: { content: [{ text: 'done' }] } })
  await client.close()
})

test('with streamAfter 0 a silent call stays JSON, however long it takes', async t => {
  const { app } = await stage(t, toolServer(async () => {
    await new Promise(resolve => { setTimeout(resolve, 50) })
    return done()
  }), { listen: false, streamAfter: 0 })
  t.match((await call(app, 'tools/call', tool)).headers['content-type'], /^application\/json/)
})

test('errors of a call that became a stream are events', async t => {
  const { app, ends } = await stage(t, toolServer(async () => {
    await new Promise(resolve => { setTimeout(resolve, 40) })
    throw new Error('secret')
  }), { listen: false, streamAfter: 10 })
  const { statusCode, headers, error } = await createTestClient(app).request('tools/call', tool)
  t.equal(statusCode, 200)
  t.match(headers, { 'content-type': /^text\/event-stream/ })
  t.strictSame(error, { code: -32603, message: 'Internal error' })
  t.match(ends, [{ cause: 'crash', statusCode: 200, streamed: true }])
})
