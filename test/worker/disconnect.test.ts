import { Agent, request as httpRequest } from 'node:http'
import { test } from 'tap'
import { fail, listToolsResult, result, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { call } from '../helpers/mount.js'
import { bareServer, toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, openSession, openWire, post, postCall, sendHttp2, stage, until } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import type { Channel, ExchangeEnd, SendStatus } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }
const done = () => result(toolResult.text('done'))

async function aborted (signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise<void>(resolve => { signal.addEventListener('abort', () => { resolve() }, { once: true }) })
}

// CAN-01, rules 81 and 91
test('a client that closes its connection cancels its request, before a JSON answer and in a stream: case 015', async t => {
  for (const streams of [false, true]) {
    const begun = gate()
    const { app, ended } = await stage(t, toolServer(async (_request, channel) => {
      if (streams) channel.startStream()
      begun.open()
      await aborted(channel.signal)
      return done()
    }))
    const client = createTestClient(app)
    const opened = await client.open('tools/call', tool)
    await begun.promise
    opened.vanish()
    t.match(await ended(), [{ cause: 'disconnect', streamed: streams, events: 0 }])
  }
})

test('a normal finish does not abort the signal, then or later: case 015', async t => {
  const signals: AbortSignal[] = []
  const { app, ended } = await stage(t, toolServer((_request, channel) => {
    signals.push(channel.signal)
    return done()
  }))
  const client = createTestClient(app)
  for (const headers of [{}, { connection: 'close' }]) {
    const opened = await client.open('tools/call', tool, { headers })
    // CAN-04
    t.match(await opened.answer, { statusCode: 200, result: { content: [{ text: 'done' }] } })
    opened.vanish()
  }
  t.match(await ended(2), [{ cause: 'result' }, { cause: 'result' }])
  await client.close()
  t.strictSame(signals.map(({ aborted }) => aborted), [false, false])
})

// M8, rule 88
test('the signal aborts in the same turn as the close, also while a callback runs, and says why', async t => {
  const running = gate<Channel>()
  const exchange = testExchange(toolServer(async (_request, channel) => {
    running.open(channel)
    await aborted(channel.signal)
    return done()
  }), 'tools/call', tool)
  const { signal } = await running.promise
  t.equal(signal.aborted, false)
  exchange.disconnect()
  t.equal(signal.aborted, true)

  t.equal(signal.reason.name, 'AbortError')
  t.ok(signal.reason instanceof Error)
  const { cause, method, name } = signal.reason.cause as ExchangeEnd
  t.strictSame({ cause, method, name }, { cause: 'disconnect', method: 'tools/call', name: 'tool' })
  await exchange.ended
})

// M8
test('a signal that is first asked for after the close has aborted', async t => {
  const running = gate<Channel>()
  const { promise, open } = gate()
  const exchange = testExchange(toolServer(async (_request, channel) => {
    running.open(channel)
    await promise
    return done()
  }), 'tools/call', tool)
  const channel = await running.promise
  exchange.disconnect()
  t.ok(channel.signal.aborted)
  t.match(channel.signal.reason, { name: 'AbortError', cause: { cause: 'disconnect' } })
  open()
  await exchange.ended
  t.equal(channel.closed, true)
})

test('a client that leaves during a notification: its handler runs on, and the exchange has ended once', async t => {
  const begun = gate<AbortSignal>()
  const order: string[] = []
  const { ended, ends, port, lines } = await stage(t, {
    handleRequest: done,
    handleNotification: async (_notification, context) => {
      context.defer(() => { order.push('clean-up') })
      begun.open(context.signal)
      await aborted(context.signal)
      order.push('handler')
    },
    handleClose: () => { order.push('handleClose') }
  })
  const wire = await openWire(t, port)
  const { headers, payload } = post('notifications/cancelled', { requestId: 1 })
  wire.send({ headers, payload: payload.replace('"id":1,', '') })
  await begun.promise
  wire.socket.destroy()
  t.match(await ended(), [{ cause: 'disconnect', requestId: null }])
  t.strictSame(order, ['handler', 'clean-up'], 'there is no live state')
  t.equal(ends.length, 1)
  t.strictSame(alarms(lines), [])
})

