import { EventEmitter, once } from 'node:events'
import { Type } from '@sinclair/typebox'
import {
  Client, MissingRequiredClientCapabilityError, ProtocolError, ResourceNotFoundError, SdkHttpError, StreamableHTTPClientTransport, type ClientOptions
} from '@modelcontextprotocol/client'
import Fastify from 'fastify'
import genMcp, {
  defineServer, elicitForm, fail, inputRequired, listResourcesResult, listToolsResult, messageType, readResourceResult, result, stream, toolResult
} from 'fastify-gen-mcp'
import { test, type Test } from 'tap'
import type { CallToolRequest, Channel } from 'fastify-gen-mcp'

// The official client of the protocol's authors, over a real socket, held to the current revision.

test('the client discovers the server and keeps to the revision', async t => {
  const { client } = await connect(t)
  t.equal(client.getNegotiatedProtocolVersion(), '2026-07-28')
  t.equal(client.getProtocolEra(), 'modern')
  t.match(client.getServerVersion(), { name: 'interop', version: '1.0.0' })
  t.match(client.getServerCapabilities(), { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {} })
  t.equal(client.getInstructions(), 'Be kind.')
})

test('a client that prefers the current revision and falls back to 2025 finds the current one', async t => {
  const { client } = await connect(t, { versionNegotiation: { mode: 'auto' } })
  t.equal(client.getNegotiatedProtocolVersion(), '2026-07-28')
})

test('tools and resources are listed and read', async t => {
  const { client } = await connect(t)
  const { tools } = await client.listTools()
  t.same(tools.map(({ name }) => name), ['add', 'count', 'wait', 'remove'])
  const { resources } = await client.listResources()
  t.match(resources, [{ uri: 'note://1', name: 'first' }])
  const { contents } = await client.readResource({ uri: 'note://1' })
  t.match(contents, [{ uri: 'note://1', text: 'Buy milk' }])
})

test('a call is answered with structured content that fits the tool\'s output schema', async t => {
  const { client } = await connect(t)
  await client.listTools()
  const answer = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } })
  t.match(answer, { content: [{ type: 'text', text: '{"sum":5}' }], structuredContent: { sum: 5 } })
  t.not(answer.isError, true)
})

test('progress and logs arrive before the answer, in order', async t => {
  const { client } = await connect(t)
  const seen: unknown[] = []
  client.setNotificationHandler('notifications/message', ({ params }) => { seen.push(params.data) })
  const answer = await client.callTool(
    { name: 'count', arguments: {}, _meta: { 'io.modelcontextprotocol/logLevel': 'info' } },
    { onprogress: ({ progress, total, message }) => { seen.push([progress, total, message]) } }
  )
  seen.push(answer.structuredContent)
  t.same(seen, [[1, 2, 'one'], [2, 2, 'two'], 'counted', { counted: 2 }])
})

test('a call without a progress handler or a log level gets its answer alone', async t => {
  const { client } = await connect(t)
  const logs: unknown[] = []
  client.setNotificationHandler('notifications/message', ({ params }) => { logs.push(params) })
  const { structuredContent } = await client.callTool({ name: 'count', arguments: {} })
  t.same(structuredContent, { counted: 2 })
  t.same(logs, [])
})

test('a call that the client aborts fires the signal of its handler', async t => {
  const { client, events } = await connect(t)
  const abort = new AbortController()
  const waiting = once(events, 'waiting')
  const call = client.callTool({ name: 'wait', arguments: {} }, { signal: abort.signal })
  const [signal] = await waiting as [AbortSignal]
  const aborted = once(signal, 'abort')
  abort.abort()
  await t.rejects(call)
  await aborted
  t.match(signal.reason, { name: 'AbortError', cause: { cause: 'disconnect', method: 'tools/call', name: 'wait' } })
  // The connection as such is as good as new.
  t.match(await client.callTool({ name: 'add', arguments: { a: 1, b: 1 } }), { structuredContent: { sum: 2 } })
})

