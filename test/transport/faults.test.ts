import { EventEmitter } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import Fastify, { type FastifyRequest } from 'fastify'
import { test } from 'tap'
import genMcp, { defineServer, messageType, result, stream, toolResult, withArg, type Channel, type ExchangeEnd } from 'fastify-gen-mcp'
import { Exchange } from '../../lib/channel/exchange.js'
import { createMount } from '../../lib/mount.js'
import { readOptions } from '../../lib/options.js'
import { ResultSink } from '../../lib/suite/in-process.js'
import { createTestClient, readSse } from 'fastify-gen-mcp/testing'
import { call } from '../helpers/mount.js'
import { toolServer } from '../helpers/servers.js'
import { alarms, eventsOf, gate, NOTHING_HELD, openWire, postCall, stage, until, within } from '../helpers/sockets.js'

const BARE = { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } }
const answers = toolServer(() => result(toolResult.text('done')))

// ---- notifications

test('a notification that takes long is answered 202, and no stream is opened for it', async t => {
  const { promise, open } = gate()
  const server = defineServer({ handleRequest: () => result(toolResult.text('x')), handleNotification: async () => await promise })
  const { app, ended } = await stage(t, server, { streamAfter: 10, heartbeat: 5, listen: false })
  const params = { requestId: 1, _meta: { progressToken: 1 } }
  const answered = app.inject({ method: 'POST', url: '/mcp', headers: { 'content-type': 'application/json' }, payload: { jsonrpc: '2.0', method: 'notifications/cancelled', params } })
  await setTimeout(60)
  open()
  const response = await answered
  t.equal(response.statusCode, 202)
  t.equal(response.body, '')
  t.match(await ended(), [{ cause: 'accepted', streamed: false }])
})

test('a notification that runs takes no place from requests', async t => {
  const { promise, open } = gate()
  const server = toolServer(() => result(toolResult.text('done')), { handleNotification: async () => await promise })
  const { app, gauges, ended } = await stage(t, server, { limits: { maxConcurrent: 1 }, listen: false })
  const accepted = app.inject({ method: 'POST', url: '/mcp', headers: { 'content-type': 'application/json' }, payload: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } } })
  await until(() => gauges().exchanges === 1)
  t.equal((await call(app, 'tools/call', { name: 'x', arguments: {} })).statusCode, 200)
  open()
  t.equal((await accepted).statusCode, 202)
  await ended(2)
  t.same(gauges(), NOTHING_HELD)
})

// ---- heads that Node refuses

const hooked = { before: (app: { addHook: (name: 'onRequest', hook: (request: unknown, reply: { header: (name: string, value: string) => void }) => Promise<void>) => void }) => { app.addHook('onRequest', async (_request, reply) => { reply.header('x-fine', '1'); reply.header('x-user', 'Łukasz') }) } }

for (const [name, server] of [
  ['an answer at once', answers],
  ['an answer that is waited for', toolServer(async () => { await setTimeout(1); return result(toolResult.text('done')) })],
  ['a stream', toolServer(() => stream(1))],
  ['a stream that is waited for', toolServer(async () => { await setTimeout(1); return stream(1) })],
  ['progress', toolServer((_request, channel: Channel) => { channel.sendProgress(1); return result(toolResult.text('done')) })],
  ['a log', toolServer((_request, channel: Channel) => { channel.sendLog('info', 'x'); return result(toolResult.text('done')) })],
  ['an answer to a client that takes event streams alone', answers]
] as const) {
  test(`a header of a hook that Node refuses is a crash, and the client is told in JSON-RPC: ${name}`, async t => {
    const { port, ended, gauges, lines } = await stage(t, server, hooked as never)
    const wire = await openWire(t, port)
    const accept = name.includes('alone') ? 'text/event-stream' : 'application/json, text/event-stream'
    wire.send(postCall({}, { meta: { progressToken: 1, 'io.modelcontextprotocol/logLevel': 'debug' }, headers: { connection: 'close', accept } }))
    await within(wire.closed, 'the response')
    t.match(wire.text, /^HTTP\/1\.1 500 /)
    t.match(wire.text, JSON.stringify(BARE))
    t.match(await ended(), [{ cause: 'crash' }])
    t.ok(alarms(lines).length >= 1)
    t.same(gauges(), NOTHING_HELD)
  })
}

// ---- the end