// CAN-02, rules 66 and 82
test('after the client has left nothing more is sent, and every send says closed: case 017', async t => {
  const statuses: (SendStatus | boolean)[] = []
  const sent = gate()
  const { app, ended, lines, ends } = await stage(t, toolServer(async (_request, channel) => {
    channel.sendProgress(1)
    sent.open()
    await aborted(channel.signal)
    // Without waiting, as a careless handler does.
    statuses.push(
      channel.sendProgress(2), channel.sendLog('error', 'text'), channel.sendNotification({ method: 'notifications/tools/list_changed' }),
      channel.acknowledge(), channel.startStream(), channel.close()
    )
    await channel.drained()
    t.throws(() => { channel.header('x-late', '1') }, { code: 'MCP_ERR_HEAD_SENT' })
    return done()
  }))
  const client = createTestClient(app, { progressToken: 'p', logLevel: 'debug' })
  const opened = await client.open('tools/call', tool)
  await take(opened, 1)
  opened.vanish()
  t.match(await ended(), [{ cause: 'disconnect', events: 1 }])
  t.strictSame(statuses, ['closed', 'closed', 'closed', 'closed', false, false])
  t.strictSame(alarms(lines), [])

  t.match(await client.request('tools/list', {}), { error: { code: -32601 } }, 'the process serves on')
  t.equal(ends.length, 2)
})

test('progress that a timer goes on to send harms nobody: case 017', async t => {
  const { app, ended, lines } = await stage(t, toolServer<number, string>((_request, channel) => {
    let progress = 0
    const timer = setInterval(() => { channel.sendProgress(++progress) }, 2)
    t.teardown(() => { clearInterval(timer) })
    return stream(1)
  }))
  const client = createTestClient(app, { progressToken: 'p' })
  const opened = await client.open('tools/call', tool)
  await take(opened, 2)
  opened.vanish()
  await ended()
  await new Promise(resolve => { setTimeout(resolve, 20) })
  t.strictSame(alarms(lines), [])
  t.equal((await call(app, 'tools/list')).statusCode, 404)
})

// CAN-03
test('when the client leaves, sources stop, nested work is told, and nothing is held any more', async t => {
  const told = gate()
  const { app, ended, gauges } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.every(60_000, () => 'tick')
    channel.after(60_000, 'late')
    channel.watch(async signal => { await aborted(signal); told.open() }, () => 'never')
    return stream(1)
  }, { handleMessage: () => stream(1) }), { keepAlive: 60_000 })
  const opened = await createTestClient(app).open('tools/call', tool)
  await opened.head
  t.match(gauges(), { exchanges: 1, streams: 1, sources: 3, timers: 3 })
  opened.vanish()
  await told.promise
  await ended()
  t.strictSame(gauges(), NOTHING_HELD)
})

// CAN-05
test('on one HTTP/2 connection the reset of one request leaves the others alone', async t => {
  const { promise, open } = gate()
  const aborts: unknown[] = []
  let begun = 0
  const { ended, port } = await stage(t, toolServer(async ({ params }, channel) => {
    channel.signal.addEventListener('abort', () => { aborts.push(params.arguments['n']) })
    channel.startStream()
    begun++
    await promise
    return done()
  }), { fastify: { http2: true } })
  const session = await openSession(t, `http://127.0.0.1:${port}`)
  const responses = [1, 2, 3].map(n => sendHttp2(session, postCall({ n }, { id: n })))
  await until(() => begun === 3)
  responses[1]?.stream.close(8)
  await until(() => aborts.length === 1)
  open()
  await responses[0]?.received('"id":1')
  await responses[2]?.received('"id":3')
  await ended(3)
  t.strictSame(aborts, [2])
})

