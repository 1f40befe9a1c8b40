import { EventEmitter } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import Fastify from 'fastify'
import { test } from 'tap'
import { elicitForm, inputRequired, result, stream, toolResult, type BusListener, type BusPacket, type MessageBus, type Server } from 'fastify-gen-mcp'
import { sealedSessions, type LegacyOptions } from 'fastify-gen-mcp/legacy'
import { Output } from '../../lib/legacy/output.js'
import { Sessions, type Known, type News } from '../../lib/legacy/sessions.js'
import { info } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, stage, until, within, type Line, type Stage } from '../helpers/sockets.js'
import { open, read, readStream, type LegacySession, type Reading } from './helpers.js'
import type { Test } from 'tap'

const BOUND = { timeout: 120_000 }
const MAX_REMEMBERED = 10_000

/** A bus of one process that hands on in the same turn. */
function createBus (): MessageBus & { readonly packets: readonly BusPacket[], failure: Error | undefined, readonly emitter: EventEmitter } {
  const emitter = new EventEmitter()
  const packets: BusPacket[] = []
  return {
    emitter,
    packets,
    failure: undefined,
    on: (topic, listener) => emitter.on(topic, listener),
    removeListener (topic, listener) { emitter.off(topic, listener) },
    emit (packet, done) {
      packets.push(packet)
      if (this.failure === undefined) for (const listener of emitter.listeners(packet.topic) as BusListener[]) listener(packet, () => {})
      done?.(this.failure)
    }
  }
}

function createSessions (t: Test, bus?: MessageBus, lines: Line[] = []): Sessions {
  const app = Fastify({ logger: { level: 'error', stream: { write: (line: string) => { lines.push(JSON.parse(line) as Line) } } } })
  t.teardown(async () => { await app.close() })
  return new Sessions(sealedSessions(), bus, 'topic', app)
}

function level (sessions: Sessions, key: string): void {
  sessions.tell(key, { type: 'level', level: 'error' })
}

// ---- what is remembered

test('a session of which nothing is left is not remembered, and one with a level or a subscription is', t => {
  const sessions = createSessions(t)
  const known = sessions.get('a')
  known.calls.set('1', { cancel () {} })
  sessions.release('a')
  t.equal(sessions.size, 1)
  known.calls.clear()
  sessions.release('a')
  t.equal(sessions.size, 0)
  sessions.release('a')

  level(sessions, 'b')
  sessions.tell('c', { type: 'subscribed', uri: 'test://a' })
  for (const key of ['b', 'c']) sessions.release(key)
  t.match([sessions.find('b')?.logLevel, [...sessions.find('c')?.uris ?? []]], ['error', ['test://a']])
  sessions.tell('c', { type: 'unsubscribed', uri: 'test://a' })
  t.equal(sessions.find('c'), undefined)
  sessions.tell('d', { type: 'unsubscribed', uri: 'test://a' })
  t.equal(sessions.size, 1)
  sessions.tell('b', { type: 'ended' })
  t.equal(sessions.size, 0)
  t.end()
})

test('of sessions with nothing but a level 10,000 are remembered, and the one that was touched longest ago goes first (LEG-26)', t => {
  const sessions = createSessions(t)
  for (let n = 0; n < MAX_REMEMBERED; n++) level(sessions, `${n}`)
  t.equal(sessions.size, MAX_REMEMBERED)
  level(sessions, '0')
  level(sessions, 'new')
  t.equal(sessions.size, MAX_REMEMBERED)
  t.equal(sessions.find('1'), undefined)
  t.not(sessions.find('0'), undefined)
  t.not(sessions.find('new'), undefined)
  t.end()
})

test('sessions that are in use are not forgotten, and keep none of the others from it (LEG-26)', t => {
  const sessions = createSessions(t)
  const inUse: Known[] = []
  for (let n = 0; n < 1_000; n++) {
    const known = sessions.get(`used ${n}`)
    known.standing = { subscribe () {}, unsubscribe () {}, close () {} }
    inUse.push(known)
  }
  for (let n = 0; n < 2 * MAX_REMEMBERED; n++) level(sessions, `${n}`)
  t.ok(sessions.size <= MAX_REMEMBERED + 100, `${sessions.size} are remembered`)
  t.ok(inUse.every((known, n) => sessions.find(`used ${n}`) === known))
  t.end()
})

