import { test } from 'tap'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { defineServer, fail, messageType, result, stream, toolResult } from 'fastify-gen-mcp'
import { alarms, bodyOf, eventsOf, gate, NOTHING_HELD, openSession, openWire, postCall, sendHttp2, stage, type Post, type Stage } from '../helpers/sockets.js'
import type { FastifyInstance } from 'fastify'

const IN_PROCESS = { listen: false }
const BOUND = { timeout: 20_000 }
const LIFECYCLE = ['onRequest', 'preParsing', 'preValidation', 'preHandler', 'preSerialization', 'onError', 'onSend', 'onResponse', 'onTimeout', 'onRequestAbort'] as const

const server = defineServer({
  handleRequest: {
    'tools/call' ({ params }, channel) {
      if (params.arguments['streams'] === true) channel.sendProgress(1)
      if (params.arguments['crashes'] === true) throw new Error('secret')
      if (params.arguments['fails'] === true) return fail({ kind: 'missingClientCapability', required: { sampling: {} } })
      return result(toolResult.text('done'))
    }
  }
})

async function ask ({ app }: Stage, request: Post) {
  return await app.inject({ method: 'POST', url: '/mcp', ...request })
}

/** Counts every hook of the lifecycle on an instance. */
function countHooks (app: FastifyInstance): Record<string, number> {
  const counts: Record<string, number> = {}
  const count = (name: string): void => { counts[name] = (counts[name] ?? 0) + 1 }
  app.addHook('onRequest', async () => { count('onRequest') })
  app.addHook('preParsing', async () => { count('preParsing') })
  app.addHook('preValidation', async () => { count('preValidation') })
  app.addHook('preHandler', async () => { count('preHandler') })
  app.addHook('preSerialization', async () => { count('preSerialization') })
  app.addHook('onError', async () => { count('onError') })
  app.addHook('onSend', async () => { count('onSend') })
  app.addHook('onResponse', async () => { count('onResponse') })
  app.addHook('onTimeout', async () => { count('onTimeout') })
  app.addHook('onRequestAbort', async _request => { count('onRequestAbort') })
  return counts
}

const BEFORE = { onRequest: 1, preParsing: 1, preValidation: 1, preHandler: 1 }
const AFTER = { onSend: 1, onResponse: 1 }

for (const [what, request, status, expected] of [
  ['a JSON answer', postCall(), 200, { ...BEFORE, ...AFTER }],
  ['a stream', postCall({ streams: true }), 200, { ...BEFORE, ...AFTER }],
  ['a stream that crashes', postCall({ streams: true, crashes: true }), 200, { ...BEFORE, ...AFTER }],
  ['an answer that is an error', postCall({ fails: true }), 400, { ...BEFORE, ...AFTER }],
  ['a crash', postCall({ crashes: true }), 500, { ...BEFORE, ...AFTER, onError: 1 }],
  ['a refusal of the mount', postCall({}, { headers: { 'mcp-method': 'tools/list' } }), 400, { ...BEFORE, ...AFTER, onError: 1 }],
  ['a body that is no JSON', { headers: { 'content-type': 'application/json' }, payload: '{' }, 400, { onRequest: 1, preParsing: 1, ...AFTER, onError: 1 }],
  ['a request without credentials', postCall({}, { headers: { 'x-user': 'nobody' } }), 401, { onRequest: 1, ...AFTER, onError: 1 }]
] as const) {
  test(`every hook runs once for ${what}: case 080`, async t => {
    let counts: Record<string, number> = {}
    const subject = await stage(t, server, {
      ...IN_PROCESS,
      before: app => { counts = countHooks(app) },
      onRequest (httpRequest, _reply, done) {
        done(httpRequest.headers['x-user'] === 'nobody' ? Object.assign(new Error('Who are you?'), { statusCode: 401 }) : undefined)
      }
    })
    t.equal((await ask(subject, request)).statusCode, status)
    t.same(counts, expected)
    t.ok(Object.keys(counts).every(name => LIFECYCLE.includes(name as typeof LIFECYCLE[number])))
  })
}

