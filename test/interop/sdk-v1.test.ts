import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js'
import { test, type Test } from 'tap'
import { alarms, NOTHING_HELD, stage, until, within, type Stage, type StageOptions } from '../helpers/sockets.js'
import { openProxy, type Proxy } from '../helpers/proxy.js'
import { createInteropServer, late, toolNames, type InteropServer } from './server.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'

// The official client of the first generation, over real sockets. It knows of nothing later than 2025-11-25.

const BOUND = { timeout: 30_000 }
/** Before the client comes back for a stream that it lost, in ms. */
const RECONNECT = 10
/** Enough for a client that comes back after RECONNECT to do so many times, in ms. */
const LONG = 200

interface Connected extends InteropServer, Stage {
  readonly client: Client
  readonly transport: StreamableHTTPClientTransport
  readonly proxy: Proxy
  /** What the client was told of as a fault. */
  readonly faults: readonly Error[]
  /** Resolves when the GET stream is open. */
  standing (): Promise<void>
}

async function connect (t: Test, capabilities: ClientCapabilities = {}, options: StageOptions = {}): Promise<Connected> {
  const interop = createInteropServer()
  const subject = await stage(t, interop.suite, { fastify: { forceCloseConnections: true }, ...options })
  const proxy = await openProxy(t, [subject.port])
  const faults: Error[] = []
  const client = new Client({ name: 'v1', version: '1.0.0' }, { capabilities })
  client.onerror = error => { faults.push(error) }
  const transport = createTransport(proxy)
  t.teardown(async () => { await client.close() })
  await client.connect(asTransport(transport))
  const standing = async () => { await until(() => subject.gauges().listens > 0) }
  return { ...interop, ...subject, client, transport, proxy, faults, standing }
}

function createTransport ({ url }: Proxy, sessionId?: string): StreamableHTTPClientTransport {
  const reconnectionOptions = { initialReconnectionDelay: RECONNECT, maxReconnectionDelay: 100, reconnectionDelayGrowFactor: 1, maxRetries: 2 }
  return new StreamableHTTPClientTransport(url, { reconnectionOptions, ...(sessionId !== undefined && { sessionId }) })
}

/** What came of each time that the client came back for a stream. */
function returns ({ passed }: Proxy): readonly (number | undefined)[] {
  return passed.filter(({ method, headers }) => method === 'GET' && headers['last-event-id'] !== undefined).map(({ status }) => status)
}

/** Its own types do not go together under exactOptionalPropertyTypes. */
function asTransport (transport: StreamableHTTPClientTransport): Transport {
  return transport as Transport
}

test('the handshake agrees on the latest revision that both know, and the client learns who the server is: LEG-02, LEG-03, LEG-16', BOUND, async t => {
  const { client, transport, proxy } = await connect(t)
  t.match(client.getServerVersion(), { name: 'interop', version: '1.0.0', title: 'Interop' })
  t.equal(client.getInstructions(), 'Be kind.')
  t.match(client.getServerCapabilities(), {
    tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true }, logging: {}, completions: {}
  })
  t.match(transport.sessionId, /^[\x21-\x7E]{22,}$/)
  t.equal(transport.protocolVersion, '2025-11-25')
  await client.ping()
  t.match(proxy.passed.at(-1)?.headers, { 'mcp-session-id': transport.sessionId, 'mcp-protocol-version': '2025-11-25' })
})

test('tools are listed and called, and what the client checks against the output schema fits', BOUND, async t => {
  const { client, faults } = await connect(t)
  const { tools } = await client.listTools()
  t.strictSame(tools.map(({ name }) => name), toolNames)
  t.match(tools[0], { title: 'Add', outputSchema: { type: 'object' } })
  t.strictSame(await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } }), { content: [{ type: 'text', text: '{"sum":5}' }], structuredContent: { sum: 5 } })
  t.match(await client.callTool({ name: 'add', arguments: { a: 'two' } }), { isError: true })
  await t.rejects(client.callTool({ name: 'pow', arguments: {} }), { code: -32602 })
  t.strictSame(faults, [])
})

