import { once } from 'node:events'
import mqemitter from 'mqemitter'
import { test, type Test } from 'tap'
import { memoryEvents, type LegacyOptions } from 'fastify-gen-mcp/legacy'
import { openProxy } from '../helpers/proxy.js'
import { refused } from '../helpers/refusal.js'
import { alarms, NOTHING_HELD, stage, until, within, type Stage, type StageOptions } from '../helpers/sockets.js'
import { createInteropServer, type InteropServer } from '../interop/server.js'
import { messagesIn, open, read, readStream, send, VERSIONS, type LegacySession, type Reading } from './helpers.js'
import type { JsonObject, MessageBus } from 'fastify-gen-mcp'
import type { Message } from '../helpers/messages.js'

const BOUND = { timeout: 30_000 }
const TOPIC = 'mcp/legacy'
const secrets = ['the secret that all of the replicas share']
const asking = { capabilities: { elicitation: {} } }
const yes = { action: 'accept', content: { sure: true } }

/** A process of the server. */
interface Replica extends Stage, InteropServer {}

async function start (t: Test, bus: MessageBus | undefined, legacy: LegacyOptions = {}, options: StageOptions = {}): Promise<Replica> {
  const interop = createInteropServer(bus)
  const subject = await stage(t, interop.suite, {
    fastify: { forceCloseConnections: true }, secrets, legacy: { ...(bus !== undefined && { bus }), ...legacy }, ...options
  })
  return { ...interop, ...subject }
}

async function startTwo (t: Test, bus: MessageBus | undefined = createBus(t), legacy: LegacyOptions = {}): Promise<readonly [Replica, Replica]> {
  return [await start(t, bus, legacy), await start(t, bus, legacy)]
}

async function startWithoutBus (t: Test): Promise<readonly [Replica, Replica]> {
  return [await start(t, undefined), await start(t, undefined)]
}

/** A bus as one between processes is: what it carries is JSON, and comes later. */
function createBus (t: Test): MessageBus {
  const bus = mqemitter()
  t.teardown(async () => { await new Promise<void>(resolve => { bus.close(resolve) }) })
  return {
    on: (topic, listener, done) => bus.on(topic, listener, done),
    removeListener: (topic, listener, done) => { bus.removeListener(topic, listener, done) },
    emit: (packet, done) => { setImmediate(() => { bus.emit(JSON.parse(JSON.stringify(packet)) as typeof packet, done) }) }
  }
}

/** Resolves when all that was told over a bus has been heard: it keeps the order. */
async function settled (bus: MessageBus): Promise<void> {
  await new Promise<void>(resolve => {
    bus.on('mark', (_packet, done) => {
      done()
      resolve()
    })
    bus.emit({ topic: 'mark' })
  })
}

// ---- a client that reaches whichever replica

async function ask ({ app }: Replica, { headers }: LegacySession, method: string, params: JsonObject = {}): Promise<Message> {
  const response = await send(app, { jsonrpc: '2.0', id: 'r', method, params }, { ...headers, accept: 'application/json' })
  if (response.statusCode !== 200) throw new Error(`${method} was answered ${response.statusCode} ${response.body}`)
  return response.json<Message>()
}

async function cancel ({ app }: Replica, { headers }: LegacySession, requestId: string | number, reason?: string): Promise<number> {
  return (await send(app, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } }, headers)).statusCode
}

async function respond ({ app }: Replica, { headers }: LegacySession, id: unknown, result: JsonObject = yes): Promise<number> {
  return (await send(app, { jsonrpc: '2.0', id, result }, headers)).statusCode
}

async function call (t: Test, { port }: Pick<Stage, 'port'>, session: LegacySession, name: string, id: string | number = 1): Promise<Reading> {
  return await read(t, port, 'POST', session.compose('tools/call', { name, arguments: {}, _meta: { progressToken: 'p' } }, { id }))
}

interface Waiting { readonly signal: AbortSignal, readonly reading: Promise<Reading> }