test('on a disconnect Fastify runs no onResponse, and onEnd tells of it', async t => {
  let counts: Record<string, number> = {}
  const waiting = defineServer({ messages: messageType<never>(), handleRequest: { 'tools/call': () => stream('live') } })
  const subject = await stage(t, waiting, { before: app => { counts = countHooks(app) } })
  const client = createTestClient(subject.app)
  const call = await client.open('tools/call', { name: 'tool', arguments: {} })
  await call.head
  await client.close()
  t.match(await subject.ended(), [{ cause: 'disconnect' }])
  t.same(counts, { ...BEFORE, onSend: 1 })
})

// ---- hooks that refuse

test('a hook that throws is answered in JSON-RPC with its status and headers, and its message below 500', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    preHandler (httpRequest, reply, done) {
      reply.header('x-hook', 'ran')
      const statusCode = Number(httpRequest.headers['x-status'])
      done(Object.assign(new Error('Not you\nsecret'), { statusCode, headers: { 'www-authenticate': 'Bearer realm="x"' } }))
    }
  })
  for (const [status, error] of [
    [401, { code: -32600, message: 'Not you' }], [403, { code: -32600, message: 'Not you' }], [429, { code: -32603, message: 'Not you' }],
    [500, { code: -32603, message: 'Internal error' }], [503, { code: -32603, message: 'Internal error' }]
  ] as const) {
    const response = await ask(subject, postCall({}, { id: 9, headers: { 'x-status': String(status) } }))
    t.equal(response.statusCode, status)
    t.match(response.headers, { 'content-type': /^application\/json/, 'www-authenticate': 'Bearer realm="x"', 'x-hook': 'ran' })
    t.same(response.json().error, error)
    t.notMatch(response.body, /secret/)
  }
  t.equal(subject.ends.length, 0, 'no callback ran')
})

test('a hook that sends its own reply keeps it, and stops the call', async t => {
  let calls = 0
  const counting = defineServer({
    handleRequest: {
      'tools/call' () {
        calls++
        return result(toolResult.text('done'))
      }
    }
  })
  for (const hook of ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const) {
    const subject = await stage(t, counting, {
      ...IN_PROCESS,
      before (app) {
        // All of them are called with request and reply first, and an async one that has sent returns the reply.
        app.addHook(hook as 'preHandler', async (_request, reply) => await reply.code(403).header('x-mine', '1').send({ mine: true }))
      }
    })
    const response = await ask(subject, postCall())
    t.equal(response.statusCode, 403, hook)
    t.equal(response.headers['x-mine'], '1')
    t.same(response.json(), { mine: true })
  }
  t.equal(calls, 0)
})

test('a hook that throws something that is no error is answered 500 and bare', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    before (app) { app.addHook('preHandler', async () => await Promise.reject(Object.assign(Object.create(null), { secret: 'secret' }))) }
  })
  const response = await ask(subject, postCall())
  t.equal(response.statusCode, 500)
  t.match(response.json(), { jsonrpc: '2.0', error: { code: -32603, message: 'Internal error' } })
  t.notMatch(response.body, /secret/)
})

test('an onSend hook that fails a JSON answer makes it an error, in JSON-RPC', BOUND, async t => {
  let runs = 0
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    before (app) {
      app.addHook('onSend', async (_request, _reply, payload) => {
        if (runs++ === 0) throw new Error('the hook broke')
        return payload
      })
    }
  })
  const response = await ask(subject, postCall())
  t.equal(response.statusCode, 500)
  t.same(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.match(alarms(subject.lines), [{ err: { message: 'the hook broke' } }])
  t.equal(alarms(subject.lines).length, 1)
})

for (const streams of [false, true]) {
  test(`an onSend hook that fails whatever it is given ends ${streams ? 'a stream' : 'a JSON answer'} with 500, and the exchange is over`, BOUND, async t => {
    const subject = await stage(t, server, {
      limits: { drain: 100 },
      before (app) { app.addHook('onSend', async () => { throw new Error('the hook is broken') }) }
    })
    const wire = await openWire(t, subject.port)
    wire.send(postCall({ streams }, { headers: { connection: 'close' } }))
    await wire.closed
    t.match(wire.text, /^HTTP\/1\.1 500 /)
    t.notMatch(wire.text, /done/)
    await subject.ended()
    t.same(subject.gauges(), NOTHING_HELD)
  })
}

