import Fastify from 'fastify'
import genMcp, { fail, McpError, result, toolResult } from 'fastify-gen-mcp'
import { test } from 'tap'
import { sendBare } from '../../lib/transport/reply.js'
import { call, mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { bareServer, echo, toolServer } from '../helpers/servers.js'

test('what is answered in JSON says so, and is not for a cache: HTTP-24', async t => {
  const app = await mount(t, { server: echo })
  for (const [method, status] of [['tools/list', 200], ['no/such', 404]] as const) {
    const response = await call(app, method)
    t.equal(response.statusCode, status)
    t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
    t.equal(response.headers['cache-control'], 'no-store')
    t.equal(Number(response.headers['content-length']), response.rawPayload.length)
  }
})

test('a hook or a handler that knows better about caches is left its word', async t => {
  const app = await mount(t, {
    onRequest: (_request, reply, done) => {
      reply.header('cache-control', 'private, max-age=5')
      done()
    },
    server: echo
  })
  t.equal((await call(app, 'tools/list')).headers['cache-control'], 'private, max-age=5')
  t.equal((await call(app, 'no/such')).headers['cache-control'], 'private, max-age=5')
  const other = await mount(t, {
    server: toolServer((_request, channel) => {
      channel.header('cache-control', 'no-cache')
      return result(toolResult.text('x'))
    })
  })
  t.equal((await call(other, 'tools/call', { name: 'x' })).headers['cache-control'], 'no-cache')
})

test('the app\'s own serializers do not touch what is answered', async t => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.setReplySerializer(() => '{"app":"serialized"}')
  app.setSerializerCompiler(() => () => '{"app":"compiled"}')
  await app.register(genMcp, { prefix: '/mcp', server: echo })
  t.match((await call(app, 'tools/list')).json(), { jsonrpc: '2.0', id: 1, result: { tools: [{ name: 'echo' }] } })
  refused(t, await call(app, 'no/such'), { status: 404, code: -32601, id: 1 })
})

test('an error that says when to come back says so in Retry-After, in seconds', async t => {
  const app = await mount(t, { server: bareServer(() => fail({ kind: 'overloaded', retryAfter: 7 })) })
  const response = await call(app, 'tools/list')
  refused(t, response, { status: 503, code: -32603, id: 1 })
  t.equal(response.headers['retry-after'], '7')
})

test('an error that does not say so has no Retry-After', async t => {
  const app = await mount(t, { server: bareServer(() => { throw new McpError({ kind: 'cursor' }) }) })
  const response = await call(app, 'tools/list')
  refused(t, response, { status: 200, code: -32602, id: 1 })
  t.notOk('retry-after' in response.headers)
})

test('headers that a handler set go out with an error as well', async t => {
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      channel.header('x-request-cost', '3')
      return fail({ kind: 'unknownTool', name: 'x' })
    })
  })
  t.equal((await call(app, 'tools/call', { name: 'x' })).headers['x-request-cost'], '3')
})

test('a bare answer cannot follow a head that has left: the connection is dropped', async t => {
  const app = Fastify()
  t.teardown(async () => await app.close())
  app.get('/', (_request, reply) => {
    reply.raw.write('begun')
    sendBare(reply, 500, '{}')
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/`
  await t.rejects(async () => await (await fetch(url)).text())
})