/** Starts a call that waits for the client to cancel it. */
async function startWaiting (t: Test, replica: Replica, session: LegacySession, id: string | number = 1): Promise<Waiting> {
  const waiting = once(replica.events, 'waiting')
  const reading = call(t, replica, session, 'wait', id)
  // Whoever does not look at it leaves it to the end of the test.
  reading.catch(() => {})
  const [signal] = await within(waiting, 'the call') as [AbortSignal]
  return { signal, reading }
}

async function aborted (signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await within(once(signal, 'abort'), 'the abort')
}

/** The GET stream of a session, when it can be told of changes. */
async function stand (t: Test, { port, gauges }: Replica, session: LegacySession, sources = 1): Promise<Reading> {
  const reading = await readStream(t, port, session)
  await until(() => gauges().sources === sources)
  return reading
}

const updated = (uri: string) => ({ method: 'notifications/resources/updated', params: { uri } })
const levels = (messages: readonly Message[]) => messages.filter(({ method }) => method === 'notifications/message').map(({ params }) => params?.['level'])

// ---- with a bus

test('requests of one session alternate between replicas, and the end of it is known to both: LEG-20, LEG-22, case 001', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const proxy = await openProxy(t, [a.port, b.port])
  for (const version of VERSIONS) {
    const session = await open(a.app, version)
    const answers = await Promise.all(Array.from({ length: 20 }, async (_, id) => {
      const reading = await read(t, proxy.port, 'POST', session.compose('tools/call', { name: 'add', arguments: { a: id, b: 1 } }, { id, headers: { accept: 'text/event-stream' } }))
      t.equal(reading.statusCode, 200)
      return messagesIn(await reading.rest()).at(-1)
    }))
    for (const [id, answer] of answers.entries()) t.match(answer, { id, result: { content: [{ text: `{"sum":${id + 1}}` }] } })

    const ended = await b.app.inject({ method: 'DELETE', url: '/mcp', headers: session.headers })
    t.equal(ended.statusCode, 204)
    await settled(bus)
    for (const [name, { app }] of Object.entries({ a, b })) {
      refused(t, await send(app, { jsonrpc: '2.0', id: 7, method: 'tools/list' }, session.headers), { status: 404, code: -32600, id: 7 }, `${version}, ${name}`)
      t.equal((await app.inject({ method: 'GET', url: '/mcp', headers: { ...session.headers, accept: 'text/event-stream' } })).statusCode, 404)
      t.equal((await app.inject({ method: 'DELETE', url: '/mcp', headers: session.headers })).statusCode, 404)
    }
  }
  t.ok([0, 1].every(replica => proxy.passed.filter(pass => pass.replica === replica).length === 30), 'half of them each')
  for (const { gauges, lines } of [a, b]) {
    t.strictSame(gauges(), NOTHING_HELD)
    t.strictSame(alarms(lines), [])
  }
})

test('a replica that starts later, as after a deploy, serves a session that it did not open: case 002', BOUND, async t => {
  const a = await start(t, undefined)
  const sessions = await Promise.all(VERSIONS.map(async version => await open(a.app, version)))
  await a.app.close()
  const b = await start(t, undefined)
  for (const session of sessions) {
    const { result } = await ask(b, session, 'tools/call', { name: 'add', arguments: { a: 1, b: 1 } })
    t.equal(result?.['structuredContent'] !== undefined, session.version !== '2025-03-26', `${session.version} is still what was agreed on`)
  }
  const stranger = await start(t, undefined, {}, { secrets: ['a secret that is not that of the first one'] })
  for (const { headers } of sessions) {
    refused(t, await send(stranger.app, { jsonrpc: '2.0', id: 1, method: 'tools/list' }, headers), { status: 404, code: -32600, id: 1 }, 'nor with other secrets')
  }
})

