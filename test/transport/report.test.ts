import Fastify, { type FastifyBaseLogger, type FastifyRequest, type FastifyServerOptions } from 'fastify'
import pino from 'pino'
import { test } from 'tap'
import genMcp, {
  checkParamHeaders, defineServer, elicitForm, fail, inputRequired, McpError, messageType, result, stop, stream, toolResult, type ExchangeEnd, type McpRequest, type Server
} from 'fastify-gen-mcp'
import { createReporter } from '../../lib/transport/report.js'
import { call, mount } from '../helpers/mount.js'
import { echo, info, toolServer } from '../helpers/servers.js'
import { openWire, post, postCall, stage, type Line } from '../helpers/sockets.js'

const TOOL = { name: 'x', arguments: {} }

/** What is said of MCP, without what Fastify says of HTTP. */
function ours (lines: readonly Line[]): readonly Line[] {
  return lines.filter(line => 'mcp' in line || line.level >= 40)
}

/** A server whose tool does what its name says. */
function createServer (): Server {
  const messages = messageType<string>()
  return defineServer({
    info,
    capabilities: { tools: {} },
    messages,
    handleRequest: {
      'tools/call' ({ params: { name } }, channel) {
        switch (name) {
          case 'fail': return fail({ kind: 'internal', message: 'secret message' })
          case 'crash': throw new Error('secret message at /srv/secret/path.js')
          case 'close': channel.close(); return fail('too late')
          case 'stream':
          case 'stop':
          case 'stream-crash':
            channel.sendProgress(1)
            for (const message of [name, 'never handled']) channel.ref.post(message)
            return stream(name)
          default: return result(toolResult.text(name), { stopReason: 'secret reason' })
        }
      }
    },
    handleMessage (message) {
      if (message === 'stream-crash') throw new Error('secret message at /srv/secret/path.js')
      return message === 'stop' ? stop(new TypeError('secret message')) : result(toolResult.text('done'))
    }
  })
}

test('at debug level an exchange is one line, with all that its diagnosis takes: case 095', async t => {
  const common = { method: 'tools/call', era: 'modern', client: 'agent', protocolVersion: '2026-07-28' }
  const expected: Readonly<Record<string, object>> = {
    ok: { ...common, name: 'ok', outcome: 'finished', cause: 'result', statusCode: 200, streamed: false, events: 1, undelivered: 0 },
    fail: { ...common, name: 'fail', outcome: 'errored', cause: 'error', reason: 'MCP_ERR_INTERNAL', statusCode: 200, streamed: false, events: 1, undelivered: 0 },
    crash: { ...common, name: 'crash', outcome: 'errored', cause: 'crash', reason: 'Error', statusCode: 500, streamed: false, events: 1, undelivered: 0 },
    close: { ...common, name: 'close', outcome: 'aborted', cause: 'closed', statusCode: 200, streamed: false, events: 1, undelivered: 0 },
    stream: { ...common, name: 'stream', outcome: 'finished', cause: 'result', statusCode: 200, streamed: true, events: 2, undelivered: 1 },
    stop: { ...common, name: 'stop', outcome: 'finished', cause: 'stop', reason: 'TypeError', statusCode: 200, streamed: true, events: 2, undelivered: 1 },
    'stream-crash': { ...common, name: 'stream-crash', outcome: 'errored', cause: 'crash', reason: 'Error', statusCode: 200, streamed: true, events: 2, undelivered: 1 }
  }
  for (const [name, mcp] of Object.entries(expected)) {
    const { app, lines, ended } = await stage(t, createServer(), { listen: false })
    const meta = { progressToken: 'p', 'io.modelcontextprotocol/clientInfo': { name: 'agent', version: '1' } }
    await call(app, 'tools/call', { name, arguments: {} }, { meta })
    await ended()
    const debug = ours(lines).filter(({ level }) => level === 20)
    t.equal(debug.length, 1, name)
    t.match(debug[0], { msg: 'an MCP exchange ended', reqId: /./, mcp }, name)
    const { durationMs, bytes, ...rest } = debug[0]?.['mcp'] as Record<string, unknown>
    t.ok(typeof durationMs === 'number' && durationMs >= 0 && durationMs < 60_000, `${name}: durationMs`)
    t.ok(typeof bytes === 'number' && bytes > 0, `${name}: bytes`)
    t.strictSame(Object.keys(rest).sort(), Object.keys(mcp).sort(), `${name}: and nothing else`)
  }
})

