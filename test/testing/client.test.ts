import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import genMcp, { elicitForm, inputRequired, result, toolResult } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { test } from 'tap'
import { mount } from '../helpers/mount.js'
import { createListenServer, echo, toolServer } from '../helpers/servers.js'
import { take, takeAll } from '../helpers/stream.js'
import type { FastifyReply } from 'fastify'

const answering = { capabilities: { elicitation: {} }, respond: () => ({ action: 'accept', content: { sure: true } }) }
/** Asks one question, then says what it was answered. */
const asking = toolServer((_request, channel) => {
  const questions = { confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }
  channel.sendProgress(1)
  const answers = channel.inputResponses(questions)
  return answers === undefined ? inputRequired(questions) : result(toolResult.data(answers.confirm))
})

test('field case 084: a JSON call works with plain inject', async t => {
  const client = createTestClient(await mount(t, { server: echo }))
  const { statusCode, headers, notifications, result, error } = await client.request('tools/call', { name: 'echo', arguments: { a: 1 } })
  t.equal(statusCode, 200)
  t.match(headers, { 'content-type': /^application\/json/, 'content-length': /^\d+$/ })
  t.strictSame(notifications, [])
  t.match(result, { resultType: 'complete', structuredContent: { a: 1 } })
  t.equal(error, undefined)
})

test('field case 084: a listen is opened, receives an event, and ends with app.close()', async t => {
  const { server, notify } = createListenServer()
  const app = await mount(t, { server })
  const listen = await createTestClient(app).open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  t.match(await take(listen, 1), [{ method: 'notifications/subscriptions/acknowledged' }])
  notify({ method: 'notifications/tools/list_changed' })
  t.match(await take(listen, 1), [{ method: 'notifications/tools/list_changed' }])
  await app.close()
  t.strictSame(await takeAll(listen), [], 'the stream has ended')
  t.match(await listen.answer, { result: { resultType: 'complete' } })
})

test('the notifications of a call come with its answer, in their order', async t => {
  const client = createTestClient(await mount(t, {
    server: toolServer((_request, channel) => {
      channel.sendProgress(1, 2, 'half')
      channel.sendLog('info', 'there')
      return result(toolResult.text('done'))
    })
  }))
  const answer = await client.request('tools/call', { name: 'any', arguments: {} }, { progressToken: 'p', logLevel: 'info' })
  t.match(answer.headers, { 'content-type': /^text\/event-stream/ })
  t.match(answer.notifications, [
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'p', progress: 1, total: 2, message: 'half' } },
    { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'there' } }
  ])
  t.match(answer.result, { content: [{ type: 'text', text: 'done' }] })
})

test('an error comes with its status', async t => {
  const client = createTestClient(await mount(t, { server: echo }))
  const { statusCode, error, result } = await client.request('prompts/list', {})
  t.equal(statusCode, 404)
  t.match(error, { code: -32601, message: 'Method not found', data: { method: 'prompts/list' } })
  t.equal(result, undefined)
})

test('a name goes into its header, whatever it is made of', async t => {
  const client = createTestClient(await mount(t, { server: toolServer(({ params }) => result(toolResult.text(params.name))) }))
  for (const name of ['plain', '', 'with space', ' outer space ', 'größe', '日本', 'two\nlines', '=?base64?aGk=?=', '=?base64?=']) {
    t.match((await client.request('tools/call', { name, arguments: {} })).result, { content: [{ text: name }] }, JSON.stringify(name))
  }
})

test('what a client was made with holds for each request, and what a request is given comes first', async t => {
  const app = await mount(t, {
    server: toolServer(({ meta }, { httpRequest: { headers } }) => result(toolResult.data({
      capabilities: meta.clientCapabilities, logLevel: meta.logLevel ?? null, token: meta.progressToken ?? null, a: headers['x-a'] ?? null, b: headers['x-b'] ?? null
    })))
  })
  const client = createTestClient(app, { capabilities: { roots: {} }, logLevel: 'error', progressToken: 1, headers: { 'X-A': 'client', 'X-B': 'client' } })
  const params = { name: 'any', arguments: {} }
  t.match((await client.request('tools/call', params)).result, {
    structuredContent: { capabilities: { roots: {} }, logLevel: 'error', token: 1, a: 'client', b: 'client' }
  })
  t.match((await client.request('tools/call', params, { capabilities: {}, logLevel: 'debug', progressToken: 2, headers: { 'x-a': 'request' } })).result, {
    structuredContent: { capabilities: {}, logLevel: 'debug', token: 2, a: 'request', b: 'client' }
  })
  t.match((await createTestClient(app).request('tools/call', params)).result, {
    structuredContent: { capabilities: {}, logLevel: null, token: null, a: null, b: null }
  })
})

