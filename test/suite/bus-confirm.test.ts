import { test, type Test } from 'tap'
import mqemitter from 'mqemitter'
import {
  busSubscriptions, createSuite, defineResources, readResourceResult, type BusListener, type BusSubscriptionsOptions, type JsonObject, type MessageBus, type SubscriptionFilter
} from 'fastify-gen-mcp'
import { createTestClient, type TestStream } from 'fastify-gen-mcp/testing'
import { createDeferred } from '../../lib/deferred.js'
import { info } from '../helpers/servers.js'
import { alarms, NOTHING_HELD, openWire, postListen, stage, until } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'

const notes = defineResources({ prefix: 'notes://', read: ({ uri }) => readResourceResult({ uri, text: '' }) })
const filter: SubscriptionFilter = { toolsListChanged: true, resourceSubscriptions: ['notes://1', 'notes://end'] }
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'
const UPDATED = 'notifications/resources/updated'

type Done = ((error?: unknown) => void) | undefined

/** A bus over an MQEmitter whose `on` does as it is told. It says who listens. */
function createBus (on: (subscribe: () => void, done: Done) => unknown) {
  const inner = mqemitter()
  const listeners = new Set<BusListener>()
  const bus: MessageBus = {
    on: (topic, listener, done) => on(() => {
      listeners.add(listener)
      inner.on(topic, listener)
    }, done),
    removeListener: (topic, listener, done) => {
      if (listeners.delete(listener)) inner.removeListener(topic, listener, done)
    },
    emit: (packet, done) => { inner.emit(packet, done) }
  }
  return { bus, listeners }
}

async function serve (t: Test, options: BusSubscriptionsOptions, listen = false) {
  const changes = busSubscriptions(options)
  const staged = await stage(t, createSuite({ info, tools: [], prompts: [], resources: [notes], subscriptions: changes }), { listen, busProbe: false })
  const client = createTestClient(staged.app)
  t.teardown(async () => { await client.close() })
  const open = async (): Promise<TestStream<'subscriptions/listen'>> => await client.open('subscriptions/listen', { notifications: filter })
  return { ...staged, changes, open }
}

const methodsOf = (messages: readonly JsonObject[]): unknown[] => messages.map(({ method }) => method)

test('a listen is acknowledged when the bus has it, so that no change is lost after that: SUB-19', async t => {
  const { bus, listeners } = createBus((subscribe, done) => {
    setTimeout(() => {
      subscribe()
      done?.()
    }, 50)
  })
  const { changes, open, lines } = await serve(t, { bus })
  const stream = await open()
  t.strictSame(methodsOf(await take(stream, 1)), [ACKNOWLEDGED])
  t.equal(listeners.size, 1)
  changes.resourceUpdated('notes://1')
  t.match(await take(stream, 1), [{ method: UPDATED, params: { uri: 'notes://1' } }])
  t.strictSame(alarms(lines), [])
})

test('an MQEmitter confirms in its own time, and a bus may do it by a promise: SUB-19', async t => {
  const ready = createDeferred<undefined>()
  const promising = createBus(async subscribe => {
    await ready.promise
    subscribe()
  })
  setTimeout(() => { ready.resolve(undefined) }, 50)
  for (const bus of [mqemitter(), promising.bus]) {
    const { changes, open, lines } = await serve(t, { bus })
    const stream = await open()
    await take(stream, 1)
    changes.resourceUpdated('notes://1')
    t.match(await take(stream, 1), [{ method: UPDATED, params: { uri: 'notes://1' } }])
    t.strictSame(alarms(lines), [])
  }
})

test('all listens that begin meanwhile wait for the same subscription, and one that comes later for none: SUB-10, SUB-19', async t => {
  const confirms: Done[] = []
  const { bus, listeners } = createBus((subscribe, done) => {
    subscribe()
    confirms.push(done)
  })
  const { open, gauges } = await serve(t, { bus })
  const opening = [open(), open()]
  await until(() => gauges().listens === 2 && confirms.length > 0)
  t.equal(gauges().streams, 0)
  t.equal(confirms.length, 1)
  confirms[0]?.()
  for (const stream of await Promise.all(opening)) t.strictSame(methodsOf(await take(stream, 1)), [ACKNOWLEDGED])
  t.strictSame(methodsOf(await take(await open(), 1)), [ACKNOWLEDGED])
  t.equal(confirms.length, 1)
  t.equal(listeners.size, 1)
})