test('an onSend hook may replace a JSON answer', async t => {
  const subject = await stage(t, server, {
    ...IN_PROCESS,
    before (app) { app.addHook('onSend', async (_request, _reply, payload) => typeof payload === 'string' ? payload.replace('done', 'DONE') : payload) }
  })
  t.match((await ask(subject, postCall())).json(), { result: { content: [{ text: 'DONE' }] } })
  t.match(eventsOf((await ask(subject, postCall({ streams: true }))).body), [{}, { result: { content: [{ text: 'done' }] } }])
})

test('an onSend hook that replaces a stream by something else ends its exchange', BOUND, async t => {
  const closes: unknown[] = []
  const waiting = defineServer({
    messages: messageType<never>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.sendProgress(1)
        return stream('live')
      }
    },
    handleClose: (_context, live) => { closes.push(live) }
  })
  const subject = await stage(t, waiting, {
    limits: { drain: 100 },
    before (app) { app.addHook('onSend', async () => 'something else') }
  })
  const wire = await openWire(t, subject.port)
  wire.send(postCall({}, { headers: { connection: 'close' } }))
  await wire.closed
  t.match(wire.text, /something else/)
  await subject.ended()
  t.same(closes, ['live'])
  t.same(subject.gauges(), NOTHING_HELD)
})

test('what a hook listens for on a stream and on its response it is told, and a disconnect is noticed nevertheless', BOUND, async t => {
  const heard: string[] = []
  const waiting = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'tools/call' ({ params }, channel) {
        channel.sendProgress(1)
        return params.arguments['stays'] === true ? stream('live') : result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, waiting, {
    limits: { drain: 100 },
    before (app) {
      app.addHook('onSend', async (_request, { raw }, payload) => {
        const { on } = payload as { on?: (event: string, listener: () => void) => unknown }
        on?.call(payload, 'error', () => { heard.push('error of the stream') })
        raw.once('close', () => { heard.push('close') })
        await new Promise(resolve => setImmediate(resolve))
        raw.once('finish', () => { heard.push('finish') })
      })
    }
  })
  const whole = await openWire(t, subject.port)
  whole.send(postCall({}, { headers: { connection: 'close' } }))
  await whole.closed
  await subject.ended()
  t.same(heard.splice(0).sort(), ['close', 'finish'])

  const broken = await openWire(t, subject.port)
  broken.send(postCall({ stays: true }))
  await broken.received('"progress":1')
  broken.socket.destroy()
  t.match((await subject.ended(2))[1], { cause: 'disconnect' })
  t.same(heard, ['close'])
})

// ---- trailers

for (const http2 of [false, true]) {
  test(`a trailer that a hook sets follows JSON answers and streams: HTTP/${http2 ? 2 : 1}`, BOUND, async t => {
    const subject = await stage(t, server, {
      fastify: { http2 },
      limits: { drain: 100 },
      before (app) {
        app.addHook('preHandler', async (_request, reply) => { reply.trailer('x-checksum', async () => 'abc') })
      }
    })
    for (const args of [{}, { streams: true }]) {
      if (http2) {
        const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
        const response = sendHttp2(session, postCall(args))
        const trailers = gate<unknown>()
        response.stream.on('trailers', trailers.open)
        t.match(await trailers.promise, { 'x-checksum': 'abc' })
        await response.closed
        t.match(response.text, /"text":"done"/)
      } else {
        const wire = await openWire(t, subject.port)
        wire.send(postCall(args, { headers: { connection: 'close', te: 'trailers' } }))
        await wire.closed
        t.match(wire.text, /\r\n0\r\nx-checksum: abc\r\n\r\n$/)
        t.match(bodyOf(wire.text), /"text":"done"/)
      }
    }
    await subject.ended(2)
    t.same(subject.gauges(), NOTHING_HELD)
    t.same(alarms(subject.lines), [])
  })
}

test('a client that leaves a stream which has trailers closes it', BOUND, async t => {
  const waiting = defineServer({
    messages: messageType<never>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.sendProgress(1)
        return stream('live')
      }
    }
  })
  const subject = await stage(t, waiting, {
    before (app) { app.addHook('preHandler', async (_request, reply) => { reply.trailer('x-checksum', async () => 'abc') }) }
  })
  const wire = await openWire(t, subject.port)
  wire.send(postCall())
  await wire.received('"progress":1')
  wire.socket.destroy()
  t.match(await subject.ended(), [{ cause: 'disconnect' }])
  t.same(alarms(subject.lines), [])
})
