import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import {
  createSuite, defineResources, defineSubscriptions, fail, messageType, readResourceResult, result, stop, stream, toolResult, type CloseReason, type ExchangeRef,
  type GenMcpOptions, type JsonObject, type ServerNotification, type SubscriptionFilter, type SubscriptionProvider, type SubscriptionsDefinition, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { createDeferred } from '../../lib/deferred.js'
import { call, mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import { take, takeAll } from '../helpers/stream.js'

const kinds = ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged', 'resourceSubscriptions'] as const
const all: SubscriptionFilter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ['notes://1'] }
const tools: ServerNotification = { method: 'notifications/tools/list_changed' }
const updated = (uri: string): ServerNotification => ({ method: 'notifications/resources/updated', params: { uri } })
const notes = defineResources({ prefix: 'notes://', read: ({ uri }) => readResourceResult({ uri, text: '' }) })

/** A provider that tells whatever its listens are sent, and what it was asked. */
function createTelling (rest: Partial<SubscriptionsDefinition<string, ServerNotification>> = {}) {
  const filters: SubscriptionFilter[] = []
  const closed: (readonly [live: string, reason: CloseReason])[] = []
  const refs: ExchangeRef<ServerNotification>[] = []
  const provider = defineSubscriptions<string, ServerNotification>({
    kinds,
    subscribe: (filter, channel) => {
      filters.push(filter)
      refs.push(channel.ref)
      return stream('live')
    },
    handleMessage: (notification, channel, live) => {
      channel.sendNotification(notification)
      return stream(live)
    },
    handleClose: (_context, live, reason) => { closed.push([live, reason]) },
    ...rest
  })
  return { provider, filters, closed, refs, tell: (notification: ServerNotification) => { for (const ref of refs) ref.post(notification) } }
}

async function serve (t: Test, subscriptions: SubscriptionProvider, suite: Partial<SuiteOptions> = {}, options: Partial<GenMcpOptions> = {}) {
  const lines: JsonObject[] = []
  const ended = createDeferred<string>()
  const app = await mount(t, {
    ...options,
    server: createSuite({ info, tools: [], prompts: [], resources: [notes], subscriptions, ...suite }),
    onEnd: ({ cause }) => { ended.resolve(cause) }
  }, { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(JSON.parse(line) as JsonObject) } } } })
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  return {
    app,
    lines,
    whenEnded: ended.promise,
    /** Opens a listen, and gives what was honoured. */
    async listen (notifications: SubscriptionFilter, headers: Record<string, string> = {}) {
      const stream = await client.open('subscriptions/listen', { notifications }, { headers })
      const [acknowledged] = await take(stream, 1)
      t.equal(acknowledged?.['method'], 'notifications/subscriptions/acknowledged')
      return { stream, honored: (acknowledged?.['params'] as { notifications: SubscriptionFilter }).notifications }
    }
  }
}

// ---- definitions

test('a subscription provider that makes no sense throws one coded error that names it', async t => {
  const subscribe = () => stream(undefined)
  const cases: readonly (readonly [definition: object, message: RegExp])[] = [
    [{ kinds }, /The subscription provider must have the function subscribe/],
    [{ kinds: ['taskIds'], subscribe }, /The subscription provider has the kind taskIds, which is none/],
    [{ kinds: 'toolsListChanged', subscribe }, /The subscription provider has the kind none, which is none/],
    [{ subscribe }, /The subscription provider has the kind none, which is none/]
  ]
  for (const [definition, message] of cases) {
    t.throws(() => defineSubscriptions(definition as SubscriptionsDefinition<never, never>), { code: 'MCP_ERR_BAD_PROVIDER', message })
  }
})

// ---- the acknowledgement

test('a listen is acknowledged first, whatever the provider sends before: SUB-03', async t => {
  const statuses: unknown[] = []
  const { provider } = createTelling({
    subscribe: (_filter, channel) => {
      statuses.push(channel.sendNotification(tools))
      channel.ref.post(tools)
      return stream('live')
    }
  })
  const { listen } = await serve(t, provider)
  const { stream: listened, honored } = await listen(all)
  t.strictSame(honored, all)
  t.match(await take(listened, 1), [tools])
  t.strictSame(statuses, ['notSubscribed'])
})

test('the provider is asked for what the caller may read, and no more is honoured: SUB-04, SUB-13', async t => {
  const own = defineResources({ template: { uriTemplate: 'own://{id}', name: 'own' }, access: ({ principal }) => principal === 'ada', read: () => null })
  const { provider, filters } = createTelling()
  const { listen } = await serve(t, provider, { resources: [notes, own] }, { principal: ({ headers }) => headers['x-user'] as string | undefined })
  const filter = { toolsListChanged: true, promptsListChanged: false, resourceSubscriptions: ['notes://1', 'own://1', 'other://1', 'no uri', 'own://'] }
  const forAda = { toolsListChanged: true, resourceSubscriptions: ['notes://1', 'own://1', 'own://'] }
  t.strictSame((await listen(filter, { 'x-user': 'ada' })).honored, forAda)
  const forBob = { toolsListChanged: true, resourceSubscriptions: ['notes://1'] }
  t.strictSame((await listen(filter, { 'x-user': 'bob' })).honored, forBob)
  t.strictSame(filters, [forAda, forBob])
})