test('resources, templates, prompts and completions: what the client reads', BOUND, async t => {
  const { client } = await connect(t)
  t.match((await client.listResources()).resources, [{ uri: 'note://Paris', name: 'Paris' }, {}, {}, {}])
  t.match((await client.listResourceTemplates()).resourceTemplates, [{ uriTemplate: 'note://{city}', title: 'A note' }])
  t.strictSame(await client.readResource({ uri: 'note://Rome' }), { contents: [{ uri: 'note://Rome', text: 'About Rome' }] })
  await t.rejects(client.readResource({ uri: 'note://Oslo' }), { code: -32002, data: { uri: 'note://Oslo' } }, 'LEG-62')
  t.match((await client.listPrompts()).prompts, [{ name: 'visit', arguments: [{ name: 'city', required: true }] }])
  t.strictSame(await client.getPrompt({ name: 'visit', arguments: { city: 'Rome' } }), {
    messages: [{ role: 'user', content: { type: 'text', text: 'Plan a visit to Rome.' } }]
  })
  const { completion } = await client.complete({ ref: { type: 'ref/prompt', name: 'visit' }, argument: { name: 'city', value: 'P' } })
  t.strictSame(completion.values, ['Paris', 'Prague', 'Porto'])
  const ofResource = await client.complete({ ref: { type: 'ref/resource', uri: 'note://{city}' }, argument: { name: 'city', value: 'R' } })
  t.strictSame(ofResource.completion.values, ['Rome'])
})

test('progress and logs arrive before the answer, in order; setLevel says which logs: LEG-59, LEG-60, LEG-68', BOUND, async t => {
  const { client } = await connect(t)
  const seen: unknown[] = []
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params: { level, data } }) => { seen.push([level, data]) })
  const call = async () => {
    seen.length = 0
    const answer = await client.callTool({ name: 'count' }, undefined, { onprogress: ({ progress, total, message }) => { seen.push([progress, total, message]) } })
    seen.push(answer['structuredContent'])
    return [...seen]
  }
  const progress = [[1, 2, 'one'], [2, 2, 'two']]
  t.strictSame(await call(), [...progress, ['info', 'counted'], ['error', 'nothing left'], { counted: 2 }])
  await client.setLoggingLevel('error')
  t.strictSame(await call(), [...progress, ['error', 'nothing left'], { counted: 2 }])
  await client.setLoggingLevel('debug')
  t.strictSame(await call(), [...progress, ['debug', 'details'], ['info', 'counted'], ['error', 'nothing left'], { counted: 2 }])
})

test('an elicitation is put to the client\'s handler, and the call completes with the answer: LEG-38, LEG-73', BOUND, async t => {
  const { client, gauges } = await connect(t, { elicitation: { form: {} } })
  const asked: unknown[] = []
  const answers = [{ action: 'accept', content: { sure: true } }, { action: 'accept', content: { sure: false } }, { action: 'decline' }, { action: 'cancel' }] as const
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push(params)
    return answers[asked.length - 1] ?? { action: 'cancel' }
  })
  const texts: unknown[] = []
  for (let n = 0; n < answers.length; n++) texts.push((await client.callTool({ name: 'remove' }))['content'])
  t.match(texts, [[{ text: 'Gone.' }], [{ text: 'Kept.' }], [{ text: 'Kept.' }], [{ text: 'Kept.' }]])
  t.match(asked, answers.map(() => ({ message: 'Really?', requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] } })))
  t.match(gauges(), { exchanges: gauges().listens })
})

test('a client that cannot be asked is not, and the call fails: LEG-69', BOUND, async t => {
  const { client } = await connect(t)
  const error = await client.callTool({ name: 'remove' }).then(answer => answer, (error: unknown) => error)
  t.match(error, { code: -32600, data: { requiredCapabilities: { elicitation: { form: {} } } } })
})

test('a refused or failed question fails the call and says so: LEG-73', BOUND, async t => {
  const { client } = await connect(t, { elicitation: {} })
  client.setRequestHandler(ElicitRequestSchema, () => { throw new Error('no screen') })
  await t.rejects(client.callTool({ name: 'remove' }), { code: -32603, message: /no screen/ })
})

test('sampling and roots are asked of the client', BOUND, async t => {
  const { client } = await connect(t, { sampling: {}, roots: {} })
  client.setRequestHandler(CreateMessageRequestSchema, ({ params: { messages } }) => ({
    model: 'test', role: 'assistant', content: { type: 'text', text: JSON.stringify(messages[0]?.content).toUpperCase() }
  }))
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///home' }, { uri: 'file:///work' }] }))
  const summary = await client.callTool({ name: 'summarize', arguments: { text: 'long' } })
  t.match(JSON.stringify(summary['content']), /SUMMARIZE: LONG/)
  t.match(await client.callTool({ name: 'roots' }), { content: [{ text: 'file:///home file:///work' }] })
})

