import Fastify, { type FastifyInstance, type FastifyServerOptions, type RouteOptions } from 'fastify'
import { test, type Test } from 'tap'
import genMcp, { defineServer, elicitForm, inputRequired, McpError, messageType, result, stream, toolResult, type ExchangeRef, type GenMcpOptions, type TokenSealer } from 'fastify-gen-mcp'
import { call, mount, type MountOptions } from './helpers/mount.js'
import { echo, toolServer } from './helpers/servers.js'
import { gate, NOTHING_HELD, post, postCall, stage, until } from './helpers/sockets.js'

const SECRET = 'a secret of at least thirty-two characters'

/** An app that is closed when the test ends. */
function createApp (t: Test, options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(options)
  t.teardown(async () => await app.close())
  return app
}

async function statusAt (app: FastifyInstance, url: string): Promise<number> {
  return (await call(app, 'tools/list', {}, { url })).statusCode
}

/** Calls the one tool of a server that says who it is. */
async function whoAnswers (app: FastifyInstance, url: string, headers: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const response = await call(app, 'tools/call', { name: 'who', arguments: {} }, { url, headers })
  return response.statusCode === 200 ? response.json<{ result: { content: { text: string }[] } }>().result.content[0]?.text : response.statusCode
}

function who (name: string): GenMcpOptions['server'] {
  return toolServer(() => result(toolResult.text(name)), { info: { name, version: '1.0.0' } })
}

// ---- where it is

interface Place { readonly scope?: string, readonly prefix?: string, readonly path?: string, readonly urls: readonly string[], readonly not: readonly string[] }

const places: readonly Place[] = [
  { urls: ['/mcp', '/mcp/'], not: ['/', '/mcp/mcp'] },
  { prefix: '/api', urls: ['/api', '/api/'], not: ['/', '/mcp', '/api/mcp'] },
  { path: '/agents', urls: ['/agents', '/agents/'], not: ['/', '/mcp', '/agents/mcp'] },
  { path: '/a/b/', urls: ['/a/b', '/a/b/'], not: ['/a', '/mcp'] },
  { path: '/', urls: ['/'], not: ['/mcp'] },
  { prefix: '/api', path: '/mcp', urls: ['/api/mcp', '/api/mcp/'], not: ['/api', '/mcp'] },
  { prefix: '/api', path: '/', urls: ['/api', '/api/'], not: ['/', '/mcp'] },
  { prefix: '/t/:tenant', path: '/mcp', urls: ['/t/a/mcp', '/t/b/mcp/'], not: ['/t/a', '/mcp'] },
  { scope: '/v1', urls: ['/v1/mcp', '/v1/mcp/'], not: ['/mcp', '/v1'] },
  { scope: '/v1', prefix: '/api', urls: ['/v1/api', '/v1/api/'], not: ['/api', '/v1', '/v1/mcp'] },
  { scope: '/v1', path: '/agents', urls: ['/v1/agents', '/v1/agents/'], not: ['/agents', '/v1/mcp'] },
  { scope: '/v1', prefix: '/api', path: '/mcp', urls: ['/v1/api/mcp', '/v1/api/mcp/'], not: ['/v1/api', '/api/mcp', '/mcp'] },
  // Fastify puts the slash there.
  { prefix: 'api', urls: ['/api', '/api/'], not: ['/mcp'] }
]

