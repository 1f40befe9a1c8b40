import { test } from 'tap'
import genMcp, { defineServer, result, toolResult, type JsonObject } from 'fastify-gen-mcp'
import { eventsOf, postCall, stage, type Post, type Stage } from '../helpers/sockets.js'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'

const IN_PROCESS = { listen: false }
const DATA = { nested: { deep: [1, { deeper: 'x' }] }, extra: true }

const server = defineServer({
  handleRequest: {
    'tools/call' ({ params }, channel) {
      if (params.arguments['streams'] === true) channel.sendProgress(1)
      if (params.arguments['crashes'] === true) throw new Error('secret')
      return result(toolResult.data({ ...DATA, args: params.arguments }))
    }
  }
})

async function ask ({ app }: Stage, request: Post) {
  return await app.inject({ method: 'POST', url: '/mcp', ...request })
}

async function holdsUp (t: Test, subject: Stage): Promise<void> {
  t.match((await ask(subject, postCall())).json(), { jsonrpc: '2.0', id: 1, result: { structuredContent: DATA } })
  t.match(eventsOf((await ask(subject, postCall({ streams: true }))).body), [{ params: { progress: 1 } }, { id: 1, result: { structuredContent: DATA } }])
  const crashed = await ask(subject, postCall({ crashes: true }))
  t.equal(crashed.statusCode, 500)
  t.match(crashed.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  const refused = await ask(subject, { headers: { 'content-type': 'application/json' }, payload: '{' })
  t.equal(refused.statusCode, 400)
  t.match(refused.json(), { jsonrpc: '2.0', error: { code: -32700 } })
}

// ---- what serializes

const serializers: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
  'a serializer compiler that drops what it does not know': app => { app.setSerializerCompiler(() => () => '{"lossy":true}') },
  'a reply serializer': app => { app.setReplySerializer(() => '{"lossy":true}') },
  'response schemas that an onRoute hook adds to every route' (app) {
    const lossy = { type: 'object', properties: { jsonrpc: { type: 'string' } }, additionalProperties: false }
    app.addHook('onRoute', route => { route.schema = { ...route.schema, response: { 200: lossy, '2xx': lossy, 400: lossy, 500: lossy, default: lossy } } })
  },
  'a preSerialization hook': app => { app.addHook('preSerialization', async () => ({ lossy: true })) },
  'request schemas and a validator compiler for every route' (app) {
    app.setValidatorCompiler(() => () => true)
    app.addHook('onRoute', route => { route.schema = { ...route.schema, headers: { type: 'object', properties: {} } } })
  }
}

for (const [what, before] of Object.entries(serializers)) {
  test(`an app's own ways to serialize leave answers whole: ${what}: case 066`, async t => {
    await holdsUp(t, await stage(t, server, { ...IN_PROCESS, before }))
  })
}

// ---- what parses

const parsers: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
  'its own JSON parser' (app) {
    app.removeContentTypeParser('application/json')
    app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, _body, done) => { done(null, { replaced: true }) })
  },
  'a parser for every type': app => { app.addContentTypeParser('*', (_request, _payload, done) => { done(null, 'anything') }) },
  'a parser for every JSON-like type' (app) {
    app.addContentTypeParser(/^application\/.*json/, { parseAs: 'buffer' }, (_request, _body, done) => { done(null, 'anything') })
  },
  'no parser at all': app => { app.removeAllContentTypeParsers() },
  'no parser in another scope' (app) {
    app.register(async scope => {
      scope.removeAllContentTypeParsers()
      scope.post('/other', async ({ body }) => ({ body: body ?? null }))
    })
  },
  'a hook that reads the raw body first' (app) {
    app.addHook('preParsing', async (request, _reply, payload) => {
      const chunks: Buffer[] = []
      for await (const chunk of payload) chunks.push(chunk as Buffer)
      const { Readable } = await import('node:stream')
      Object.assign(request, { rawBody: Buffer.concat(chunks) })
      return Object.assign(Readable.from(chunks), { receivedEncodedLength: Buffer.concat(chunks).length })
    })
  }
}

for (const [what, before] of Object.entries(parsers)) {
  test(`the mount parses by itself in an app that has ${what}: case 082`, async t => {
    await holdsUp(t, await stage(t, server, { ...IN_PROCESS, before }))
  })
}

