import compress from '@fastify/compress'
import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import rateLimit from '@fastify/rate-limit'
import { gunzipSync } from 'node:zlib'
import { test } from 'tap'
import genMcp, { defineServer, messageType, result, stream, toolResult } from 'fastify-gen-mcp'
import { alarms, bodyOf, eventsOf, NOTHING_HELD, openWire, postCall, stage, until, type Post, type Stage } from '../helpers/sockets.js'
import type { FastifyInstance, InjectOptions } from 'fastify'

const IN_PROCESS = { listen: false }
const BOUND = { timeout: 20_000 }
const ORIGIN = 'https://app.example.com'

const server = defineServer({
  handleRequest: {
    'tools/call' ({ params }, channel) {
      if (params.arguments['streams'] === true) channel.sendProgress(1)
      if (params.arguments['crashes'] === true) throw new Error('secret')
      return result(toolResult.text('done '.repeat(1000)))
    }
  }
})

/** The same request answered in each way. */
const answers = {
  'a JSON answer': postCall(),
  'a stream': postCall({ streams: true }),
  'a JSON-RPC error': postCall({ crashes: true }),
  'a refusal': { headers: { 'content-type': 'application/json' }, payload: '{' }
} satisfies Record<string, Post>

async function ask ({ app }: Stage, request: Post, more: InjectOptions['headers'] = {}) {
  return await app.inject({ method: 'POST', url: '/mcp', headers: { ...request.headers, ...more }, payload: request.payload })
}

// ---- headers of other plugins

test('what @fastify/cors, @fastify/helmet and @fastify/rate-limit set is on JSON answers, streams and errors alike: case 057', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    allowedOrigins: [ORIGIN],
    async before (app) {
      await app.register(cors, { origin: [ORIGIN], credentials: true, exposedHeaders: ['x-request-id'] })
      await app.register(helmet)
      await app.register(rateLimit, { max: 100 })
      app.addHook('onRequest', async (request, reply) => { reply.header('x-request-id', request.id) })
      app.addHook('preHandler', async (_request, reply) => { reply.header('set-cookie', 'a=1').header('set-cookie', 'b=2') })
    }
  })
  const names = [
    'access-control-allow-origin', 'access-control-allow-credentials', 'access-control-expose-headers', 'vary', 'content-security-policy',
    'strict-transport-security', 'x-content-type-options', 'x-frame-options', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'x-request-id'
  ]
  for (const [what, request] of Object.entries(answers)) {
    const { headers } = await ask(subject, request, { origin: ORIGIN })
    t.same(names.filter(name => !(name in headers)), [], what)
    t.equal(headers['access-control-allow-origin'], ORIGIN)
    if (what !== 'a refusal') t.same(headers['set-cookie'], ['a=1', 'b=2'])
  }
  t.match((await ask(subject, answers['a stream'])).headers['content-type'], 'text/event-stream')
})

test('@fastify/rate-limit refuses with its status and headers, in JSON-RPC', async t => {
  const subject = await stage(t, server, { ...IN_PROCESS, before: async app => { await app.register(rateLimit, { max: 1 }) } })
  t.equal((await ask(subject, answers['a stream'])).statusCode, 200)
  const refused = await ask(subject, answers['a stream'])
  t.equal(refused.statusCode, 429)
  t.match(refused.headers, { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'retry-after': /^\d+$/ })
  t.match(refused.headers['content-type'], /^application\/json/)
  t.match(refused.json(), { jsonrpc: '2.0', error: { code: -32603, message: /Rate limit exceeded/ } })
  t.equal(subject.ends.length, 1)
})

