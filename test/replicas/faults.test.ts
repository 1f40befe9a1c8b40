import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { test, type Test } from 'tap'
import { eventually, findRedis, redisMissing, startRedis } from '../helpers/redis.js'
import { within } from '../helpers/sockets.js'
import { messagesIn, type Reading } from '../legacy/helpers.js'
import { ask, askIn, callIn, openSession, openStream, stand } from './clients.js'
import { Replica, startCluster } from './cluster.js'

// What is lost, and what is not, when a process or the Redis is.

const updated = (uri: string) => ({ method: 'notifications/resources/updated', params: { uri } })
const where = { name: 'where', arguments: {} }

async function listen (t: Test, port: number): Promise<Reading> {
  const reading = await openStream(t, port, 'subscriptions/listen', { notifications: { resourceSubscriptions: ['note:'] } })
  t.match(await reading.message(), { method: 'notifications/subscriptions/acknowledged' })
  return reading
}

test('a replica that is killed takes its own open calls with it and no other: case 001, case 002', { skip: redisMissing(), timeout: 115_000 }, async t => {
  const cluster = await startCluster(t, await findRedis(t))
  const { at, proxy, replicas } = cluster
  const session = await openSession(at(0).port)
  const listens = await Promise.all([0, 1, 2].map(async index => await listen(t, at(index).port)))
  const lost = await callIn(t, session, at(3).port, 'steps', 'lost')
  t.match(await lost.message(), { params: { progress: 0.5 } })
  at(3).tell({ type: 'step' })
  t.match(await lost.message(), { params: { progress: 1 } })
  const kept = await callIn(t, session, at(1).port, 'steps', 'kept')
  t.match(await kept.message(), { params: { progress: 0.5 } })
  // What a client of the proxy sees, of the replica that is to be killed and of another.
  const turns = await Promise.all(replicas.map(async () => await openStream(t, proxy.port, 'tools/call', { name: 'steps', arguments: {} }, { meta: { progressToken: 'p' } })))
  for (const turn of turns) t.match(await turn.message(), { params: { progress: 0.5 } })
  const ofReplica = turns.map((_, turn) => proxy.passed.at(turn - turns.length)?.replica)

  await at(3).kill()
  await within(lost.closed, 'the end of the call')
  t.equal(lost.response.complete, false, 'it is cut off')
  const broken = turns[ofReplica.indexOf(3)] as Reading
  await within(broken.closed, 'the end of the call at the proxy')
  t.equal(broken.response.complete, false, 'the client of the proxy sees a connection that broke')
  t.strictSame(messagesIn(await broken.rest()), [], 'and no answer')

  for (const index of [0, 1, 2]) {
    at(index).tell({ type: 'step' })
    at(index).tell({ type: 'finish' })
  }
  t.match(messagesIn(await kept.rest()), [{ params: { progress: 1 } }, { id: 'kept', result: { structuredContent: { steps: 1 } } }])
  for (const turn of turns) if (turn !== broken) t.match(messagesIn(await turn.rest()).at(-1), { result: { structuredContent: { steps: 1 } } })
  at(2).tell({ type: 'updated', uri: 'note://after' })
  for (const reading of listens) t.match(await reading.message(), updated('note://after'))

  for (let n = 0; n < 8; n++) {
    t.match(await ask(proxy.port, 'tools/call', where), { status: 200 }, 'whoever tries again gets on')
    t.match(await askIn(session, proxy.port, 'tools/call', where), { status: 200 })
  }
  const [first] = lost.frames
  const rest = await stand(t, session, at(0).port, first?.id)
  t.equal(rest.statusCode, 200)
  t.match(messagesIn(await rest.rest()), [{ params: { progress: 0.5 } }, { params: { progress: 1 } }], 'the store has what it said')
})

test('a Redis that goes and comes again takes nothing with it but what is told meanwhile', { skip: redisMissing({ own: true }), timeout: 115_000 }, async t => {
  const redis = await startRedis(t)
  const cluster = await startCluster(t, redis.url, 4, { busProbe: { timeout: 500, interval: 200 } })
  const { at, replicas } = cluster
  const session = await openSession(at(0).port)
  const listens = await Promise.all(replicas.map(async ({ port }) => await listen(t, port)))
  const down = async (count: number) => { for (const replica of replicas) await eventually(async () => (await replica.gauges()).busesDown === count) }

  for (const [away, back] of [[redis.kill, redis.restart], [redis.stall, redis.goOn]] as const) {
    await away()
    await down(1)
    for (const { port } of replicas) {
      t.match(await ask(port, 'tools/call', where), { status: 200 })
      t.match(await ask(port, 'tools/list'), { status: 200 })
      t.match(await askIn(session, port, 'tools/call', { name: 'count', arguments: {}, _meta: { progressToken: 'p' } }), { status: 200, answer: { result: { structuredContent: { counted: 3 } } } })
      t.match(await askIn(session, port, 'logging/setLevel', { level: 'error' }), { status: 200 }, 'where it was told, at least')
    }
    await back()
    // When its messages come back, the subscriptions that were made before are there again.
    await down(0)
    for (const { index } of replicas) at(index).tell({ type: 'updated', uri: `note://${index}` })
    for (const [index, reading] of listens.entries()) {
      const uris = new Set<unknown>()
      while (uris.size < replicas.length) uris.add((await reading.message()).params?.['uri'])
      t.strictSame([...uris].sort(), replicas.map(({ index }) => `note://${index}`), `at replica ${index}`)
    }
    const late = await listen(t, at(2).port)
    at(1).tell({ type: 'updated', uri: 'note://late' })
    t.match(await late.message(), updated('note://late'))
    for (const reading of listens) t.match(await reading.message(), updated('note://late'))
    await late.drop()
  }
  t.ok(replicas.every(({ running }) => running))
  for (const { lines } of replicas) {
    const said = (part: string): number => lines.filter(({ msg }) => msg.includes(part)).length
    t.equal(said('nothing comes back from a message bus'), 2, 'once each time')
    t.equal(said('messages come back from a message bus again'), 2)
  }
})

test('a replica whose Redis cannot be reached says so at boot, and ends: case 005', { timeout: 60_000 }, async t => {
  // Takes connections and says nothing, as a firewall does; and one that nobody listens at.
  const silent = createServer(socket => { socket.on('error', () => {}) }).listen(0, '127.0.0.1')
  const closed = createServer().listen(0, '127.0.0.1')
  await Promise.all([once(silent, 'listening'), once(closed, 'listening')])
  const ports = [silent, closed].map(server => (server.address() as AddressInfo).port)
  t.teardown(() => { silent.close() })
  closed.close()
  for (const port of ports) {
    const replica = new Replica({ redis: `redis://127.0.0.1:${port}`, name: 'nowhere', index: 0, extra: { busProbe: { timeout: 500 } } })
    t.teardown(async () => { await replica.kill() })
    await t.rejects(replica.listening(), { message: /^MCP_ERR_BUS_DOWN: .*legacy\.bus/ })
    t.equal(await within(replica.exited, 'the end of the process', 30_000), 0)
  }
})