for (const ignoreTrailingSlash of [false, true]) {
  for (const { scope, prefix, path, urls, not } of places) {
    const about = JSON.stringify({ scope, prefix, path, ignoreTrailingSlash })
    test(`a mount with ${about} answers at ${urls[0]}, and nowhere else: HTTP-01, case 085`, async t => {
      const app = createApp(t, { routerOptions: { ignoreTrailingSlash } })
      const options: MountOptions = { server: echo, ...(prefix !== undefined && { prefix }), ...(path !== undefined && { path }) }
      const host: { mounted?: FastifyInstance } = {}
      await app.register(async child => {
        host.mounted = child
        await child.register(genMcp, options)
      }, scope === undefined ? {} : { prefix: scope })
      await app.ready()

      for (const url of urls) t.equal(await statusAt(app, url), 200, `it answers at ${url}`)
      for (const url of not) t.equal(await statusAt(app, url), 404, `it does not answer at ${url}`)

      const [published, ...others] = host.mounted?.mcp.mounts ?? []
      t.strictSame(others, [])
      t.match(published?.path, /^\//, 'the path that is published is absolute')
      if (prefix?.includes(':') !== true) t.equal(await statusAt(app, published?.path ?? ''), 200, `it answers at ${published?.path}, where it says to be`)
    })
  }
}

test('a trailing slash that the app ignores by its old option is not served twice', async t => {
  const app = createApp(t, { ignoreTrailingSlash: true })
  await app.register(genMcp, { path: '/x', server: echo })
  await app.ready()
  t.equal(await statusAt(app, '/x'), 200)
  t.equal(await statusAt(app, '/x/'), 200)
})

test('routes can be constrained, so that two mounts share a path', async t => {
  const app = createApp(t)
  for (const host of ['a.example', 'b.example']) await app.register(genMcp, { server: who(host), constraints: { host }, allowedHosts: [host], legacy: false })
  await app.ready()

  t.equal(await whoAnswers(app, '/mcp', { host: 'a.example' }), 'a.example')
  t.equal(await whoAnswers(app, '/mcp', { host: 'b.example' }), 'b.example')
  t.equal((await app.inject({ method: 'GET', url: '/mcp', headers: { host: 'b.example' } })).statusCode, 405, 'the other verbs are constrained too')
  t.equal((await app.inject({ method: 'GET', url: '/mcp', headers: { host: 'c.example' } })).statusCode, 404)
})

test('every verb but POST is answered 405 with Allow, in JSON-RPC: HTTP-06, HTTP-07', async t => {
  const app = await mount(t, { server: echo, legacy: false })
  const verbs = app.supportedMethods.filter(verb => verb !== 'POST')
  t.ok(verbs.includes('GET') && verbs.includes('DELETE') && verbs.includes('PUT'))
  for (const method of verbs) {
    // Fastify's list has verbs that inject has no name for.
    const response = await app.inject({ method: method as 'GET', url: '/mcp' })
    t.equal(response.statusCode, 405, method)
    t.equal(response.headers.allow, 'POST', method)
    if (method !== 'HEAD') t.match(response.json(), { jsonrpc: '2.0', error: { code: -32600 } }, method)
  }
})

// ---- beside the rest of the app

test('routes of a mount are hidden from descriptions of the API, and carry config.mcp', async t => {
  const app = createApp(t)
  const routes: RouteOptions[] = []
  app.addHook('onRoute', route => { routes.push(route) })
  app.get('/own', { exposeHeadRoute: false }, () => 'own')
  await app.register(genMcp, { server: echo })
  await app.register(genMcp, { prefix: '/other', path: '/mcp', server: echo })
  await app.ready()

  const [own, ...mounted] = routes
  t.equal(own?.url, '/own')
  t.notOk((own?.config as { mcp?: true } | undefined)?.mcp)
  t.ok(mounted.length >= 8)
  t.ok(mounted.some(({ method }) => method === 'POST'))
  for (const { url, method, schema, config } of mounted) {
    t.match(schema, { hide: true }, `${String(method)} ${url}`)
    t.match(config, { mcp: true }, `${String(method)} ${url}`)
  }
})

test('hooks, error handler and parsers of a mount stay inside it', async t => {
  const app = createApp(t)
  const ran: string[] = []
  app.addContentTypeParser('text/plain', { parseAs: 'string' }, (_request, body, done) => { done(null, body) })
  app.post('/own', request => ({ body: request.body }))
  app.post('/fails', () => { throw new Error('own failure') })
  await app.register(genMcp, {
    server: echo,
    onRequest: async () => { ran.push('onRequest') },
    preHandler: async () => { ran.push('preHandler') }
  })
  app.post('/later', request => ({ body: request.body }))
  await app.ready()

  for (const url of ['/own', '/later']) {
    t.strictSame((await app.inject({ method: 'POST', url, payload: { a: 1 } })).json(), { body: { a: 1 } }, 'the app parses JSON as ever')
    t.strictSame((await app.inject({ method: 'POST', url, headers: { 'content-type': 'text/plain' }, payload: 'text' })).json(), { body: 'text' }, 'and its own types')
    t.match((await app.inject({ method: 'POST', url, headers: { 'content-type': 'application/json' }, payload: '{' })).json(), { code: 'FST_ERR_CTP_INVALID_JSON_BODY' }, 'and refuses in its own words')
    t.equal((await app.inject({ method: 'POST', url, headers: { origin: 'https://evil.example', host: 'evil.example' }, payload: {} })).statusCode, 200, 'from everywhere')
  }
  t.match((await app.inject({ method: 'POST', url: '/fails', payload: {} })).json(), { statusCode: 500, message: 'own failure' }, 'the app answers its errors itself')
  t.match((await app.inject('/nowhere')).json(), { statusCode: 404, message: 'Route GET:/nowhere not found' })
  t.strictSame(ran, [])

  t.equal((await call(app, 'tools/list')).statusCode, 200)
  t.strictSame(ran, ['onRequest', 'preHandler'], 'hooks of the mount run for its requests, once each')
})

test('what the app sets for itself does not reach into a mount', async t => {
  const app = createApp(t)
  const reached: string[] = []
  const reach = (what: string) => () => {
    reached.push(what)
    return '{"not":"json-rpc"}'
  }
  app.setErrorHandler(reach('error handler'))
  app.setReplySerializer(reach('reply serializer'))
  app.setSerializerCompiler(() => reach('serializer'))
  app.setValidatorCompiler(() => () => {
    reached.push('validator')
    return { error: new Error('refused') }
  })
  app.addContentTypeParser('*', (_request, _body, done) => {
    reached.push('parser')
    done(null, {})
  })
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, _body, done) => {
    reached.push('JSON parser')
    done(null, {})
  })
  await app.register(genMcp, { server: toolServer(({ params: { name } }) => { throw name === 'crash' ? new Error('crash') : new McpError({ kind: 'unknownTool', name }) }) })
  await app.ready()

  t.match((await call(app, 'tools/call', { name: 'a', arguments: {} })).json(), { error: { code: -32602 } })
  t.match((await call(app, 'tools/call', { name: 'crash', arguments: {} })).json(), { error: { code: -32603 } })
  t.match((await call(app, 'tools/list', {}, { body: '{' })).json(), { error: { code: -32700 } }, 'malformed JSON')
  t.match((await call(app, 'tools/list', {}, { body: Buffer.from([0x22, 0xff, 0x22]) })).json(), { error: { code: -32700 } }, 'invalid UTF-8')
  t.match((await call(app, 'tools/list', {}, { headers: { 'content-type': 'text/plain' } })).json(), { error: { code: -32600 } }, 'another media type')
  t.equal((await app.inject({ method: 'PUT', url: '/mcp' })).statusCode, 405)
  t.strictSame(reached, [])
})

