import { test } from 'tap'
import { result, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import { bareServer, info, toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, stage, type Stage } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import type { ExchangeRef } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }
const done = () => result(toolResult.text('done'))
const shuttingDown = { code: -32603, message: 'The server is shutting down' }
const never = new Promise<never>(() => {})

// M20, rule 104
test('a shutdown closes a stream that waits for a message at once, with an error event', async t => {
  const closes: unknown[] = []
  const { app, ends } = await stage(t, toolServer<string, string>(() => stream('live'), {
    handleClose: (_context, live, reason) => { closes.push([live, reason]) }
  }), { limits: { drain: 60_000 } })
  const opened = await createTestClient(app).open('tools/call', tool)
  await opened.head
  await app.close()
  t.match(await opened.answer, { statusCode: 200, error: shuttingDown })
  t.match(ends, [{ cause: 'shutdown', streamed: true, events: 1 }])
  t.strictSame(closes, [['live', 'shutdown']])
})

test('a shutdown ends a listen with its result, also one that the server was not asked about', async t => {
  for (const rest of [{}, { info, capabilities: {} }]) {
    const { app, ends } = await stage(t, bareServer<string, string>(() => stream('live'), rest), { limits: { drain: 60_000 } })
    const opened = await createTestClient(app).open('subscriptions/listen', { notifications: { toolsListChanged: true } })
    await take(opened, 1)
    await app.close()
    t.match(await opened.answer, { result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } } })
    t.match(ends, [{ cause: 'shutdown', events: 2 }])
  }
})

/** Opens a stream that waits for a message, and gives a function that shuts the app down: it resolves when the shutdown has reached the mount. */
async function shutdownOf ({ app, ended }: Stage, client: TestClient) {
  const waiting = await client.open('tools/call', { name: 'waits', arguments: {} })
  await waiting.head
  return async () => {
    const closed = app.close()
    await ended()
    return { closed }
  }
}

// M20
test('a callback that runs may return, and is answered', async t => {
  for (const streams of [false, true]) {
    const { promise, open } = gate()
    const begun = gate<AbortSignal>()
    const staged = await stage(t, toolServer<string, string>(async ({ params: { name } }, channel) => {
      if (name === 'waits') return stream('live')
      channel.ref.post('go')
      if (streams) return stream('live')
      begun.open(channel.signal)
      await promise
      return done()
    }, {
      handleMessage: async (_message, { signal }) => {
        begun.open(signal)
        await promise
        return done()
      }
    }), { limits: { drain: 60_000 } })
    const client = createTestClient(staged.app)
    const shutdown = await shutdownOf(staged, client)
    const opened = await client.open('tools/call', tool)
    const signal = await begun.promise
    const { closed } = await shutdown()
    t.equal(signal.aborted, false)
    open()
    t.match(await opened.answer, { result: { content: [{ text: 'done' }] } })
    await closed
    t.match(staged.ends, [{ cause: 'shutdown', name: 'waits' }, { cause: 'result', streamed: streams }])
  }
})

// M20
test('a handler that returns stream() during a shutdown does not wait for messages any more', async t => {
  const { promise, open } = gate()
  const begun = gate()
  const staged = await stage(t, toolServer<string, string>(async ({ params: { name } }) => {
    if (name === 'waits') return stream('live')
    begun.open()
    await promise
    return stream('live')
  }, { handleMessage: done }), { limits: { drain: 6_000 } })
  const client = createTestClient(staged.app)
  const shutdown = await shutdownOf(staged, client)
  const opened = await client.open('tools/call', tool)
  await begun.promise
  const { closed } = await shutdown()
  const before = performance.now()
  open()
  t.match(await opened.answer, { error: shuttingDown })
  t.ok(performance.now() - before < 3_000, 'well before the end of the drain')
  await closed
  t.match(staged.ends[1], { cause: 'shutdown' })
})

test('messages that are queued when a shutdown begins are handled, and then the stream ends', async t => {
  const { promise, open } = gate()
  const begun = gate()
  const handled: string[] = []
  const staged = await stage(t, toolServer<string, string>(({ params: { name } }, channel) => {
    if (name !== 'waits') for (const message of ['a', 'b', 'c']) channel.ref.post(message)
    return stream('live')
  }, {
    handleMessage: async message => {
      handled.push(message)
      begun.open()
      await promise
      return stream('live')
    }
  }), { limits: { drain: 60_000 } })
  const client = createTestClient(staged.app)
  const shutdown = await shutdownOf(staged, client)
  const opened = await client.open('tools/call', tool)
  await begun.promise
  const { closed } = await shutdown()
  open()
  await closed
  t.strictSame(handled, ['a', 'b', 'c'])
  t.match(await opened.answer, { error: shuttingDown })
  t.match(staged.ends[1], { cause: 'shutdown', undelivered: 0 })
})