test('a subscription is told of on the GET stream, and no more when it is given up: LEG-48, LEG-61', BOUND, async t => {
  const { client, changes, standing, gauges } = await connect(t)
  await standing()
  const updated: string[] = []
  const waiting: (() => void)[] = []
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params: { uri } }) => {
    updated.push(uri)
    for (const wake of waiting.splice(0)) wake()
  })
  const next = async () => { await within(new Promise<void>(resolve => { waiting.push(resolve) }), 'an update') }
  await client.subscribeResource({ uri: 'note://Rome' })
  await client.subscribeResource({ uri: 'note://Paris' })
  t.equal(gauges().listens, 3)
  let told = next()
  changes.resourceUpdated('note://Porto')
  changes.resourceUpdated('note://Rome')
  await told
  await client.unsubscribeResource({ uri: 'note://Rome' })
  await until(() => gauges().listens === 2)
  told = next()
  changes.resourceUpdated('note://Rome')
  changes.resourceUpdated('note://Paris')
  await told
  t.strictSame(updated, ['note://Rome', 'note://Paris'])
})

test('a change of the tools is told on the GET stream, and the client lists them anew: LEG-48, LEG-65', BOUND, async t => {
  const { client, suite, standing } = await connect(t)
  await standing()
  const changed = new Promise<void>(resolve => { client.setNotificationHandler(ToolListChangedNotificationSchema, () => { resolve() }) })
  suite.add(late)
  await within(changed, 'the change')
  t.strictSame((await client.listTools()).tools.map(({ name }) => name), [...toolNames, 'late'])
  t.match(await client.callTool({ name: 'late' }), { content: [{ text: 'Better than never.' }] })
})

test('a call that the client aborts is cancelled, and it does not come back for it: LEG-63, case 016', BOUND, async t => {
  const { client, transport, events, proxy, faults, lines, gauges, standing } = await connect(t)
  await standing()
  const abort = new AbortController()
  const waiting = once(events, 'waiting')
  const call = client.callTool({ name: 'wait' }, undefined, { signal: abort.signal, onprogress: () => {} })
  const [signal] = await waiting as [AbortSignal]
  abort.abort('enough')
  await t.rejects(call, { message: /enough/ })
  if (!signal.aborted) await within(once(signal, 'abort'), 'the abort')
  t.match(signal.reason, { cause: { cause: 'disconnect', method: 'tools/call', name: 'wait' } })
  t.match(lines.filter(({ msg }) => msg === 'an MCP request was cancelled'), [{ mcp: { method: 'tools/call', reason: /enough/ } }])
  await t.resolves(client.ping(), 'the session lives on')
  await until(() => returns(proxy)[0] !== undefined)
  await delay(LONG)
  t.strictSame(returns(proxy), [204], 'it asks once what became of it')
  t.strictSame(faults, [])
  t.ok(transport.sessionId)
  t.equal(gauges().exchanges, gauges().listens)
})

test('a call that fails on its stream is answered once, and the client does not come back for more', BOUND, async t => {
  const { client, proxy, faults } = await connect(t, { elicitation: {} })
  client.setRequestHandler(ElicitRequestSchema, () => { throw new Error('no screen') })
  await t.rejects(client.callTool({ name: 'remove' }), { code: -32603 })
  await until(() => returns(proxy)[0] !== undefined)
  await delay(LONG)
  t.strictSame(returns(proxy), [204], 'it does not take an error for the answer that it is, and asks once')
  t.strictSame(faults, [])
})

test('a call whose connection breaks is read on by the client itself, each step once: LEG-41, LEG-42, LEG-53', BOUND, async t => {
  const { client, events, proxy, ends, gauges, standing } = await connect(t)
  await standing()
  const seen: number[] = []
  let wake = () => {}
  const onprogress = ({ progress }: { readonly progress: number }) => {
    seen.push(progress)
    wake()
  }
  const reached = async (step: number) => { while (!seen.includes(step)) await within(new Promise<void>(resolve => { wake = resolve }), `step ${step}`) }
  const call = client.callTool({ name: 'steps' }, undefined, { onprogress })
  await reached(0.5)
  events.emit('step')
  await reached(1)
  for (const step of [2, 3]) {
    const before = returns(proxy).length
    proxy.drop()
    events.emit('step')
    await reached(step)
    t.ok(returns(proxy).length > before, `it came back for step ${step}`)
  }
  events.emit('step')
  events.emit('finish')
  t.match(await call, { structuredContent: { steps: 4 } })
  t.strictSame(seen, [0.5, 1, 2, 3, 4])
  await until(() => gauges().exchanges === gauges().listens)
  t.match(ends.filter(({ name }) => name === 'steps'), [{ cause: 'result', streamed: true, protocolVersion: '2025-11-25' }])
})