test('an app that changes its parsers after the mount was registered changes nothing for the mount: case 082', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    after (app) {
      app.removeAllContentTypeParsers()
      app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, _body, done) => { done(null, { replaced: true }) })
      app.post('/own', async ({ body }) => body)
    }
  })
  await holdsUp(t, subject)
  t.same((await subject.app.inject({ method: 'POST', url: '/own', payload: { a: 1 } })).json(), { replaced: true })
})

test('the app\'s own routes keep the app\'s own parser: case 082', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    before (app) {
      app.addContentTypeParser('text/csv', { parseAs: 'string' }, (_request, body, done) => { done(null, String(body).split(',')) })
      app.post('/own', async ({ body }) => body)
    }
  })
  t.same((await subject.app.inject({ method: 'POST', url: '/own', headers: { 'content-type': 'text/csv' }, payload: 'a,b' })).json(), ['a', 'b'])
  t.same((await subject.app.inject({ method: 'POST', url: '/own', payload: { a: 1 } })).json(), { a: 1 })
  const csv = await subject.app.inject({ method: 'POST', url: '/mcp', headers: { 'content-type': 'text/csv' }, payload: 'a,b' })
  t.equal(csv.statusCode, 415)
  t.match(csv.json(), { jsonrpc: '2.0', error: { code: -32600 } })
})

test('a __proto__ in arguments pollutes nothing: case 082', async t => {
  const subject = await stage(t, server, IN_PROCESS)
  const request = postCall({ marker: 1 })
  for (const poison of ['{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":{"polluted":true}}}', '{"a":{"__proto__":{"polluted":true}}}']) {
    const response = await ask(subject, { ...request, payload: request.payload.replace('{"marker":1}', poison) })
    t.ok(response.statusCode === 200 || response.statusCode === 400, `${response.statusCode}`)
    const probe: JsonObject = {}
    t.equal(probe['polluted'], undefined)
    t.equal(Object.getPrototypeOf(response.json()), Object.prototype)
  }
})

// ---- what is the app's

test('the app\'s own error handler and 404 are the app\'s, and the mount\'s errors are the mount\'s', async t => {
  const handled: unknown[] = []
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    before (app) {
      app.setErrorHandler((error, _request, reply) => {
        handled.push((error as Error).message)
        reply.code(418).send({ mine: true })
      })
      app.setNotFoundHandler((_request, reply) => { reply.code(404).send({ lost: true }) })
      app.get('/own', async () => { throw new Error('own') })
    }
  })
  await holdsUp(t, subject)
  t.same(handled, [])
  const own = await subject.app.inject('/own')
  t.equal(own.statusCode, 418)
  t.same(own.json(), { mine: true })
  for (const url of ['/', '/mcp/nothing', '/mcpx', '/other']) {
    for (const method of ['GET', 'POST'] as const) {
      const lost = await subject.app.inject({ method, url })
      t.equal(lost.statusCode, 404, `${method} ${url}`)
      t.same(lost.json(), { lost: true })
    }
  }
  t.same(handled, ['own'])
})

test('an app without anything of its own keeps Fastify\'s error and 404', async t => {
  const subject = await stage(t, server, { ...IN_PROCESS, before (app) { app.get('/own', async () => { throw new Error('own') }) } })
  t.match((await subject.app.inject('/own')).json(), { statusCode: 500, error: 'Internal Server Error', message: 'own' })
  t.match((await subject.app.inject('/nothing')).json(), { statusCode: 404, error: 'Not Found' })
})

test('hooks and decorators of one mount stay in it', async t => {
  const ran: string[] = []
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    preHandler (_request, _reply, done) {
      ran.push('first')
      done()
    },
    async after (app) {
      await app.register(genMcp, { prefix: '/second', server, preHandler: (_request, _reply, done) => { ran.push('second'); done() } })
      app.get('/own', async () => 'own')
    }
  })
  await subject.app.inject('/own')
  t.same(ran, [])
  await ask(subject, postCall())
  await subject.app.inject({ method: 'POST', url: '/second', ...postCall() })
  t.same(ran, ['first', 'second'])
})