// CAN-06
test('a cancelled notification is accepted and ignored, whatever id it names: case 016', async t => {
  const { promise, open } = gate()
  const begun = gate<AbortSignal>()
  const { app } = await stage(t, toolServer(async (_request, channel) => {
    begun.open(channel.signal)
    await promise
    return done()
  }), { listen: false })
  const running = call(app, 'tools/call', tool, { id: 5 })
  const signal = await begun.promise
  for (const requestId of [5, '5', 'unheard of']) {
    const { statusCode, body } = await call(app, 'notifications/cancelled', { requestId }, { id: undefined })
    t.equal(statusCode, 202)
    t.equal(body, '')
  }
  t.equal(signal.aborted, false)
  open()
  t.match((await running).json(), { id: 5, result: {} })
})

test('closing the stream is what cancels: case 016', async t => {
  const { app, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.startStream()
    return stream(1)
  }))
  const opened = await createTestClient(app).open('tools/call', tool)
  await opened.head
  opened.vanish()
  t.match(await ended(), [{ cause: 'disconnect' }])
})

// CAN-07
test('no stream ever has a cancelled notification, however it ends', async t => {
  const { app, ended, port } = await stage(t, bareServer<number, string>((request, channel) => {
    const how = request.method === 'tools/call' ? request.params.name : 'listen'
    channel.after(0, how)
    return stream(1)
  }, {
    handleMessage: (how, channel) => {
      if (how === 'listen') return channel.close() ? stream(1) : fail('closed already')
      if (how === 'crash') throw new Error('broken')
      if (how === 'close') channel.close()
      return how === 'fail' ? fail('no') : how === 'result' ? done() : stream(1)
    }
  }), { limits: { maxDuration: 50 } })
  const bodies = await Promise.all([
    ...['result', 'fail', 'crash', 'close', 'time out'].map(async name => (await call(app, 'tools/call', { name, arguments: {} })).body),
    call(app, 'subscriptions/listen', { notifications: { toolsListChanged: true } }).then(({ body }) => body)
  ])
  const wire = await openWire(t, port)
  wire.send(postCall())
  await wire.received('text/event-stream')
  wire.socket.destroy()
  await ended(7)
  await wire.closed
  t.match(bodies.join(''), /^data: /m)
  t.notMatch(bodies.join('') + wire.text, /notifications\/cancelled/)
})

// CAN-09
test('a client that leaves at any moment ends its exchange once', async t => {
  const count = 120
  const { app, ends, ended, gauges, lines } = await stage(t, toolServer<number, number>(async ({ params }, channel) => {
    const n = params.arguments['n'] as number
    channel.every(1, () => 1)
    channel.consume([1, 2, 3], { next: item => item })
    for (let turn = 0; turn < n % 5; turn++) await new Promise(resolve => { setImmediate(resolve) })
    return n % 3 === 0 ? done() : stream(n)
  }, {
    handleMessage: async (step, channel, live) => {
      channel.sendProgress(live + step)
      await channel.drained()
      return live % 4 === 0 ? done() : stream(live + 1)
    }
  }))
  const client = createTestClient(app, { progressToken: 'p' })
  const answers = await Promise.allSettled(Array.from({ length: count }, async (_, n) => {
    const opened = await client.open('tools/call', { name: 'tool', arguments: { n } })
    if (n % 4 === 0) await opened.head
    if (n % 8 === 0) await opened.answer
    else if (n % 2 === 0) setTimeout(() => { opened.vanish() }, n % 7)
    else setImmediate(() => { opened.vanish() })
    await opened.answer
  }))
  t.ok(answers.some(({ status }) => status === 'fulfilled'))
  t.ok(answers.some(({ status }) => status === 'rejected'))
  await ended(answers.filter(({ status }) => status === 'fulfilled').length)
  await until(() => gauges().exchanges === 0)
  t.strictSame(gauges(), NOTHING_HELD)
  t.ok(ends.length <= count)
  t.ok(ends.every(({ cause }) => cause === 'result' || cause === 'disconnect'), String(new Set(ends.map(({ cause }) => cause))))
  t.strictSame(alarms(lines), [])
})