test('a change that comes while the bus has yet to confirm follows the acknowledgement: SUB-03, SUB-19', async t => {
  const confirms: Done[] = []
  const { bus } = createBus((subscribe, done) => {
    subscribe()
    confirms.push(done)
  })
  const { changes, open } = await serve(t, { bus })
  const opening = open()
  await until(() => confirms.length > 0)
  changes.resourceUpdated('notes://1')
  confirms[0]?.()
  t.strictSame(methodsOf(await take(await opening, 2)), [ACKNOWLEDGED, UPDATED])
})

test('a bus that says nothing is logged, and the listen is acknowledged all the same', async t => {
  const late: (() => void)[] = []
  const { bus, listeners } = createBus(subscribe => { late.push(subscribe) })
  const { changes, open, lines } = await serve(t, { bus })
  const begin = performance.now()
  const stream = await open()
  t.strictSame(methodsOf(await take(stream, 1)), [ACKNOWLEDGED])
  const took = performance.now() - begin
  t.ok(took > 4900 && took < 10_000, `it took ${took} ms`)
  t.match(alarms(lines), [{ msg: 'a bus did not confirm a subscription', err: { message: 'on: no answer within 5000 ms' }, mcp: { source: 'subscriptions' } }])
  t.equal(alarms(lines).length, 1)
  // It may come yet, and nobody waits, or subscribes, a second time.
  t.strictSame(methodsOf(await take(await open(), 1)), [ACKNOWLEDGED])
  t.equal(late.length, 1)
  late[0]?.()
  t.equal(listeners.size, 1)
  changes.resourceUpdated('notes://1')
  t.match(await take(stream, 1), [{ method: UPDATED }])
})

test('a bus that fails is logged, the listen is acknowledged, and the next one tries again', async t => {
  const failure = new Error('not connected')
  const ways: readonly ((done: Done) => unknown)[] = [
    done => { done?.(failure) },
    () => { throw failure },
    async () => { throw failure }
  ]
  for (const fail of ways) {
    let broken = true
    const { bus, listeners } = createBus((subscribe, done) => {
      subscribe()
      if (broken) return fail(done)
      done?.()
    })
    const { changes, open, lines, ended } = await serve(t, { bus })
    const first = await open()
    t.strictSame(methodsOf(await take(first, 1)), [ACKNOWLEDGED])
    t.match(alarms(lines), [{ msg: 'a bus did not confirm a subscription', err: { message: 'not connected' } }])
    t.equal(listeners.size, 0)
    broken = false
    const second = await open()
    await take(second, 1)
    changes.resourceUpdated('notes://1')
    // The new subscription serves them all.
    for (const stream of [first, second]) t.match(await take(stream, 1), [{ method: UPDATED }])
    t.equal(alarms(lines).length, 1)
    for (const stream of [first, second]) stream.vanish()
    await ended(2)
    t.equal(listeners.size, 0)
  }
})

test('a bus that fails to remove what it failed to add makes no listen fail', async t => {
  const bus: MessageBus = {
    on: () => { throw new Error('closed') },
    removeListener: () => { throw new Error('closed') },
    emit: () => {}
  }
  const { open, lines } = await serve(t, { bus })
  t.strictSame(methodsOf(await take(await open(), 1)), [ACKNOWLEDGED])
  t.equal(alarms(lines).length, 1)
})

test('a client that leaves while the bus has yet to confirm is gone at once, and its subscription with it: SUB-11', async t => {
  const confirms: Done[] = []
  const { bus, listeners } = createBus((subscribe, done) => {
    subscribe()
    confirms.push(done)
  })
  const { port, ended, gauges } = await serve(t, { bus }, true)
  const wire = await openWire(t, port)
  wire.send(postListen({ toolsListChanged: true }))
  await until(() => confirms.length > 0)
  wire.socket.destroy()
  t.match(await ended(), [{ cause: 'disconnect' }])
  t.strictSame(gauges(), NOTHING_HELD)
  t.equal(listeners.size, 0)
  confirms[0]?.()
})

test('a change of a Suite that is not mounted goes to a bus at fault and to nobody else', t => {
  const bus: MessageBus = { on: () => {}, removeListener: () => {}, emit: () => { throw new Error('closed') } }
  t.doesNotThrow(() => { busSubscriptions({ bus }).toolsChanged() })
  t.end()
})