test('the end of a session at one replica ends what runs and stands at the other: LEG-22, LEG-26, case 001', BOUND, async t => {
  const [a, b] = await startTwo(t)
  const session = await open(a.app)
  const standing = await stand(t, a, session)
  const { signal, reading } = await startWaiting(t, a, session)
  t.equal((await b.app.inject({ method: 'DELETE', url: '/mcp', headers: session.headers })).statusCode, 204)
  await aborted(signal)
  await standing.closed
  t.strictSame(messagesIn(await (await reading).rest()), [])
  await until(() => a.gauges().exchanges === 0)
  t.strictSame(a.gauges(), NOTHING_HELD)
})

test('a cancellation posted to the other replica aborts the call, and no other one: LEG-63', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const [session, other] = [await open(a.app), await open(b.app)]
  const theirs = await startWaiting(t, a, other)
  const mine = await startWaiting(t, a, session)
  const asText = await startWaiting(t, a, session, '1')
  t.equal(await cancel(b, session, 1, 'enough'), 202)
  await aborted(mine.signal)
  t.match(mine.signal.reason, { cause: { cause: 'disconnect', requestId: 1 } })
  t.strictSame(messagesIn(await (await mine.reading).rest()), [], 'no response')
  t.match(a.lines.filter(({ msg }) => msg === 'an MCP request was cancelled'), [{ mcp: { method: 'tools/call', reason: 'enough' } }])
  await settled(bus)
  t.equal(theirs.signal.aborted, false, 'not that of another session')
  t.equal(asText.signal.aborted, false, 'not that of another id')
  t.equal(await cancel(b, session, 'no such request'), 202)
  t.equal(await cancel(b, other, 1), 202)
  await aborted(theirs.signal)
  t.equal(await cancel(b, session, '1'), 202)
  await aborted(asText.signal)
})

test('an answer posted to the other replica reaches the call that asked, once, and of its own session alone: LEG-70, LEG-72, LEG-74', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const [session, other] = [await open(a.app, '2025-11-25', asking), await open(b.app, '2025-11-25', asking)]
  const reading = await call(t, a, session, 'remove')
  const question = await reading.message()
  t.match(question, { method: 'elicitation/create', params: { message: 'Really?' } })
  for (const replica of [a, b]) {
    t.equal(await respond(replica, other, question.id, { action: 'cancel' }), 202)
    t.equal(await respond(replica, session, 'no such question', { action: 'cancel' }), 202)
  }
  await settled(bus)
  t.equal(a.gauges().timers > 0, true, 'it is still waited for')
  t.equal(await respond(b, session, question.id), 202)
  t.match(await reading.message(), { id: 1, result: { content: [{ text: 'Gone.' }] } })
  t.equal(await respond(b, session, question.id), 202, 'late')
  await settled(bus)
  await reading.closed
  for (const { lines, gauges } of [a, b]) {
    t.strictSame(alarms(lines), [])
    t.strictSame(gauges(), NOTHING_HELD)
  }
})

test('an error posted to the other replica fails the call that asked: LEG-73', BOUND, async t => {
  const [a, b] = await startTwo(t)
  const session = await open(a.app, '2025-06-18', asking)
  const reading = await call(t, a, session, 'remove')
  const { id } = await reading.message()
  t.equal((await send(b.app, { jsonrpc: '2.0', id, error: { code: -1, message: 'no screen' } }, session.headers)).statusCode, 202)
  t.match(await reading.message(), { id: 1, error: { code: -32603, message: /no screen/ } })
})

test('a log level is told to the other replica, for its session alone: LEG-59', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const [session, other] = [await open(a.app), await open(a.app)]
  const levelsAt = async (replica: Replica, session: LegacySession) => levels(messagesIn(await (await call(t, replica, session, 'count')).rest()))
  for (const [level, expected] of [['error', ['error']], ['debug', ['debug', 'info', 'error']]] as const) {
    t.match(await ask(a, session, 'logging/setLevel', { level }), { result: {} })
    await settled(bus)
    t.strictSame(await levelsAt(b, session), expected)
    t.strictSame(await levelsAt(a, session), expected)
    t.strictSame(await levelsAt(b, other), ['info', 'error'], 'what is sent to those who never said')
  }
})