// CAN-10, M9
test('a handler that ignores the signal is detached: its result is discarded and its sends are no-ops', async t => {
  const { promise, open } = gate()
  const begun = gate<Channel>()
  const late: SendStatus[] = []
  let cleaned = 0
  const { app, ended, ends, lines, gauges } = await stage(t, toolServer(async (_request, channel) => {
    channel.defer(() => { cleaned++ })
    channel.sendProgress(1)
    begun.open(channel)
    await promise
    late.push(channel.sendProgress(2))
    return done()
  }))
  const opened = await createTestClient(app, { progressToken: 'p' }).open('tools/call', tool)
  await take(opened, 1)
  opened.vanish()
  const channel = await begun.promise
  await until(() => channel.closed)
  t.strictSame([cleaned, ends.length, gauges().exchanges], [0, 0, 1], 'it runs on')
  open()
  t.match(await ended(), [{ cause: 'disconnect', events: 1 }])
  t.strictSame(late, ['closed'])
  t.equal(cleaned, 1)
  t.strictSame(alarms(lines), [])
})

// M9
test('what a callback throws after the client has left is nobody\'s fault any more', async t => {
  const begun = gate()
  const { app, ended, lines } = await stage(t, toolServer(async (_request, channel) => {
    begun.open()
    await aborted(channel.signal)
    throw channel.signal.reason
  }))
  const opened = await createTestClient(app).open('tools/call', tool)
  await begun.promise
  opened.vanish()
  t.match(await ended(), [{ cause: 'disconnect' }])
  t.strictSame(alarms(lines), [])
})

test('a call that is aborted is told of once, with its duration: case 022', async t => {
  const begun = gate()
  const told: ExchangeEnd[] = []
  const { app, ended } = await stage(t, toolServer(async (_request, channel) => {
    begun.open()
    await aborted(channel.signal)
    return done()
  }), { onEnd: end => { told.push(end) } })
  const client = createTestClient(app)
  const opened = await client.open('tools/call', tool)
  await begun.promise
  opened.vanish()
  await ended()
  await client.close()
  await new Promise(resolve => { setTimeout(resolve, 20) })
  t.match(told, [{ cause: 'disconnect', reason: undefined, method: 'tools/call', name: 'tool' }])
  t.equal(told.length, 1)
  t.ok((told[0]?.durationMs ?? 0) > 0)
})

// M21, rule 68
test('a late send of a finished request reaches nobody on a socket that is used again', async t => {
  const first = gate<Channel<string>>()
  const second = gate()
  const { port } = await stage(t, toolServer<number, string>(async ({ params }, channel) => {
    if (params.arguments['n'] === 1) {
      first.open(channel)
      return done()
    }
    channel.sendProgress(1)
    await second.promise
    return done()
  }))
  const wire = await openWire(t, port)
  wire.send(postCall({ n: 1 }, { id: 'first' }))
  await wire.received('"id":"first"')
  wire.take()

  wire.send(postCall({ n: 2 }, { id: 'second' }))
  await wire.received('"progress":1')
  const late = await first.promise
  t.equal(late.sendProgress(99), 'closed')
  t.equal(late.sendLog('emergency', 'late'), 'closed')
  t.equal(late.ref.post('late'), 'closed')
  t.equal(late.startStream(), false)
  t.equal(late.close(), false)
  second.open()
  const text = await wire.received('"id":"second"')
  t.notMatch(text, /99|late|"first"/)
})

// ---- a request knows of no other (STL)

