import { EventEmitter, once } from 'node:events'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import { elicitForm, inputRequired, result, stream, toolResult, type ExchangeEnd } from 'fastify-gen-mcp'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import { test, type Test } from 'tap'
import { mount, type MountOptions } from '../helpers/mount.js'
import { createListenServer, echo, toolServer } from '../helpers/servers.js'
import { take, takeAll } from '../helpers/stream.js'
import type { FastifyInstance, FastifyReply } from 'fastify'

const params = { name: 'any', arguments: {} }

async function createClient (t: Test, options: MountOptions): Promise<TestClient> {
  const client = createTestClient(await mount(t, options))
  t.teardown(async () => { await client.close() })
  return client
}

/** A client of a route that is no mount. */
function createRawClient (t: Test, handler: (reply: FastifyReply) => void): TestClient {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.post('/raw', (_request, reply) => {
    reply.hijack()
    handler(reply)
  })
  return createTestClient(app, { path: '/raw' })
}

/** A mount whose streams wait, and how the first of its exchanges ended. */
async function createWaiting (t: Test): Promise<{ readonly client: TestClient, readonly ended: Promise<ExchangeEnd> }> {
  const ends = new EventEmitter()
  const ended = once(ends, 'end').then(([end]) => end as ExchangeEnd)
  const server = toolServer((_request, channel) => {
    channel.sendProgress(1)
    return stream(undefined)
  })
  return { client: await createClient(t, { server, onEnd: end => { ends.emit('end', end) } }), ended }
}

test('a JSON answer over a socket is the one through inject', async t => {
  const client = await createClient(t, { server: echo })
  const opened = await client.open('tools/call', { name: 'echo', arguments: { a: 1 } })
  const { headers, ...answer } = await opened.answer
  const { headers: _, ...expected } = await client.request('tools/call', { name: 'echo', arguments: { a: 1 } })
  t.strictSame(answer, expected)
  t.strictSame(await opened.head, { statusCode: 200, headers })
  t.match(headers, { 'content-type': /^application\/json/, 'content-length': /^\d+$/ })
  t.strictSame(await takeAll(opened), [])
})

test('notifications come one by one, each once, whoever asks', async t => {
  const { server, notify } = createListenServer()
  const client = await createClient(t, { server })
  const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true, promptsListChanged: true } })
  const iterators = [listen[Symbol.asyncIterator](), listen[Symbol.asyncIterator]()] as const
  t.match(await Promise.race(iterators.map(async iterator => await iterator.next())), { value: { method: 'notifications/subscriptions/acknowledged' } })
  notify({ method: 'notifications/tools/list_changed' })
  // The other iterator still waits for this one.
  notify({ method: 'notifications/prompts/list_changed' })
  const seen = []
  for await (const notification of listen) {
    seen.push(notification)
    if (seen.length === 1) break
  }
  t.match(seen, [{ method: 'notifications/prompts/list_changed' }])
  notify({ method: 'notifications/tools/list_changed' })
  t.match(await take(listen, 1), [{ method: 'notifications/tools/list_changed' }], 'a loop that is left leaves the stream as it is')
})

test('the answer has all notifications, those that were taken too', async t => {
  const client = await createClient(t, {
    server: toolServer((_request, channel) => {
      channel.sendProgress(1)
      channel.sendProgress(2)
      return result(toolResult.text('done'))
    })
  })
  const opened = await client.open('tools/call', params, { progressToken: 1 })
  await take(opened, 1)
  const { notifications, result: complete } = await opened.answer
  t.match(notifications, [{ params: { progress: 1 } }, { params: { progress: 2 } }])
  t.match(complete, { content: [{ text: 'done' }] })
  t.match(await takeAll(opened), [{ params: { progress: 2 } }])
})

test('a client that vanishes ends the exchange, its iteration, and rejects its answer', async t => {
  const { client, ended } = await createWaiting(t)
  const opened = await client.open('tools/call', params, { progressToken: 1 })
  await take(opened, 1)
  opened.vanish()
  t.match(await ended, { cause: 'disconnect' })
  await t.rejects(opened.answer, { message: 'The client vanished' })
  t.strictSame(await takeAll(opened), [])
})

test('a reset ends the exchange, its iteration, and rejects its answer', async t => {
  const { client, ended } = await createWaiting(t)
  const opened = await client.open('tools/call', params, { progressToken: 1 })
  await take(opened, 1)
  opened.reset()
  t.match(await ended, { cause: 'disconnect' })
  await t.rejects(opened.answer, { message: 'The client reset the connection' })
  t.strictSame(await takeAll(opened), [])
})

