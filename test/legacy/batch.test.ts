import { test } from 'tap'
import { defineServer, fail, result, toolResult } from 'fastify-gen-mcp'
import { mount } from '../helpers/mount.js'
import { isStream, messagesOf, type Message } from '../helpers/messages.js'
import { refused } from '../helpers/refusal.js'
import { echo, info, toolServer } from '../helpers/servers.js'
import { stage } from '../helpers/sockets.js'
import { initializeParams, open, send, VERSIONS } from './helpers.js'
import type { LightMyRequestResponse } from 'fastify'

const request = (id: string | number, method: string, params?: object) => ({ jsonrpc: '2.0', id, method, ...(params && { params }) })
const notification = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 99 } }
const answer = { jsonrpc: '2.0', id: 99, result: {} }
const tools = [{ name: 'echo', inputSchema: { type: 'object' } }]

/** The answers of a JSON array, by their ids. */
function byId (response: LightMyRequestResponse): Map<unknown, Message> {
  return new Map(response.json<readonly Message[]>().map(message => [message.id, message]))
}

test('a batch is answered with an array, an answer for each request and none for what is none: LEG-75, LEG-76, case 036', async t => {
  const session = await open(await mount(t, { server: echo }), '2025-03-26')
  const call = request(4, 'tools/call', { name: 'echo', arguments: { a: 1 } })
  const response = await session.post([request(1, 'ping'), notification, request('two', 'tools/list'), answer, request(3, 'no/such'), call])
  t.equal(response.statusCode, 200)
  t.match(response.headers['content-type'], /^application\/json/)
  t.strictSame(byId(response), new Map<unknown, unknown>([
    [1, { jsonrpc: '2.0', id: 1, result: {} }],
    ['two', { jsonrpc: '2.0', id: 'two', result: { tools } }],
    [3, { jsonrpc: '2.0', id: 3, error: { code: -32601, message: 'Method not found', data: { method: 'no/such' } } }],
    [4, { jsonrpc: '2.0', id: 4, result: { content: [{ type: 'text', text: '{"a":1}' }] } }]
  ]))
  t.strictSame((await session.post([request(1, 'ping')])).json(), [{ jsonrpc: '2.0', id: 1, result: {} }], 'one alone is answered in an array too')
})

test('a batch without a request is accepted, and has no body: LEG-76, LEG-35', async t => {
  const session = await open(await mount(t, { server: echo }), '2025-03-26')
  for (const batch of [[notification], [answer], [notification, answer, { jsonrpc: '2.0', id: 98, error: { code: -1, message: 'no' } }]]) {
    const response = await session.post(batch)
    t.equal(response.statusCode, 202)
    t.equal(response.body, '')
  }
})

test('a batch of which one has something to say is a stream, with an answer for each: LEG-76', async t => {
  const server = toolServer(async ({ params }, channel) => {
    if (params.name === 'loud') channel.sendLog('info', 'hello')
    return params.name === 'refused' ? fail('no') : result(toolResult.text(params.name))
  })
  const session = await open(await mount(t, { server }), '2025-03-26')
  const call = (id: number, name: string) => request(id, 'tools/call', { name })
  const response = await session.post([call(1, 'quiet'), call(2, 'loud'), request(3, 'ping'), call(4, 'refused'), 5])
  t.ok(isStream(response))
  const messages = await messagesOf(response)
  t.strictSame(messages.filter(({ method }) => method !== undefined).map(({ method }) => method), ['notifications/message'])
  t.strictSame(messages.filter(({ method }) => method === undefined).map(({ id }) => id).sort(), [1, 2, 3, 4, undefined])
})

test('to a client that takes streams alone a batch is one: LEG-76, LEG-36', async t => {
  const session = await open(await mount(t, { server: echo }), '2025-03-26')
  const response = await session.post([request(1, 'ping'), request(2, 'tools/list')], { accept: 'text/event-stream' })
  t.ok(isStream(response))
  t.strictSame((await messagesOf(response)).map(({ id, result }) => [id, result]).sort(), [[1, {}], [2, { tools }]])
})

test('an empty batch is refused, and a member that is none is refused by itself, with its id if it has one: LEG-77, case 036', async t => {
  const app = await mount(t, { server: echo })
  const session = await open(app, '2025-03-26')
  refused(t, await session.post([]), { status: 400, code: -32600 }, 'in a session')
  refused(t, await send(app, []), { status: 400, code: -32600 }, 'without one')

  const response = await session.post([
    1, request(1, 'ping'), null, [request(2, 'ping')], {}, { jsonrpc: '1.0', id: 3, method: 'ping' }, { jsonrpc: '2.0', id: 'four' }, { jsonrpc: '2.0', id: null, method: 'ping' }
  ])
  t.equal(response.statusCode, 200)
  const answers = response.json<readonly Message[]>()
  t.equal(answers.length, 8)
  t.strictSame(answers.filter(({ result }) => result !== undefined), [{ jsonrpc: '2.0', id: 1, result: {} }])
  t.strictSame(answers.flatMap(({ error }) => error === undefined ? [] : [error.code]), Array(7).fill(-32600))
  t.strictSame(answers.flatMap(({ id, error }) => error !== undefined && id !== undefined ? [id] : []), [3, 'four'])
  t.equal(answers.filter(answer => !('id' in answer)).length, 5)
  t.equal((await session.post([1, 'x'])).json<readonly Message[]>().length, 2, 'of nothing but such')
})

