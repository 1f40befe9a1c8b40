import { setTimeout as delay } from 'node:timers/promises'
import mqemitter from 'mqemitter'
import redisEmitter from 'mqemitter-redis'
import { Redis } from 'ioredis'
import { test, type Test } from 'tap'
import { busSubscriptions, createSuite, defineResources, readResourceResult } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { findRedis, redisMissing } from '../helpers/redis.js'
import { echo, info } from '../helpers/servers.js'
import { alarms, gate, stage, until, type Stage } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import { open, VERSIONS } from '../legacy/helpers.js'
import type { MessageBus } from 'fastify-gen-mcp'

// What a bus between processes does that one within a process does not: it confirms later, fails, and hands on copies.

const notes = defineResources({ prefix: 'note://', read: ({ uri }) => readResourceResult({ uri, text: '' }) })
type Emit = MessageBus['emit']

/** A bus that carries everything, and whose emit is this one. */
function createBus (emit: (...[packet, done]: Parameters<Emit>) => unknown): MessageBus {
  const inner = mqemitter()
  return {
    on: (topic, listener, done) => inner.on(topic, listener, done),
    removeListener: (topic, listener, done) => { inner.removeListener(topic, listener, done) },
    // What it gives is no concern of the type.
    emit: emit as Emit
  }
}

// ---- sessions

async function serveSessions (t: Test, bus: MessageBus): Promise<Stage> {
  const suite = createSuite({ info, tools: [], resources: [notes], subscriptions: busSubscriptions() })
  // These buses answer no probe.
  return await stage(t, suite, { listen: false, busProbe: false, legacy: { bus } })
}

test('what all replicas have to know of a session is answered when the bus has taken it: LEG-22, LEG-59, LEG-61, case 001', async t => {
  for (const way of ['callback', 'promise']) {
    let taking = gate()
    let taken = gate()
    const bus = createBus((_packet, done) => {
      taking.open()
      const promise = taken.promise
      if (way === 'promise') return promise
      promise.then(() => { done?.() }, () => {})
      return undefined
    })
    const { app, lines } = await serveSessions(t, bus)
    const session = await open(app)
    const changes = [
      () => session.request('logging/setLevel', { level: 'debug' }), () => session.request('resources/subscribe', { uri: 'note://1' }),
      () => session.request('resources/unsubscribe', { uri: 'note://1' }), () => session.delete()
    ]
    for (const change of changes) {
      taking = gate()
      taken = gate()
      let answered = false
      const response = change().finally(() => { answered = true })
      await taking.promise
      // Another session is served meanwhile.
      await (await open(app)).request('ping')
      t.equal(answered, false, way)
      taken.open()
      t.ok((await response).statusCode < 300)
    }
    t.strictSame(alarms(lines), [])
  }
})

test('a bus that has nothing to confirm with, or fails, keeps nobody waiting', { timeout: 60_000 }, async t => {
  const failure = new Error('no bus')
  const buses: Readonly<Record<string, { readonly bus: MessageBus, readonly logged: boolean }>> = {
    'emit without a callback': { bus: { ...createBus(() => {}), emit: (_packet): void => {} }, logged: false },
    'no answer at all': { bus: createBus((_packet, _done) => {}), logged: false },
    'an error in the callback': { bus: createBus((_packet, done) => { done?.(failure) }), logged: true },
    'a rejection': { bus: createBus(async (_packet, _done) => { throw failure }), logged: true },
    'a throw': { bus: createBus((_packet, _done) => { throw failure }), logged: true }
  }
  for (const [what, { bus, logged }] of Object.entries(buses)) {
    const { app, lines } = await serveSessions(t, bus)
    const session = await open(app)
    t.equal((await session.request('logging/setLevel', { level: 'error' })).statusCode, 200, what)
    t.equal((await session.delete()).statusCode, 204, what)
    t.equal((await session.request('ping')).statusCode, 404, `${what}: here it is over`)
    t.match(alarms(lines), Array.from({ length: logged ? 2 : 0 }, () => ({ msg: 'other replicas could not be told of an MCP session', err: { message: 'no bus' } })), what)
    t.equal(alarms(lines).length, logged ? 2 : 0, what)
  }
})

// ---- listens

