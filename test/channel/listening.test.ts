import { test, type Test } from 'tap'
import { Value } from '@sinclair/typebox/value'
import mqemitter from 'mqemitter'
import {
  defineServer, fail, inputRequired, messageType, result, stop, stream, toolResult, type Channel, type MessageBus, type MessageOutcome,
  type RequestOutcome, type SendStatus, type ServerCapabilities, type ServerNotification, type SubscriptionFilter
} from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { SubscriptionsAcknowledgedNotification, SubscriptionsListenResult } from '../../lib/protocol/index.js'
import { call, mount } from '../helpers/mount.js'
import { isStream, messagesOf, type Message } from '../helpers/messages.js'
import { createListenServer, info } from '../helpers/servers.js'
import { NOTHING_HELD } from '../helpers/sockets.js'
import { take, takeAll } from '../helpers/stream.js'

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const EXTENSION = 'com.example/ticker'
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'

const everything: ServerCapabilities = {
  tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true }, logging: {}
}
const tools: ServerNotification = { method: 'notifications/tools/list_changed' }
const prompts: ServerNotification = { method: 'notifications/prompts/list_changed' }
const resources: ServerNotification = { method: 'notifications/resources/list_changed' }
const updated = (uri: string): ServerNotification => ({ method: 'notifications/resources/updated', params: { uri } })
const tick: ServerNotification = { extension: EXTENSION, method: 'notifications/com.example/tick', params: { at: 1 } }
const all: SubscriptionFilter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ['file:///a'] }

/** What a listen does, one thing after the other; an outcome ends it. */
type Step = (channel: Channel<Step>) => MessageOutcome<undefined> | undefined

interface Options {
  /** null: a server without `info` */
  readonly capabilities?: ServerCapabilities | null
  /** Done by the handler itself, before the steps; an outcome is what it returns. */
  readonly first?: (channel: Channel<Step>) => RequestOutcome<undefined> | undefined
  /** Default: what all of it was. */
  readonly last?: Step
  readonly id?: unknown
  readonly meta?: Readonly<Record<string, unknown>>
}

/** A server whose listens take these steps and then stop. */
function listenServer (steps: readonly Step[], { capabilities = everything, first, last = () => stop() }: Options = {}) {
  return defineServer({
    ...(capabilities !== null && { info, capabilities }),
    messages: messageType<Step>(),
    handleRequest: (_request, channel) => {
      for (const step of [...steps, last]) channel.ref.post(step)
      return first?.(channel) ?? stream(undefined)
    },
    handleMessage: (step, channel) => step(channel) ?? stream(undefined)
  })
}

/** One listen from its beginning to its end. */
async function listen (t: Test, filter: unknown, steps: readonly Step[], options: Options = {}) {
  const app = await mount(t, { server: listenServer(steps, options) })
  const { id = 1, meta = {} } = options
  const response = await call(app, 'subscriptions/listen', { notifications: filter }, { id, meta })
  return { response, messages: await messagesOf(response) }
}

/** What became of each notification on one listen, and what was sent after the acknowledgement and before the end. */
async function sending (t: Test, filter: SubscriptionFilter, notifications: readonly ServerNotification[], options: Options = {}) {
  const statuses: SendStatus[] = []
  const { messages } = await listen(t, filter, notifications.map(notification => channel => {
    statuses.push(channel.sendNotification(notification))
    return undefined
  }), options)
  return { statuses, sent: messages.slice(1, -1), messages }
}

function honouredOf (messages: readonly Message[]): unknown {
  return messages[0]?.params?.['notifications']
}

// ---- the acknowledgement