test('hooks of the app run for a mount as for its other routes', async t => {
  const app = createApp(t)
  const ran: string[] = []
  app.addHook('onRequest', async (_request, reply) => {
    ran.push('onRequest')
    reply.header('x-app', 'yes')
  })
  app.addHook('onSend', async () => { ran.push('onSend') })
  app.addHook('onResponse', async () => { ran.push('onResponse') })
  app.addHook('onError', async () => { ran.push('onError') })
  await app.register(genMcp, {
    server: toolServer(({ params: { name } }) => {
      if (name === 'crash') throw new Error('crash')
      return result(toolResult.text(name))
    })
  })
  await app.ready()

  t.equal((await call(app, 'tools/call', { name: 'a', arguments: {} })).headers['x-app'], 'yes')
  t.strictSame(ran.splice(0), ['onRequest', 'onSend', 'onResponse'])
  await call(app, 'tools/call', { name: 'crash', arguments: {} })
  t.strictSame(ran, ['onRequest', 'onError', 'onSend', 'onResponse'], 'a crash is seen by onError')
})

test('a mount makes no server, listens nowhere and leaves the process alone: case 086', async t => {
  const app = createApp(t)
  app.get('/own', () => 'own')
  const count = (emitter: NodeJS.EventEmitter): Record<string, number> => Object.fromEntries(emitter.eventNames().map(name => [String(name), emitter.listenerCount(name)]))
  const before = { process: count(process), server: count(app.server) }
  await app.register(genMcp, { server: echo })
  await app.ready()
  await call(app, 'tools/list')

  t.strictSame(count(process), before.process)
  t.strictSame(count(app.server), before.server)
  t.notOk(app.server.listening)
  t.equal((await app.inject('/own')).body, 'own')
})

