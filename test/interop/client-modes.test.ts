import { once } from 'node:events'
import { Client, ResourceNotFoundError, StreamableHTTPClientTransport, type ClientOptions } from '@modelcontextprotocol/client'
import { test, type Test } from 'tap'
import { openProxy, type Proxy } from '../helpers/proxy.js'
import { stage, until, within, type Stage, type StageOptions } from '../helpers/sockets.js'
import { createInteropServer, late, toolNames, type InteropServer } from './server.js'

// The official client of the second generation in those of its modes that know of the 2025 revisions, against one mount.

const BOUND = { timeout: 30_000 }
const modes = { auto: '2026-07-28', legacy: '2025-11-25' } as const
type Mode = keyof typeof modes

interface Subject extends InteropServer, Stage { readonly proxy: Proxy }

async function setUp (t: Test, options: StageOptions = {}): Promise<Subject> {
  const interop = createInteropServer()
  const subject = await stage(t, interop.suite, { fastify: { forceCloseConnections: true }, ...options })
  return { ...interop, ...subject, proxy: await openProxy(t, [subject.port]) }
}

function createClient (t: Test, mode: Mode, options: ClientOptions = {}): Client {
  const client = new Client({ name: 'v2', version: '1.0.0' }, { versionNegotiation: { mode }, ...options })
  t.teardown(async () => { await client.close() })
  return client
}

async function connect (t: Test, { proxy: { url } }: Subject, mode: Mode, options: ClientOptions = {}): Promise<Client> {
  const client = createClient(t, mode, options)
  await client.connect(new StreamableHTTPClientTransport(url))
  return client
}

test('automatic ends in the current revision and legacy in 2025-11-25, on one mount, and both see the same: LEG-01, VER-06, VER-07', BOUND, async t => {
  const subject = await setUp(t)
  const auto = await connect(t, subject, 'auto')
  const legacy = await connect(t, subject, 'legacy')
  t.equal(auto.getProtocolEra(), 'modern')
  t.equal(legacy.getProtocolEra(), 'legacy')
  t.equal(auto.getNegotiatedProtocolVersion(), '2026-07-28')
  t.equal(legacy.getNegotiatedProtocolVersion(), '2025-11-25')
  t.strictSame(legacy.getServerCapabilities(), auto.getServerCapabilities())
  t.strictSame(legacy.getServerVersion(), auto.getServerVersion())
  t.equal(legacy.getInstructions(), auto.getInstructions())

  const [{ tools }, { tools: legacyTools }] = [await auto.listTools(), await legacy.listTools()]
  t.strictSame(tools.map(({ name }) => name), toolNames)
  t.strictSame(legacyTools, tools)
  t.strictSame((await legacy.listResources()).resources, (await auto.listResources()).resources)
  t.strictSame((await legacy.listPrompts()).prompts, (await auto.listPrompts()).prompts)
  t.strictSame((await legacy.readResource({ uri: 'note://Rome' })).contents, (await auto.readResource({ uri: 'note://Rome' })).contents)
  for (const client of [auto, legacy]) {
    t.match(await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } }), { structuredContent: { sum: 5 } })
    t.match(await client.complete({ ref: { type: 'ref/prompt', name: 'visit' }, argument: { name: 'city', value: 'R' } }), { completion: { values: ['Rome'] } })
  }
  t.notOk(subject.proxy.passed.some(({ headers }) => headers['mcp-protocol-version'] === '2026-07-28' && headers['mcp-session-id'] !== undefined), 'no session in the current revision')
})

test('automatic settles in one round where both eras are served: it is not sent through the handshake', BOUND, async t => {
  const subject = await setUp(t)
  await connect(t, subject, 'auto')
  t.match(subject.proxy.passed.map(({ method, status, headers }) => [method, status, headers['mcp-method']]), [['POST', 200, 'server/discover']])
  t.equal(subject.proxy.passed.length, 1)
})

test('where 2025 clients are not served automatic is served all the same, and legacy is told what is: VER-06, VER-09', BOUND, async t => {
  const subject = await setUp(t, { legacy: false })
  const auto = await connect(t, subject, 'auto')
  t.equal(auto.getNegotiatedProtocolVersion(), '2026-07-28')
  t.strictSame((await auto.listTools()).tools.map(({ name }) => name), toolNames)

  const error = await connect(t, subject, 'legacy').then(() => undefined, (error: unknown) => error)
  t.match(error, { message: /2026-07-28/ })
})