for (const order of ['before', 'after'] as const) {
  test(`a preflight is answered by @fastify/cors registered ${order} the mount, and no hook of the mount asks who it is: case 054`, async t => {
    let asked = 0
    const subject = await stage(t, server, {
      ...IN_PROCESS,
      allowedOrigins: [ORIGIN],
      onRequest (_request, reply) {
        asked++
        reply.code(401).send({ error: 'who are you?' })
      },
      [order]: async (app: FastifyInstance) => { await app.register(cors, { origin: ORIGIN, methods: ['POST'] }) }
    })
    const response = await subject.app.inject({
      method: 'OPTIONS',
      url: '/mcp',
      headers: { origin: ORIGIN, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization, content-type, mcp-method' }
    })
    t.equal(response.statusCode, 204)
    t.match(response.headers, {
      'access-control-allow-origin': ORIGIN, 'access-control-allow-methods': 'POST', 'access-control-allow-headers': 'authorization, content-type, mcp-method'
    })
    t.equal(asked, 0)
    t.equal((await ask(subject, answers['a JSON answer'], { origin: ORIGIN })).statusCode, 401)
    t.equal(asked, 1)
  })
}

// ---- compression

for (const order of ['before', 'after'] as const) {
  test(`@fastify/compress registered ${order} the mount never touches a stream`, async t => {
    const subject = await stage(t, server, { ...IN_PROCESS, [order]: async (app: FastifyInstance) => { await app.register(compress, { threshold: 0 }) } })
    const streamed = await ask(subject, answers['a stream'], { 'accept-encoding': 'gzip, br' })
    t.equal(streamed.headers['content-encoding'], undefined)
    t.match(eventsOf(streamed.body), [{ params: { progress: 1 } }, { result: {} }])
  })
}

test('@fastify/compress compresses JSON answers, whole', async t => {
  const subject = await stage(t, server, { ...IN_PROCESS, before: async app => { await app.register(compress, { threshold: 0, encodings: ['gzip'] }) } })
  const response = await ask(subject, answers['a JSON answer'], { 'accept-encoding': 'gzip' })
  t.equal(response.headers['content-encoding'], 'gzip')
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  t.match(JSON.parse(gunzipSync(response.rawPayload).toString()), { id: 1, result: { content: [{ text: 'done '.repeat(1000) }] } })
})

for (const [what, options] of [
  ['told to take every type', { customTypes: /./ }],
  ['told to take event streams', { customTypes: (type: string) => type.startsWith('text/event-stream') }]
] as const) {
  test(`a compressor that is ${what} is refused, rather than that it holds events back`, BOUND, async t => {
    const closes: unknown[] = []
    const waiting = defineServer({
      messages: messageType<never>(),
      handleRequest: {
        'tools/call' (_request, channel) {
          channel.sendProgress(1)
          return stream('live')
        }
      },
      handleClose: (_context, live, reason) => { closes.push([live, reason]) }
    })
    const subject = await stage(t, waiting, {
      limits: { drain: 100 },
      before: async app => { await app.register(compress, { ...options, threshold: 0, global: true }) }
    })
    const wire = await openWire(t, subject.port)
    const request = postCall()
    wire.send({ ...request, headers: { ...request.headers, 'accept-encoding': 'gzip', connection: 'close' } })
    await wire.closed
    t.match(wire.text, /^HTTP\/1\.1 500 /)
    const body = Buffer.from(bodyOf(wire.text), 'latin1')
    const json = /\r\ncontent-encoding: gzip\r\n/i.test(wire.text) ? gunzipSync(body) : body
    t.same(JSON.parse(json.toString()), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
    t.match(await subject.ended(), [{ cause: 'crash' }])
    t.same(closes, [['live', 'crash']])
    t.match(alarms(subject.lines), [{ err: { message: /compressor/ } }])
    t.same(subject.gauges(), NOTHING_HELD)
    const next = await subject.app.inject({ method: 'POST', url: '/mcp', ...postCall({}, { headers: { accept: 'application/json', 'mcp-method': 'tools/list' } }) })
    t.equal(next.statusCode, 400, 'the mount goes on')
  })
}

test('an onSend hook that puts a transform of its own around the stream is refused too', BOUND, async t => {
  const { PassThrough } = await import('node:stream')
  const subject = await stage(t, server, {
    limits: { drain: 100 },
    before (app) {
      app.addHook('onSend', async (_request, reply, payload) => {
        const { pipe } = payload as { pipe?: (destination: unknown) => unknown }
        if (pipe === undefined || reply.getHeader('content-type') !== 'text/event-stream') return payload
        const transform = new PassThrough()
        pipe.call(payload, transform)
        return transform
      })
    }
  })
  const wire = await openWire(t, subject.port)
  const request = postCall({ streams: true })
  wire.send({ ...request, headers: { ...request.headers, connection: 'close' } })
  await wire.closed
  t.match(wire.text, /^HTTP\/1\.1 500 /)
  t.same(JSON.parse(bodyOf(wire.text)), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  await until(() => subject.ends.length === 1)
  t.match(alarms(subject.lines), [{ err: { message: /piped through something/ } }])
})

test('an onSend hook that looks at the stream, and leaves it as it is, is nobody\'s trouble', async t => {
  const kinds: unknown[] = []
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    before (app) {
      app.addHook('onSend', async (_request, _reply, payload) => {
        kinds.push(typeof payload)
        return payload
      })
    }
  })
  const { body } = await ask(subject, answers['a stream'])
  t.match(eventsOf(body), [{ params: { progress: 1 } }, { result: {} }])
  t.same(kinds, ['object'])
})

test('plugins registered inside the scope of a mount\'s parent apply to it, and those of a sibling do not', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    async before (app) {
      await app.register(async scope => {
        await scope.register(helmet)
        await scope.register(genMcp, { prefix: '/inner', server })
      })
    }
  })
  const inner = await subject.app.inject({ method: 'POST', url: '/inner', ...answers['a stream'] })
  t.ok('x-frame-options' in inner.headers)
  t.notOk('x-frame-options' in (await ask(subject, answers['a stream'])).headers)
})