test('a listen is a stream whose first message is the acknowledgement and whose last is its result: SUB-03', async t => {
  const { response, messages } = await listen(t, all, [])
  // SUB-02
  t.equal(response.statusCode, 200)
  t.ok(isStream(response))
  // SUB-04
  t.strictSame(messages, [
    { jsonrpc: '2.0', method: ACKNOWLEDGED, params: { _meta: { [SUBSCRIPTION_ID]: 1 }, notifications: all } },
    { jsonrpc: '2.0', id: 1, result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': info, [SUBSCRIPTION_ID]: 1 } } }
  ])
  t.ok(Value.Check(SubscriptionsAcknowledgedNotification, messages[0]))
  t.ok(Value.Check(SubscriptionsListenResult, messages[1]?.result))
})

test('the id of a listen is on all that it sends, as it came: SUB-05', async t => {
  for (const id of [0, '', '7', 7, -1, '__proto__', 'Größe']) {
    const sends: Step[] = [tools, updated('file:///a'), tick].map(notification => channel => {
      channel.sendNotification(notification)
      return undefined
    })
    const { messages } = await listen(t, all, sends, { id, meta: { [CAPABILITIES]: { extensions: { [EXTENSION]: {} } } } })
    t.equal(messages.length, 5)
    t.equal(messages.at(-1)?.id, id)
    for (const { params, result } of messages) t.strictSame(((params ?? result)?.['_meta'] as Record<string, unknown>)[SUBSCRIPTION_ID], id)
  }
})

test('a change is stamped and otherwise as it was', async t => {
  const { sent } = await sending(t, all, [tools, prompts, resources, updated('file:///a')])
  const _meta = { [SUBSCRIPTION_ID]: 1 }
  t.strictSame(sent, [
    { jsonrpc: '2.0', method: 'notifications/tools/list_changed', params: { _meta } },
    { jsonrpc: '2.0', method: 'notifications/prompts/list_changed', params: { _meta } },
    { jsonrpc: '2.0', method: 'notifications/resources/list_changed', params: { _meta } },
    { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri: 'file:///a', _meta } }
  ])
})

test('nothing precedes the acknowledgement: SUB-03', async t => {
  const statuses: unknown[] = []
  const { messages } = await listen(t, all, [], {
    meta: { progressToken: 'p', 'io.modelcontextprotocol/logLevel': 'debug', [CAPABILITIES]: { extensions: { [EXTENSION]: {} } } },
    first (channel) {
      for (const notification of [tools, prompts, resources, updated('file:///a'), tick]) statuses.push(channel.sendNotification(notification))
      statuses.push(channel.sendProgress(1), channel.sendLog('emergency', 'x'))
      statuses.push(channel.streaming, channel.startStream(), channel.sendNotification(tools))
      return undefined
    }
  })
  t.strictSame(statuses, [...Array.from({ length: 5 }, () => 'notSubscribed'), 'filtered', 'filtered', false, true, 'sent'])
  t.strictSame(messages.map(({ method }) => method), [ACKNOWLEDGED, 'notifications/tools/list_changed', undefined])
})

test('a change that is posted before the acknowledgement has left follows it: SUB-19', async t => {
  const { messages } = await listen(t, all, [channel => {
    channel.sendNotification(tools)
    return undefined
  }], {
    first (channel) {
      channel.acknowledge()
      channel.ref.post(channel => {
        channel.sendNotification(prompts)
        return stop()
      })
      return undefined
    },
    last: () => undefined
  })
  t.strictSame(messages.map(({ method }) => method), [ACKNOWLEDGED, 'notifications/tools/list_changed', 'notifications/prompts/list_changed', undefined])
})

// ---- what is honoured

test('only what is behind a declared capability is honoured: SUB-07', async t => {
  const cases: [capabilities: ServerCapabilities, honoured: SubscriptionFilter][] = [
    [{ tools: { listChanged: true }, prompts: {}, resources: {} }, { toolsListChanged: true }],
    [{ prompts: { listChanged: true }, tools: { listChanged: false } }, { promptsListChanged: true }],
    [{ resources: { listChanged: true } }, { resourcesListChanged: true }],
    [{ resources: { subscribe: true } }, { resourceSubscriptions: ['file:///a'] }],
    [everything, all]
  ]
  for (const [capabilities, honoured] of cases) {
    // SUB-04: what is not honoured is left out.
    const { statuses, messages } = await sending(t, all, [tools, prompts, resources, updated('file:///a')], { capabilities })
    t.strictSame(honouredOf(messages), honoured)
    const { toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions } = honoured
    const granted = [toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions]
    t.strictSame(statuses, granted.map(value => value === undefined ? 'filtered' : 'sent'))
  }
})