// ---- news

test('news goes to the other replicas, unless it was about something that is here', t => {
  const bus = createBus()
  const [a, b] = [createSessions(t, bus), createSessions(t, bus)]
  const told: unknown[] = []
  const known = b.get('key')
  known.calls.set('7', { cancel: reason => { told.push(['cancel', reason]) } })
  known.questions.set('q', answer => { told.push(['answer', answer]) })
  known.standing = { subscribe: uri => { told.push(['subscribe', uri]) }, unsubscribe: uri => { told.push(['unsubscribe', uri]) }, close: () => { told.push('close') } }

  const news: News[] = [
    { type: 'cancelled', requestId: 7, reason: 'why' }, { type: 'cancelled', requestId: '7' }, { type: 'answered', id: 'q', answer: { result: {} } },
    { type: 'answered', id: 'other', answer: {} }, { type: 'level', level: 'debug' }, { type: 'subscribed', uri: 'x:' }, { type: 'unsubscribed', uri: 'x:' }, { type: 'opened' }
  ]
  for (const piece of news) a.tell('key', piece)
  t.strictSame(told, [['cancel', 'why'], ['answer', { result: {} }], ['subscribe', 'x:'], ['unsubscribe', 'x:'], 'close'])
  t.equal(b.find('key')?.logLevel, 'debug')
  t.equal(bus.packets.length, news.length)

  b.tell('key', { type: 'cancelled', requestId: 7 })
  b.tell('key', { type: 'answered', id: 'q', answer: {} })
  t.equal(bus.packets.length, news.length, 'what was here is nobody else\'s')
  t.equal(told.length, 7)

  a.tell('key', { type: 'ended' })
  t.strictSame(told.slice(7), ['close', ['cancel', undefined]])
  t.equal(b.size, 0)
  t.end()
})

test('what is no news is not heard, and a bus that fails is logged', t => {
  const bus = createBus()
  const lines: Line[] = []
  const sessions = createSessions(t, bus, lines)
  const packets = [{}, { origin: 'x', session: 1, news: { type: 'level', level: 'debug' } }, { origin: 'x', session: 'key' }, { origin: 'x', session: 'key', news: 'ended' }]
  for (const packet of packets) bus.emit({ topic: 'topic', ...packet })
  t.equal(sessions.size, 0)
  bus.failure = new Error('no bus')
  level(sessions, 'key')
  t.equal(sessions.find('key')?.logLevel, 'error', 'here it is known')
  t.match(lines, [{ msg: 'other replicas could not be told of an MCP session', err: { message: 'no bus' } }])
  t.end()
})

test('the end of the app ends its subscription to the bus', async t => {
  const bus = createBus()
  const app = Fastify()
  const sessions = new Sessions(sealedSessions(), bus, 'topic', app)
  t.equal(sessions.size, 0)
  t.equal(bus.emitter.listenerCount('topic'), 1)
  await app.close()
  t.equal(bus.emitter.listenerCount('topic'), 0)
})

// ---- the four ways in which a session ends

/** What the mounts of this test keep of sessions, and the outputs that run. */
function watchKept (t: Test): { readonly sessions: ReadonlySet<Sessions>, readonly running: ReadonlySet<Map<unknown, unknown>> } {
  const sessions = new Set<Sessions>()
  const running = new Set<Map<unknown, unknown>>()
  const { get } = Sessions.prototype
  const { set } = Map.prototype
  Sessions.prototype.get = function (key) {
    sessions.add(this)
    return get.call(this, key)
  }
  Object.assign(Map.prototype, {
    set (this: Map<unknown, unknown>, key: unknown, value: unknown) {
      if (value instanceof Output) running.add(this)
      return set.call(this, key, value)
    }
  })
  t.teardown(() => {
    Sessions.prototype.get = get
    Object.assign(Map.prototype, { set })
  })
  return { sessions, running }
}