test('a notification, a discover and a listen that ends are exchanges too', async t => {
  const { app, lines, ended } = await stage(t, createServer(), { listen: false })
  const notification = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  t.equal((await call(app, 'notifications/cancelled', {}, { body: notification })).statusCode, 202)
  await call(app, 'server/discover')
  await ended(2)
  t.match(ours(lines).map(({ mcp }) => mcp), [
    { method: 'notifications/cancelled', cause: 'accepted', outcome: 'finished', statusCode: 202, events: 0 },
    { method: 'server/discover', cause: 'result', outcome: 'finished' }
  ])
})

test('a client that leaves is an aborted exchange', async t => {
  const { port, lines, ended } = await stage(t, toolServer((_request, channel) => {
    channel.startStream()
    return stream(undefined)
  }))
  const wire = await openWire(t, port)
  wire.send(postCall())
  await wire.received('text/event-stream')
  wire.socket.destroy()
  await ended()
  t.match(ours(lines).map(({ mcp }) => mcp), [{ cause: 'disconnect', outcome: 'aborted', streamed: true, events: 0 }])
  t.equal(ours(lines).filter(({ level }) => level > 20).length, 0, 'which is nothing to be alarmed about')
})

test('a refusal is one line with its reason, and no exchange: case 095', async t => {
  const { app, lines, ends } = await stage(t, createServer(), { listen: false })
  const old = '1999-01-01'
  const refusals: [() => Promise<unknown>, object][] = [
    [async () => await call(app, 'tools/call', TOOL, { headers: { 'mcp-method': 'tools/list', accept: 'text/event-stream' } }), {
      method: 'tools/call', outcome: 'refused', reason: 'header', rpcCode: -32020, statusCode: 400, accept: 'text/event-stream', protocolVersion: '2026-07-28'
    }],
    [async () => await call(app, 'tools/none'), { method: 'tools/none', reason: 'unsupportedMethod', rpcCode: -32601, statusCode: 404 }],
    [async () => await call(app, 'resources/list'), { method: 'resources/list', reason: 'unsupportedMethod', statusCode: 404 }],
    [async () => await call(app, 'tools/list', {}, { meta: { 'io.modelcontextprotocol/protocolVersion': old }, headers: { 'mcp-protocol-version': old } }), {
      reason: 'unsupportedVersion', statusCode: 400, protocolVersion: old
    }],
    [async () => await call(app, 'tools/list', {}, { body: '{' }), { reason: 'parse', statusCode: 400 }],
    [async () => await call(app, 'tools/list', {}, { body: '[]' }), { reason: 'invalidRequest', statusCode: 400 }],
    [async () => await call(app, 'tools/list', {}, { body: { method: 5 } }), { reason: 'invalidRequest', statusCode: 400 }],
    [async () => await call(app, 'tools/list', {}, { headers: { 'content-type': 'text/plain' } }), { reason: 'mediaType', statusCode: 415 }],
    [async () => await call(app, 'tools/list', {}, { headers: { accept: 'text/html' } }), { reason: 'notAcceptable', statusCode: 406, accept: 'text/html' }],
    [async () => await app.inject({ method: 'PUT', url: '/mcp' }), { reason: 'custom', statusCode: 405 }]
  ]
  for (const [send, mcp] of refusals) {
    const before = ours(lines).length
    await send()
    const said = ours(lines).slice(before)
    t.equal(said.length, 1, JSON.stringify(mcp))
    t.match(said[0], { level: 20, msg: 'an MCP request was refused', reqId: /./, mcp }, JSON.stringify(mcp))
    t.notOk('era' in (said[0]?.['mcp'] as object), 'nobody knows what it would have been')
  }
  t.strictSame(ends, [])
})