test('a listen of which nothing may be read is acknowledged with nothing and held, and the provider hears nothing of it', async t => {
  const hidden = defineResources({ prefix: 'hidden://', access: () => false, read: () => null })
  const { provider, filters, closed } = createTelling()
  const { listen, whenEnded } = await serve(t, provider, { resources: [hidden] })
  const { stream: listened, honored } = await listen({ resourceSubscriptions: ['hidden://1'] })
  t.strictSame(honored, {})
  listened.vanish()
  t.equal(await whenEnded, 'disconnect')
  t.strictSame(filters, [])
  t.strictSame(closed, [])
})

test('a provider that is hidden from a caller acknowledges nothing, and hears nothing of it', async t => {
  const { provider, filters, closed } = createTelling({ access: () => false })
  const { listen, whenEnded } = await serve(t, provider)
  const { stream: listened, honored } = await listen(all)
  t.strictSame(honored, {})
  listened.vanish()
  t.equal(await whenEnded, 'disconnect')
  t.strictSame(filters, [])
  t.strictSame(closed, [])
})

test('a provider is not asked for kinds that it does not tell of: SUB-07', async t => {
  const { provider, filters } = createTelling({ kinds: ['toolsListChanged'] })
  const { listen } = await serve(t, provider)
  t.strictSame((await listen(all)).honored, { toolsListChanged: true })
  t.strictSame(filters, [{ toolsListChanged: true }])
})

test('a provider may acknowledge less than was asked for, and never more', async t => {
  const cases: readonly (readonly [asked: SubscriptionFilter, acknowledged: SubscriptionFilter | undefined, honored: SubscriptionFilter])[] = [
    [all, {}, {}],
    [all, undefined, all],
    [all, { toolsListChanged: true }, { toolsListChanged: true }],
    [{ toolsListChanged: true }, all, { toolsListChanged: true }],
    [{ resourceSubscriptions: ['notes://1', 'notes://2', 'other://1'] }, { resourceSubscriptions: ['notes://2', 'other://1'] }, { resourceSubscriptions: ['notes://2'] }]
  ]
  for (const [asked, acknowledged, honored] of cases) {
    const { provider } = createTelling({
      subscribe: (_filter, channel) => {
        t.equal(acknowledged === undefined ? channel.acknowledge() : channel.acknowledge(acknowledged), 'sent')
        return stream('live')
      }
    })
    const { listen } = await serve(t, provider)
    t.strictSame((await listen(asked)).honored, honored)
  }
})

test('the channel of a provider is the channel of the listen', async t => {
  const seen: unknown[] = []
  const { provider } = createTelling({
    subscribe: (_filter, channel) => {
      channel.defer(() => {})
      seen.push(channel.request.method, channel.principal, channel.closed, channel.streaming, channel.sendProgress(1))
      return stream('live')
    }
  })
  const { listen } = await serve(t, provider, {}, { principal: () => 'ada' })
  await listen(all)
  t.strictSame(seen, ['subscriptions/listen', 'ada', false, false, 'filtered'])
})

test('a provider may refuse a listen before it is a stream; what it must not return is a crash', async t => {
  const refusing = await serve(t, createTelling({ subscribe: () => fail({ kind: 'custom', rpcCode: -1, message: 'Too many', statusCode: 429 }) }).provider)
  const refused = await call(refusing.app, 'subscriptions/listen', { notifications: all })
  t.equal(refused.statusCode, 429)
  t.match(refused.json(), { error: { code: -1, message: 'Too many' } })

  for (const returned of [undefined, stop(), result(toolResult.text(''))]) {
    const { app, lines } = await serve(t, createTelling({ subscribe: () => returned as never }).provider)
    const response = await call(app, 'subscriptions/listen', { notifications: all })
    t.equal(response.statusCode, 500)
    t.match(response.json(), { error: { code: -32603, message: 'Internal error' } })
    t.match(lines, [{ err: { code: 'MCP_ERR_BAD_RETURN' } }])
  }
})

// ---- while it is open