test('a client that vanishes before the head rejects that too', async t => {
  const requests = new EventEmitter()
  const client = createRawClient(t, reply => { requests.emit('request', reply) })
  const arrived = once(requests, 'request')
  const opened = await client.open('tools/call', params)
  await arrived
  opened.vanish()
  await t.rejects(opened.head, { message: 'The client vanished' })
  await t.rejects(opened.answer, { message: 'The client vanished' })
})

test('a client that vanishes between two rounds sends no second one', async t => {
  let calls = 0
  const client = await createClient(t, {
    server: toolServer(() => {
      calls++
      return inputRequired({ confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) })
    })
  })
  const opened = await client.open('tools/call', params, {
    capabilities: { elicitation: {} },
    respond () {
      opened.vanish()
      return { action: 'decline' }
    }
  })
  await t.rejects(opened.answer, { message: 'The client has left' })
  t.strictSame(await takeAll(opened), [])
  t.equal(calls, 1)
})

test('half a close is seen by the server as the end of the client\'s side', async t => {
  const requests = new EventEmitter()
  const client = createRawClient(t, reply => { requests.emit('request', reply) })
  const arrived = once(requests, 'request')
  const opened = await client.open('tools/call', params)
  const [reply] = await arrived as [FastifyReply]
  const socket = reply.raw.socket as NonNullable<typeof reply.raw.socket>
  const finished = once(socket, 'end')
  opened.halfClose()
  await finished
  t.equal(socket.destroyed, false)
})

test('a response that is under way still arrives after half a close', async t => {
  // A server that keeps its own side open, which Node's does not.
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.post('/raw', (_request, reply) => {
    reply.hijack()
    reply.raw.socket?.once('end', () => { reply.raw.end('data: {"method":"last"}\n\n') })
    reply.raw.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
  })
  Object.assign(app.server, { httpAllowHalfOpen: true })
  const opened = await createTestClient(app, { path: '/raw' }).open('tools/call', params)
  await opened.head
  opened.halfClose()
  t.strictSame(await takeAll(opened), [{ method: 'last' }])
})

test('a client that pauses reads nothing until it resumes', async t => {
  const sizes = new EventEmitter()
  const client = createRawClient(t, ({ raw }) => {
    raw.writeHead(200, { 'content-type': 'text/event-stream' })
    raw.flushHeaders()
    sizes.once('fill', () => {
      // More than the buffers of both kernels take.
      const event = `data: ${JSON.stringify({ method: 'big', params: { text: 'x'.repeat(1_000_000) } })}\n\n`
      for (let count = 0; count < 16; count++) raw.write(event)
      raw.end()
      setImmediate(() => { sizes.emit('filled', raw) })
    })
  })
  const opened = await client.open('tools/call', params)
  await opened.head
  opened.pause()
  const filled = once(sizes, 'filled')
  sizes.emit('fill')
  const [raw] = await filled as [FastifyReply['raw']]
  t.ok(raw.writableLength > 1_000_000, 'what the server writes piles up')
  opened.resume()
  t.equal((await takeAll(opened)).length, 16)
  t.match(await opened.answer, { statusCode: 200 })
})

test('a client that pauses before the head gets it when it resumes', async t => {
  const requests = new EventEmitter()
  const client = createRawClient(t, reply => { requests.emit('request', reply) })
  const arrived = once(requests, 'request')
  const opened = await client.open('tools/call', params)
  const [{ raw }] = await arrived as [FastifyReply]
  opened.pause()
  let seen = false
  opened.head.then(() => { seen = true }, () => {})
  raw.writeHead(200, { 'content-type': 'text/event-stream' })
  raw.end('data: {"method":"one"}\n\n')
  await once(raw, 'finish')
  // What goes over another connection meanwhile comes after what this one would have read.
  const other = connect(raw.req.socket.localPort as number, '127.0.0.1')
  await once(other, 'connect')
  other.destroy()
  t.equal(seen, false)
  opened.resume()
  t.match(await opened.head, { statusCode: 200 })
  t.strictSame(await takeAll(opened), [{ method: 'one' }])
})

test('a pause outlasts the round in which it began', async t => {
  const ends = new EventEmitter()
  let rounds = 0
  const client = await createClient(t, {
    server: toolServer((_request, channel) => {
      channel.sendProgress(++rounds)
      return rounds === 1 ? inputRequired({ confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }) : result(toolResult.text('done'))
    }),
    onEnd: ({ requestId }) => { ends.emit(`end ${requestId}`) }
  })
  const ended = once(ends, 'end 2')
  const opened = await client.open('tools/call', params, {
    capabilities: { elicitation: {} },
    progressToken: 1,
    respond () {
      opened.pause()
      return { action: 'decline' }
    }
  })
  t.match(await take(opened, 1), [{ params: { progress: 1 } }])
  let seen = false
  const second = take(opened, 1).finally(() => { seen = true })
  await ended
  // What goes over another connection meanwhile comes after what this one would have read.
  await (await client.open('tools/list', {})).answer
  t.equal(seen, false)
  opened.resume()
  t.match(await second, [{ params: { progress: 2 } }])
  t.match(await opened.answer, { result: { content: [{ text: 'done' }] } })
})