test('what is subscribed to at one replica is told on the GET stream at the other, until it is given up anywhere: LEG-50, LEG-61', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const [session, other] = [await open(a.app), await open(a.app)]
  const theirs = await stand(t, b, other)
  const standing = await stand(t, a, session)
  t.match(await ask(b, session, 'resources/subscribe', { uri: 'note://Rome' }), { result: {} })
  t.match(await ask(b, session, 'resources/subscribe', { uri: 'note://Paris' }), { result: {} })
  await until(() => a.gauges().sources === 3)
  b.changes.resourceUpdated('note://Porto')
  b.changes.resourceUpdated('note://Rome')
  t.match(await standing.message(), updated('note://Rome'))
  t.match(await ask(b, session, 'resources/unsubscribe', { uri: 'note://Rome' }), { result: {} })
  await until(() => a.gauges().sources === 2)
  b.changes.resourceUpdated('note://Rome')
  a.changes.resourceUpdated('note://Paris')
  t.match(await standing.message(), updated('note://Paris'))
  a.changes.toolsChanged()
  const change = { method: 'notifications/tools/list_changed' }
  t.match(await standing.message(), change)
  t.match(await theirs.message(), change, 'and nothing before it')
})

test('a subscription outlives the stream: a GET at whichever replica is about it: LEG-61', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const session = await open(a.app)
  await ask(a, session, 'resources/subscribe', { uri: 'note://Rome' })
  await settled(bus)
  const standing = await stand(t, b, session, 2)
  a.changes.resourceUpdated('note://Rome')
  t.match(await standing.message(), updated('note://Rome'))
})

test('a GET at the other replica takes the place of the one before, and each change is told once: LEG-50, LEG-51, AMB-16', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const session = await open(a.app)
  const first = await stand(t, a, session)
  const second = await stand(t, b, session)
  await within(first.closed, 'the end of the first')
  await until(() => a.gauges().listens === 0)
  t.equal(b.gauges().listens, 1)
  a.changes.promptsChanged()
  t.match(await second.message(), { method: 'notifications/prompts/list_changed' })
  t.strictSame(messagesIn(first.frames), [])
  t.strictSame(a.gauges(), NOTHING_HELD)
  const third = await stand(t, a, session)
  await within(second.closed, 'the end of the second')
  a.changes.toolsChanged()
  t.match(await third.message(), { method: 'notifications/tools/list_changed' })
})

for (const version of VERSIONS) {
  test(`${version}: with an EventStore that both share a lost call is read on at the other replica, in order and to its end: LEG-41, LEG-53`, BOUND, async t => {
    const [a, b] = await startTwo(t, createBus(t), { events: memoryEvents(), retry: 7 })
    const session = await open(a.app, version)
    const first = await call(t, a, session, 'steps')
    const { id: beginning } = await nextFrame(first, 0.5)
    await first.drop()
    a.events.emit('step')
    const second = await readStream(t, b.port, session, beginning)
    t.equal(second.statusCode, 200)
    const frames = await second.rest()
    t.match(messagesIn(frames), [{ params: { progress: 1 } }])
    t.strictSame(frames.at(-1), { retry: 7 }, 'it is to come back for the rest')
    a.events.emit('step')
    a.events.emit('finish')
    await until(() => a.gauges().exchanges === 0)
    const third = await readStream(t, b.port, session, frames.findLast(({ id }) => id !== undefined)?.id)
    const rest = await third.rest()
    t.match(messagesIn(rest), [{ params: { progress: 2 } }, { id: 1, result: { content: [{ text: '{"steps":2}' }] } }])
    t.notOk(rest.some(({ retry }) => retry !== undefined), 'nothing follows')
    t.equal((await readStream(t, b.port, session, rest.at(-1)?.id)).statusCode, 204)
    const stranger = await open(b.app, version)
    t.equal((await readStream(t, b.port, stranger, beginning)).statusCode, 400, 'LEG-54')
  })
}

/** The frame that tells of a step. */
async function nextFrame (reading: Reading, step: number): Promise<{ readonly id: string }> {
  for (;;) {
    const { id, data = '' } = await reading.next()
    if (data.includes(`"progress":${step}`) && id !== undefined) return { id }
  }
}