test('an onEnd that rejects is logged', async t => {
  const lines: string[] = []
  const app = Fastify({ logger: { level: 'error', stream: { write: (line: string) => { lines.push(line) } } } })
  t.teardown(async () => await app.close())
  // A function that may be asynchronous has a place where nothing is returned.
  await app.register(genMcp, { prefix: '/mcp', server: answers, onEnd: async () => { throw new Error('the metrics broke') } })
  t.equal((await call(app, 'tools/call', { name: 'x', arguments: {} })).statusCode, 200)
  await until(() => lines.length > 0)
  t.match(JSON.parse(lines[0] ?? '{}'), { msg: 'onEnd failed', err: { message: 'the metrics broke' } })
})

test('a close from a hook that runs for the answer of a close changes nothing, and the end comes once', async t => {
  let channel: Channel | undefined
  let closes = 0
  const server = toolServer<number, never>((_request, given) => {
    channel = given
    return stream(1)
  }, { handleClose: () => { closes++ } })
  const { port, ended, ends } = await stage(t, server, { before: app => { app.addHook('onSend', (_request, _reply, payload, done) => { channel?.close(); done(null, payload) }) } })
  const wire = await openWire(t, port)
  wire.send(postCall({}, { headers: { accept: 'application/json', connection: 'close' } }))
  await until(() => channel !== undefined)
  await setTimeout(20)
  t.equal(channel?.close(), true)
  await within(wire.closed, 'the response')
  t.match(await ended(), [{ cause: 'closed' }])
  await setTimeout(20)
  t.equal(ends.length, 1)
  t.equal(closes, 1)
})

test('an answer that waits for a hook when a shutdown begins is delivered', async t => {
  const { promise, open } = gate()
  const held = gate()
  const { app, port } = await stage(t, answers, {
    fastify: { forceCloseConnections: true },
    before: app => { app.addHook('onSend', async () => { held.open(); await promise }) }
  })
  const wire = await openWire(t, port)
  wire.send(postCall())
  await held.promise
  const closed = app.close()
  await setTimeout(50)
  open()
  await within(closed, 'the shutdown')
  await within(wire.closed, 'the response')
  t.match(wire.text, /^HTTP\/1\.1 200 /)
  t.match(wire.text, /"text":"done"/)
})

// ---- hooks that let nothing through

test('an onSend hook that fails each answer leaves a bare one in JSON-RPC, which says nothing of it', async t => {
  const { app, lines } = await stage(t, answers, { listen: false, before: app => { app.addHook('onSend', async () => { throw new Error('secret /etc/path') }) } })
  const response = await call(app, 'tools/call', { name: 'x', arguments: {} })
  t.equal(response.statusCode, 500)
  t.match(response.headers['content-type'], 'application/json')
  t.same(response.json(), BARE)
  t.ok(alarms(lines).some(({ msg }) => msg === 'the answer to an MCP request failed'))
})

test('a header of an error that Node refuses is left out, and the others are kept', async t => {
  const { app } = await stage(t, answers, {
    listen: false,
    before: app => { app.addHook('onRequest', async () => { throw Object.assign(new Error('who?'), { statusCode: 401, headers: { 'www-authenticate': 'Bearer', 'x y': '1' } }) }) }
  })
  const response = await call(app, 'tools/call', { name: 'x', arguments: {} })
  t.equal(response.statusCode, 401)
  t.equal(response.headers['www-authenticate'], 'Bearer')
  t.match(response.json(), { error: { code: -32600, message: 'who?' } })
})

test('a client that takes event streams alone is refused in one where the status is 200, and in JSON otherwise', async t => {
  const { app } = await stage(t, answers, { listen: false })
  const headers = { accept: 'text/event-stream' }
  const refused = await call(app, 'tools/call', { name: 'x', arguments: 5 }, { headers })
  t.equal(refused.headers['content-type'], 'text/event-stream')
  t.match(eventsOf(refused.body), [{ id: 1, error: { code: -32602 } }])
  const unknown = await call(app, 'nothing/here', {}, { headers })
  t.equal(unknown.statusCode, 404)
  t.match(unknown.headers['content-type'], 'application/json')
})

test('what is sent while a hook still works on the head is bounded like what is sent later', async t => {
  const { promise, open } = gate()
  const server = toolServer<number, never>(async (_request, channel) => {
    for (let at = 1; !channel.closed && at < 10_000; at++) {
      channel.sendProgress(at, undefined, 'x'.repeat(1000))
      if (at % 100 === 0) await setTimeout(1)
    }
    return result(toolResult.text('done'))
  })
  const { port, ended } = await stage(t, server, { limits: { sendBuffer: 100_000 }, before: app => { app.addHook('onSend', async () => await promise) } })
  const wire = await openWire(t, port)
  wire.send(postCall({}, { meta: { progressToken: 1 } }))
  t.match(await ended(), [{ cause: 'overflow' }])
  open()
})