for (const [mode, version] of Object.entries(modes) as [Mode, string][]) {
  test(`${mode}: progress comes before the answer, in order`, BOUND, async t => {
    const subject = await setUp(t)
    const client = await connect(t, subject, mode)
    const seen: unknown[] = []
    const answer = await client.callTool({ name: 'count', arguments: {} }, { onprogress: ({ progress, total, message }) => { seen.push([progress, total, message]) } })
    t.strictSame(seen, [[1, 2, 'one'], [2, 2, 'two']])
    t.match(answer, { structuredContent: { counted: 2 } })
    t.match(subject.ends.filter(({ name }) => name === 'count'), [{ protocolVersion: version, cause: 'result', streamed: true }])
  })

  test(`${mode}: one tool asks the client's handler in either era: LEG-73`, BOUND, async t => {
    const subject = await setUp(t)
    const client = await connect(t, subject, mode, { capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} } })
    const asked: unknown[] = []
    client.setRequestHandler('elicitation/create', ({ params }) => {
      asked.push(params)
      return { action: 'accept', content: { sure: true } }
    })
    client.setRequestHandler('sampling/createMessage', () => ({ model: 'test', role: 'assistant', content: { type: 'text', text: 'short' } }))
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home' }] }))
    t.match(await client.callTool({ name: 'remove', arguments: {} }), { content: [{ text: 'Gone.' }] })
    t.match(asked, [{ message: 'Really?', requestedSchema: { properties: { sure: { type: 'boolean' } } } }])
    t.equal(asked.length, 1)
    t.match(JSON.stringify((await client.callTool({ name: 'summarize', arguments: { text: 'long' } })).content), /short/)
    t.match(await client.callTool({ name: 'roots', arguments: {} }), { content: [{ text: 'file:///home' }] })
  })

  test(`${mode}: a call that the client aborts fires the signal of its handler: LEG-63, case 016`, BOUND, async t => {
    const subject = await setUp(t)
    const client = await connect(t, subject, mode)
    const abort = new AbortController()
    const waiting = once(subject.events, 'waiting')
    const call = client.callTool({ name: 'wait', arguments: {} }, { signal: abort.signal })
    const [signal] = await waiting as [AbortSignal]
    abort.abort()
    await t.rejects(call)
    if (!signal.aborted) await within(once(signal, 'abort'), 'the abort')
    t.match(signal.reason, { cause: { cause: 'disconnect', protocolVersion: version } })
    t.match(await client.callTool({ name: 'add', arguments: { a: 1, b: 1 } }), { structuredContent: { sum: 2 } })
  })

  test(`${mode}: a change of the tools reaches the client's handler with the new list`, BOUND, async t => {
    const subject = await setUp(t)
    let told = (_names: readonly string[]): void => {}
    const changed = new Promise<readonly string[]>(resolve => { told = resolve })
    const onChanged = (_error: Error | null, tools: readonly { readonly name: string }[] | null): void => { told(tools?.map(({ name }) => name) ?? []) }
    await connect(t, subject, mode, { listChanged: { tools: { debounceMs: 0, onChanged } } })
    await until(() => subject.gauges().listens > 0)
    subject.suite.add(late)
    t.strictSame(await within(changed, 'the change'), [...toolNames, 'late'])
  })

  test(`${mode}: an unknown resource, and bad arguments`, BOUND, async t => {
    const client = await connect(t, await setUp(t), mode)
    const error = await client.readResource({ uri: 'note://Oslo' }).then(() => undefined, (error: unknown) => error)
    t.ok(error instanceof ResourceNotFoundError, 'whose code the eras do not share')
    t.match(error, { uri: 'note://Oslo' })
    t.match(await client.callTool({ name: 'add', arguments: { a: 'two' } }), { isError: true })
  })
}

test('legacy: log level, subscription, lost connection, ping and the end of the session', BOUND, async t => {
  const subject = await setUp(t)
  const { proxy, events, changes, gauges } = subject
  const client = createClient(t, 'legacy')
  const transport = new StreamableHTTPClientTransport(proxy.url, {
    reconnectionOptions: { initialReconnectionDelay: 10, maxReconnectionDelay: 100, reconnectionDelayGrowFactor: 1, maxRetries: 2 }
  })
  await client.connect(transport)
  await until(() => gauges().listens === 1)

  await client.ping()
  const levels: string[] = []
  client.setNotificationHandler('notifications/message', ({ params: { level } }) => { levels.push(level) })
  await client.setLoggingLevel('warning')
  await client.callTool({ name: 'count', arguments: {} })
  t.strictSame(levels, ['error'])

  const updated = new Promise<string>(resolve => { client.setNotificationHandler('notifications/resources/updated', ({ params: { uri } }) => { resolve(uri) }) })
  await client.subscribeResource({ uri: 'note://Rome' })
  changes.resourceUpdated('note://Rome')
  t.equal(await within(updated, 'the update'), 'note://Rome')

  const seen: number[] = []
  const call = client.callTool({ name: 'steps', arguments: {} }, { onprogress: ({ progress }) => { seen.push(progress) } })
  await until(() => seen.length === 1)
  proxy.drop()
  events.emit('step')
  await until(() => seen.length === 2)
  events.emit('finish')
  t.match(await call, { structuredContent: { steps: 1 } })
  t.strictSame(seen, [0.5, 1])

  await transport.terminateSession()
  await until(() => gauges().exchanges === 0)
  t.match(proxy.passed.at(-1), { method: 'DELETE', status: 204 })
})