test('where the revision has no batches an array is refused, and nothing of it runs: LEG-78, case 036', async t => {
  let ran = 0
  const server = defineServer({
    info,
    capabilities: { tools: {} },
    handleRequest: {
      'tools/call' () {
        ran++
        return result(toolResult.text('ran'))
      }
    }
  })
  const app = await mount(t, { server })
  const batch = [request(1, 'tools/call', { name: 'a' }), request(2, 'tools/call', { name: 'b' })]
  for (const version of ['2025-11-25', '2025-06-18'] as const) {
    const error = refused(t, await (await open(app, version)).post(batch), { status: 400, code: -32600 }, version)
    t.match(error.message, /2025-03-26/)
  }
  refused(t, await send(app, batch), { status: 400, code: -32600 }, 'without a session')
  refused(t, await send(app, batch, { 'mcp-protocol-version': '2026-07-28' }), { status: 400, code: -32600 }, '2026-07-28')
  const stateless = await mount(t, { server, legacy: { sessions: false } })
  refused(t, await send(stateless, batch, { 'mcp-protocol-version': '2025-11-25' }), { status: 400, code: -32600 }, 'without sessions')
  t.equal(ran, 0)
  t.equal((await send(stateless, batch)).json<readonly Message[]>().length, 2, 'where nothing is said it is 2025-03-26')
  t.equal(ran, 2)
})

test('initialize is never part of a batch, and nothing of such a batch runs: LEG-12', async t => {
  const app = await mount(t, { server: echo })
  const session = await open(app, '2025-03-26')
  const initialize = request(1, 'initialize', initializeParams('2025-03-26'))
  for (const batch of [[initialize], [request(2, 'ping'), initialize]]) refused(t, await session.post(batch), { status: 400, code: -32600 })
  refused(t, await send(app, [initialize]), { status: 400, code: -32600 }, 'nor opens it a session')
})

test('a batch has a bound: LEG-79', async t => {
  const batch = (length: number) => Array.from({ length }, (_, id) => request(id, 'ping'))
  const session = await open(await mount(t, { server: echo }), '2025-03-26')
  t.equal((await session.post(batch(100))).json<readonly Message[]>().length, 100)
  t.match(refused(t, await session.post(batch(101)), { status: 400, code: -32600 }).message, /100/)

  const small = await open(await mount(t, { server: echo, legacy: { maxBatch: 2 } }), '2025-03-26')
  t.equal((await small.post(batch(2))).statusCode, 200)
  refused(t, await small.post(batch(3)), { status: 400, code: -32600 })
  refused(t, await small.post([notification, notification, answer]), { status: 400, code: -32600 }, 'whatever its members are')
})

test('each member counts for the limit of what runs at once: LEG-79', async t => {
  const waiting: (() => void)[] = []
  const server = toolServer(async () => {
    await new Promise<void>(resolve => { waiting.push(resolve) })
    return result(toolResult.text('done'))
  })
  const session = await open(await mount(t, { server, limits: { maxConcurrent: 2 } }), '2025-03-26')
  const posted = session.post([1, 2, 3, 4].map(id => request(id, 'tools/call', { name: 'x' })))
  while (waiting.length < 2) await new Promise(resolve => { setImmediate(resolve) })
  for (const go of waiting) go()
  const answers = byId(await posted)
  t.equal(waiting.length, 2)
  t.strictSame([...answers.values()].filter(({ result }) => result !== undefined).map(({ id }) => id).sort(), [1, 2])
  t.strictSame([3, 4].map(id => answers.get(id)?.error?.code), [-32603, -32603])
})

test('two members of one id are not both run: LEG-44, LEG-75', async t => {
  const server = toolServer(async ({ params }) => {
    await new Promise(resolve => { setImmediate(resolve) })
    return result(toolResult.text(params.name))
  })
  const session = await open(await mount(t, { server }), '2025-03-26')
  const answers = (await session.post([request(1, 'tools/call', { name: 'a' }), request(1, 'tools/call', { name: 'b' })])).json<readonly Message[]>()
  t.strictSame(answers.map(({ id }) => id), [1, 1])
  t.match(answers.find(({ result }) => result !== undefined), { result: { content: [{ text: 'a' }] } })
  t.match(answers.find(({ error }) => error !== undefined), { error: { code: -32600 } })
})

test('a crash of one member is told in its answer, and the others have theirs', async t => {
  const { app, lines } = await stage(t, toolServer(({ params }) => {
    if (params.name === 'crash') throw new Error('secret')
    return result(toolResult.text('fine'))
  }), { listen: false })
  const session = await open(app, '2025-03-26')
  const response = await session.post([request(1, 'tools/call', { name: 'crash' }), request(2, 'tools/call', { name: 'x' })])
  t.equal(response.statusCode, 200)
  t.strictSame(byId(response).get(1)?.error, { code: -32603, message: 'Internal error' })
  t.match(byId(response).get(2)?.result, { content: [{ text: 'fine' }] })
  t.equal(lines.filter(({ level }) => level >= 50).length, 1)
})

test('the revisions are told apart by what was agreed on alone: LEG-75, LEG-78', async t => {
  const app = await mount(t, { server: echo })
  const answered = await Promise.all(VERSIONS.map(async version => (await (await open(app, version)).post([request(1, 'ping')])).statusCode))
  t.strictSame(answered, [400, 400, 200])
})