test('a listen is acknowledged for what the server offers, and changes arrive', async t => {
  const { client, events } = await connect(t)
  const updated = new Promise(resolve => { client.setNotificationHandler('notifications/resources/updated', ({ params }) => { resolve(params) }) })
  const listChanged = new Promise<void>(resolve => { client.setNotificationHandler('notifications/tools/list_changed', () => { resolve() }) })
  const subscription = await client.listen({ toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: ['note://1'] })
  t.same(subscription.honoredFilter, { toolsListChanged: true, resourceSubscriptions: ['note://1'] })

  events.emit('changed', 'note://2')
  events.emit('changed', 'note://1')
  events.emit('tools')
  t.match(await updated, { uri: 'note://1' })
  await listChanged

  const closed = once(events, 'closed')
  await subscription.close()
  t.equal(await subscription.closed, 'local')
  t.same(await closed, ['disconnect'])
})

test('a shutdown ends a listen gracefully', async t => {
  const { client, close } = await connect(t)
  const subscription = await client.listen({ toolsListChanged: true })
  await close()
  t.equal(await subscription.closed, 'graceful')
})

test('an unknown tool is a protocol error that names it', async t => {
  const { client } = await connect(t)
  await t.rejects(client.callTool({ name: 'pow', arguments: {} }), { code: -32602, data: { tool: 'pow' } })
  await t.rejects(client.callTool({ name: 'pow', arguments: {} }), ProtocolError)
})

test('an unknown resource is the client\'s ResourceNotFoundError', async t => {
  const { client } = await connect(t)
  const error = await rejection(client.readResource({ uri: 'note://404' }))
  t.ok(error instanceof ResourceNotFoundError)
  t.match(error, { uri: 'note://404' })
})

test('a capability that the client lacks is named in its error', async t => {
  const { client } = await connect(t)
  const error = await rejection(client.callTool({ name: 'remove', arguments: {} }))
  t.ok(error instanceof MissingRequiredClientCapabilityError)
  t.match(error, { code: -32021, requiredCapabilities: { elicitation: { form: {} } } })
})

test('a method whose capability is not declared is a 404, of which the client reads the status', async t => {
  const { client } = await connect(t)
  const error = await rejection(client.request({ method: 'prompts/get', params: { name: 'any' } }))
  t.ok(error instanceof SdkHttpError)
  t.match(error, { status: 404 })
})

test('a crash is a 500, and says nothing of its cause', async t => {
  const { client } = await connect(t)
  const error = await rejection(client.callTool({ name: 'wait', arguments: { crash: true } }))
  t.ok(error instanceof SdkHttpError)
  t.match(error, { status: 500 })
  t.notMatch(JSON.stringify(error), /secret/)
})

test('a question is put to the client\'s handler, and the call completes with the answer', async t => {
  const { client } = await connect(t, { capabilities: { elicitation: { form: {} } } })
  const asked: unknown[] = []
  client.setRequestHandler('elicitation/create', ({ params }) => {
    asked.push(params)
    return { action: 'accept', content: { sure: true } }
  })
  const answer = await client.callTool({ name: 'remove', arguments: {} })
  t.match(answer, { content: [{ text: 'Gone.' }] })
  t.match(asked, [{ mode: 'form', message: 'Really?', requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] } }])
  t.equal(asked.length, 1)
})

test('a question that the user declines completes too', async t => {
  const { client } = await connect(t, { capabilities: { elicitation: { form: {} } } })
  client.setRequestHandler('elicitation/create', () => ({ action: 'decline' }))
  t.match(await client.callTool({ name: 'remove', arguments: {} }), { content: [{ text: 'Kept.' }] })
})

