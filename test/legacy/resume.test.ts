import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { result, toolResult, type Channel, type JsonObject } from 'fastify-gen-mcp'
import { memoryEvents, type EventStore, type LegacyOptions, type StoredEvent } from 'fastify-gen-mcp/legacy'
import { toolServer } from '../helpers/servers.js'
import { alarms, bodyOf, gate, NOTHING_HELD, openWire, stage, until, within, type Stage, type StageOptions } from '../helpers/sockets.js'
import { createHeldSessions, messagesIn, open, read, readStream, sendGet, VERSIONS, type LegacySession, type Reading } from './helpers.js'
import type { Test } from 'tap'

const BOUND = { timeout: 30_000 }
const secrets = ['the secret that both of the apps know']
const done = { content: [{ type: 'text', text: 'done' }] }
const callOf = (args: JsonObject = {}): JsonObject => ({ name: 'tool', arguments: args, _meta: { progressToken: 'p' } })

/** A store that keeps whoever asks it first waiting until `answer` opens. */
function createHeldStore () {
  const asking = gate()
  const answer = gate()
  const store = memoryEvents()
  let asked = 0
  const events: EventStore = {
    append: (stream, event) => store.append(stream, event),
    async after (stream, seq) {
      if (asked++ === 0) {
        asking.open()
        await answer.promise
      }
      return await store.after(stream, seq)
    }
  }
  return { events, asking, answer }
}

/** A tool that reports what it is told to, one step each, and ends when it is told to. */
function createSteps () {
  const channels: Channel[] = []
  const waiting = new Map<Channel, () => void>()
  let counts = new WeakMap<Channel, number>()
  const server = toolServer(async (_request, channel) => {
    channels.push(channel)
    channel.startStream()
    await new Promise<void>(resolve => { waiting.set(channel, resolve) })
    return result(toolResult.text('done'))
  })
  /** Progress of the call that came as number `call`, numbered from 1. */
  function step (call = 0, message?: string): string {
    const channel = channels[call]
    if (channel === undefined) throw new Error('There is no such call')
    const count = (counts.get(channel) ?? 0) + 1
    counts = counts.set(channel, count)
    return channel.sendProgress(count, undefined, message)
  }
  return { server, channels, step, finish: (call = 0) => { waiting.get(channels[call] as Channel)?.() } }
}

interface Subject extends Stage, ReturnType<typeof createSteps> { readonly session: LegacySession }

async function setUp (t: Test, legacy: LegacyOptions = {}, { version = '2025-11-25', ...options }: StageOptions & { readonly version?: LegacySession['version'] } = {}): Promise<Subject> {
  const steps = createSteps()
  const subject = await stage(t, steps.server, { secrets, legacy, ...options })
  return { ...subject, ...steps, session: await open(subject.app, version) }
}

async function call (t: Test, { port, session }: Subject, id: string | number = 1): Promise<Reading> {
  return await read(t, port, 'POST', session.compose('tools/call', callOf(), { id }))
}

/** The steps that messages report, and 'done' for the answer. */
function stepsOf (frames: Parameters<typeof messagesIn>[0]): unknown[] {
  return messagesIn(frames).map(({ params, result }) => result === undefined ? params?.['progress'] : 'done')
}

/** A store that takes its time. */
function slowEvents (ms: number): EventStore {
  const store = memoryEvents()
  return {
    async append (stream, event) {
      await delay(ms)
      await store.append(stream, event)
    },
    async after (stream, seq) {
      await delay(ms)
      return await store.after(stream, seq)
    }
  }
}

const stores: Readonly<Record<string, () => EventStore>> = { 'in memory': () => memoryEvents(), 'a store that takes 20 ms': () => slowEvents(20) }