test('what was not requested is neither honoured nor sent, and false is the same: SUB-06', async t => {
  const cases: [requested: SubscriptionFilter, sent: SendStatus[]][] = [
    [{ toolsListChanged: true }, ['sent', 'filtered', 'filtered', 'filtered']],
    [{ promptsListChanged: true, toolsListChanged: false }, ['filtered', 'sent', 'filtered', 'filtered']],
    [{ resourcesListChanged: true, resourceSubscriptions: [] }, ['filtered', 'filtered', 'sent', 'filtered']],
    [{ resourceSubscriptions: ['file:///a'], resourcesListChanged: false, promptsListChanged: false }, ['filtered', 'filtered', 'filtered', 'sent']]
  ]
  for (const capabilities of [everything, null]) {
    for (const [requested, expected] of cases) {
      const { statuses, messages, sent } = await sending(t, requested, [tools, prompts, resources, updated('file:///a')], { capabilities })
      t.strictSame(statuses, expected, JSON.stringify(requested))
      t.equal(sent.length, 1)
      const honoured = Object.entries(requested).filter(([, value]) => value === true || (Array.isArray(value) && value.length > 0))
      t.strictSame(honouredOf(messages), Object.fromEntries(honoured))
    }
  }
})

test('a server may honour less, and less is enforced', async t => {
  const accepted: SendStatus[] = []
  const requested = { ...all, resourceSubscriptions: ['file:///a', 'file:///b'] }
  const sends = [tools, prompts, updated('file:///a'), updated('file:///b')]
  const { messages, statuses } = await sending(t, requested, sends, {
    first (channel) {
      // What nobody asked for is not honoured by being named.
      accepted.push(channel.acknowledge({ promptsListChanged: true, resourceSubscriptions: ['file:///b', 'file:///c'] }), channel.acknowledge())
      return undefined
    }
  })
  t.strictSame(accepted, ['sent', 'filtered'], 'it is accepted once')
  t.strictSame(honouredOf(messages), { promptsListChanged: true, resourceSubscriptions: ['file:///b'] })
  t.strictSame(statuses, ['filtered', 'sent', 'filtered', 'sent'])
})

test('honoured is never more than was requested and declared', async t => {
  const { messages } = await listen(t, { toolsListChanged: true, promptsListChanged: true }, [], {
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
    first (channel) {
      channel.acknowledge(all)
      return undefined
    }
  })
  t.strictSame(honouredOf(messages), { toolsListChanged: true })
})

test('a listen may be accepted for nothing', async t => {
  const { statuses, messages } = await sending(t, all, [tools, updated('file:///a')], {
    first (channel) {
      channel.acknowledge({})
      return undefined
    }
  })
  t.strictSame(honouredOf(messages), {})
  t.strictSame(statuses, ['filtered', 'filtered'])
})

test('capabilities that depend on the request decide what is honoured', async t => {
  const server = { ...listenServer([]), capabilities: async () => ({ tools: { listChanged: true } }) }
  const messages = await messagesOf(await call(await mount(t, { server }), 'subscriptions/listen', { notifications: all }))
  t.strictSame(honouredOf(messages), { toolsListChanged: true })
})

test('an update is sent for the URIs subscribed to and for what lies below them: SUB-09', async t => {
  const cases: [subscribed: string, uri: string, status: SendStatus][] = [
    ['file:///a', 'file:///a', 'sent'],
    ['file:///a', 'file:///a/b', 'sent'],
    ['file:///a/', 'file:///a/b/c', 'sent'],
    ['file:///a', 'file:///ab', 'filtered'],
    ['file:///a/', 'file:///a', 'filtered'],
    ['file:///a/b', 'file:///a', 'filtered'],
    ['file:///a', 'FILE:///a', 'filtered'],
    ['file:///a', '', 'filtered'],
    ['', 'file:///a', 'filtered'],
    ['file:///a', 'http://x/?file:///a', 'filtered'],
    ['notes://1?full', 'notes://1', 'filtered']
  ]
  for (const [subscribed, uri, status] of cases) {
    const { statuses, sent } = await sending(t, { resourceSubscriptions: ['other:x', subscribed] }, [updated(uri)])
    t.strictSame(statuses, [status], `${uri} below ${subscribed}`)
    t.strictSame(sent.map(({ params }) => params?.['uri']), status === 'sent' ? [uri] : [])
  }
})