test('a callback has the request of Fastify with its decorators, the principal and the request\'s logger, in a stream too: case 090', async t => {
  const app = createApp(t)
  app.decorateRequest('caller', null)
  app.addHook('onRequest', async httpRequest => { httpRequest.setDecorator('caller', { id: 'u1' }) })
  await app.register(genMcp, {
    server: toolServer((_request, channel) => {
      const { httpRequest, principal, log } = channel
      channel.sendProgress(1)
      return result(toolResult.data({
        user: httpRequest.getDecorator<{ id: string }>('caller').id, principal, tenant: httpRequest.headers['x-tenant'], ip: httpRequest.ip, own: log === httpRequest.log
      }))
    }),
    principal: httpRequest => httpRequest.getDecorator<{ id: string }>('caller').id
  })
  await app.ready()

  for (const progressToken of [undefined, 'p']) {
    const response = await call(app, 'tools/call', { name: 'a', arguments: {} }, { meta: { progressToken }, headers: { 'x-tenant': 'acme' } })
    t.equal(response.headers['content-type']?.toString().startsWith('text/event-stream'), progressToken !== undefined)
    t.match(response.body, '"structuredContent":{"user":"u1","principal":"u1","tenant":"acme","ip":"127.0.0.1","own":true}')
  }
})

// ---- several mounts

test('mounts of one app are servers of their own: HTTP-26', async t => {
  const app = createApp(t)
  await app.register(genMcp, { prefix: '/a', server: who('a') })
  await app.register(genMcp, { prefix: '/b', server: who('b'), sendServerInfo: false })
  await app.ready()

  t.equal(await whoAnswers(app, '/a'), 'a')
  t.equal(await whoAnswers(app, '/b'), 'b')
  const discover = async (url: string): Promise<string> => (await call(app, 'server/discover', {}, { url })).body
  t.match(await discover('/a'), '"io.modelcontextprotocol/serverInfo":{"name":"a","version":"1.0.0"}')
  t.notMatch(await discover('/b'), 'serverInfo', 'and whoever likes stays anonymous')
  t.notMatch((await call(app, 'tools/call', { name: 'who', arguments: {} }, { url: '/b' })).body, 'serverInfo')
  t.strictSame(app.mcp.mounts.map(({ path }) => path), ['/a', '/b'], 'in the order of registration')
})

test('what one mount sealed opens on another only where they share secrets: HTTP-26', async t => {
  const asking = toolServer((_request, channel) => {
    const questions = { sure: elicitForm('Sure?', { type: 'object', properties: { yes: { type: 'boolean' } } }) }
    const answers = channel.inputResponses(questions)
    return answers === undefined ? inputRequired(questions) : result(toolResult.text('done'))
  })
  const app = createApp(t)
  await app.register(genMcp, { prefix: '/random', server: asking })
  await app.register(genMcp, { prefix: '/a', server: asking, secrets: [SECRET] })
  await app.register(genMcp, { prefix: '/b', server: asking, secrets: [`another ${SECRET}`, SECRET] })
  await app.ready()

  const params = { name: 'ask', arguments: {} }
  const meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } }
  const inputResponses = { sure: { action: 'accept', content: { yes: true } } }
  const askAt = async (url: string): Promise<string> =>
    (await call(app, 'tools/call', params, { url, meta })).json<{ result: { requestState: string } }>().result.requestState
  const bringTo = async (url: string, requestState: string): Promise<object> => (await call(app, 'tools/call', { ...params, requestState, inputResponses }, { url, meta })).json()

  const [random, a, b] = [await askAt('/random'), await askAt('/a'), await askAt('/b')]
  t.match(await bringTo('/random', random), { result: { resultType: 'complete' } })
  t.match(await bringTo('/b', a), { result: { resultType: 'complete' } }, 'b opens with the second of its secrets')
  t.match(await bringTo('/a', b), { error: { code: -32602 } }, 'b seals with the first, which a does not have')
  t.match(await bringTo('/a', random), { error: { code: -32602 } })
  t.match(await bringTo('/random', a), { error: { code: -32602 } })
})