for (const [name, create] of Object.entries(stores)) {
  for (const version of VERSIONS) {
    test(`${version}: a call goes on when its connection is lost, and its client reads on where it was, twice (LEG-41, LEG-53): ${name}`, BOUND, async t => {
      const subject = await setUp(t, { events: create() }, { version })
      const { session, step, finish, channels } = subject
      const first = await call(t, subject)
      step()
      step()
      const { id: seen } = await within(nextWith(first, 2), 'step 2')
      await first.drop()
      await until(() => subject.gauges().timers === 0)
      step()
      t.equal(channels[0]?.signal.aborted, false, 'a disconnect cancels nothing')
      const second = await readStream(t, subject.port, session, seen)
      step()
      t.match([await second.message(), await second.message()], [{ params: { progress: 3 } }, { params: { progress: 4 } }])
      await second.drop()
      await until(() => subject.gauges().timers === 0)
      step()
      finish()
      // The last of it is kept when all of it is.
      await delay(name === 'in memory' ? 0 : 50)
      const third = await readStream(t, subject.port, session, second.frames.at(-1)?.id)
      t.match(stepsOf(await third.rest()), [5, 'done'])
      t.strictSame(stepsOf(await (await readStream(t, subject.port, session, seen)).rest()), [3, 4, 5, 'done'], 'and again')
      t.match(subject.ends.slice(-1), [{ cause: 'result', streamed: true }])
      t.equal(channels[0]?.signal.aborted, false)
      t.strictSame(subject.gauges(), NOTHING_HELD)
      t.strictSame(alarms(subject.lines), [])
    })
  }

  test(`what is sent while the store is asked comes once and in order (LEG-53): ${name}`, BOUND, async t => {
    const subject = await setUp(t, { events: create() })
    const { session, step, finish } = subject
    const first = await call(t, subject)
    step()
    const { id } = await nextWith(first, 1)
    // On their way into the store when the client asks.
    await first.drop()
    step()
    step()
    const coming = readStream(t, subject.port, session, id)
    for (let n = 0; n < 30; n++) {
      await delay(2)
      step()
    }
    finish()
    const frames = [...await (await coming).rest()]
    const steps = stepsOf(frames)
    t.ok(steps.length > 2)
    t.strictSame(steps.slice(0, -1), Array.from({ length: steps.length - 1 }, (_, index) => index + 2))
    const retried = frames.at(-1)?.retry !== undefined
    if (!retried) return t.equal(steps.at(-1), 'done')
    await delay(50)
    t.strictSame(stepsOf(await (await readStream(t, subject.port, session, frames.findLast(frame => frame.id !== undefined)?.id)).rest()).at(-1), 'done')
  })
}

/** Reads to the step, and gives the frame of it. */
async function nextWith (reading: Reading, step: number): Promise<{ readonly id: string }> {
  for (;;) {
    const frame = await reading.next()
    if (frame.data?.includes(`"progress":${step}`) === true) return { id: frame.id as string }
  }
}

test('streams that run side by side have ids of their own, and each is read on alone (LEG-52, LEG-54, LEG-50): case 051', BOUND, async t => {
  const subject = await setUp(t)
  const { session, step, finish, port } = subject
  const a = await call(t, subject, 'a')
  const b = await call(t, subject, 'b')
  for (let n = 0; n < 3; n++) {
    step(0)
    step(1)
  }
  const { id } = await nextWith(a, 2)
  await nextWith(b, 3)
  const rest = await readStream(t, port, session, id)
  step(0)
  step(1)
  finish(0)
  finish(1)
  const frames = await rest.rest()
  t.strictSame(stepsOf(frames), [3, 4, 'done'], 'of the stream that the event was one of')
  t.match(messagesIn(frames).at(-1), { id: 'a' })
  t.strictSame(stepsOf((await b.rest())), [4, 'done'], 'the other one goes on where it was')
  const ids = [...a.frames, ...b.frames].map(frame => frame.id)
  t.equal(new Set(ids).size, ids.length, 'ids are unique')
  t.equal(new Set(ids.map(id => id?.replace(/_\d+$/, ''))).size, 2, 'and name their streams')
})