test('a change that a bus does not take is logged, and is nobody\'s crash: case 006', async t => {
  const failure = new Error('no bus')
  const buses = [
    createBus((_packet, done) => { done?.(failure) }), createBus(async () => { throw failure }), createBus(() => { throw failure })
  ]
  for (const bus of buses) {
    const changes = busSubscriptions({ bus })
    const { lines } = await stage(t, createSuite({ info, tools: [], subscriptions: changes }), { listen: false, busProbe: false })
    changes.toolsChanged()
    await until(() => alarms(lines).length > 0)
    t.match(alarms(lines), [{ msg: 'a change could not be told over a bus', err: { message: 'no bus' }, mcp: { source: 'subscriptions' } }])
  }
})

test('a bus that fails to remove a subscription is logged, and is nobody\'s crash', async t => {
  const failure = new Error('no bus')
  for (const remove of [() => { throw failure }, async () => { throw failure }]) {
    const bus = { ...createBus((_packet, done) => { done?.() }), removeListener: remove as MessageBus['removeListener'] }
    const { app, lines, gauges } = await stage(t, createSuite({ info, tools: [], subscriptions: busSubscriptions({ bus }) }), { busProbe: false })
    const client = createTestClient(app)
    const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
    await take(listen, 1)
    await client.close()
    await until(() => gauges().exchanges === 0)
    await until(() => alarms(lines).length > 0)
    t.match(alarms(lines), [{ err: { message: 'no bus' } }])
    t.equal(alarms(lines).length, 1)
  }
})

test('a change for a principal that is undefined is one for all, over Redis as within a process: SUB-20', { skip: redisMissing(), timeout: 60_000 }, async t => {
  const url = await findRedis(t)
  const topic = `test/${process.pid}/${Date.now()}`
  const [here, there] = [createRedisBus(t, url), createRedisBus(t, url)]
  const changes = busSubscriptions({ bus: here, topic })
  await stage(t, createSuite({ info, tools: [], subscriptions: changes }), { listen: false })
  const { app } = await stage(t, createSuite({ info, tools: [], resources: [notes], subscriptions: busSubscriptions({ bus: there, topic }) }))
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true, resourceSubscriptions: ['note://1'] } })
  await take(listen, 1)
  // What plain JavaScript passes on where nobody is logged in.
  changes.resourceUpdated('note://1', { principal: undefined } as object)
  t.match(await take(listen, 1), [{ method: 'notifications/resources/updated', params: { uri: 'note://1' } }])
  changes.toolsChanged({ principal: 'somebody' })
  changes.toolsChanged({ principal: undefined } as object)
  t.match(await take(listen, 1), [{ method: 'notifications/tools/list_changed' }])
})

test('two mounts on one Redis bus each hear of theirs alone', { skip: redisMissing(), timeout: 60_000 }, async t => {
  const url = await findRedis(t)
  const bus = createRedisBus(t, url)
  const topic = `test/${process.pid}/${Date.now()}/sessions`
  const legacy = { bus, topic }
  const secrets = ['the secret that all of the replicas share']
  const a = await stage(t, echo, { listen: false, secrets, legacy })
  const b = await stage(t, echo, { listen: false, secrets, legacy: { ...legacy, topic: `${topic}/other` } })
  const c = await stage(t, echo, { listen: false, secrets, legacy: { ...legacy, bus: createRedisBus(t, url) } })
  for (const version of VERSIONS) {
    const session = await open(a.app, version)
    t.equal((await session.delete()).statusCode, 204)
    const status = async ({ app }: Stage): Promise<number> => (await app.inject({
      method: 'POST', url: '/mcp', headers: { ...session.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' }, payload: { jsonrpc: '2.0', id: 1, method: 'ping' }
    })).statusCode
    t.strictSame([await status(a), await status(b)], [404, 200])
    // One that has its own connection hears of it, if not in this turn.
    while (await status(c) !== 404) await delay(5)
  }
})

function createRedisBus (t: Test, url: string): MessageBus {
  const connect = (): Redis => new Redis(url, { maxRetriesPerRequest: null })
  const bus = redisEmitter({ subConn: connect(), pubConn: connect() })
  t.teardown(async () => { await new Promise<void>(resolve => { bus.close(resolve) }) })
  return bus
}