test('nothing is inferred from an earlier request on the same connection', async t => {
  const seen: unknown[] = []
  const { port } = await stage(t, toolServer(({ meta }, channel) => {
    seen.push([meta.clientInfo?.name, channel.sendProgress(1), channel.sendLog('error', 'x')])
    channel.requireCapability({ elicitation: { form: {} } })
    return done()
  }))
  const wire = await openWire(t, port)
  wire.send(postCall({}, {
    id: 'first',
    meta: {
      'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
      'io.modelcontextprotocol/clientInfo': { name: 'first client', version: '1' },
      'io.modelcontextprotocol/logLevel': 'debug'
    }
  }))
  await wire.received('"id":"first"')
  t.match(wire.take(), /"result"/)

  wire.send(postCall({}, { id: 'second' }))
  // STL-01
  t.match(await wire.received('"id":"second"'), /-32021/)
  t.strictSame(seen, [['first client', 'sent', 'sent'], [undefined, 'sent', 'filtered']])
})

// STL-03, STL-04
test('requests of several clients that have one id are interleaved and get their own answers', async t => {
  const all = gate()
  let begun = 0
  const { app } = await stage(t, toolServer<string, string>(async ({ params, meta }, channel) => {
    channel.ref.post(`${params.arguments['n']} ${Object.keys(meta.clientCapabilities).join()}`)
    if (++begun === 20) all.open()
    await all.promise
    return stream('live')
  }, { handleMessage: message => result(toolResult.text(message)) }), { listen: false })
  const answers = await Promise.all(Array.from({ length: 20 }, async (_, n) => {
    const meta = n % 2 === 0 ? {} : { 'io.modelcontextprotocol/clientCapabilities': { roots: {} } }
    return (await call(app, 'tools/call', { name: 'tool', arguments: { n } }, { id: 1, meta })).body
  }))
  for (const [n, body] of answers.entries()) t.match(body, new RegExp(`"id":1,"result":.*"text":"${n} ${n % 2 === 0 ? '' : 'roots'}"`))
})

// STL-05
test('a list is the same on every connection, before and after other calls', async t => {
  const { port } = await stage(t, bareServer((request, channel) => {
    if (request.method === 'tools/list') return result(listToolsResult([{ name: 'a', inputSchema: { type: 'object' } }]))
    channel.sendProgress(1)
    return done()
  }))
  const agents = [new Agent({ keepAlive: true, maxSockets: 1 }), new Agent({ keepAlive: true, maxSockets: 1 })]
  t.teardown(() => { for (const agent of agents) agent.destroy() })
  const lists: string[] = []
  for (const agent of agents) {
    for (const method of ['tools/list', 'tools/call', 'tools/list', 'resources/list', 'tools/list']) {
      const body = await send(agent, port, method)
      if (method === 'tools/list') lists.push(body)
    }
  }
  t.equal(lists.length, 6)
  t.equal(new Set(lists).size, 1)
})

async function send (agent: Agent, port: number, method: string): Promise<string> {
  const { headers, payload } = post(method, method === 'tools/call' ? tool : {}, { meta: { progressToken: 'p' } })
  return await new Promise((resolve, reject) => {
    httpRequest({ agent, port, host: '127.0.0.1', path: '/mcp', method: 'POST', headers }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => { text += chunk }).on('end', () => { resolve(text) }).on('error', reject)
    }).on('error', reject).end(payload)
  })
}

// STL-06
test('what a listen has agreed on lives and dies with its request', async t => {
  const channels: Channel<string>[] = []
  const { app, ended, gauges } = await stage(t, bareServer<number, string>((_request, channel) => {
    channels.push(channel)
    return stream(1)
  }))
  const client = createTestClient(app)
  const first = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  await take(first, 1)
  first.vanish()
  await ended()
  t.strictSame(gauges(), NOTHING_HELD)

  const second = await client.open('subscriptions/listen', { notifications: { promptsListChanged: true } })
  t.match(await take(second, 1), [{ params: { notifications: { promptsListChanged: true, toolsListChanged: undefined } } }])
  t.equal(channels[0]?.sendNotification({ method: 'notifications/tools/list_changed' }), 'closed')
  t.equal(channels[1]?.sendNotification({ method: 'notifications/tools/list_changed' }), 'filtered')
  second.vanish()
  await ended(2)
})