// M20
test('what runs for longer than the drain is closed, and its signal aborts', async t => {
  const begun = gate<AbortSignal>()
  const { app, ends } = await stage(t, toolServer(async (_request, { signal }) => {
    begun.open(signal)
    await new Promise<void>(resolve => { signal.addEventListener('abort', () => { resolve() }) })
    return done()
  }), { limits: { drain: 30 } })
  const opened = await createTestClient(app).open('tools/call', tool)
  const signal = await begun.promise
  await app.close()
  t.match(signal.reason, { name: 'AbortError', cause: { cause: 'shutdown' } })
  t.match(await opened.answer, { statusCode: 503, headers: { 'retry-after': '1' }, error: shuttingDown })
  t.match(ends, [{ cause: 'shutdown', statusCode: 503 }])
})

// M20
test('handleClose and clean-ups are waited for within the drain', async t => {
  const order: string[] = []
  const { app } = await stage(t, toolServer<string, string>((_request, channel) => {
    channel.defer(async () => { await new Promise(resolve => { setTimeout(resolve, 20) }); order.push('clean-up') })
    return stream('live')
  }, {
    handleClose: async () => { await new Promise(resolve => { setTimeout(resolve, 20) }); order.push('handleClose') }
  }), { limits: { drain: 60_000 } })
  const opened = await createTestClient(app).open('tools/call', tool)
  await opened.head
  await app.close()
  t.strictSame(order, ['handleClose', 'clean-up'])
})

test('callbacks that never settle do not hold up a shutdown for longer than its bound', async t => {
  for (const hangs of ['handleRequest', 'handleClose', 'a clean-up']) {
    const begun = gate()
    const { app, lines } = await stage(t, toolServer<string, string>(async (_request, channel) => {
      if (hangs === 'a clean-up') channel.defer(async () => await never)
      if (hangs !== 'handleRequest') return stream('live')
      begun.open()
      return await never
    }, { ...(hangs === 'handleClose' && { handleClose: async () => await never }) }), { limits: { drain: 30 } })
    const opened = await createTestClient(app).open('tools/call', tool)
    await (hangs === 'handleRequest' ? begun.promise : opened.head)
    await app.close()
    t.match(await opened.answer, { error: shuttingDown }, hangs)
    t.strictSame(alarms(lines), [])
  }
})

test('an exchange that is closed and still cleans up is waited for by a shutdown', async t => {
  const { promise, open } = gate()
  const closing = gate()
  const { app, ends, gauges } = await stage(t, toolServer<string, string>((_request, channel) => {
    channel.close()
    return stream('live')
  }, { handleClose: async () => { closing.open(); await promise } }), { limits: { drain: 60_000 } })
  const opened = await createTestClient(app).open('tools/call', tool)
  await opened.answer
  await closing.promise
  t.match(gauges(), { exchanges: 1 })
  const closed = app.close()
  t.strictSame(ends, [])
  open()
  await closed
  t.match(ends, [{ cause: 'closed' }])
  t.strictSame(gauges(), NOTHING_HELD)
})

// M7, M20
test('a message that is posted during a shutdown says what became of it', async t => {
  const refs: ExchangeRef<string>[] = []
  const { app } = await stage(t, toolServer<string, string>((_request, channel) => {
    refs.push(channel.ref)
    return stream('live')
  }, { handleClose: () => { t.equal(refs[0]?.post('late'), 'closed') } }))
  const opened = await createTestClient(app).open('tools/call', tool)
  await opened.head
  await app.close()
  t.equal(refs[0]?.post('later'), 'closed')
})

// Takes as long as the default drain: Fastify gives up on close() after its `pluginTimeout`, which is as long by default.
test('a shutdown that needs all of the default drain does not make close() reject', async t => {
  const begun = gate()
  const { app, ends } = await stage(t, toolServer(async () => { begun.open(); return await never }))
  const opened = await createTestClient(app).open('tools/call', tool)
  await begun.promise
  await t.resolves(app.close())
  t.match(await opened.answer, { error: shuttingDown })
  t.strictSame(ends, [], 'its callback still hangs')
})