test('an event id that is nobody\'s, of another session, or not sent yet gets 400 and no event (LEG-54, LEG-55): case 051', BOUND, async t => {
  const subject = await setUp(t)
  const { session, step, finish, port } = subject
  const reading = await call(t, subject)
  step()
  const { id } = await nextWith(reading, 1)
  const other = await open(subject.app)
  const future = id.replace(/_\d+$/, '_9')
  const unknown = id.replace(/^.{4}/, 'AAAA')
  for (const state of ['while it runs', 'when it is over']) {
    for (const [who, last] of [[other, id], [session, future], [session, unknown], [session, 'zzz'], [session, `${id}0000000000000000000`], [session, '../x_1']] as const) {
      const refusal = await readStream(t, port, who, last)
      t.equal(refusal.statusCode, 400, `${last} ${state}`)
      await refusal.closed
      t.strictSame(refusal.frames, [])
      t.match(refusal.response.headers, { 'content-type': /^application\/json/ })
    }
    if (state === 'while it runs') {
      step()
      await nextWith(reading, 2)
      finish()
      t.match(await reading.message(), { id: 1, result: done }, 'whoever reads is not disturbed')
      await reading.closed
    }
  }
  t.strictSame(stepsOf(await (await readStream(t, port, session, id)).rest()), [2, 'done'])
})

test('Last-Event-ID on a POST reads nothing on (LEG-57)', BOUND, async t => {
  const subject = await setUp(t)
  const reading = await call(t, subject)
  subject.step()
  const { id } = await nextWith(reading, 1)
  const response = await subject.session.request('ping', undefined, { id: 2, headers: { 'last-event-id': id } })
  t.strictSame(response.json(), { jsonrpc: '2.0', id: 2, result: {} })
  subject.finish()
  t.match(await reading.message(), { result: done })
})

test('whoever has seen the last event is told that nothing follows', BOUND, async t => {
  const subject = await setUp(t)
  const reading = await call(t, subject)
  subject.finish()
  await reading.closed
  const again = await readStream(t, subject.port, subject.session, reading.frames.at(-1)?.id)
  t.equal(again.statusCode, 204)
  t.strictSame(await again.rest(), [])
})

test('a call that was silent longer than events are kept can still be read on', BOUND, async t => {
  const subject = await setUp(t, { events: memoryEvents({ maxAge: 10 }) })
  const first = await call(t, subject)
  const { id } = await first.next()
  await first.drop()
  await delay(20)
  const second = await readStream(t, subject.port, subject.session, id)
  t.equal(second.statusCode, 200)
  subject.finish()
  t.match(messagesIn(await second.rest()), [{ id: 1, result: done }])
})

test('a client that comes back while its old connection looks alive is sent each event once, and the old one ends', BOUND, async t => {
  const subject = await setUp(t)
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  const second = await readStream(t, port, session, id)
  step()
  await nextWith(second, 2)
  t.strictSame(await first.rest(), [])
  finish()
  t.match(messagesIn(await second.rest()), [{ id: 1, result: done }])
})

test('an event that the store has not yet taken is not left out (LEG-53)', BOUND, async t => {
  const taking = gate()
  const store = memoryEvents()
  const subject = await setUp(t, {
    events: {
      async append (stream, event) {
        if (event.seq === 2) await taking.promise
        await store.append(stream, event)
      },
      after: (stream, seq) => store.after(stream, seq)
    }
  })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  await first.drop()
  step()
  const coming = readStream(t, port, session, id)
  await delay(100)
  taking.open()
  const second = await coming
  step()
  finish()
  t.strictSame(stepsOf(await second.rest()), [2, 3, 'done'])
})

test('a stream of which the store has lost an event is not read on past it', BOUND, async t => {
  const store = memoryEvents()
  let lose = false
  const lost: StoredEvent[] = []
  const subject = await setUp(t, {
    events: {
      append (stream, event) {
        if (!lose) return store.append(stream, event)
        lost.push(event)
        throw new Error('the store is full')
      },
      // As one that does not notice.
      after: async (stream, seq) => [...await store.after(stream, 0) ?? []].filter(event => event.seq > seq)
    }
  })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  lose = true
  step()
  await nextWith(first, 2)
  lose = false
  step()
  await nextWith(first, 3)
  t.equal((await readStream(t, port, session, id)).statusCode, 400, 'while it runs')
  finish()
  t.match(messagesIn(await first.rest()), [{ id: 1, result: done }], 'whoever reads has missed nothing')
  t.equal((await readStream(t, port, session, id)).statusCode, 400, 'when it is over')
  t.equal(lost.length, 1)
  t.match(alarms(subject.lines), [{ msg: 'an event of an MCP stream could not be kept', err: { message: 'the store is full' } }])
})