test('gauges tell what a mount holds, and nothing of the others', async t => {
  const refs: ExchangeRef<string>[] = []
  const app = createApp(t)
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: (_request, channel) => {
      refs.push(channel.ref)
      channel.after(1_000_000, 'late')
      return stream(undefined)
    },
    handleMessage: () => result(toolResult.text('done'))
  })
  await app.register(genMcp, { prefix: '/a', server })
  await app.register(genMcp, { prefix: '/b', server })
  await app.ready()
  const [a, b] = app.mcp.mounts
  t.strictSame(a?.gauges(), NOTHING_HELD)

  const response = call(app, 'tools/call', { name: 'x', arguments: {} }, { url: '/a' })
  await until(() => refs.length === 1)
  t.match(a?.gauges(), { exchanges: 1, streams: 1, listens: 0, sources: 1 })
  t.ok((a?.gauges().timers ?? 0) >= 1)
  t.strictSame(b?.gauges(), NOTHING_HELD)

  refs[0]?.post('now')
  t.equal(a?.gauges().queuedMessages, 1)
  await response
  t.strictSame(a?.gauges(), NOTHING_HELD)
})

test('fastify.mcp.mounts of an instance has its own mounts and those of the scopes below it, whatever was registered first', async t => {
  for (const rootFirst of [true, false]) {
    const app = createApp(t)
    const scopes: FastifyInstance[] = []
    const nested = async (prefix: string): Promise<void> => {
      await app.register(async child => {
        scopes.push(child)
        await child.register(genMcp, { server: echo })
      }, { prefix })
    }
    const root = async (): Promise<void> => { await app.register(genMcp, { server: echo }) }
    if (rootFirst) await root()
    await nested('/v1')
    await nested('/v2')
    if (!rootFirst) await root()
    await app.ready()

    const about = rootFirst ? 'the root first' : 'the scopes first'
    t.strictSame(app.mcp.mounts.map(({ path }) => path).sort(), ['/mcp', '/v1/mcp', '/v2/mcp'], `${about}: the root knows all`)
    t.strictSame(scopes.map(({ mcp }) => mcp.mounts.map(({ path }) => path)), [['/v1/mcp'], ['/v2/mcp']], `${about}: a scope knows its own`)
  }
})

// ---- options that are Fastify's, and ours

test('a body beyond bodyLimit is answered 413, of the mount or of the app: HTTP-23', async t => {
  const app = createApp(t, { bodyLimit: 400 })
  await app.register(genMcp, { prefix: '/app', server: echo })
  await app.register(genMcp, { prefix: '/small', server: echo, bodyLimit: 300 })
  await app.register(genMcp, { prefix: '/large', server: echo, bodyLimit: 10_000 })
  app.post('/own', () => 'own')
  await app.ready()

  const send = async (url: string, length: number): Promise<number> => {
    const frame = (padding: string): string => post('tools/call', { name: 'echo', arguments: { padding } }).payload
    const payload = frame('x'.repeat(length - frame('').length))
    t.equal(Buffer.byteLength(payload), length)
    const response = await app.inject({ method: 'POST', url, headers: post('tools/call', { name: 'echo' }).headers, payload })
    if (response.statusCode !== 200) t.strictSame(response.json(), { jsonrpc: '2.0', error: { code: -32600, message: 'The body is too large' } }, url)
    return response.statusCode
  }
  t.equal(await send('/app', 400), 200)
  t.equal(await send('/app', 401), 413)
  t.equal(await send('/small', 300), 200)
  t.equal(await send('/small', 301), 413)
  t.equal(await send('/large', 5_000), 200)
})