// ---- sources and servers

test('an iterable that never waits, and whose items are not taken, leaves others their turn', async t => {
  let turns = 0
  let channel: Channel<number> | undefined
  const server = toolServer<number, number>((_request, given) => {
    channel = given
    given.consume((function * () { for (let item = 0; ; item++) yield item })(), { next: () => undefined as unknown as number })
    return stream(1)
  }, { messages: messageType<number>() })
  const { app, ended } = await stage(t, server)
  const open = await createTestClient(app).open('tools/call', { name: 'x', arguments: {} })
  await until(() => channel !== undefined)
  for (; turns < 10; turns++) await setTimeout(1)
  open.vanish()
  t.match(await ended(), [{ cause: 'disconnect' }])
})

test('a text is an iterable of its characters', async t => {
  const seen: string[] = []
  const server = toolServer<number, string>((_request, channel) => {
    channel.consume('abc', { next: letter => letter, done: () => 'end' })
    return stream(1)
  }, {
    messages: messageType<string>(),
    handleMessage (message) {
      seen.push(message)
      return message === 'end' ? result(toolResult.text(seen.join(''))) : stream(1)
    }
  })
  const { app } = await stage(t, server, { listen: false })
  const response = await call(app, 'tools/call', { name: 'x', arguments: {} })
  const events = []
  for await (const { data } of readSse((async function * () { yield response.body })())) events.push(data)
  t.match(events.at(-1), { result: { content: [{ text: 'abcend' }] } })
})

test('withArg leaves a capabilities method its instance', async t => {
  class Own {
    readonly #caps = { tools: {} }
    readonly info = { name: 'own', version: '1' }
    capabilities () { return this.#caps }
    init (arg: { readonly text: string }) { return arg.text }
    handleRequest (_request: unknown, _channel: Channel<never>, text: string) { return result(toolResult.text(text)) }
  }
  const { app } = await stage(t, withArg(new Own(), { text: 'mine' }), { listen: false })
  t.match((await call(app, 'tools/call', { name: 'x', arguments: {} })).json(), { result: { content: [{ text: 'mine' }] } })
})

test('a thenable that is no promise is waited for', async t => {
  const thenable = { then: (done: (value: unknown) => void) => { done(result(toolResult.text('late'))) } }
  const { app } = await stage(t, toolServer(() => thenable as never), { listen: false })
  t.match((await call(app, 'tools/call', { name: 'x', arguments: {} })).json(), { result: { content: [{ text: 'late' }] } })
})

test('a crash whose own answer cannot be sent is logged, and the exchange ends', async t => {
  const lines: string[] = []
  const { log } = Fastify({ logger: { stream: { write: (line: string) => { lines.push(line) } } } })
  const ends: ExchangeEnd[] = []
  const sink = new (class extends ResultSink { override end (): void { throw new Error('the line is cut') } })()
  const exchange = new Exchange({
    mount: createMount(readOptions({ server: answers }), log),
    request: { method: 'tools/call', id: 1, params: { name: 'x', arguments: {} }, meta: { protocolVersion: '2026-07-28', clientCapabilities: {}, extra: {} } },
    // What a callback reads of it.
    httpRequest: { log } as unknown as FastifyRequest,
    protocolVersion: '2026-07-28',
    principal: undefined,
    retry: undefined,
    traced: undefined,
    onEnded: ({ worker }) => { ends.push(worker.end()) }
  }, sink)
  exchange.run()
  t.match(ends, [{ cause: 'crash', reason: { message: 'the line is cut' } }])
  t.equal(lines.length, 2)
})

test('what a source has while the answer is being handed on is for nobody', async t => {
  const emitter = new EventEmitter()
  const server = toolServer<never, string>((_request, channel) => {
    channel.on(emitter, 'news', () => 'late')
    return result(toolResult.text('done'))
  }, { messages: messageType<string>() })
  const { app, ended } = await stage(t, server, {
    listen: false,
    before: app => { app.addHook('onSend', (_request, _reply, payload, done) => { emitter.emit('news'); done(null, payload) }) }
  })
  t.equal((await call(app, 'tools/call', { name: 'x', arguments: {} })).statusCode, 200)
  t.match(await ended(), [{ cause: 'result', undelivered: 0 }])
  t.equal(emitter.listenerCount('news'), 0)
})