test('a call that one client began is read on by another with the token of its last event', BOUND, async t => {
  const { client, transport, events, proxy } = await connect(t)
  let token = ''
  const steps = new Promise<void>(resolve => {
    client.callTool({ name: 'steps' }, undefined, { onresumptiontoken: given => { token = given }, onprogress: () => { resolve() } }).catch(() => {})
  })
  await within(steps, 'the first step')
  const { sessionId } = transport
  await client.close()
  t.match(token, /_\d+$/)

  const other = new Client({ name: 'v1', version: '1.0.0' })
  const again = createTransport(proxy, sessionId)
  t.teardown(async () => { await other.close() })
  await other.connect(asTransport(again))
  again.setProtocolVersion('2025-11-25')
  const rest = other.callTool({ name: 'steps' }, undefined, { resumptionToken: token })
  await until(() => proxy.passed.some(({ headers }) => headers['last-event-id'] === token))
  events.emit('step')
  events.emit('finish')
  t.match(await within(rest, 'the answer'), { structuredContent: { steps: 1 } })
})

test('a lost GET stream is opened again, and what it is about is told there', BOUND, async t => {
  const { client, changes, proxy, standing, gauges } = await connect(t)
  await standing()
  await client.subscribeResource({ uri: 'note://Rome' })
  const updated: string[] = []
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params: { uri } }) => { updated.push(uri) })
  proxy.drop()
  await until(() => gauges().listens === 0)
  await until(() => gauges().listens === 2)
  await until(() => updated.length === 1)
  t.strictSame(updated, ['note://Rome'], 'it may have missed something')
  changes.resourceUpdated('note://Rome')
  await until(() => updated.length === 2)
  t.strictSame(updated, ['note://Rome', 'note://Rome'])
})

test('a session that the client ends is over: LEG-20, LEG-22', BOUND, async t => {
  const { client, transport, proxy, standing, gauges, lines } = await connect(t)
  await standing()
  const { sessionId = '' } = transport
  await transport.terminateSession()
  t.equal(transport.sessionId, undefined)
  await until(() => gauges().listens === 0)
  t.strictSame(gauges(), NOTHING_HELD)
  const stale = new Client({ name: 'v1', version: '1.0.0' })
  await stale.connect(asTransport(createTransport(proxy, sessionId)))
  t.teardown(async () => { await stale.close() })
  await t.rejects(stale.listTools(), { code: 404 })
  await client.close()
  t.strictSame(alarms(lines), [])
})

test('where no sessions are kept the client is served all the same, but cannot be asked: LEG-28, case 004', BOUND, async t => {
  const { client, transport, proxy, faults, gauges } = await connect(t, { elicitation: {} }, { legacy: { sessions: false } })
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { sure: true } }))
  t.equal(transport.sessionId, undefined)
  t.match((await client.listTools()).tools[0], { name: 'add', title: 'Add' }, 'in the shape of the revision that the header names')
  const seen: number[] = []
  t.match(await client.callTool({ name: 'count' }, undefined, { onprogress: ({ progress }) => { seen.push(progress) } }), { structuredContent: { counted: 2 } })
  t.strictSame(seen, [1, 2])
  await t.rejects(client.callTool({ name: 'remove' }), { code: -32600 })
  await until(() => proxy.passed.some(({ method, status }) => method === 'GET' && status !== undefined))
  t.match(proxy.passed.filter(({ method }) => method === 'GET'), [{ status: 405 }])
  t.strictSame(faults, [])
  t.strictSame(gauges(), NOTHING_HELD)
})

test('a client opens a session with each revision that it knows, and is answered in its shape: LEG-03', BOUND, async t => {
  const { proxy } = await connect(t)
  for (const version of ['2025-06-18', '2025-03-26']) {
    const transport = createTransport(proxy)
    const client = new Client({ name: 'v1', version: '1.0.0' })
    t.teardown(async () => { await client.close() })
    // It asks for the latest; what an older one would ask for is written over it.
    const { send } = transport
    transport.send = async (message, options) => {
      const asked = 'method' in message && message.method === 'initialize' ? { ...message, params: { ...message.params, protocolVersion: version } } : message
      await send.call(transport, asked, options)
    }
    await client.connect(asTransport(transport))
    t.equal(transport.protocolVersion, version)
    const { tools } = await client.listTools()
    t.equal(tools[0]?.title, version === '2025-06-18' ? 'Add' : undefined)
    t.match(await client.callTool({ name: 'add', arguments: { a: 1, b: 1 } }), { content: [{ text: '{"sum":2}' }] })
  }
})