test('a store that rejects disturbs nobody who reads, and is logged', BOUND, async t => {
  const subject = await setUp(t, { events: { append: async () => { throw new Error('no store') }, after: async () => { throw new Error('no store') } } })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  const refused = await readStream(t, port, session, id.replace(/_\d$/, '_0'))
  t.equal(refused.statusCode, 500)
  step()
  await within(nextWith(first, 2), 'an event after the store has failed')
  finish()
  t.match(messagesIn(await first.rest()), [{ id: 1, result: done }])
  t.equal((await readStream(t, port, session, id)).statusCode, 500)
  t.ok(alarms(subject.lines).every(({ err }) => (err as Error).message === 'no store'))
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('events that are sent while the store is asked in vain reach whoever reads', BOUND, async t => {
  const asked = gate()
  const answer = gate()
  const store = memoryEvents()
  const subject = await setUp(t, {
    events: {
      append: (stream, event) => store.append(stream, event),
      async after () {
        asked.open()
        await answer.promise
        return undefined
      }
    }
  })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  const refused = readStream(t, port, session, id.replace(/_\d$/, '_0'))
  await asked.promise
  step()
  finish()
  await delay(5)
  answer.open()
  t.equal((await refused).statusCode, 400)
  t.strictSame(stepsOf(await within(first.rest(), 'the end')), [2, 'done'])
})

test('of two clients that come back at once the later one is served, and nothing is lost to it', BOUND, async t => {
  const answers = [gate(), gate()] as const
  let asked = 0
  const store = memoryEvents()
  const subject = await setUp(t, {
    events: {
      append: (stream, event) => store.append(stream, event),
      async after (stream, seq) {
        await answers[asked++ === 0 ? 0 : 1].promise
        return await store.after(stream, seq)
      }
    }
  })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  await first.drop()
  step()
  const early = readStream(t, port, session, id)
  await until(() => asked === 1)
  step()
  const late = readStream(t, port, session, id)
  await until(() => asked === 2)
  step()
  answers[1].open()
  const second = await late
  step()
  await nextWith(second, 5)
  answers[0].open()
  await (await within(early, 'the other one')).closed
  step()
  finish()
  t.strictSame(stepsOf(await within(second.rest(), 'the end')), [6, 'done'])
  t.strictSame(stepsOf(second.frames), [2, 3, 4, 5, 6, 'done'])
})

test('a client that leaves while the store is asked takes nothing with it', BOUND, async t => {
  const { events, asking, answer } = createHeldStore()
  const subject = await setUp(t, { events })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  await first.drop()
  step()
  const wire = await openWire(t, port)
  sendGet(wire, session, id)
  await asking.promise
  wire.socket.resetAndDestroy()
  await wire.closed
  await delay(10)
  answer.open()
  await delay(10)
  t.match(subject.gauges(), { streams: 1, timers: 0 }, 'it holds no connection')
  const third = await readStream(t, port, session, id)
  step()
  finish()
  t.strictSame(stepsOf(await third.rest()), [2, 3, 'done'])
  t.strictSame(subject.gauges(), NOTHING_HELD)
  t.strictSame(alarms(subject.lines), [])
})

test('a client that leaves while the store is asked for a call that is over takes nothing with it', BOUND, async t => {
  const { events, asking, answer } = createHeldStore()
  const subject = await setUp(t, { events })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  finish()
  const { id } = await nextWith(first, 1)
  await first.closed
  const wire = await openWire(t, port)
  sendGet(wire, session, id)
  await asking.promise
  wire.socket.resetAndDestroy()
  await wire.closed
  await delay(10)
  answer.open()
  await delay(10)
  t.match(messagesIn(await (await readStream(t, port, session, id)).rest()), [{ id: 1, result: done }])
  t.strictSame(alarms(subject.lines), [])
})

test('a header that Node refuses on what is read on is a crash, and the client may ask again', BOUND, async t => {
  let bad = false
  const subject = await setUp(t, {}, {
    before (app) {
      app.addHook('onSend', (_request, reply, payload, next) => {
        if (bad) reply.header('x-bad', 'a\nb')
        next(null, payload)
      })
    }
  })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  step()
  const { id } = await nextWith(first, 1)
  await first.drop()
  for (const state of ['while it runs', 'when it is over']) {
    bad = true
    const refused = await readStream(t, port, session, id)
    t.equal(refused.statusCode, 500, state)
    await refused.closed
    bad = false
    if (state === 'while it runs') {
      step()
      finish()
      await subject.ended(2)
    }
  }
  t.strictSame(stepsOf(await (await readStream(t, port, session, id)).rest()), [2, 'done'])
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('more than a connection may hold unsent is read on in parts', BOUND, async t => {
  const FILLER = 'x'.repeat(20_000)
  const subject = await setUp(t, { retry: 3 }, { limits: { sendBuffer: 50_000 } })
  const { session, step, finish, port } = subject
  const first = await call(t, subject)
  const { id } = await first.next()
  await first.drop()
  await until(() => subject.gauges().timers === 0)
  for (let n = 0; n < 100; n++) step(0, FILLER)
  const second = await readStream(t, port, session, id)
  const frames = await second.rest()
  t.strictSame(stepsOf(frames), Array.from({ length: 100 }, (_, index) => index + 1))
  t.strictSame(frames.at(-1), { retry: 3 })
  t.ok(second.response.complete)
  const third = await readStream(t, port, session, frames.at(-2)?.id)
  finish()
  t.match(messagesIn(await third.rest()), [{ id: 1, result: done }])
})

test('a client that reads too slowly loses its connection, and may come back for the rest (LEG-41)', BOUND, async t => {
  const FILLER = 'x'.repeat(64_000)
  const subject = await setUp(t, {}, { limits: { sendBuffer: 100_000 } })
  const { session, step, finish, port, channels } = subject
  const first = await call(t, subject)
  const { id } = await first.next()
  first.stall()
  let steps = 0
  while (subject.gauges().timers === 1) {
    step(0, FILLER)
    steps++
    await new Promise(resolve => setImmediate(resolve))
  }
  t.ok(steps > 1)
  t.match([channels[0]?.signal.aborted, channels[0]?.closed], [false, false])
  first.response.socket.destroy()
  const second = await readStream(t, port, session, id)
  const frames = await second.rest()
  t.strictSame(stepsOf(frames), Array.from({ length: steps }, (_, index) => index + 1))
  finish()
  t.match(messagesIn(await (await readStream(t, port, session, frames.findLast(frame => frame.id !== undefined)?.id)).rest()), [{ id: 1, result: done }])
})

test('a call that is lost before it is a stream goes on, and leaves nothing: nobody could come back for it (LEG-41)', BOUND, async t => {
  const go = gate()
  const started = gate()
  const sent: unknown[] = []
  const subject = await stage(t, toolServer(async (_request, channel) => {
    started.open()
    await go.promise
    sent.push(channel.sendProgress(1), channel.streaming, channel.signal.aborted)
    return result(toolResult.text('done'))
  }), { streamAfter: 60_000 })
  const session = await open(subject.app)
  const wire = await openWire(t, subject.port)
  wire.send(session.compose('tools/call', callOf()))
  await started.promise
  t.match(subject.gauges(), { timers: 1 })
  wire.socket.resetAndDestroy()
  await wire.closed
  await until(() => subject.gauges().timers === 0)
  go.open()
  t.match(await subject.ended(2), [{}, { cause: 'result' }])
  t.strictSame(sent, ['sent', true, false])
  t.strictSame(subject.gauges(), NOTHING_HELD)
  t.strictSame(alarms(subject.lines), [])
})

test('a call whose client left while its session was fetched runs, and leaves nothing (LEG-41)', BOUND, async t => {
  const { sessions, fetching, fetched } = createHeldSessions()
  const sent: unknown[] = []
  const subject = await stage(t, toolServer((_request, channel) => {
    sent.push(channel.sendProgress(1), channel.signal.aborted)
    return result(toolResult.text('done'))
  }), { legacy: { sessions } })
  const session = await open(subject.app)
  const wire = await openWire(t, subject.port)
  wire.send(session.compose('tools/call', callOf()))
  await fetching.promise
  wire.socket.resetAndDestroy()
  await wire.closed
  await delay(10)
  fetched.open()
  t.match(await subject.ended(2), [{}, { cause: 'result' }])
  t.strictSame(sent, ['sent', false])
  t.strictSame(subject.gauges(), NOTHING_HELD)
  t.strictSame(alarms(subject.lines), [])
})

test('without event storage a call goes on when its connection is lost, and cannot be read on (LEG-41, LEG-55)', BOUND, async t => {
  const subject = await setUp(t, { events: false })
  const first = await call(t, subject)
  subject.step()
  t.match(await first.message(), { params: { progress: 1 } })
  await first.drop()
  await until(() => subject.gauges().timers === 0)
  subject.step()
  t.equal(subject.channels[0]?.signal.aborted, false)
  t.equal((await readStream(t, subject.port, subject.session, `${'a'.repeat(22)}_0`)).statusCode, 400)
  subject.finish()
  await subject.ended(2)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('an app that shares its event store goes on with a call of another one: it sends what there is, and the client comes back', BOUND, async t => {
  const events = memoryEvents()
  const a = await setUp(t, { events, retry: 5 })
  const b = await setUp(t, { events, retry: 5 })
  const first = await call(t, a)
  a.step()
  const { id } = await nextWith(first, 1)
  await first.drop()
  a.step()
  const part = await (await readStream(t, b.port, a.session, id)).rest()
  t.strictSame(stepsOf(part), [2])
  t.strictSame(part.at(-1), { retry: 5 })
  a.step()
  a.finish()
  await a.ended(2)
  const rest = await (await readStream(t, b.port, a.session, part[0]?.id)).rest()
  t.strictSame(stepsOf(rest), [3, 'done'])
  t.strictSame(rest.at(-1)?.retry, undefined)
})

// ---- the end of the app

test('a shutdown waits for a lost call, and its end is kept', BOUND, async t => {
  const events = memoryEvents()
  const subject = await setUp(t, { events })
  const other = await setUp(t, { events })
  const first = await call(t, subject)
  const { id } = await first.next()
  await first.drop()
  await until(() => subject.gauges().timers === 0)
  const closed = subject.app.close()
  await delay(20)
  t.equal(subject.channels[0]?.signal.aborted, false)
  subject.finish()
  await within(closed, 'the end of the app', 3_000)
  t.strictSame(subject.gauges(), NOTHING_HELD)
  t.match(messagesIn(await (await readStream(t, other.port, subject.session, id)).rest()), [{ id: 1, result: done }])
})

test('a shutdown ends a lost call that takes longer than it may', BOUND, async t => {
  const subject = await setUp(t, {}, { limits: { drain: 50 } })
  const first = await call(t, subject)
  await first.next()
  await first.drop()
  await until(() => subject.gauges().timers === 0)
  const closed = subject.app.close()
  await until(() => subject.channels[0]?.signal.aborted === true)
  subject.finish()
  await within(closed, 'the end of the app', 3_000)
  t.match(subject.ends.slice(-1), [{ cause: 'shutdown' }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a shutdown waits until the answer has left on the connection that the client came back on', BOUND, async t => {
  const BIG = 20_000_000
  const started = gate()
  const go = gate()
  const subject = await stage(t, toolServer(async (_request, channel) => {
    channel.startStream()
    started.open()
    await go.promise
    return result(toolResult.text('x'.repeat(BIG)))
  }), {})
  const session = await open(subject.app)
  const first = await read(t, subject.port, 'POST', session.compose('tools/call', callOf()))
  const { id } = await first.next()
  await first.drop()
  const wire = await openWire(t, subject.port)
  sendGet(wire, session, id)
  await wire.received('HTTP/1.1 200')
  wire.socket.pause()
  const closed = subject.app.close()
  go.open()
  await subject.ended(2)
  await delay(20)
  wire.socket.resume()
  await within(Promise.all([closed, wire.closed]), 'the end of the app', 5_000)
  const body = bodyOf(wire.text)
  t.equal(body.lastIndexOf('x') + 1 - body.indexOf('xxx'), BIG)
})