test('a filter of many URIs is acknowledged as fast as it is read', async t => {
  const uris = Array.from({ length: 100_000 }, (_, index) => `u:${index}`)
  const before = process.cpuUsage()
  const { messages } = await listen(t, { resourceSubscriptions: uris }, [])
  const { user } = process.cpuUsage(before)
  t.equal((honouredOf(messages) as SubscriptionFilter).resourceSubscriptions?.length, uris.length)
  // Tenths of a second for work that grows with the URIs; many seconds for work that grows with their square, on one thread for everybody.
  t.ok(user < 3_000_000, `${Math.round(user / 1000)} ms of computing`)
})

test('a listen on which nothing but changes is sent: SUB-08', async t => {
  const statuses: SendStatus[] = []
  const { messages } = await listen(t, all, [channel => {
    statuses.push(channel.sendProgress(1), channel.sendLog('emergency', 'x'), channel.sendNotification(tick))
    return undefined
  }], { meta: { progressToken: 'p', 'io.modelcontextprotocol/logLevel': 'debug' } })
  // PRG-05, LOG-05
  t.strictSame(statuses, ['filtered', 'filtered', 'filtered'])
  t.equal(messages.length, 2)
})

test('an extension\'s notification on a listen is stamped, and an author\'s own members stay', async t => {
  const meta = { [CAPABILITIES]: { extensions: { [EXTENSION]: {} } } }
  const { statuses, sent } = await sending(t, all, [
    { extension: EXTENSION, method: 'notifications/x' },
    { ...tick, params: { at: 1, _meta: { mine: true } } },
    { ...tick, params: { _meta: { [SUBSCRIPTION_ID]: 'another' } } },
    { ...tick, params: { _meta: null } }
  ], { meta })
  t.strictSame(statuses, ['sent', 'sent', 'sent', 'sent'])
  t.strictSame(sent.map(({ params }) => params), [
    { _meta: { [SUBSCRIPTION_ID]: 1 } },
    { at: 1, _meta: { [SUBSCRIPTION_ID]: 1, mine: true } },
    { _meta: { [SUBSCRIPTION_ID]: 'another' } },
    { _meta: { [SUBSCRIPTION_ID]: 1 } }
  ])
})

test('a _meta that is no object is not taken apart', async t => {
  const meta = { [CAPABILITIES]: { extensions: { [EXTENSION]: {} } } }
  const { sent } = await sending(t, all, [{ ...tick, params: { _meta: 'text' } }, { ...tick, params: { _meta: ['text'] } }], { meta })
  t.equal(sent.length, 2)
  for (const { params } of sent) t.strictSame(params, { _meta: { [SUBSCRIPTION_ID]: 1 } })
})

test('sends on a listen throw nothing, whatever they are given', async t => {
  const thrown: string[] = []
  const method = 'notifications/resources/updated'
  const oddities = [undefined, null, 'x', {}, { method }, { method, params: {} }, { method, params: { uri: 5 } }, { method: 'constructor' }, { method: 5 }]
  const { messages } = await listen(t, all, oddities.map((oddity): Step => channel => {
    try {
      channel.sendNotification(oddity as unknown as ServerNotification)
    } catch (error) {
      thrown.push(`${JSON.stringify(oddity)}: ${String(error)}`)
    }
    return undefined
  }))
  t.strictSame(thrown, [])
  t.equal(messages.length, 2)
})

