import { once } from 'node:events'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema, LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import mqemitter from 'mqemitter'
import { test, type Test } from 'tap'
import { memoryEvents } from 'fastify-gen-mcp/legacy'
import { openProxy, type Proxy } from '../helpers/proxy.js'
import { alarms, NOTHING_HELD, stage, until, within, type Stage } from '../helpers/sockets.js'
import { createInteropServer, toolNames, type InteropServer } from './server.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'

// The official client of the first generation, whose requests are spread over two replicas: each goes to the other one than the request before.

const BOUND = { timeout: 30_000 }

interface Replicas {
  readonly all: readonly (Stage & InteropServer)[]
  readonly proxy: Proxy
  readonly client: Client
  readonly transport: StreamableHTTPClientTransport
}

async function connect (t: Test): Promise<Replicas> {
  const bus = mqemitter()
  const legacy = { bus, events: memoryEvents(), retry: 10 }
  const secrets = ['the secret that all of the replicas share']
  const all = await Promise.all(Array.from({ length: 2 }, async () => {
    const interop = createInteropServer(bus)
    return { ...interop, ...await stage(t, interop.suite, { fastify: { forceCloseConnections: true }, secrets, legacy }) }
  }))
  const proxy = await openProxy(t, all.map(({ port }) => port))
  const client = new Client({ name: 'v1', version: '1.0.0' }, { capabilities: { elicitation: {} } })
  const reconnectionOptions = { initialReconnectionDelay: 10, maxReconnectionDelay: 100, reconnectionDelayGrowFactor: 1, maxRetries: 5 }
  const transport = new StreamableHTTPClientTransport(proxy.url, { reconnectionOptions })
  t.teardown(async () => { await client.close() })
  // Its own types do not go together under exactOptionalPropertyTypes.
  await client.connect(transport as Transport)
  await until(() => sum(all, 'listens') === 1)
  return { all, proxy, client, transport }
}

/** What the replicas hold together of one kind. */
function sum (all: Replicas['all'], gauge: 'listens' | 'exchanges' | 'sources'): number {
  return all.reduce((total, { gauges }) => total + gauges()[gauge], 0)
}

/** At the replica that is concerned, whichever it is. */
function emit (all: Replicas['all'], event: string): void {
  for (const { events } of all) events.emit(event)
}

test('requests, questions, logs and the end of a session are served by whichever replica they reach: cases 001, 002', BOUND, async t => {
  const { all, proxy, client, transport } = await connect(t)
  let asked = 0
  client.setRequestHandler(ElicitRequestSchema, () => {
    asked++
    return { action: 'accept', content: { sure: true } }
  })
  const levels: string[] = []
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params: { level } }) => { levels.push(level) })

  for (let n = 0; n < 3; n++) t.strictSame((await client.listTools()).tools.map(({ name }) => name), toolNames)
  // The call goes to one, and the answer to what it asks to the other.
  for (let n = 0; n < 4; n++) t.match(await client.callTool({ name: 'remove' }), { content: [{ text: 'Gone.' }] })
  t.equal(asked, 4)
  await client.setLoggingLevel('error')
  for (let n = 0; n < 2; n++) await client.callTool({ name: 'count' })
  t.strictSame(levels, ['error', 'error'])
  t.ok([0, 1].every(replica => proxy.passed.filter(pass => pass.replica === replica).length > 5))
  t.strictSame(proxy.passed.filter(({ status = 0 }) => status >= 400), [])

  await transport.terminateSession()
  await until(() => sum(all, 'exchanges') === 0)
  for (const { gauges, lines } of all) {
    t.strictSame(gauges(), NOTHING_HELD)
    t.strictSame(alarms(lines), [])
  }
})

test('a subscription reaches the GET stream, whichever replica each of them is at', BOUND, async t => {
  const { all, client } = await connect(t)
  const updated: string[] = []
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params: { uri } }) => { updated.push(uri) })
  for (const [index, city] of ['Rome', 'Paris', 'Porto'].entries()) {
    await client.subscribeResource({ uri: `note://${city}` })
    await until(() => sum(all, 'sources') === index + 2)
    all[index % 2]?.changes.resourceUpdated(`note://${city}`)
    await until(() => updated.length === index + 1)
  }
  t.strictSame(updated, ['note://Rome', 'note://Paris', 'note://Porto'])
})

test('a call that the client aborts is cancelled at the replica that it runs at: case 016', BOUND, async t => {
  const { all, client } = await connect(t)
  for (let n = 0; n < 3; n++) {
    const abort = new AbortController()
    const waiting = Promise.race(all.map(async ({ events }) => await once(events, 'waiting')))
    const call = client.callTool({ name: 'wait' }, undefined, { signal: abort.signal })
    const [signal] = await within(waiting, 'the call') as [AbortSignal]
    abort.abort()
    await t.rejects(call)
    if (!signal.aborted) await within(once(signal, 'abort'), 'the abort')
  }
  await until(() => sum(all, 'exchanges') === sum(all, 'listens'))
})

test('a call whose connections all break is read on at whichever replica, each step once: LEG-41, LEG-53', BOUND, async t => {
  const { all, proxy, client } = await connect(t)
  const seen: number[] = []
  const call = client.callTool({ name: 'steps' }, undefined, { onprogress: ({ progress }) => { seen.push(progress) } })
  await until(() => seen.length === 1)
  for (let step = 1; step <= 4; step++) {
    proxy.drop()
    emit(all, 'step')
    await until(() => seen.length === step + 1)
  }
  emit(all, 'finish')
  t.match(await within(call, 'the answer'), { structuredContent: { steps: 4 } })
  t.strictSame(seen, [0.5, 1, 2, 3, 4])
  const resumed = proxy.passed.filter(({ method, headers, status }) => method === 'GET' && status === 200 && !headers['last-event-id']?.toString().startsWith('.'))
  t.ok([0, 1].every(replica => resumed.some(pass => pass.replica === replica)))
})
