import { EventEmitter } from 'node:events'
import { test, type Test } from 'tap'
import mqemitter from 'mqemitter'
import Fastify from 'fastify'
import genMcp, {
  busSubscriptions, createSuite, defineResources, defineTool, readResourceResult, toolResult, type BusListener, type BusPacket, type BusSubscriptions,
  type JsonObject, type MessageBus, type SubscriptionFilter, type Suite
} from 'fastify-gen-mcp'
import { createTestClient, type TestStream } from 'fastify-gen-mcp/testing'
import { createDeferred } from '../../lib/deferred.js'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import { take } from '../helpers/stream.js'

const MERGED = 50
const TOOLS = 'notifications/tools/list_changed'
const PROMPTS = 'notifications/prompts/list_changed'
const RESOURCES = 'notifications/resources/list_changed'
const UPDATED = 'notifications/resources/updated'
const all: SubscriptionFilter = {
  toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ['notes://1', 'notes://end', 'notes://many/']
}
const notes = defineResources({ prefix: 'notes://', read: ({ uri }) => readResourceResult({ uri, text: '' }) })

type Listen = TestStream<'subscriptions/listen'>

function createNotes (subscriptions: BusSubscriptions): Suite {
  return createSuite({ info, tools: [], prompts: [], resources: [notes], subscriptions })
}

/** A mount of a Suite whose callers say who they are. */
async function serve (t: Test, suite: Suite) {
  const ended = new EventEmitter()
  const app = await mount(t, {
    server: suite,
    // Whoever subscribes is counted.
    busProbe: false,
    principal: ({ headers }) => headers['x-user'] as string | undefined,
    onEnd: end => { ended.emit('end', end) }
  })
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  return {
    app,
    client,
    ended,
    async listen (notifications: SubscriptionFilter = all, user?: string): Promise<Listen> {
      const stream = await client.open('subscriptions/listen', { notifications }, { headers: user === undefined ? {} : { 'x-user': user } })
      await take(stream, 1)
      return stream
    }
  }
}

/** What a stream tells until it tells of `notes://end`. */
async function until (stream: AsyncIterable<JsonObject>): Promise<string[]> {
  const told: string[] = []
  for (;;) {
    const [{ method, params } = {}] = await take(stream, 1)
    const { uri } = params as { uri?: string }
    if (uri === 'notes://end') return told
    told.push(uri ?? String(method))
  }
}

// ---- what is told

test('a bus tells of changes of all four kinds, over an MQEmitter and without one: SUB-20', async t => {
  for (const options of [{}, { bus: mqemitter() }]) {
    const changes = busSubscriptions(options)
    const { listen } = await serve(t, createNotes(changes))
    const stream = await listen()
    changes.toolsChanged()
    changes.promptsChanged()
    changes.resourcesChanged()
    changes.resourceUpdated('notes://1')
    const _meta = { 'io.modelcontextprotocol/subscriptionId': 1 }
    t.strictSame((await take(stream, 4)).map(({ method, params }) => [method, params]), [
      [TOOLS, { _meta }], [PROMPTS, { _meta }], [RESOURCES, { _meta }], [UPDATED, { uri: 'notes://1', _meta }]
    ])
  }
})

test('a bus tells a stream of what it asked for and no more: SUB-06, SUB-09, SUB-10', async t => {
  const changes = busSubscriptions()
  const { listen } = await serve(t, createNotes(changes))
  const resources = await listen({ resourceSubscriptions: ['notes://a', 'notes://dir/', 'notes://end'] })
  const tools = await listen({ toolsListChanged: true, resourceSubscriptions: ['notes://end'] })
  changes.toolsChanged()
  changes.promptsChanged()
  for (const uri of ['notes://b', 'notes://ab', 'notes://a', 'notes://a/1/2', 'notes://dir/x', 'notes://dirx', 'notes:', '', 'notes://end']) changes.resourceUpdated(uri)
  t.strictSame(await until(resources), ['notes://a', 'notes://a/1/2', 'notes://dir/x'])
  t.strictSame(await until(tools), [TOOLS])
})

test('what is changed for one principal is told to that caller alone: case 078', async t => {
  for (const options of [{}, { bus: mqemitter() }]) {
    const changes = busSubscriptions(options)
    const { listen } = await serve(t, createNotes(changes))
    const [alice, again, bob, nobody] = [await listen(all, 'alice'), await listen(all, 'alice'), await listen(all, 'bob'), await listen()]
    changes.toolsChanged({ principal: 'alice' })
    changes.promptsChanged({ principal: 'bob' })
    changes.resourcesChanged({ principal: 'carol' })
    changes.resourceUpdated('notes://1', { principal: 'alice' })
    changes.resourceUpdated('notes://end')
    t.strictSame(await until(alice), [TOOLS, 'notes://1'])
    t.strictSame(await until(again), [TOOLS, 'notes://1'])
    t.strictSame(await until(bob), [PROMPTS])
    t.strictSame(await until(nobody), [])
  }
})