test('the line of an exchange says which era its client is of', async t => {
  const app = Fastify()
  t.teardown(async () => await app.close())
  const told: unknown[] = []
  // A logger at debug level, and no more of a request than a reporter reads.
  const httpRequest = { log: { ...app.log, isLevelEnabled: () => true, debug: (line: unknown) => { told.push(line) } } } as unknown as FastifyRequest
  const request: McpRequest = { method: 'tools/list', id: 1, params: {}, meta: { protocolVersion: '2026-07-28', clientCapabilities: {}, extra: {} } }
  // What else an end says makes no difference here.
  const end = { cause: 'result', method: 'tools/list' } as ExchangeEnd
  const report = createReporter(undefined)
  const eras = { '2026-07-28': 'modern', '2025-11-25': 'legacy', '2025-06-18': 'legacy', '2025-03-26': 'legacy' } as const
  // The keys of the object above.
  for (const protocolVersion of Object.keys(eras) as (keyof typeof eras)[]) {
    report({ request, httpRequest, traced: undefined, worker: { end: () => ({ ...end, protocolVersion }) } })
    t.match(told.at(-1), { mcp: { protocolVersion, era: eras[protocolVersion] } })
  }
  t.equal(told.length, 4)
})

test('the line of an exchange has the parent of its trace, from _meta or the header, and no state or baggage: OTEL-04, OTEL-05, SEC-08, case 092', async t => {
  const { app, lines, ended } = await stage(t, createServer(), { listen: false })
  const [ofMeta, ofHeader] = ['a', 'b'].map(digit => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`)
  const rest = { tracestate: 'vendor=state-secret', baggage: 'user=baggage-secret' }
  await call(app, 'tools/call', TOOL, { meta: { traceparent: ofMeta, ...rest }, headers: { traceparent: ofHeader, ...rest } })
  await call(app, 'tools/call', TOOL, { headers: { traceparent: ofHeader, ...rest } })
  await call(app, 'tools/call', TOOL, { meta: { traceparent: 'garbage', ...rest }, headers: { traceparent: 'garbage' } })
  await call(app, 'tools/call', TOOL)
  const notification = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, _meta: { traceparent: ofMeta, ...rest } } }
  await call(app, 'notifications/cancelled', {}, { body: JSON.stringify(notification) })
  await ended(5)
  // What was refused has a line too, of which a client could choose every word.
  await call(app, 'tools/none', {}, { meta: { traceparent: ofMeta, ...rest }, headers: { traceparent: ofHeader, ...rest } })
  const said = ours(lines).map(({ mcp }) => (mcp as { readonly traceparent?: string }).traceparent)
  t.strictSame(said, [ofMeta, ofHeader, undefined, undefined, ofMeta, undefined])
  t.notOk(ours(lines).slice(2, 4).some(({ mcp }) => 'traceparent' in (mcp as object)))
  t.notMatch(JSON.stringify(lines), /state-secret|baggage-secret|garbage/)
})

test('a method that a client made up is cut in the log', async t => {
  const { app, lines } = await stage(t, createServer(), { listen: false })
  const method = 'x'.repeat(5_000)
  await call(app, method, {}, { headers: { 'mcp-method': method } })
  const [line] = ours(lines)
  t.equal((line?.['mcp'] as { readonly method: string }).method, 'x'.repeat(100))
})

test('above debug level nothing is said of what went as it should', async t => {
  const lines: string[] = []
  const app = await mount(t, { server: createServer() }, { logger: { level: 'info', stream: { write: (line: string) => { lines.push(line) } } } })
  await call(app, 'tools/call', TOOL)
  await call(app, 'tools/none')
  t.ok(lines.length >= 4)
  t.strictSame(lines.filter(line => line.includes('"mcp"')), [])
})

// ---- crashes

for (const mode of ['JSON', 'stream'] as const) {
  const name = mode === 'JSON' ? 'crash' : 'stream-crash'
  test(`a crash is logged once with its cause, and nothing of it reaches the client, in ${mode} mode: ERR-07, SEC-07`, async t => {
    const { app, lines, ended } = await stage(t, createServer(), { listen: false })
    const response = await call(app, 'tools/call', { name, arguments: {} }, { meta: { progressToken: 'p' } })
    await ended()
    t.equal(response.statusCode, mode === 'JSON' ? 500 : 200)
    t.match(response.body, '"error":{"code":-32603,"message":"Internal error"}')
    t.notMatch(response.body, /secret|\/srv|\.[jt]s\b|at .*:\d+:\d+|stack/)
    t.notMatch(JSON.stringify(response.headers), 'secret')

    const crashes = lines.filter(line => JSON.stringify(line).includes('secret message'))
    t.equal(crashes.length, 1, 'once, at whatever level')
    t.match(crashes[0], { level: 50, msg: 'a request crashed', reqId: /./, mcp: { method: 'tools/call' }, err: { type: 'Error', message: 'secret message at /srv/secret/path.js', stack: /at / } })
  })
}

test('forty requests are answered, and a throw in between is one 500 with a body and one line: case 006', async t => {
  const { app, lines } = await stage(t, createServer(), { listen: false })
  const answers: { readonly statusCode: number }[] = []
  for (let i = 0; i < 20; i++) answers.push(await call(app, 'tools/call', TOOL))
  const crash = await call(app, 'tools/call', { name: 'crash', arguments: {} })
  answers.push(...await Promise.all(Array.from({ length: 20 }, async () => await call(app, 'tools/call', TOOL))))
  t.strictSame(answers.map(({ statusCode }) => statusCode), Array.from({ length: 40 }, () => 200))
  t.equal(crash.statusCode, 500)
  t.strictSame(crash.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.equal(lines.filter(({ level }) => level >= 50).length, 1)
})

test('a hook of the app that fails is logged once with its cause, and masked: ERR-07, SEC-07', async t => {
  const { app, lines } = await stage(t, echo, { listen: false, onRequest: async () => { throw new Error('secret message') } })
  const response = await call(app, 'tools/list')
  t.equal(response.statusCode, 500)
  t.strictSame(response.json<{ error: object }>().error, { code: -32603, message: 'Internal error' })
  t.match(lines.filter(line => JSON.stringify(line).includes('secret message')), [{ level: 50, err: { message: 'secret message' } }])
  t.equal(lines.filter(line => JSON.stringify(line).includes('secret message')).length, 1)
})

// ---- onEnd

test('onEnd is told of each exchange once, with how it ended and the request, and not of refusals', async t => {
  const ends: [ExchangeEnd, string][] = []
  const app = await mount(t, { server: createServer(), onEnd: (end, httpRequest) => { ends.push([end, httpRequest.id]) } }, { genReqId: () => 'req-7' })
  await call(app, 'tools/call', TOOL, { id: 'call-1' })
  await call(app, 'tools/none')
  t.equal(ends.length, 1)
  t.match(ends[0], [{ cause: 'result', reason: 'secret reason', method: 'tools/call', name: 'x', requestId: 'call-1', statusCode: 200 }, 'req-7'])
  t.ok(Object.isFrozen(ends[0]?.[0]))
})

test('onEnd that throws is logged, and the client does not notice', async t => {
  const { app, lines } = await stage(t, createServer(), { listen: false, onEnd: () => { throw new Error('metrics are away') } })
  t.equal((await call(app, 'tools/call', TOOL)).statusCode, 200)
  t.match(lines.filter(({ level }) => level >= 40), [{ level: 50, msg: 'onEnd failed', err: { message: 'metrics are away' } }])
})

// ---- the app's own logger

test('the logger of a callback is the request\'s own, with the app\'s instance, serializers and redaction', async t => {
  const lines: Line[] = []
  const loggerInstance = pino({
    level: 'debug',
    redact: ['mcp.name', 'token'],
    base: { service: 'shop' },
    serializers: { user: ({ id }: { readonly id: string }) => `user ${id}`, err: (error: Error) => ({ kind: error.constructor.name }) }
  }, { write: (line: string) => { lines.push(JSON.parse(line) as Line) } })
  const server = toolServer(({ params: { name } }, channel) => {
    channel.log.info({ user: { id: 'u1', password: 'hidden' }, token: 'hidden' }, 'from the tool')
    if (name === 'crash') throw new TypeError('hidden')
    return result(toolResult.data({ own: channel.log === channel.httpRequest.log }))
  })
  // Fastify's types tie an app to its logger's.
  const app = await mount(t, { server }, { loggerInstance: loggerInstance as unknown as FastifyBaseLogger })

  const response = await call(app, 'tools/call', { name: 'visible', arguments: {} })
  t.match(response.body, '"own":true')
  const [incoming] = lines
  t.match(lines.find(({ msg }) => msg === 'from the tool'), { service: 'shop', user: 'user u1', token: '[Redacted]', reqId: incoming?.['reqId'] })
  t.match(lines.find(({ msg }) => msg === 'an MCP exchange ended'), { service: 'shop', mcp: { name: '[Redacted]' } })
  await call(app, 'tools/call', { name: 'crash', arguments: {} })
  t.match(lines.find(({ msg }) => msg === 'a request crashed'), { level: 50, err: { kind: 'TypeError' } })
  t.notMatch(JSON.stringify(lines), 'hidden')
})

/** A logger with no more than Fastify asks for, and what it was told. */
function createPlainLogger (debug: boolean): { readonly logger: FastifyBaseLogger, readonly told: [string, unknown][] } {
  const told: [string, unknown][] = []
  const at = (level: string) => (line: unknown) => { told.push([level, line]) }
  const same = at('same')
  const of = (level: string): ((line: unknown) => void) => debug ? at(level) : same
  const logger: FastifyBaseLogger = {
    level: 'debug', silent: same, fatal: of('fatal'), error: of('error'), warn: of('warn'), info: of('info'), debug: of('debug'), trace: of('trace'), child: () => logger
  }
  return { logger, told }
}

test('a logger that cannot say which levels are on is told at debug level', async t => {
  const { logger, told } = createPlainLogger(true)
  const app = await mount(t, { server: createServer() }, { loggerInstance: logger })
  await call(app, 'tools/call', TOOL)
  await call(app, 'tools/none')
  t.match(told.filter(([level]) => level === 'debug').map(([, line]) => line), [{ mcp: { cause: 'result' } }, { mcp: { outcome: 'refused' } }])
})

test('an app without a logger is told nothing, and all works', async t => {
  const { logger, told } = createPlainLogger(false)
  for (const options of [{ loggerInstance: logger }, { logger: false }] satisfies FastifyServerOptions[]) {
    const ends: ExchangeEnd[] = []
    const app = await mount(t, { server: createServer(), onEnd: end => { ends.push(end) } }, options)
    t.equal((await call(app, 'tools/call', TOOL)).statusCode, 200)
    t.equal((await call(app, 'tools/none')).statusCode, 404)
    t.equal((await call(app, 'tools/call', { name: 'crash', arguments: {} })).statusCode, 500)
    t.equal(ends.length, 2)
    const bare = await mount(t, { server: createServer() }, options)
    t.equal((await call(bare, 'tools/call', TOOL)).statusCode, 200)
  }
  t.strictSame(told.filter(([, line]) => typeof line === 'object' && line !== null && 'mcp' in line && !('err' in line)), [])
})

// ---- secrets

test('nothing that may hold a secret is in the log, however the request ends: SEC-08', async t => {
  const SECRET = 'hunter2-4f1c'
  const lines: string[] = []
  const app = Fastify({ logger: { level: 'trace', stream: { write: (line: string) => { lines.push(line) } } } })
  t.teardown(async () => await app.close())
  const inputSchema = { type: 'object', properties: { key: { type: 'string', 'x-mcp-header': 'Key' } } }
  const questions = { pin: elicitForm('Your PIN?', { type: 'object', properties: { pin: { type: 'string' } } }) }
  const states: string[] = []
  await app.register(genMcp, {
    secrets: [`a signing secret of enough length ${SECRET}`],
    server: toolServer((request, channel) => {
      checkParamHeaders(inputSchema, request, channel.httpRequest)
      switch (request.params.name) {
        case 'ask': return channel.inputResponses(questions) === undefined ? inputRequired(questions, { kept: SECRET }) : result(toolResult.text(SECRET))
        case 'fail': throw new McpError({ kind: 'internal', message: SECRET })
        case 'crash': throw new Error('a bug')
        case 'stream':
          channel.sendProgress(1, 2, SECRET)
          channel.ref.post(SECRET as never)
          return stream(SECRET)
        default: return result(toolResult.data({ SECRET }), { stopReason: SECRET })
      }
    }, { handleMessage: () => result(toolResult.text(SECRET)) })
  })
  await app.ready()

  const headers = { authorization: `Bearer ${SECRET}`, cookie: `session=${SECRET}`, 'mcp-param-key': SECRET }
  const meta = { progressToken: SECRET, 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} }, 'com.example/secret': SECRET }
  const params = (name: string): object => ({ name, arguments: { key: SECRET } })
  for (const name of ['ok', 'fail', 'crash', 'stream']) await call(app, 'tools/call', params(name), { headers, meta })
  const asked = await call(app, 'tools/call', params('ask'), { headers, meta })
  const { requestState } = asked.json<{ result: { requestState: string } }>().result
  states.push(requestState)
  const inputResponses = { pin: { action: 'accept', content: { pin: SECRET } } }
  t.equal((await call(app, 'tools/call', { ...params('ask'), requestState, inputResponses }, { headers, meta })).statusCode, 200)

  // Refused, each for another reason.
  const refusals = [
    await call(app, 'tools/call', { ...params('ask'), requestState: `x${SECRET}`, inputResponses }, { headers, meta }),
    await call(app, 'tools/call', { ...params('ask'), inputResponses: SECRET }, { headers, meta }),
    await call(app, 'tools/call', { name: 'ok', arguments: SECRET }, { headers, meta }),
    await call(app, 'tools/call', params('ok'), { headers: { ...headers, 'mcp-param-key': `other ${SECRET}` }, meta }),
    await call(app, 'tools/call', params('ok'), { headers: { ...headers, 'mcp-method': 'x' }, meta }),
    await call(app, 'tools/call', params('ok'), { headers, meta, body: `{"${SECRET}` })
  ]
  for (const { statusCode, json } of refusals) t.ok(statusCode >= 400 || 'error' in json<object>())

  t.ok(lines.filter(line => line.includes('an MCP exchange ended')).length >= 6)
  t.ok(lines.filter(line => line.includes('an MCP request was refused')).length >= 5)
  const leaks = lines.filter(line => [SECRET, ...states].some(secret => line.includes(secret)))
  t.strictSame(leaks, [])
})

test('posts of nobody in particular are told apart by the request id of Fastify', async t => {
  const { app, lines, ended } = await stage(t, createServer(), { listen: false })
  for (let i = 0; i < 2; i++) await app.inject({ method: 'POST', url: '/mcp', ...post('tools/call', TOOL) })
  await ended(2)
  t.equal(new Set(ours(lines).map(({ reqId }) => reqId)).size, 2)
})