test('a question that was lost with its connection is read at the other replica, and answered there: LEG-53, LEG-73', BOUND, async t => {
  const [a, b] = await startTwo(t, createBus(t), { events: memoryEvents() })
  const session = await open(a.app, '2025-11-25', asking)
  const first = await call(t, a, session, 'remove')
  const primed = await first.next()
  t.notOk(primed.data, 'the event that a stream begins with')
  await first.drop()
  const question = messagesIn(await (await readStream(t, b.port, session, primed.id)).rest())[0]
  t.match(question, { method: 'elicitation/create' })
  t.equal(await respond(b, session, question?.id), 202)
  await until(() => a.gauges().exchanges === 0)
  t.match(messagesIn(await (await readStream(t, b.port, session, primed.id)).rest()).at(-1), { id: 1, result: { content: [{ text: 'Gone.' }] } })
})

test('a call that is cancelled while its client is away is not come back for without end', BOUND, async t => {
  const [a, b] = await startTwo(t, createBus(t), { events: memoryEvents() })
  for (const version of VERSIONS) {
    const session = await open(a.app, version)
    const reading = await call(t, a, session, 'steps')
    const { id } = await nextFrame(reading, 0.5)
    await reading.drop()
    t.equal(await cancel(b, session, 1), 202)
    await until(() => a.gauges().exchanges === 0)
    for (const { port } of [a, b]) t.equal((await readStream(t, port, session, id)).statusCode, 204, version)
  }
})

// ---- without a bus

test('without a bus requests are served everywhere, and what concerns a call where it was posted: LEG-91', BOUND, async t => {
  const [a, b] = await startWithoutBus(t)
  const session = await open(a.app, '2025-11-25', asking)
  for (const replica of [b, a, b]) {
    t.match(await ask(replica, session, 'tools/call', { name: 'add', arguments: { a: 1, b: 1 } }), { result: { structuredContent: { sum: 2 } } })
    t.match(await ask(replica, session, 'ping'), { result: {} })
    t.match(await ask(replica, session, 'resources/read', { uri: 'note://Rome' }), { result: { contents: [{ text: 'About Rome' }] } })
  }

  const { signal } = await startWaiting(t, a, session)
  t.equal(await cancel(b, session, 1), 202)
  t.equal(signal.aborted, false)
  t.equal(await cancel(a, session, 1), 202)
  await aborted(signal)

  const reading = await call(t, a, session, 'remove')
  const { id } = await reading.message()
  t.equal(await respond(b, session, id, { action: 'cancel' }), 202)
  t.equal(await respond(a, session, id), 202)
  t.match(await reading.message(), { result: { content: [{ text: 'Gone.' }] } })

  await ask(a, session, 'logging/setLevel', { level: 'error' })
  t.strictSame(levels(messagesIn(await (await call(t, b, session, 'count')).rest())), ['info', 'error'])
  t.strictSame(levels(messagesIn(await (await call(t, a, session, 'count')).rest())), ['error'])
  t.equal((await b.app.inject({ method: 'DELETE', url: '/mcp', headers: session.headers })).statusCode, 204)
  t.equal((await session.request('ping')).statusCode, 200, 'of an end that it has not heard of')
})

test('without an EventStore that both share the other replica says that it knows nothing of a stream: LEG-55', BOUND, async t => {
  const [a, b] = await startTwo(t)
  const session = await open(a.app)
  const reading = await call(t, a, session, 'steps')
  const { id } = await nextFrame(reading, 0.5)
  await reading.drop()
  const refusal = await readStream(t, b.port, session, id)
  t.equal(refusal.statusCode, 400)
  t.match(refusal.response.headers, { 'content-type': /^application\/json/ })
  a.events.emit('finish')
  t.match(messagesIn(await (await readStream(t, a.port, session, id)).rest()), [{ id: 1, result: {} }], 'the first one still does')
})

// ---- the bus itself

