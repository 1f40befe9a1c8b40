import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import genMcp, { busSubscriptions, createSuite, defineResources, defineTool, elicitForm, inputRequired, readResourceResult, toolResult } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { test } from 'tap'
import { mount } from '../helpers/mount.js'
import { take, takeAll } from '../helpers/stream.js'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26'] as const
const confirm = { confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }

function createServer () {
  const subscriptions = busSubscriptions()
  const tools = [
    defineTool({ name: 'echo', input: Type.Object({ text: Type.String() }), call: ({ text }) => toolResult.text(text) }),
    defineTool({
      name: 'busy',
      call: (_args, channel) => {
        channel.sendProgress(1, 2)
        channel.sendLog('info', 'there')
        return toolResult.text(String(channel.httpRequest.headers['x-caller']))
      }
    }),
    defineTool({
      name: 'ask',
      call: (_args, channel) => {
        const answers = channel.inputResponses(confirm)
        return answers === undefined ? inputRequired(confirm) : toolResult.data({ ...answers.confirm })
      }
    })
  ]
  const resources = [defineResources({ prefix: 'item:', list: () => ({ items: [{ uri: 'item:1', name: 'one' }] }), read: ({ uri }) => readResourceResult({ uri, text: 'text' }) })]
  return { subscriptions, server: createSuite({ info: { name: 'suite', version: '1' }, tools, resources, subscriptions }) }
}

interface Seen { readonly verb: string, readonly session: unknown, readonly version: unknown, readonly method: unknown }

/** An app, and the requests that it got. */
async function mountWatched (t: Test): Promise<{ readonly app: FastifyInstance, readonly seen: readonly Seen[] }> {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  const seen: Seen[] = []
  app.addHook('preHandler', async ({ method: verb, headers, body }) => {
    seen.push({ verb, session: headers['mcp-session-id'], version: headers['mcp-protocol-version'], method: (body as { method?: unknown } | undefined)?.method })
  })
  await app.register(genMcp, { prefix: '/mcp', server: createServer().server })
  return { app, seen }
}

for (const version of VERSIONS) {
  test(`${version}: a session is opened before the first request, kept, and ended by close`, async t => {
    const { app, seen } = await mountWatched(t)
    const client = createTestClient(app, { protocolVersion: version })
    const [first, second] = await Promise.all([client.request('tools/call', { name: 'echo', arguments: { text: 'a' } }), client.request('tools/list', {})])
    t.match(first, { statusCode: 200, result: { content: [{ text: 'a' }] }, notifications: [] })
    t.match(second.result, { tools: [{ name: 'echo' }, { name: 'busy' }, { name: 'ask' }] })
    await client.close()
    t.strictSame(seen.map(({ verb, method }) => method ?? verb).sort(), ['DELETE', 'initialize', 'notifications/initialized', 'tools/call', 'tools/list'])
    const [initialize, ...others] = seen
    t.equal(initialize?.session, undefined)
    t.equal(new Set(others.map(({ session }) => session)).size, 1)
    t.type(others[0]?.session, 'string')
    t.ok(others.every(other => other.version === (version === '2025-03-26' ? undefined : version)))
  })
}

test('a log level is set once for the session, and progress and headers go with each request', async t => {
  const { app, seen } = await mountWatched(t)
  const client = createTestClient(app, { protocolVersion: '2025-11-25', logLevel: 'info', headers: { 'X-Caller': 'me' } })
  const call = async () => await client.request('tools/call', { name: 'busy', arguments: {} }, { progressToken: 'p' })
  t.match(await call(), {
    notifications: [
      { method: 'notifications/progress', params: { progressToken: 'p', progress: 1, total: 2 } },
      { method: 'notifications/message', params: { level: 'info', data: 'there' } }
    ],
    result: { content: [{ text: 'me' }] }
  })
  await call()
  t.equal(seen.filter(({ method }) => method === 'logging/setLevel').length, 1)
  t.equal((await client.notify('notifications/roots/list_changed')).statusCode, 202)
  await client.close()
})

test('what the server asks is answered on the way, through inject and over a socket', async t => {
  const app = await mount(t, { server: createServer().server })
  const asked: unknown[] = []
  const client = createTestClient(app, {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    respond (key, { method, params }) {
      asked.push({ key: typeof key, method, message: (params as { message?: unknown } | undefined)?.message })
      return { action: 'accept', content: { sure: true } }
    }
  })
  t.match((await client.request('tools/call', { name: 'ask', arguments: {} })).result, { structuredContent: { action: 'accept', content: { sure: true } } })
  const stream = await client.open('tools/call', { name: 'ask', arguments: {} })
  t.match((await stream.answer).result, { structuredContent: { action: 'accept' } })
  t.strictSame(await takeAll(stream), [], 'a question is no notification')
  t.strictSame(asked, Array.from({ length: 2 }, () => ({ key: 'string', method: 'elicitation/create', message: 'Sure?' })))
  await client.close()
})

test('without respond a question is answered as a method that nobody knows', async t => {
  const app = await mount(t, { server: createServer().server })
  const client = createTestClient(app, { protocolVersion: '2025-11-25', capabilities: { elicitation: {} } })
  t.match((await client.request('tools/call', { name: 'ask', arguments: {} })).error, { message: /did not answer "confirm": This client answers nothing/ })
  await client.close()
})

test('a listen is the stream of a GET, on which subscribed resources and lists are told of', async t => {
  const { server, subscriptions } = createServer()
  const app = await mount(t, { server })
  const client = createTestClient(app, { protocolVersion: '2025-11-25' })
  const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true, resourceSubscriptions: ['item:1'] } })
  t.match(await listen.head, { statusCode: 200, headers: { 'content-type': /event-stream/ } })
  subscriptions.resourceUpdated('item:1')
  subscriptions.resourceUpdated('item:2')
  t.match(await take(listen, 1), [{ method: 'notifications/resources/updated', params: { uri: 'item:1' } }])
  subscriptions.toolsChanged()
  t.match(await take(listen, 1), [{ method: 'notifications/tools/list_changed' }])
  await client.close()
})

test('a mount without sessions is used without one', async t => {
  const app = await mount(t, { server: createServer().server, legacy: { sessions: false } })
  const client = createTestClient(app, { protocolVersion: '2025-06-18' })
  t.match((await client.request('tools/call', { name: 'echo', arguments: { text: 'a' } })).result, { content: [{ text: 'a' }] })
  await client.close()
})

test('what a 2025 client cannot do is an Error: capabilities that change, a server that refuses the session or what goes before a request', async t => {
  const client = createTestClient(await mount(t, { server: createServer().server }), { protocolVersion: '2025-11-25' })
  await t.rejects(client.request('tools/list', {}, { capabilities: { roots: {} } }), { message: /declares its capabilities once/ })
  await t.rejects(client.request('tools/list', {}, { logLevel: 'loud' as 'info' }), { message: /logging\/setLevel was answered with/ })
  await t.rejects(createTestClient(await mount(t, { server: createServer().server, legacy: false }), { protocolVersion: '2025-11-25' }).request('tools/list', {}), { message: /initialize was answered with 400/ })
  await client.close()
})
