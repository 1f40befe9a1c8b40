import createError from '@fastify/error'
import Fastify from 'fastify'
import genMcp, { fail, McpError, result, toolResult } from 'fastify-gen-mcp'
import { test } from 'tap'
import { call, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer, echo } from '../helpers/servers.js'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'

/** An app with a hook of its own that throws, and the callbacks of its server that ran in spite of that. */
async function throwing (
  t: Test, thrown: unknown, before: (app: FastifyInstance) => void = () => {}
): Promise<{ readonly app: FastifyInstance, readonly ran: readonly string[] }> {
  const { server, ran } = createStreamer()
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  before(app)
  await app.register(genMcp, { prefix: '/mcp', server, onRequest: async () => { throw thrown } })
  return { app, ran }
}

test('what a hook throws keeps its status and message, as a JSON-RPC error without an id: RPC-08, HTTP-24', async t => {
  for (const status of [400, 401, 402, 403, 404, 409, 413, 418, 451, 499]) {
    const { app, ran } = await throwing(t, Object.assign(new Error('Not you'), { statusCode: status }))
    const { message } = refused(t, await call(app, 'tools/list'), { status, code: -32600 })
    t.equal(message, 'Not you')
    t.strictSame(ran, [])
  }
})

test('what a hook throws brings its headers along', async t => {
  const headers = { 'www-authenticate': 'Bearer realm="mcp"', 'retry-after': '5' }
  const thrown = Object.assign(new Error('Who are you?'), { statusCode: 401, headers })
  const { app } = await throwing(t, thrown)
  const response = await call(app, 'tools/list')
  refused(t, response, { status: 401, code: -32600 })
  t.match(response.headers, { 'www-authenticate': 'Bearer realm="mcp"', 'retry-after': '5', 'content-type': /^application\/json/ })
})

test('too many requests are not the client\'s mistake in JSON-RPC', async t => {
  const { app } = await throwing(t, createError('RATE_LIMITED', 'Slow down', 429)())
  const { message } = refused(t, await call(app, 'tools/list'), { status: 429, code: -32603 })
  t.equal(message, 'Slow down')
})

test('a fault of the app keeps its status from 500 on, and nothing else of it gets out: ERR-07', async t => {
  for (const [status, thrown] of [
    [500, new Error('secret')], [503, Object.assign(new Error('secret'), { statusCode: 503 })], [599, Object.assign(new Error('secret'), { statusCode: 599 })],
    [500, Object.assign(new Error('secret'), { statusCode: 200 })], [500, Object.assign(new Error('secret'), { statusCode: 302 })],
    [500, Object.assign(new Error('secret'), { statusCode: 600 })], [500, Object.assign(new Error('secret'), { statusCode: 'secret' })], [500, 'secret']
  ] as const) {
    const { app, ran } = await throwing(t, thrown)
    const response = await call(app, 'tools/list')
    const { message } = refused(t, response, { status, code: -32603 })
    t.equal(message, 'Internal error')
    t.notMatch(JSON.stringify(response.headers) + response.body, /secret/)
    t.strictSame(ran, [])
  }
})

test('a status that a hook set counts where what it throws has none', async t => {
  const app = await mount(t, {
    server: echo,
    onRequest: (_request, reply, done) => {
      reply.code(402)
      done(new Error('Pay first'))
    }
  })
  const { message } = refused(t, await call(app, 'tools/list'), { status: 402, code: -32600 })
  t.equal(message, 'Pay first')
})

test('what is thrown need not be an Error: RPC-06, ERR-08', async t => {
  for (const thrown of [{ statusCode: 403 }, { statusCode: 403, message: 5 }, { statusCode: 403, message: null }]) {
    const { app } = await throwing(t, thrown)
    const { message } = refused(t, await call(app, 'tools/list'), { status: 403, code: -32600 })
    t.equal(message, 'Request refused')
  }
  for (const thrown of [null, undefined, 0, false, [], {}]) {
    const { app } = await throwing(t, thrown)
    refused(t, await call(app, 'tools/list'), { status: 500, code: -32603 }, String(thrown))
  }
})

test('of a message of many lines the first is sent: RPC-07', async t => {
  for (const breaks of ['\n', '\r\n', '\r', '\u2028']) {
    const { app } = await throwing(t, Object.assign(new Error(`Not allowed${breaks}at Object.<anonymous> (secret.js)`), { statusCode: 403 }))
    const { message } = refused(t, await call(app, 'tools/list'), { status: 403, code: -32600 })
    t.equal(message, 'Not allowed')
  }
})

test('an error without a message gets one: RPC-07', async t => {
  const { app } = await throwing(t, Object.assign(new Error(''), { statusCode: 403 }))
  refused(t, await call(app, 'tools/list'), { status: 403, code: -32600 })
})

test('a hook that comes after the body is read knows the id: RPC-08', async t => {
  const app = await mount(t, { server: echo, preHandler: async () => { throw Object.assign(new Error('Not you'), { statusCode: 403 }) } })
  refused(t, await call(app, 'tools/list', {}, { id: 'i' }), { status: 403, code: -32600, id: 'i' })
  refused(t, await call(app, 'notifications/x', {}, { id: undefined }), { status: 403, code: -32600 })
  refused(t, await call(app, 'tools/list', {}, { body: '[{"id":1}]' }), { status: 403, code: -32600 })
})