test('access is asked again at each event, and the stream ends with its result when it is gone: SUB-13, SUB-17', async t => {
  for (const guarded of ['provider', 'resources'] as const) {
    let allowed = true
    const access = (): boolean => allowed
    const { provider, tell } = createTelling(guarded === 'provider' ? { access } : {})
    const resources = [defineResources({ prefix: 'notes://', read: () => null, ...guarded === 'resources' && { access } })]
    const { listen, whenEnded } = await serve(t, provider, { resources })
    const { stream: listened } = await listen({ toolsListChanged: true, resourceSubscriptions: ['notes://1', 'notes://2'] })
    tell(updated('notes://1'))
    t.match(await take(listened, 1), [updated('notes://1')])
    allowed = false
    tell(updated('notes://2'))
    t.strictSame(await takeAll(listened), [])
    t.match((await listened.answer).result, { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } })
    t.equal(await whenEnded, 'stop')
  }
})

test('resources that nothing was asked about do not end a stream: SUB-13', async t => {
  let allowed = true
  const guarded = defineResources({ prefix: 'own://', access: () => allowed, read: () => null })
  const { provider, tell } = createTelling()
  const { listen } = await serve(t, provider, { resources: [notes, guarded] })
  const { stream: listened } = await listen(all)
  allowed = false
  tell(updated('notes://1'))
  t.match(await take(listened, 1), [updated('notes://1')])
})

test('what a provider tells goes no further than what was honoured: SUB-06, SUB-09', async t => {
  const { provider, tell } = createTelling()
  const { listen } = await serve(t, provider)
  const { stream: listened } = await listen({ resourceSubscriptions: ['notes://a'] })
  for (const notification of [tools, updated('notes://b'), updated('notes://ab'), updated('notes://a/1'), updated('notes://a')]) tell(notification)
  t.match(await take(listened, 2), [updated('notes://a/1'), updated('notes://a')])
})

test('a provider may end a listen, with its result or with an error; what it must not return is a crash', async t => {
  const cases: readonly (readonly [returned: unknown, expected: object])[] = [
    [stop(), { result: { resultType: 'complete' } }],
    [fail('broken'), { error: { code: -32603, message: 'broken' } }],
    [undefined, { error: { code: -32603, message: 'Internal error' } }],
    [result(toolResult.text('')), { error: { code: -32603, message: 'Internal error' } }]
  ]
  for (const [returned, expected] of cases) {
    const { provider, tell } = createTelling({ handleMessage: () => returned as never })
    const { listen } = await serve(t, provider)
    const { stream: listened } = await listen(all)
    tell(tools)
    t.match(await listened.answer, expected)
  }
})

test('a provider goes on with the state that it gave', async t => {
  const provider = defineSubscriptions({
    kinds,
    messages: messageType<'next'>(),
    subscribe: (_filter, channel) => {
      for (let i = 0; i < 3; i++) channel.ref.post('next')
      return stream(1)
    },
    handleMessage: (_message, channel, live) => {
      channel.sendNotification(updated(`notes://${live}`))
      return stream(live + 1)
    }
  })
  const { listen } = await serve(t, provider)
  const { stream: listened } = await listen({ resourceSubscriptions: ['notes://1', 'notes://2', 'notes://3'] })
  t.match(await take(listened, 3), [updated('notes://1'), updated('notes://2'), updated('notes://3')])
})

test('a message that does not fit the schema of a provider is skipped and logged', async t => {
  let ref: ExchangeRef<string> | undefined
  const provider = defineSubscriptions({
    kinds,
    messages: Type.String(),
    subscribe: (_filter, channel) => {
      ref = channel.ref
      return stream(undefined)
    },
    handleMessage: (uri, channel) => {
      channel.sendNotification(updated(uri))
      return stream(undefined)
    }
  })
  const { listen, lines } = await serve(t, provider)
  const { stream: listened } = await listen(all)
  ref?.post(7 as never)
  ref?.post('notes://1')
  t.match(await take(listened, 1), [updated('notes://1')])
  t.match(lines.map(({ msg }) => msg), [/a message that does not fit the provider's schema was skipped/])
})

test('a provider without handlers holds its listens, and is told of no close', async t => {
  const refs: ExchangeRef<never>[] = []
  const provider = defineSubscriptions({
    kinds,
    subscribe: (_filter, channel) => {
      refs.push(channel.ref)
      return stream(undefined)
    }
  })
  const { listen, whenEnded } = await serve(t, provider)
  const { stream: listened } = await listen(all)
  t.equal(refs[0]?.post('anything' as never), 'queued')
  listened.vanish()
  t.equal(await whenEnded, 'disconnect')
})

test('a provider is told once that the client of a listen has left: SUB-11', async t => {
  const { provider, closed } = createTelling()
  const { listen, whenEnded } = await serve(t, provider)
  const { stream: listened } = await listen(all)
  listened.vanish()
  t.equal(await whenEnded, 'disconnect')
  t.strictSame(closed, [['live', 'disconnect']])
})

test('without a provider a listen is acknowledged with nothing and held: SUB-21', async t => {
  const app = await mount(t, { server: createSuite({ info, tools: [], resources: [notes] }) })
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const listened = await client.open('subscriptions/listen', { notifications: all })
  t.match(await take(listened, 1), [{ params: { notifications: {} } }])
})