test('mounts of one bus with another topic are told nothing of each other', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = [await start(t, bus), await start(t, bus, { topic: 'another' })]
  const session = await open(a.app)
  const { signal } = await startWaiting(t, a, session)
  t.equal(await cancel(b, session, 1), 202)
  await settled(bus)
  t.equal(signal.aborted, false)
  t.equal(await cancel(a, session, 1), 202)
  await aborted(signal)
})

test('what is on the bus names no session id, and what is none of its news changes nothing: LEG-24', BOUND, async t => {
  const bus = createBus(t)
  const [a, b] = await startTwo(t, bus)
  const packets: unknown[] = []
  bus.on(TOPIC, (packet, done) => {
    packets.push(packet)
    done()
  })
  const session = await open(a.app)
  const { signal } = await startWaiting(t, a, session)
  for (const packet of [{}, { session: 5, news: {} }, { session: 'x' }, { session: 'x', news: null }, { session: 'x', news: { type: 'of a later version' } }]) bus.emit({ topic: TOPIC, ...packet })
  await settled(bus)
  t.equal(signal.aborted, false)
  packets.length = 0
  await cancel(b, session, 1)
  await aborted(signal)
  t.match(packets, [{ topic: TOPIC, news: { type: 'cancelled', requestId: 1 } }])
  t.notMatch(JSON.stringify(packets), session.id)
  for (const { lines } of [a, b]) t.strictSame(alarms(lines), [])
})

test('a mount that is closed listens to the bus no more', BOUND, async t => {
  let listeners = 0
  const bus = createBus(t)
  const counting: MessageBus = {
    ...bus,
    on (topic, listener, done) {
      if (topic === TOPIC) listeners++
      return bus.on(topic, listener, done)
    },
    removeListener (topic, listener, done) {
      if (topic === TOPIC) listeners--
      bus.removeListener(topic, listener, done)
    }
  }
  const [a, b] = await startTwo(t, counting)
  t.equal(listeners, 2)
  await a.app.close()
  t.equal(listeners, 1)
  await b.app.close()
  t.equal(listeners, 0)
})

const faults: Readonly<Record<string, Pick<MessageBus, 'emit'>>> = {
  'says so': { emit: (_packet, done) => { done?.(new Error('the bus is down')) } },
  throws: { emit: () => { throw new Error('the bus is down') } },
  rejects: { emit: async () => { throw new Error('the bus is down') } }
}

for (const [how, fault] of Object.entries(faults)) {
  test(`a bus that fails and ${how} is told of in the log, and the client is served`, BOUND, async t => {
    const failing: MessageBus = { ...createBus(t), ...fault }
    const a = await start(t, undefined, { bus: failing }, { busProbe: false })
    const session = await open(a.app)
    t.match(await ask(a, session, 'logging/setLevel', { level: 'error' }), { result: {} })
    t.strictSame(levels(messagesIn(await (await call(t, a, session, 'count')).rest())), ['error'])
    t.equal(await cancel(a, session, 'elsewhere'), 202)
    t.equal((await session.delete()).statusCode, 204)
    t.equal((await session.request('ping')).statusCode, 404)
    const told = { msg: 'other replicas could not be told of an MCP session', err: { message: 'the bus is down' } }
    t.match(alarms(a.lines), [told, told, told])
    t.equal(alarms(a.lines).length, 3)
  })
}

for (const [how, on] of Object.entries({ throws: () => { throw new Error('no connection') }, rejects: async () => { throw new Error('no connection') } })) {
  test(`a bus that ${how} when it is listened to is told of in the log, and the client is served`, BOUND, async t => {
    const a = await start(t, undefined, { bus: { ...createBus(t), on, removeListener: on } }, { busProbe: false })
    const session = await open(a.app)
    t.match(await ask(a, session, 'ping'), { result: {} })
    const told = { msg: 'what other replicas tell of MCP sessions is not heard', err: { message: 'no connection' } }
    t.match(alarms(a.lines), [told])
    t.equal(alarms(a.lines).length, 1)
    await t.resolves(a.app.close())
  })
}