test('acknowledge throws nothing, whatever it is given', async t => {
  const thrown: string[] = []
  for (const honoured of [null, 'x', 5, [], { resourceSubscriptions: null }, { resourceSubscriptions: 5 }, { toolsListChanged: 'yes' }]) {
    const { messages } = await listen(t, all, [], {
      first (channel) {
        try {
          channel.acknowledge(honoured as unknown as SubscriptionFilter)
        } catch (error) {
          thrown.push(`${JSON.stringify(honoured)}: ${String(error)}`)
        }
        return undefined
      }
    })
    t.equal(messages.length, 2)
  }
  t.strictSame(thrown, [])
})

// ---- what is refused, and what never reaches the server

test('a listen without a filter, or with one that is none, is refused as JSON: SUB-01', async t => {
  const app = await mount(t, { server: listenServer([]) })
  const filters = [
    undefined, null, [], 'x', 5, { resourceSubscriptions: 'x' }, { resourceSubscriptions: [1] }, { resourceSubscriptions: {} },
    { toolsListChanged: 'yes' }, { promptsListChanged: null }, { resourcesListChanged: 1 }
  ]
  for (const notifications of filters) {
    const response = await call(app, 'subscriptions/listen', { notifications })
    t.equal(response.statusCode, 200)
    t.notOk(isStream(response))
    t.match(response.json(), { id: 1, error: { code: -32602 } }, JSON.stringify(notifications))
  }
})

test('members of a filter that nobody knows are not honoured', async t => {
  const { messages } = await listen(t, JSON.parse('{"toolsListChanged":true,"taskIds":["x"],"toString":true,"__proto__":{"promptsListChanged":true}}'), [])
  t.strictSame(honouredOf(messages), { toolsListChanged: true })
})

test('fail before the acknowledgement refuses the listen, with no stream', async t => {
  const { response, messages } = await listen(t, all, [], { first: () => fail({ kind: 'custom', rpcCode: 403, message: 'not you', statusCode: 403 }) })
  t.equal(response.statusCode, 403)
  t.notOk(isStream(response))
  t.match(messages, [{ id: 1, error: { code: 403, message: 'not you' } }])
})

test('fail after the acknowledgement is the last event', async t => {
  const { response, messages } = await listen(t, all, [() => fail('gone')])
  t.ok(isStream(response))
  t.match(messages, [{ method: ACKNOWLEDGED }, { id: 1, error: { code: -32603, message: 'gone' } }])

  const early = await listen(t, all, [], {
    first (channel) {
      channel.acknowledge()
      return fail('gone')
    }
  })
  t.match(early.messages, [{ method: ACKNOWLEDGED }, { id: 1, error: { code: -32603, message: 'gone' } }])
})

test('a listen that takes long to refuse is refused with no stream all the same', async t => {
  const server = defineServer({
    info,
    capabilities: everything,
    async handleRequest () {
      // Longer than a silent call stays JSON.
      await new Promise(resolve => setTimeout(resolve, 100))
      return fail({ kind: 'custom', rpcCode: 403, message: 'not you', statusCode: 403 })
    }
  })
  const response = await call(await mount(t, { server, streamAfter: 10 }), 'subscriptions/listen', { notifications: all })
  t.notOk(isStream(response))
  t.equal(response.statusCode, 403)
})

test('a listen has no answer of its own: a result, a question or a stop of its handler is a crash', async t => {
  for (const outcome of [result(toolResult.text('x')), inputRequired({}), stop()]) {
    const { response, messages } = await listen(t, all, [], { first: () => outcome as RequestOutcome<undefined> })
    t.equal(response.statusCode, 500)
    t.match(messages, [{ id: 1, error: { code: -32603, message: 'Internal error' } }])
  }
  const { messages } = await listen(t, all, [() => result(toolResult.text('x'))])
  t.match(messages, [{ method: ACKNOWLEDGED }, { id: 1, error: { code: -32603, message: 'Internal error' } }])
})

/** A server that counts what reaches it. */
function counting (capabilities: ServerCapabilities) {
  const calls: string[] = []
  return {
    calls,
    server: defineServer({
      info,
      capabilities,
      init () { calls.push('init') },
      handleRequest: request => {
        calls.push(request.method)
        return stream(undefined)
      }
    })
  }
}