test('a hook may throw an McpError, which is answered as it says', async t => {
  const error = new McpError({ kind: 'custom', rpcCode: 402, message: 'Pay first', data: { price: 1 }, statusCode: 402 })
  const app = await mount(t, { server: echo, preHandler: async () => { throw error } })
  const { data } = refused(t, await call(app, 'tools/list'), { status: 402, code: 402, id: 1 })
  t.strictSame(data, { price: 1 })
})

test('a fault in an option of the mount is a fault of ours, and logged: ERR-07', async t => {
  const lines: string[] = []
  const logger = { level: 'error', stream: { write: (line: string) => { lines.push(line) } } }
  const app = await mount(t, { server: echo, principal: () => { throw new Error('secret') } }, { logger })
  const response = await call(app, 'tools/list', {}, { id: 'p' })
  refused(t, response, { status: 500, code: -32603, id: 'p' })
  t.notMatch(response.body, /secret/)
  t.equal(lines.length, 1)
  t.match(JSON.parse(lines[0] ?? '{}'), { level: 50, err: { message: 'secret' }, msg: 'an MCP request failed outside its server' })
  refused(t, await call(app, 'notifications/cancelled', { requestId: 1 }, { id: undefined }), { status: 500, code: -32603 })
})

test('a client\'s mistake is not logged as an error of ours', async t => {
  const lines: string[] = []
  const logger = { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } }
  const app = await mount(t, { server: echo }, { logger })
  refused(t, await call(app, 'no/such'), { status: 404, code: -32601, id: 1 })
  refused(t, await call(app, 'tools/list', {}, { body: '{' }), { status: 400, code: -32700 })
  refused(t, await call(app, 'tools/list', {}, { headers: { 'content-type': 'text/plain' } }), { status: 415, code: -32600 })
  t.strictSame(lines, [])
})

test('the app\'s own error handler is not asked about the mount\'s errors: HTTP-24', async t => {
  const { app } = await throwing(t, Object.assign(new Error('Not you'), { statusCode: 403 }), app => {
    app.setErrorHandler((_error, _request, reply) => { reply.code(200).send({ framework: 'page' }) })
  })
  refused(t, await call(app, 'tools/list'), { status: 403, code: -32600 })
})

test('an exception of a handler is answered 500 and a bare -32603, once its secret is in the log: ERR-07, TOOL-32', async t => {
  for (const thrown of [new Error('secret: /etc/passwd'), 'secret', { secret: 1 }, null, undefined]) {
    const app = await mount(t, { server: bareServer(() => { throw thrown }) })
    const response = await call(app, 'tools/call', { name: 'x' })
    const error = refused(t, response, { status: 500, code: -32603, id: 1 }, String(thrown))
    t.strictSame(error, { code: -32603, message: 'Internal error' })
    t.notMatch(JSON.stringify(response.headers) + response.body, /secret/)
  }
})

test('the status follows who raised the error: what a handler passes on from another peer is 200: ERR-11, ERR-09', async t => {
  for (const rpcCode of [-32601, -32020, -32022, -32602, -32603, -32600, -32700, 7]) {
    const app = await mount(t, { server: bareServer(() => fail({ kind: 'custom', rpcCode, message: 'The other side says no' })) })
    refused(t, await call(app, 'tools/call', { name: 'x' }), { status: 200, code: rpcCode, id: 1 })
  }
})

test('a capability that a request needs and its client does not have is 400, wherever it is noticed: ERR-06, ERR-11, HTTP-12, case 044', async t => {
  const required = { sampling: {} }
  const app = await mount(t, {
    server: bareServer((_request, channel) => {
      channel.requireCapability(required)
      return result(toolResult.text('ok'))
    })
  })
  const { data } = refused(t, await call(app, 'tools/call', { name: 'x' }), { status: 400, code: -32021, id: 1 })
  t.strictSame(data, { requiredCapabilities: required })
})

test('a code that the protocol reserves and does not define never gets out: ERR-02, ERR-03, ERR-04', async t => {
  for (const rpcCode of [-32050, -32002, -32042, -32000, -32001, -32003, -32019, -32023, -32099, -32768, 1.5, NaN, Infinity]) {
    const app = await mount(t, { server: bareServer(() => fail({ kind: 'custom', rpcCode, message: 'mine' })) })
    refused(t, await call(app, 'tools/call', { name: 'x' }), { status: 500, code: -32603, id: 1 }, String(rpcCode))
  }
})

test('codes of the application lie outside the reserved range: ERR-05', async t => {
  for (const rpcCode of [-32769, -31999, -1, 0, 1, 404]) {
    const app = await mount(t, { server: bareServer(() => fail({ kind: 'custom', rpcCode, message: 'mine', data: 'x' })) })
    const { data } = refused(t, await call(app, 'tools/call', { name: 'x' }), { status: 200, code: rpcCode, id: 1 }, String(rpcCode))
    t.equal(data, 'x')
  }
})

test('what fails in onSend is answered, and so is what fails there after a stream was begun: ERR-08', async t => {
  for (const begin of [false, true]) {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    let failing = true
    app.addHook('onSend', async () => {
      if (!failing) return
      failing = false
      throw new Error('secret')
    })
    await app.register(genMcp, {
      prefix: '/mcp',
      server: bareServer((_request, channel) => {
        if (begin) channel.startStream()
        return result(toolResult.text('ok'))
      })
    })
    const response = await call(app, 'tools/call', { name: 'x' })
    refused(t, response, { status: 500, code: -32603, id: 1 }, begin ? 'a stream' : 'JSON')
    t.notMatch(response.body, /secret/)
  }
})