test('logLevel is that of the mount alone', async t => {
  // Fastify takes it at each registration, so that it is none of our options by type.
  const logLevel = { logLevel: 'warn' }
  const { app, lines } = await stage(t, echo, { listen: false, ...logLevel, before: app => { app.get('/own', () => 'own') } })
  await app.inject('/own')
  const own = lines.length
  t.ok(own >= 2)
  t.equal((await app.inject({ method: 'POST', url: '/mcp', ...post('tools/list') })).statusCode, 200)
  t.equal(lines.length, own, 'not a line')
})

test('setup runs once a mount, with the instance and the arg, before ready resolves; a throw rejects it', async t => {
  const ran: unknown[] = []
  const server = toolServer(() => result(toolResult.text('x')), {
    async setup (fastify) {
      await Promise.resolve()
      ran.push(fastify.prefix)
      if (!fastify.hasDecorator('fromSetup')) fastify.decorate('fromSetup', true)
    }
  })
  const app = createApp(t)
  await app.register(async child => {
    await child.register(genMcp, { server, prefix: '/a' })
    await child.register(genMcp, { server, prefix: '/b' })
    t.ok(child.hasDecorator('fromSetup'), 'it was given the instance that registers')
  }, { prefix: '/v1' })
  await app.ready()
  t.strictSame(ran, ['/v1', '/v1'])
  await call(app, 'tools/call', { name: 'x', arguments: {} }, { url: '/v1/a' })
  t.equal(ran.length, 2)

  const failing = createApp(t)
  failing.register(genMcp, { server: toolServer(() => result(toolResult.text('x')), { setup: () => { throw new Error('no database') } }) })
  await t.rejects(async () => { await failing.ready() }, { message: 'no database' })
})

test('a mount without secrets warns when it first seals, once, and not before', async t => {
  const asking = toolServer(() => inputRequired({}, { round: 1 }))
  const warnings = (lines: readonly { readonly level: number }[]): readonly object[] => lines.filter(({ level }) => level === 40)
  const params = { name: 'ask', arguments: {} }
  const sealer: TokenSealer = { seal: () => 'sealed', open: () => ({ ok: false, reason: 'invalid' }) }

  const random = await stage(t, asking, { listen: false })
  t.equal((await call(random.app, 'server/discover')).statusCode, 200)
  t.strictSame(warnings(random.lines), [], 'nothing was sealed yet')
  for (let round = 0; round < 2; round++) t.equal((await call(random.app, 'tools/call', params)).statusCode, 200)
  t.match(warnings(random.lines), [{ mcp: { option: 'secrets' } }])
  t.equal(warnings(random.lines).length, 1)

  for (const options of [{ secrets: [SECRET] }, { tokens: sealer }]) {
    const known = await stage(t, asking, { listen: false, ...options })
    const response = await call(known.app, 'tools/call', params)
    t.match(response.json(), { result: { resultType: 'input_required' } })
    t.equal(response.json<{ result: { requestState: string } }>().result.requestState === 'sealed', 'tokens' in options, 'tokens seals instead of us')
    t.strictSame(warnings(known.lines), [])
  }
})

test('a message from a bus that does not fit the server\'s schema is skipped and logged', async t => {
  const { default: mqemitter } = await import('mqemitter')
  const { Type } = await import('@sinclair/typebox')
  const bus = mqemitter()
  const subscribed = gate()
  const server = toolServer((_request, channel) => {
    channel.subscribe(bus, 'job', (packet: { readonly topic: string, readonly done: number }) => packet.done)
    subscribed.open()
    return stream(undefined)
  }, { messages: Type.Number(), handleMessage: (done: number) => result(toolResult.data(done)) })
  const { app, lines } = await stage(t, server, { listen: false })

  const response = app.inject({ method: 'POST', url: '/mcp', ...postCall() })
  await subscribed.promise
  bus.emit({ topic: 'job', done: 'soon' })
  bus.emit({ topic: 'job', done: 5 })
  t.match((await response).body, '"structuredContent":5')
  t.match(lines.filter(({ level }) => level === 40), [{ mcp: { source: 'subscribe' } }])
})