test('a change that concerns no listen is told to nobody, and none is told of what was before it: SUB-12', async t => {
  const changes = busSubscriptions()
  changes.toolsChanged()
  const { listen } = await serve(t, createNotes(changes))
  changes.toolsChanged()
  const stream = await listen()
  changes.resourceUpdated('notes://end')
  t.strictSame(await until(stream), [])
})

// ---- merging

test('five tools that come in one tick are one notification for each client, on every instance of the bus: case 077, SUB-16, SUB-20', async t => {
  const bus = mqemitter()
  const instances = await Promise.all([1, 2].map(async () => {
    const changes = busSubscriptions({ bus })
    const suite = createNotes(changes)
    return { changes, suite, ...await serve(t, suite) }
  }))
  const [a, b] = instances
  if (a === undefined || b === undefined) throw new Error('There are two')
  const streams = [await a.listen(), await b.listen()]
  for (const name of ['1', '2', '3', '4', '5']) a.suite.add(defineTool({ name, call: () => toolResult.text(name) }))
  for (const stream of streams) t.match(await take(stream, 1), [{ method: TOOLS }])
  // The second comes when its time has come, and so would another of the tools have come before it.
  for (let i = 0; i < 2; i++) {
    b.changes.resourceUpdated('notes://1')
    for (const stream of streams) t.match(await take(stream, 1), [{ params: { uri: 'notes://1' } }])
  }
  t.match((await a.client.request('tools/list', {})).result, { tools: [1, 2, 3, 4, 5].map(n => ({ name: String(n) })) })
})

test('a stream is told of one thing at most once in 50 ms, and always after the last change: SUB-16', async t => {
  const changes = busSubscriptions()
  const { listen } = await serve(t, createNotes(changes))
  const stream = await listen()
  const times: number[] = []
  let version = 0
  // A change at each turn of the loop: each that is told of is followed by more.
  const finished = createDeferred<number>()
  const begin = performance.now()
  const change = (): void => {
    version++
    changes.resourceUpdated('notes://1')
    if (performance.now() - begin < 4 * MERGED) setImmediate(change)
    else finished.resolve(performance.now())
  }
  change()
  let done = false
  const last = finished.promise.then(() => { done = true })
  for (;;) {
    await take(stream, 1)
    times.push(performance.now())
    if (done) break
  }
  await last
  const span = (times.at(-1) ?? 0) - begin
  t.ok(version > times.length, `${version} changes, ${times.length} notifications`)
  t.ok(times.length >= 2)
  t.ok(times.length <= Math.floor(span / MERGED) + 2, `${times.length} notifications in ${span} ms`)
})

test('what waits for its time holds back nothing else, other URIs and other kinds least of all', async t => {
  const changes = busSubscriptions()
  const { listen } = await serve(t, createNotes(changes))
  const stream = await listen()
  changes.resourceUpdated('notes://1')
  t.match(await take(stream, 1), [{ params: { uri: 'notes://1' } }])
  changes.resourceUpdated('notes://1')
  changes.resourceUpdated('notes://many/1')
  changes.toolsChanged()
  t.match(await take(stream, 2), [{ params: { uri: 'notes://many/1' } }, { method: TOOLS }])
  changes.promptsChanged()
  t.match(await take(stream, 2), [{ method: PROMPTS }, { params: { uri: 'notes://1' } }])
})

test('a flood of changes ends no stream, whether it concerns them or not', async t => {
  const changes = busSubscriptions()
  const { listen } = await serve(t, createNotes(changes))
  const [concerned, other] = [await listen(), await listen({ toolsListChanged: true, resourceSubscriptions: ['notes://end'] })]
  for (let i = 0; i < 3000; i++) {
    changes.toolsChanged()
    changes.resourceUpdated(`notes://many/${i}`)
  }
  changes.resourceUpdated('notes://end')
  t.strictSame(await until(other), [TOOLS])
  const told = await until(concerned)
  t.equal(told.length, 3001)
  // What was told long ago is forgotten, which nobody sees.
  changes.resourceUpdated('notes://1')
  t.match(await take(concerned, 1), [{ params: { uri: 'notes://1' } }])
})