test('a listen of which nothing can be honoured is acknowledged for nothing, held, and never reaches the server: SUB-21', async t => {
  const cases: [capabilities: ServerCapabilities, filter: SubscriptionFilter][] = [
    [{}, all], [everything, {}], [{ tools: {} }, { toolsListChanged: true }], [everything, { toolsListChanged: false }]
  ]
  for (const [capabilities, filter] of cases) {
    const { server, calls } = counting(capabilities)
    const app = await mount(t, { server })
    const stream = await createTestClient(app).open('subscriptions/listen', { notifications: filter })
    t.match(await take(stream, 1), [{ method: ACKNOWLEDGED, params: { notifications: {}, _meta: { [SUBSCRIPTION_ID]: 1 } } }])
    t.match(app.mcp.mounts[0]?.gauges(), { listens: 1, streams: 1 })
    await app.close()
    t.match(await stream.answer, { result: { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: 1 } } })
    t.strictSame(await takeAll(stream), [])
    t.strictSame(calls, [])
  }
})

test('an empty list of URIs is nothing that can be honoured', async t => {
  const { server, calls } = counting(everything)
  const app = await mount(t, { server })
  const stream = await createTestClient(app).open('subscriptions/listen', { notifications: { resourceSubscriptions: [] } })
  t.match(await take(stream, 1), [{ params: { notifications: {} } }])
  await app.close()
  await stream.answer
  t.strictSame(calls, [])
})

test('without info every listen reaches the server', async t => {
  const { messages } = await listen(t, {}, [], { capabilities: null })
  t.strictSame(honouredOf(messages), {})
  t.strictSame(messages.at(-1)?.result, { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: 1 } })
})

// ---- the end

test('stop and close end a listen with its result: SUB-17', async t => {
  for (const last of [() => stop(), () => stop('why'), (channel: Channel<Step>) => {
    t.ok(channel.close())
    return undefined
  }]) {
    const { messages } = await listen(t, all, [], { last })
    t.match(messages, [{ method: ACKNOWLEDGED }, { id: 1, result: { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: 1 } } }])
  }
})

test('close before the acknowledgement is an error, with no stream', async t => {
  const { response } = await listen(t, all, [], {
    first (channel) {
      t.ok(channel.close())
      t.equal(channel.acknowledge(), 'closed')
      return undefined
    }
  })
  t.notOk(isStream(response))
  t.match(response.json(), { id: 1, error: { code: -32603, message: 'Request closed by the server' } })
})

test('a shutdown ends each listen with its result, and nothing is sent after it: SUB-17', async t => {
  const { server, notify } = createListenServer()
  const app = await mount(t, { server })
  const stream = await createTestClient(app).open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  await take(stream, 1)
  await app.close()
  notify(tools)
  t.match(await stream.answer, { result: { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: 1 } } })
  t.strictSame(await takeAll(stream), [])
})

test('a client that leaves ends its listen at once, and all that was held for it is free: SUB-11', async t => {
  let release = (): void => {}
  const released = new Promise<void>(resolve => { release = resolve })
  const server = defineServer({
    info,
    capabilities: everything,
    messages: messageType<ServerNotification>(),
    handleRequest: (_request, channel) => {
      channel.every(60_000, () => tools)
      channel.defer(() => { release() })
      return stream('live')
    },
    handleMessage: (_message, _channel, live) => stream(live)
  })
  const app = await mount(t, { server })
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const listening = await client.open('subscriptions/listen', { notifications: all })
  await take(listening, 1)
  t.match(app.mcp.mounts[0]?.gauges(), { listens: 1, streams: 1, sources: 1 })
  listening.vanish()
  await released
  await new Promise(setImmediate)
  t.strictSame(app.mcp.mounts[0]?.gauges(), NOTHING_HELD)
})

test('a listen that comes after a change does not hear of it: SUB-12', async t => {
  const { server, notify } = createListenServer()
  const app = await mount(t, { server })
  const client = createTestClient(app)
  const filter = { notifications: { toolsListChanged: true, promptsListChanged: true } }
  const before = await client.open('subscriptions/listen', filter)
  await take(before, 1)
  before.vanish()
  notify(tools)
  const after = await client.open('subscriptions/listen', filter)
  await take(after, 1)
  notify(prompts)
  t.match(await take(after, 1), [{ method: 'notifications/prompts/list_changed' }], 'what comes next is what happened since')
  await client.close()
})