test('a header of the protocol is replaced whatever its case', async t => {
  const client = createTestClient(await mount(t, { server: echo }))
  const { statusCode, error } = await client.request('tools/list', {}, { headers: { 'MCP-METHOD': 'tools/call' } })
  t.equal(statusCode, 400)
  t.match(error, { code: -32020 })
})

test('a result that asks for input is the result where nobody responds', async t => {
  const client = createTestClient(await mount(t, { server: asking }), { capabilities: { elicitation: {} } })
  const { result } = await client.request('tools/call', { name: 'any', arguments: {} })
  t.match(result, { resultType: 'input_required', inputRequests: { confirm: { method: 'elicitation/create' } }, requestState: String })
})

test('respond answers each question by its key, and the call is made again', async t => {
  const client = createTestClient(await mount(t, { server: asking }), { capabilities: { elicitation: {} }, progressToken: 1 })
  const asked: unknown[] = []
  const { result, notifications } = await client.request('tools/call', { name: 'any', arguments: {} }, {
    respond (key, request) {
      asked.push([key, request['method']])
      return { action: 'accept', content: { sure: true } }
    }
  })
  t.strictSame(asked, [['confirm', 'elicitation/create']])
  t.match(result, { resultType: 'complete', structuredContent: { action: 'accept', content: { sure: true } } })
  t.equal(notifications.length, 2, 'one of each round')
})

test('a server that just wants to be called again is', async t => {
  let calls = 0
  const client = createTestClient(await mount(t, { server: toolServer(() => ++calls === 1 ? inputRequired({}, 'state') : result(toolResult.data(calls))) }))
  t.match((await client.request('tools/call', { name: 'any', arguments: {} }, answering)).result, { structuredContent: 2 })
})

test('a server that never has enough is asked ten times', async t => {
  let calls = 0
  const client = createTestClient(await mount(t, { server: toolServer(() => { calls++; return inputRequired({}, calls) }) }))
  await t.rejects(client.request('tools/call', { name: 'any', arguments: {} }, answering), { message: /after 10 rounds/ })
  t.equal(calls, 10)
})

test('what is no JSON-RPC has neither result nor error', async t => {
  const bodies: Record<string, (reply: FastifyReply) => unknown> = {
    text: reply => reply.code(401).type('text/plain').send('no'),
    number: reply => reply.type('application/json').send('1'),
    other: reply => reply.header('set-cookie', ['a=1', 'b=2']).send({ result: null, error: 'no' }),
    none: reply => reply.code(204).send()
  }
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  for (const [path, send] of Object.entries(bodies)) app.post(`/${path}`, (_request, reply) => { send(reply) })
  for (const path of Object.keys(bodies)) {
    const { statusCode, headers, ...rest } = await createTestClient(app, { path: `/${path}` }).request('tools/list', {})
    t.strictSame(rest, { notifications: [] }, path)
    t.equal(statusCode, { text: 401, none: 204 }[path] ?? 200, path)
    t.equal(headers['set-cookie'], path === 'other' ? 'a=1,b=2' : undefined, path)
  }
})

test('the path is that of the only mount', async t => {
  const app = await mount(t, { prefix: '/some/where', server: echo })
  t.match((await createTestClient(app).request('tools/list', {})).result, { tools: [{ name: 'echo' }] })
})

test('an app that is not ready yet is made ready', async t => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.register(genMcp, { server: echo })
  t.equal((await createTestClient(app).request('tools/list', {})).statusCode, 200)
})

test('an app with no mount, or with several, needs the path', async t => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  await t.rejects(createTestClient(app).request('tools/list', {}), { message: /no MCP mount/ })

  const two = Fastify()
  t.teardown(async () => { await two.close() })
  await two.register(genMcp, { prefix: '/a', server: echo })
  await two.register(genMcp, { prefix: '/b', server: echo })
  await t.rejects(createTestClient(two).open('tools/list', {}), { message: /several MCP mounts, at \/a, \/b/ })
  t.equal((await createTestClient(two, { path: '/b' }).request('tools/list', {})).statusCode, 200)
})

test('a notification is accepted, with params and without', async t => {
  const client = createTestClient(await mount(t, { server: echo }), { headers: { 'x-a': 'b' } })
  t.strictSame(await client.notify('notifications/cancelled', { requestId: 1 }), { statusCode: 202 })
  t.strictSame(await client.notify('notifications/whatever'), { statusCode: 202 })
  t.strictSame(await client.notify('notifications/cancelled'), { statusCode: 400 })
})
