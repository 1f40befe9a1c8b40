import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as V1Transport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { test } from 'tap'
import { eventually, findRedis, redisMissing } from '../helpers/redis.js'
import { within } from '../helpers/sockets.js'
import { messagesIn, type Reading } from '../legacy/helpers.js'
import { ask, askIn, callIn, endSession, getRefused, openSession, openStream, stand, tell, type Response } from './clients.js'
import { alarmsOf, startCluster, type Cluster } from './cluster.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JsonObject } from 'fastify-gen-mcp'

// Four processes that share nothing but their secrets and a Redis. Nothing here waits for news to get around: what a client has been answered, all of them know.

const TOOLS = ['where', 'count', 'steps', 'wait', 'remove']
const yes = { action: 'accept', content: { sure: true } }
const asking = { elicitation: { form: {} } }
const updated = (uri: string) => ({ method: 'notifications/resources/updated', params: { uri } })

test('four processes and a Redis', { skip: redisMissing(), timeout: 115_000 }, async t => {
  const cluster = await startCluster(t, await findRedis(t))
  const { at, proxy, replicas } = cluster

  // ---- 2026-07-28

  await t.test('a cursor is good at every replica: case 001', async t => {
    const names: string[] = []
    let cursor: string | undefined
    let page = 0
    do {
      const { answer } = await ask(at(page++).port, 'tools/list', cursor === undefined ? {} : { cursor })
      const { tools, nextCursor } = answer?.result as { readonly tools: readonly { readonly name: string }[], readonly nextCursor?: string }
      names.push(...tools.map(({ name }) => name))
      cursor = nextCursor
    } while (cursor !== undefined)
    t.strictSame(names, TOOLS)
    t.equal(page, 3)
  })

  await t.test('what a call was asked at one replica it is answered at another: case 001', async t => {
    const meta = { 'io.modelcontextprotocol/clientCapabilities': asking }
    for (const replica of replicas) {
      const first = await ask(replica.port, 'tools/call', { name: 'remove', arguments: {} }, { meta })
      const { requestState, inputRequests } = first.answer?.result as { readonly requestState: string, readonly inputRequests: JsonObject }
      t.match(inputRequests, { confirm: { method: 'elicitation/create' } })
      const second = await ask(at(replica.index + 1).port, 'tools/call', { name: 'remove', arguments: {}, requestState, inputResponses: { confirm: yes } }, { meta })
      t.match(second.answer, { result: { content: [{ text: 'Gone.' }] } })
    }
  })

  await t.test('of many requests none is refused, and each is answered once: case 001', async t => {
    const before = proxy.passed.length
    const session = await openSession(proxy.port)
    const answers = await inTurns(400, 20, async id => id % 2 === 0
      ? await ask(proxy.port, 'tools/call', { name: 'where', arguments: {} }, { id })
      : await askIn(session, proxy.port, 'tools/call', { name: 'where', arguments: {} }, id))
    t.strictSame(answers.filter(({ status }) => status !== 200), [])
    t.strictSame(answers.map(({ answer }) => answer?.id), answers.map((_, id) => id))
    for (const { index } of replicas) t.equal(proxy.passed.slice(before).filter(({ replica }) => replica === index).length > 90, true, `replica ${index}`)
  })

  await t.test('listens at every replica are told of a change at any, once: SUB-20, case 077', async t => {
    const listens = await Promise.all(replicas.map(async ({ port }) => await listen(port)))
    for (const { index } of replicas) {
      at(index).tell({ type: 'updated', uri: `note://${index}` })
      for (const reading of listens) t.match(await reading.message(), updated(`note://${index}`))
    }
    at(0).tell({ type: 'toolsChanged' })
    for (const reading of listens) t.match(await reading.message(), { method: 'notifications/tools/list_changed' })
    for (const reading of listens) await reading.drop()
    // The last of a replica takes its subscription to the bus with it, and another brings it back.
    const again = await listen(at(1).port)
    at(2).tell({ type: 'updated', uri: 'note://again' })
    t.match(await again.message(), updated('note://again'))

    async function listen (port: number): Promise<Reading> {
      const reading = await openStream(t, port, 'subscriptions/listen', { notifications: { toolsListChanged: true, resourceSubscriptions: ['note:'] } })
      t.match(await reading.message(), { method: 'notifications/subscriptions/acknowledged' })
      return reading
    }
  })

  // ---- 2025-11-25

  await t.test('a session that one opens is served by all, and over for all when one has ended it: LEG-20, LEG-22, case 001', async t => {
    for (const { index } of replicas) {
      const session = await openSession(at(index).port)
      for (const { port } of replicas) t.match(await askIn(session, port, 'tools/call', { name: 'count', arguments: {} }), { status: 200 })
      t.equal(await endSession(session, at(index + 1).port), 204)
      for (const { port } of replicas) {
        t.match(await askIn(session, port, 'tools/list', {}, 7), { status: 404, answer: { id: 7, error: { code: -32600 } } })
        t.equal(await getRefused(session, port), 404)
        t.equal(await endSession(session, port), 404)
      }
    }
  })

  await t.test('a log level that one was told holds at all: LEG-59', async t => {
    const session = await openSession(at(0).port)
    for (const [index, level] of ['error', 'debug', 'info', 'error', 'debug'].entries()) {
      t.match(await askIn(session, at(index).port, 'logging/setLevel', { level }), { status: 200 })
      const count = { debug: 3, info: 2, error: 1 }[level]
      const answers = await Promise.all(replicas.map(async ({ port }) => await askIn(session, port, 'tools/call', { name: 'count', arguments: {} })))
      t.strictSame(answers.map(({ messages }) => messages.filter(({ method }) => method === 'notifications/message').length), replicas.map(() => count), level)
    }
  })

  await t.test('a subscription at any replica is told on the GET stream at another, of changes at a third: LEG-50, LEG-61', async t => {
    const session = await openSession(at(0).port)
    const standing = await stand(t, session, at(2).port)
    await eventually(async () => (await at(2).gauges()).sources === 1)
    for (const { index } of replicas) {
      const uri = `note://${index}`
      t.match(await askIn(session, at(index).port, 'resources/subscribe', { uri }), { status: 200 })
      // A listen of its own, which the replica may still be about to begin.
      await eventually(async () => (await at(2).gauges()).sources === index + 2)
      at(index + 1).tell({ type: 'updated', uri })
      t.match(await standing.message(), updated(uri))
    }
    t.match(await askIn(session, at(3).port, 'resources/unsubscribe', { uri: 'note://0' }), { status: 200 })
    await eventually(async () => (await at(2).gauges()).sources === 4)
    at(1).tell({ type: 'updated', uri: 'note://0' })
    at(1).tell({ type: 'updated', uri: 'note://1' })
    t.match(await standing.message(), updated('note://1'))

    const next = await stand(t, session, at(3).port)
    await within(standing.closed, 'the end of the first GET stream')
    await eventually(async () => (await at(3).gauges()).sources === 4)
    at(0).tell({ type: 'updated', uri: 'note://3' })
    t.match(await next.message(), updated('note://3'), 'it knows what was subscribed to elsewhere')
  })

  await t.test('an answer that is posted to another replica reaches the call that asked: LEG-70, LEG-72', async t => {
    const session = await openSession(at(0).port, asking)
    for (const { index } of replicas) {
      const reading = await callIn(t, session, at(index).port, 'remove')
      const { id, method } = await reading.message()
      t.equal(method, 'elicitation/create')
      t.equal(await tell(session, at(index + 1).port, { id: id as string, result: yes }), 202)
      t.match(await reading.message(), { id: 1, result: { content: [{ text: 'Gone.' }] } })
    }
  })

  await t.test('a cancellation that is posted to another replica aborts the call: LEG-63', async t => {
    const session = await openSession(at(0).port)
    for (const { index } of replicas) {
      const waiting = at(index).heard('waiting')
      const reading = callIn(t, session, at(index).port, 'wait', 'w')
      await waiting
      const aborted = at(index).heard('aborted')
      t.equal(await tell(session, at(index + 1).port, { method: 'notifications/cancelled', params: { requestId: 'w' } }), 202)
      t.match(await aborted, { cause: 'disconnect' })
      t.notMatch(await (await reading).rest(), [{ data: /result/ }])
    }
  })

  await t.test('a call that was lost is read on at another replica, each step once: LEG-41, LEG-53', async t => {
    const session = await openSession(at(0).port)
    const first = await callIn(t, session, at(1).port, 'steps')
    t.match(await first.message(), { params: { progress: 0.5 } })
    let last = first.frames.at(-1)?.id
    await first.drop()
    const seen: unknown[] = []

    /** Comes back to a replica that does not run the call, until there is something new, as a client does. */
    const readOn = async (port: number): Promise<Reading> => {
      for (;;) {
        const reading = await stand(t, session, port, last)
        if (reading.statusCode !== 200) throw new Error(`It was answered ${reading.statusCode}`)
        const messages = messagesIn(await reading.rest())
        seen.push(...messages.map(({ params, result }) => params?.['progress'] ?? result?.['structuredContent']))
        last = reading.frames.findLast(({ id }) => id !== undefined)?.id ?? last
        if (messages.length > 0) return reading
      }
    }
    at(1).tell({ type: 'step' })
    t.match((await readOn(at(2).port)).frames.at(-1), { retry: 50 }, 'there is more to come')
    // Where it runs it goes on.
    const second = await stand(t, session, at(1).port, last)
    at(1).tell({ type: 'step' })
    seen.push((await second.message()).params?.['progress'])
    last = second.frames.at(-1)?.id
    await second.drop()
    at(1).tell({ type: 'step' })
    await readOn(at(3).port)
    at(1).tell({ type: 'finish' })
    t.notMatch((await readOn(at(0).port)).frames.at(-1), { retry: 50 }, 'that was all')
    t.strictSame(seen, [1, 2, 3, { steps: 3 }])
    t.equal((await stand(t, session, at(2).port, last)).statusCode, 204)
  })

  // ---- clients of others

  await t.test('the official client is served by all of them as by one', async t => {
    const client = new Client({ name: 'c', version: '1.0.0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } }, capabilities: asking })
    t.teardown(async () => { await client.close() })
    client.setRequestHandler('elicitation/create', () => yes as { action: 'accept', content: { sure: true } })
    await client.connect(new StreamableHTTPClientTransport(proxy.url))
    for (let n = 0; n < 5; n++) {
      t.strictSame((await client.listTools()).tools.map(({ name }) => name), TOOLS)
      const steps: number[] = []
      t.match(await client.callTool({ name: 'count', arguments: {} }, { onprogress: ({ progress }) => { steps.push(progress) } }), { structuredContent: { counted: 3 } })
      t.strictSame(steps, [1, 2, 3])
      t.match(await client.callTool({ name: 'remove', arguments: {} }), { content: [{ text: 'Gone.' }] })
    }
  })

  await t.test('the official client of the first generation is served by all of them as by one', async t => {
    const client = new V1Client({ name: 'c', version: '1.0.0' }, { capabilities: { elicitation: {} } })
    const transport = new V1Transport(proxy.url)
    t.teardown(async () => { await client.close() })
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { sure: true } }))
    // Its own types do not go together under exactOptionalPropertyTypes.
    await client.connect(transport as Transport)
    for (let n = 0; n < 5; n++) {
      const names: string[] = []
      let cursor: string | undefined
      do {
        const page = await client.listTools(cursor === undefined ? {} : { cursor })
        names.push(...page.tools.map(({ name }) => name))
        cursor = page.nextCursor
      } while (cursor !== undefined)
      t.strictSame(names, TOOLS)
      const steps: number[] = []
      t.match(await client.callTool({ name: 'count' }, undefined, { onprogress: ({ progress }) => { steps.push(progress) } }), { structuredContent: { counted: 3 } })
      t.strictSame(steps, [1, 2, 3])
      t.match(await client.callTool({ name: 'remove' }), { content: [{ text: 'Gone.' }] })
    }
    await transport.terminateSession()
  })

  await t.test('nothing is left of it, and nobody was alarmed', async t => {
    await holdNothing(cluster)
    t.strictSame(alarmsOf(cluster), [])
  })
})

/** Resolves when no replica has anything to do; nobody tells of that. */
async function holdNothing ({ replicas }: Cluster): Promise<void> {
  for (const replica of replicas) await eventually(async () => (await replica.gauges()).exchanges === 0)
}

/** So many responses, of requests so many at a time. */
async function inTurns (count: number, width: number, work: (id: number) => Promise<Response>): Promise<Response[]> {
  const responses: Response[] = []
  let next = 0
  await Promise.all(Array.from({ length: width }, async () => {
    while (next < count) {
      const id = next++
      responses[id] = await work(id)
    }
  }))
  return responses
}