test('a client that asks by itself gets the questions and the state, and may answer them', async t => {
  const { client } = await connect(t, { capabilities: { elicitation: { form: {} } }, inputRequired: { autoFulfill: false } })
  const first = await client.callTool({ name: 'remove', arguments: {} }, { allowInputRequired: true }) as object as { requestState: string }
  t.match(first, { resultType: 'input_required', inputRequests: { confirm: { method: 'elicitation/create' } }, requestState: String })
  const retry = async (requestState: string) => await client.request({
    method: 'tools/call',
    params: { name: 'remove', arguments: {}, requestState, inputResponses: { confirm: { action: 'accept', content: { sure: true } } } }
  })
  t.match(await retry(first.requestState), { content: [{ text: 'Gone.' }] })
  await t.rejects(retry('forged'), { code: -32602, message: /requestState/ })
})

// ---- the server

type Change = { readonly uri: string } | { readonly tools: true }

const number = { type: 'number' }
const anything = { type: 'object' }

function createServer (events: EventEmitter) {
  return defineServer({
    info: { name: 'interop', version: '1.0.0' },
    instructions: 'Be kind.',
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, logging: {} },
    messages: messageType<Change>(),
    handleRequest: {
      'tools/list': () => result(listToolsResult([
        {
          name: 'add',
          inputSchema: { type: 'object', properties: { a: number, b: number }, required: ['a', 'b'] },
          outputSchema: { type: 'object', properties: { sum: number }, required: ['sum'] }
        },
        { name: 'count', inputSchema: anything },
        { name: 'wait', inputSchema: anything },
        { name: 'remove', inputSchema: anything }
      ])),
      'tools/call': async (request, channel) => await callTool(request, channel, events),
      'resources/list': () => result(listResourcesResult([{ uri: 'note://1', name: 'first' }])),
      'resources/read': ({ params: { uri } }) => uri === 'note://1'
        ? result(readResourceResult({ uri, text: 'Buy milk' }))
        : fail({ kind: 'resourceNotFound', uri }),
      'subscriptions/listen' (_request, channel) {
        channel.on(events, 'changed', (uri: string) => ({ uri }))
        channel.on(events, 'tools', () => ({ tools: true }))
        return stream(null)
      }
    },
    handleMessage (change, channel, live) {
      channel.sendNotification('uri' in change
        ? { method: 'notifications/resources/updated', params: { uri: change.uri } }
        : { method: 'notifications/tools/list_changed' })
      return stream(live)
    },
    handleClose (_context, _live, reason) { events.emit('closed', reason) }
  })
}

async function callTool ({ params: { name, arguments: args } }: CallToolRequest, channel: Channel<Change>, events: EventEmitter) {
  switch (name) {
    case 'add': return result(toolResult.data({ sum: Number(args['a']) + Number(args['b']) }))
    case 'count':
      channel.sendProgress(1, 2, 'one')
      channel.sendProgress(2, 2, 'two')
      channel.sendLog('debug', 'too fine')
      channel.sendLog('info', 'counted')
      return result(toolResult.data({ counted: 2 }))
    case 'wait':
      if (args['crash'] === true) throw new Error('secret')
      events.emit('waiting', channel.signal)
      await once(channel.signal, 'abort')
      return result(toolResult.text('for nobody'))
    case 'remove': {
      const questions = { confirm: elicitForm('Really?', Type.Object({ sure: Type.Boolean() })) }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions)
      return result(toolResult.text(answers.confirm.action === 'accept' && answers.confirm.content.sure ? 'Gone.' : 'Kept.'))
    }
    default: return fail({ kind: 'unknownTool', name })
  }
}

async function connect (t: Test, options: ClientOptions = {}) {
  const events = new EventEmitter()
  // The client's pool opens connections ahead of requests; Node waits long for one on which none was ever sent.
  const app = Fastify({ forceCloseConnections: true })
  t.teardown(async () => { await app.close() })
  await app.register(genMcp, { server: createServer(events) })
  const url = new URL(`${await app.listen({ port: 0, host: '127.0.0.1' })}/mcp`)

  const client = new Client({ name: 'interop-client', version: '1.0.0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } }, ...options })
  t.teardown(async () => { await client.close() })
  await client.connect(new StreamableHTTPClientTransport(url))
  return { client, events, close: async () => { await app.close() } }
}

async function rejection (promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(() => { throw new Error('did not reject') }, (error: unknown) => error)
}