test('while the app closes, a mount that is still asked answers 503 with Retry-After', async t => {
  const running = gate()
  const release = gate()
  const app = createApp(t, { return503OnClosing: false })
  await app.register(genMcp, {
    server: toolServer(async () => {
      running.open()
      await release.promise
      return result(toolResult.text('done'))
    }),
    limits: { drain: 5_000 }
  })
  await app.ready()
  const answer = call(app, 'tools/call', { name: 'x', arguments: {} })
  await running.promise
  const closed = app.close()
  // preClose runs in a later turn than close() is called.
  let refused = await call(app, 'tools/list')
  while (refused.statusCode !== 503) refused = await call(app, 'tools/list')
  t.match(refused.json(), { id: 1, error: { code: -32603, message: 'The server is shutting down' } })
  t.equal(refused.headers['retry-after'], '5')
  release.open()
  t.equal((await answer).statusCode, 200, 'what runs is answered')
  await closed
})

test('an app that does not bound its plugins leaves the drain as it is, and one that does is told that it cuts it', async t => {
  for (const [pluginTimeout, warned] of [[0, 0], [3_000, 1]] as const) {
    const lines: string[] = []
    const app = Fastify({ pluginTimeout, logger: { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } } })
    await app.register(genMcp, { server: echo, limits: { drain: 5_000 } })
    await app.ready()
    t.equal(lines.length, warned)
    await app.close()
  }
})

// ---- connections that balancers keep

const keepAlives: readonly (readonly [about: string, options: FastifyServerOptions, keepAliveTimeout: number | undefined, warned: number])[] = [
  ['at Fastify\'s default', { trustProxy: true }, undefined, 0],
  ['at Node\'s default', { trustProxy: true }, 5_000, 1],
  ['of an option', { trustProxy: 'loopback', keepAliveTimeout: 5_000 }, undefined, 1],
  ['of a minute', { trustProxy: () => true }, 60_000, 1],
  ['above a minute', { trustProxy: true }, 60_001, 0],
  ['that never ends', { trustProxy: true }, 0, 0],
  ['that no proxy is in front of', {}, 5_000, 0],
  ['whose proxy is not trusted', { trustProxy: false }, 5_000, 0]
]

for (const [about, options, keepAliveTimeout, warned] of keepAlives) {
  test(`a keep-alive ${about} is warned of ${warned === 0 ? 'never' : 'once, however many mounts there are'}: case 027`, async t => {
    const lines: { readonly level: number, readonly msg: string }[] = []
    const app = createApp(t, { ...options, logger: { stream: { write: (line: string) => { lines.push(JSON.parse(line) as typeof lines[0]) } } } })
    for (const prefix of ['/a', '/b']) await app.register(genMcp, { prefix, server: echo })
    await app.register(async child => { await child.register(genMcp, { server: echo }) }, { prefix: '/v1' })
    if (keepAliveTimeout !== undefined) app.server.keepAliveTimeout = keepAliveTimeout
    await app.ready()
    t.equal(lines.length, warned)
    if (warned > 0) t.match(lines, [{ level: 40, mcp: { option: 'keepAliveTimeout', keepAliveTimeout: app.server.keepAliveTimeout }, msg: /set keepAliveTimeout .* more than the idle timeout of the balancer/ }])
  })
}

test('a server of HTTP/2 has no keep-alive that could be warned of: case 027', async t => {
  const lines: string[] = []
  const app = Fastify({ http2: true, trustProxy: true, logger: { stream: { write: (line: string) => { lines.push(line) } } } })
  t.teardown(async () => await app.close())
  await app.register(genMcp, { server: echo })
  await app.ready()
  t.strictSame(lines, [])
})