test('comments are counted', async t => {
  const client = createRawClient(t, ({ raw }) => {
    raw.writeHead(200, { 'content-type': 'text/event-stream' })
    raw.end(':\n\n: still here\n\ndata: {"method":"one"}\n\n')
  })
  const opened = await client.open('tools/call', params)
  t.equal(opened.comments, 0)
  await opened.answer
  t.equal(opened.comments, 2)
})

test('a connection that the server breaks makes the iteration throw, after what came before', async t => {
  const client = createRawClient(t, ({ raw }) => {
    raw.writeHead(200, { 'content-type': 'text/event-stream' })
    raw.write('data: {"method":"one"}\n\n', () => { raw.destroy() })
  })
  const opened = await client.open('tools/call', params)
  t.strictSame(await take(opened, 1), [{ method: 'one' }])
  await t.rejects(take(opened, 1), { code: 'ECONNRESET' })
  await t.rejects(opened.answer, { code: 'ECONNRESET' })
  t.match(await opened.head, { statusCode: 200 }, 'the head had come')
})

test('a response that cannot be read rejects the answer', async t => {
  const sse = createRawClient(t, ({ raw }) => { raw.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: nonsense\n\n') })
  await t.rejects((await sse.open('tools/call', params)).answer, { name: 'SyntaxError' })
  const json = createRawClient(t, ({ raw }) => { raw.writeHead(200, { 'content-type': 'application/json' }).end('nonsense') })
  await t.rejects((await json.open('tools/call', params)).answer, { name: 'SyntaxError' })
})

test('respond works over a socket as it does through inject', async t => {
  const client = await createClient(t, {
    server: toolServer((_request, channel) => {
      const questions = { confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }
      channel.sendProgress(1)
      return channel.inputResponses(questions) === undefined ? inputRequired(questions) : result(toolResult.text('done'))
    })
  })
  const opened = await client.open('tools/call', params, {
    capabilities: { elicitation: {} }, progressToken: 1, respond: () => ({ action: 'accept', content: { sure: true } })
  })
  t.equal((await takeAll(opened)).length, 2, 'a notification of each round')
  t.match(await opened.answer, { result: { resultType: 'complete' } })
})

test('an app that listens already is reached where it does', async t => {
  const addresses: [string, (app: FastifyInstance) => Promise<unknown>][] = [
    ['loopback', app => app.listen({ host: '127.0.0.1', port: 0 })],
    ['every IPv4 address', app => app.listen({ host: '0.0.0.0', port: 0 })],
    ['every IPv6 address', app => app.listen({ host: '::', port: 0 })],
    ['a Unix socket', app => app.listen({ path: join(tmpdir(), `test-client-${process.pid}.sock`) })]
  ]
  for (const [name, listen] of addresses) {
    const app = await mount(t, { server: echo })
    await listen(app)
    const client = createTestClient(app)
    t.match(await (await client.open('tools/list', {})).answer, { statusCode: 200 }, name)
    await client.close()
  }
})

test('an app that is no plain HTTP/1.1 has no sockets to open', async t => {
  const app = Fastify({ http2: true })
  t.teardown(async () => { await app.close() })
  await t.rejects(createTestClient(app as unknown as FastifyInstance, { path: '/mcp' }).open('tools/list', {}), { message: /plain HTTP\/1.1 alone/ })
})

test('an app that has been closed since cannot be reached', async t => {
  const app = await mount(t, { server: echo })
  const client = createTestClient(app)
  await (await client.open('tools/list', {})).answer
  await app.close()
  await t.rejects(client.open('tools/list', {}), { code: 'ECONNREFUSED' })
})

test('close drops what is open', async t => {
  const { client, ended } = await createWaiting(t)
  const opened = await client.open('tools/call', params, { progressToken: 1 })
  await take(opened, 1)
  await client.close()
  t.match(await ended, { cause: 'disconnect' })
  await t.rejects(opened.answer, { message: 'The client vanished' })
})

test('close drops what is paused', async t => {
  const client = createRawClient(t, ({ raw }) => {
    raw.writeHead(200, { 'content-type': 'text/event-stream' })
    raw.end('data: {"method":"one"}\n\n')
  })
  const opened = await client.open('tools/call', params)
  opened.pause()
  await client.close()
  await t.rejects(opened.answer, { message: 'The client vanished' })
  await t.rejects(opened.head, { message: 'The client vanished' })
})