test('listens are independent, of one client and of several with the same id: SUB-10', async t => {
  const { server, notify } = createListenServer()
  const app = await mount(t, { server })
  const [alice, bob] = [createTestClient(app), createTestClient(app)]
  const open = async (client: typeof alice, notifications: SubscriptionFilter) => {
    const stream = await client.open('subscriptions/listen', { notifications })
    const [acknowledged] = await take(stream, 1)
    return { stream, id: (acknowledged as unknown as Message).params?.['_meta'] }
  }
  const streams = [
    await open(alice, { toolsListChanged: true }),
    await open(alice, { promptsListChanged: true }),
    await open(bob, { toolsListChanged: true, promptsListChanged: true })
  ]
  t.strictSame(streams.map(({ id }) => id), [{ [SUBSCRIPTION_ID]: 1 }, { [SUBSCRIPTION_ID]: 2 }, { [SUBSCRIPTION_ID]: 1 }])

  notify(prompts)
  notify(tools)
  const seen = await Promise.all(streams.map(async ({ stream }, index) => (await take(stream, index === 2 ? 2 : 1)).map(({ method }) => method)))
  t.strictSame(seen, [[tools.method], [prompts.method], [prompts.method, tools.method]])
  await alice.close()
  notify(tools)
  t.match(await take(streams[2]?.stream as typeof streams[0]['stream'], 1), [{ method: 'notifications/tools/list_changed' }], 'the others go on')
  await bob.close()
})

test('a change on one instance reaches the listens of another over a bus: SUB-20, case 077', async t => {
  const bus = mqemitter()
  t.teardown(async () => { await new Promise<void>(resolve => { bus.close(() => { resolve() }) }) })
  const instance = (over: MessageBus) => defineServer({
    info,
    capabilities: everything,
    messages: messageType<string>(),
    handleRequest: (_request, channel) => {
      channel.subscribe<{ topic: string, to?: string }>(over, 'changed/tools', ({ to }) => to === undefined || to === channel.principal ? 'tools' : undefined)
      return stream(undefined)
    },
    handleMessage (_message, channel) {
      channel.sendNotification(tools)
      return stop()
    }
  })
  const principal = ({ headers }: { headers: Record<string, unknown> }) => String(headers['x-user'])
  const [one, two] = [await mount(t, { server: instance(bus), principal }), await mount(t, { server: instance(bus), principal })]
  const streams = [await listenAs(one, 'alice'), await listenAs(two, 'alice'), await listenAs(two, 'bob')]
  bus.emit({ topic: 'changed/tools', to: 'alice' })
  for (const stream of streams.slice(0, 2)) t.match(await takeAll(stream), [{ method: 'notifications/tools/list_changed' }])
  // case 078: what concerns one caller is told to nobody else.
  t.match([one.mcp.mounts[0]?.gauges(), two.mcp.mounts[0]?.gauges()], [{ listens: 0 }, { listens: 1 }])
  bus.emit({ topic: 'changed/tools' })
  t.match(await takeAll(streams[2] as typeof streams[0] & object), [{ method: 'notifications/tools/list_changed' }])
})

async function listenAs (app: Parameters<typeof createTestClient>[0], user: string) {
  const stream = await createTestClient(app, { headers: { 'x-user': user } }).open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  await take(stream, 1)
  return stream
}

test('a listen needs no HTTP to be tested', async t => {
  const { server, notify } = createListenServer()
  const exchange = testExchange(server, 'subscriptions/listen', { notifications: { toolsListChanged: true } })
  notify(tools)
  notify(prompts)
  await new Promise(setImmediate)
  t.strictSame(exchange.notifications.map(({ method }) => method), [ACKNOWLEDGED, 'notifications/tools/list_changed'])
  exchange.disconnect()
  t.match(await exchange.ended, { cause: 'disconnect' })
})