const question = { name: elicitForm('Who are you?', { type: 'object', properties: { name: { type: 'string' } } } as never) }

/** A server whose tools wait: for an answer, or for the end of the exchange; and which accepts every listen. */
function createWaiting (go: Promise<void>): Server {
  return {
    info,
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} },
    async handleRequest (request, channel) {
      if (request.method === 'subscriptions/listen') {
        channel.acknowledge()
        return stream(undefined)
      }
      channel.startStream()
      if ('name' in request.params && request.params.name === 'ask') return inputRequired(question)
      await Promise.race([go, new Promise<void>(resolve => { channel.signal.addEventListener('abort', () => { resolve() }) })])
      return result(toolResult.text('done'))
    }
  } as Server
}

interface Visitor { readonly session: LegacySession, readonly readings: readonly Reading[] }

/** 50 sessions with a stream each, a call that runs, and one that waits for its client. */
async function visit (t: Test, subject: Stage): Promise<readonly Visitor[]> {
  const visitors: Visitor[] = []
  for (let n = 0; n < 50; n++) {
    const session = await open(subject.app, '2025-11-25', { capabilities: { elicitation: {} } })
    const readings = await Promise.all([
      readStream(t, subject.port, session),
      read(t, subject.port, 'POST', session.compose('tools/call', { name: 'run', arguments: {} }, { id: 1 })),
      read(t, subject.port, 'POST', session.compose('tools/call', { name: 'ask', arguments: {} }, { id: 2 }))
    ])
    visitors.push({ session, readings })
  }
  return visitors
}

const ways: Readonly<Record<string, { readonly legacy?: LegacyOptions, readonly remember?: boolean, end (subject: Stage, visitors: readonly Visitor[], go: () => void): Promise<void> }>> = {
  DELETE: {
    remember: true,
    async end (_subject, visitors) {
      for (const { session } of visitors) if ((await session.delete()).statusCode !== 204) throw new Error('The session was not ended')
    }
  },
  expiry: {
    legacy: { sessions: sealedSessions({ maxAge: 8_000 }), maxStreamAge: 8_000, answerTimeout: 8_000 },
    async end (_subject, visitors, go) {
      go()
      for (const { session, readings } of visitors) {
        await Promise.all(readings.map(async ({ closed }) => { await closed }))
        while ((await session.request('ping')).statusCode !== 404) await delay(100)
      }
    }
  },
  disconnect: {
    legacy: { answerTimeout: 8_000 },
    async end (_subject, visitors, go) {
      for (const { readings } of visitors) for (const reading of readings) await reading.drop()
      go()
    }
  },
  shutdown: {
    async end (subject, _visitors, go) {
      const closed = subject.app.close()
      go()
      await within(closed, 'the end of the app', 10_000)
    }
  }
}

for (const [way, { legacy = {}, remember = false, end }] of Object.entries(ways)) {
  test(`50 sessions that end by ${way} leave nothing: no session, no output, nothing on the mount: case 008`, BOUND, async t => {
    const kept = watchKept(t)
    const go = gate()
    const subject = await stage(t, createWaiting(go.promise), { legacy })
    const visitors = await visit(t, subject)
    if (remember) {
      for (const { session } of visitors) {
        t.match((await session.request('logging/setLevel', { level: 'error' }, { id: 3 })).json(), { result: {} })
        t.match((await session.request('resources/subscribe', { uri: 'test://a' }, { id: 4 })).json(), { result: {} })
      }
    }
    t.equal([...kept.sessions].reduce((sum, { size }) => sum + size, 0), 50)
    t.equal([...kept.running].reduce((sum, { size }) => sum + size, 0), 100)
    t.match(subject.gauges(), { exchanges: remember ? 200 : 150 })

    await end(subject, visitors, go.open)
    await within(until(() => subject.gauges().exchanges === 0), 'the end of all', 20_000)
    t.strictSame([...kept.sessions].map(({ size }) => size), [0])
    t.strictSame([...kept.running].map(({ size }) => size), [0])
    t.strictSame(subject.gauges(), NOTHING_HELD)
    t.strictSame(alarms(subject.lines), [])
  })
}