test('a stream that was told of many things is told of them again later', async t => {
  const changes = busSubscriptions()
  const { listen } = await serve(t, createNotes(changes))
  const stream = await listen()
  const uris = Array.from({ length: 120 }, (_, i) => `notes://many/${i}`)
  for (let round = 0; round < 3; round++) {
    for (const uri of uris) changes.resourceUpdated(uri)
    t.strictSame((await take(stream, uris.length)).map(({ params }) => (params as { uri: string }).uri).sort(), [...uris].sort())
  }
})

// ---- the bus

/** A bus that counts its listeners, and hands every packet over at once. */
function createBus () {
  const listeners = new Map<BusListener, string>()
  let added = 0
  const bus: MessageBus = {
    on: (topic, listener) => {
      added++
      listeners.set(listener, topic)
    },
    removeListener: (topic, listener) => {
      if (listeners.get(listener) === topic) listeners.delete(listener)
    },
    emit: packet => { for (const [listener, topic] of listeners) if (topic === packet.topic) listener(packet, () => {}) }
  }
  return { bus, listeners, added: () => added, emit: (packet: object) => { bus.emit(packet as BusPacket) } }
}

test('all streams of a process share one subscription to the bus, which goes with the last and comes again: SUB-11', async t => {
  const { bus, listeners, added } = createBus()
  const changes = busSubscriptions({ bus })
  const { listen, ended } = await serve(t, createNotes(changes))
  t.equal(listeners.size, 0)
  const [first, second] = [await listen(), await listen()]
  t.equal(listeners.size, 1)
  for (const [stream, left] of [[first, 1], [second, 0]] as const) {
    const gone = new Promise(resolve => { ended.once('end', resolve) })
    stream.vanish()
    await gone
    t.equal(listeners.size, left)
  }
  const third = await listen()
  t.equal(listeners.size, 1)
  t.equal(added(), 2)
  changes.resourceUpdated('notes://end')
  t.strictSame(await until(third), [])
})

test('an MQEmitter that removes a listener late does not remove that of the next stream', async t => {
  const changes = busSubscriptions({ bus: mqemitter() })
  const { listen, ended } = await serve(t, createNotes(changes))
  for (let i = 0; i < 3; i++) {
    const stream = await listen()
    changes.resourceUpdated('notes://1')
    t.match(await take(stream, 1), [{ params: { uri: 'notes://1' } }])
    const gone = new Promise(resolve => { ended.once('end', resolve) })
    stream.vanish()
    await gone
  }
})

test('Suites on one bus are kept apart by their topics', async t => {
  const { bus, listeners } = createBus()
  const [one, other] = [busSubscriptions({ bus, topic: 'one' }), busSubscriptions({ bus, topic: 'other' })]
  const stream = await (await serve(t, createNotes(one))).listen()
  const second = await (await serve(t, createNotes(other))).listen()
  const third = await (await serve(t, createNotes(busSubscriptions({ bus })))).listen()
  t.strictSame([...listeners.values()], ['one', 'other', 'mcp'])
  other.toolsChanged()
  for (const topic of ['one', 'other', 'mcp']) bus.emit({ topic, kind: 'resourceSubscriptions', uri: 'notes://end' })
  t.strictSame(await until(stream), [])
  t.strictSame(await until(second), [TOOLS])
  t.strictSame(await until(third), [])
})

test('what is on the bus and is no change is dropped', async t => {
  const { bus, emit } = createBus()
  const { listen } = await serve(t, createNotes(busSubscriptions({ bus })))
  const stream = await listen()
  const strangers: object[] = [
    {}, { kind: 'taskIds' }, { kind: 'toString' }, { kind: 7 }, { kind: 'resourceSubscriptions' }, { kind: 'resourceSubscriptions', uri: 7 },
    { kind: 'toolsListChanged', principal: 7 }, { kind: 'toolsListChanged', principal: null }
  ]
  for (const stranger of strangers) emit({ topic: 'mcp', ...stranger })
  emit({ topic: 'mcp', kind: 'promptsListChanged', more: 'of it' })
  emit({ topic: 'mcp', kind: 'resourceSubscriptions', uri: 'notes://end' })
  t.strictSame(await until(stream), [PROMPTS])
})

test('one provider may serve a Suite that is mounted twice, and a shutdown ends its listens with their result: SUB-17', async t => {
  const changes = busSubscriptions()
  const suite = createNotes(changes)
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  for (const prefix of ['/a', '/b']) await app.register(genMcp, { prefix, server: suite })
  const streams = await Promise.all(['/a', '/b'].map(async path => {
    const stream = await createTestClient(app, { path }).open('subscriptions/listen', { notifications: all })
    await take(stream, 1)
    return stream
  }))
  changes.toolsChanged()
  for (const stream of streams) t.match(await take(stream, 1), [{ method: TOOLS }])
  await app.close()
  for (const stream of streams) t.match((await stream.answer).result, { resultType: 'complete' })
})
