import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import Fastify, { type FastifyInstance, type FastifyServerOptions, type RouteOptions } from 'fastify'
import { test, type Test } from 'tap'
import genMcp, { result, toolResult, type MessageBus } from 'fastify-gen-mcp'
import { call, mount, type MountOptions } from './helpers/mount.js'
import { echo, toolServer } from './helpers/servers.js'
import { gate, openSession, stage, until } from './helpers/sockets.js'

/** What is answered there to a GET, and that it is what a HEAD is answered, but for the body. */
async function healthAt (t: Test, app: FastifyInstance, url: string, headers: Readonly<Record<string, string>> = {}): Promise<readonly [number, unknown]> {
  const [got, head] = [await app.inject({ method: 'GET', url, headers }), await app.inject({ method: 'HEAD', url, headers })]
  t.equal(head.statusCode, got.statusCode)
  t.equal(head.body, '')
  if (got.statusCode === 404) return [404, undefined]
  for (const { headers } of [got, head]) t.match(headers, { 'cache-control': 'no-store', 'content-type': 'application/json; charset=utf-8' })
  return [got.statusCode, got.json()]
}

const OK = [200, { status: 'ok' }] as const
const NONE = [404, undefined] as const

function createApp (t: Test, options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(options)
  t.teardown(async () => await app.close())
  return app
}

// ---- where it is

interface Place extends Pick<MountOptions, 'prefix' | 'path' | 'health'> { readonly scope?: string, readonly urls: readonly string[], readonly not: readonly string[] }

const places: readonly Place[] = [
  { health: '/health', urls: ['/health', '/health/'], not: ['/mcp/health', '/'] },
  { prefix: '/mcp', health: '/health', urls: ['/mcp/health', '/mcp/health/'], not: ['/health', '/'] },
  { prefix: '/mcp', health: '/health/', urls: ['/mcp/health', '/mcp/health/'], not: ['/health'] },
  { prefix: '/api', path: '/mcp', health: '/', urls: ['/api', '/api/'], not: ['/health', '/'] },
  { path: '/agents', health: '/', urls: ['/'], not: ['/health'] },
  { scope: '/v1', health: '/up/now', urls: ['/v1/up/now', '/v1/up/now/'], not: ['/up/now'] },
  { scope: '/v1', prefix: '/api', path: '/mcp', health: '/up', urls: ['/v1/api/up', '/v1/api/up/'], not: ['/up', '/v1/api/mcp/up'] },
  { prefix: '/t/:tenant', health: '/health', urls: ['/t/a/health', '/t/b/health/'], not: ['/health'] }
]

for (const ignoreTrailingSlash of [false, true]) {
  for (const { scope, urls, not, ...options } of places) {
    test(`health with ${JSON.stringify({ scope, ...options, ignoreTrailingSlash })} answers at ${urls[0]}, and nowhere else: case 032`, async t => {
      const app = createApp(t, { routerOptions: { ignoreTrailingSlash } })
      await app.register(async child => { await child.register(genMcp, { ...options, server: echo, legacy: false }) }, scope === undefined ? {} : { prefix: scope })
      await app.ready()
      for (const url of urls) t.strictSame(await healthAt(t, app, url), OK, url)
      for (const url of not) t.strictSame(await healthAt(t, app, url), NONE, url)
      t.equal((await app.inject({ method: 'POST', url: urls[0] ?? '', payload: {} })).statusCode, 404, 'with no other verb')
    })
  }
}

test('without the option there is no such route: case 032', async t => {
  const app = createApp(t)
  const urls: string[] = []
  app.addHook('onRoute', ({ url }) => { urls.push(url) })
  await app.register(genMcp, { server: echo })
  await app.ready()
  t.strictSame([...new Set(urls)], ['/mcp', '/mcp/'])
})

const collisions: readonly (readonly [options: Omit<MountOptions, 'server'>, fastify?: FastifyServerOptions])[] = [
  [{ health: '/mcp' }],
  [{ health: '/mcp/' }],
  [{ path: '/x', health: '/x' }],
  [{ path: '/x/', health: '/x' }],
  [{ path: '/', health: '/' }],
  [{ prefix: '/mcp', health: '/' }],
  [{ prefix: '/mcp', path: '/', health: '/' }],
  [{ prefix: '/api', path: '/mcp', health: '/mcp/' }],
  // Its own routes are found first, and the two would share a path all the same.
  [{ path: '/x', health: '/x', constraints: { host: 'a.example' } }],
  [{ health: '/MCP' }, { routerOptions: { caseSensitive: false } }],
  [{ health: '/MCP' }, { caseSensitive: false }]
]

for (const [options, fastify] of collisions) {
  test(`health with ${JSON.stringify({ ...options, ...fastify })} is the mount's own path, and rejects ready: case 032`, async t => {
    const app = createApp(t, fastify)
    app.register(genMcp, { server: echo, ...options })
    await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BAD_OPTION', message: 'Option health must be another path than that of the mount' })
  })
}

test('paths that differ by case alone are two, where the app says so: case 032', async t => {
  const app = await mount(t, { server: echo, prefix: '', path: '/mcp', health: '/MCP' })
  t.strictSame(await healthAt(t, app, '/MCP'), OK)
  t.equal((await call(app, 'tools/list')).statusCode, 200)
})

// ---- who may ask

test('health is asked without MCP headers, a session, or leave of the mount: no Origin, Host, hook or constraint of it applies: case 032', async t => {
  const ran: string[] = []
  const app = await mount(t, {
    server: echo,
    health: '/health',
    allowedHosts: ['mcp.example'],
    constraints: { host: 'mcp.example' },
    onRequest: async () => { ran.push('onRequest') },
    preHandler: async () => { throw new Error('refused') }
  })
  for (const headers of [{}, { host: '10.0.0.7:8080', origin: 'https://evil.example' }, { 'mcp-session-id': 'x', 'mcp-protocol-version': '1', accept: 'text/html' }]) {
    t.strictSame(await healthAt(t, app, '/mcp/health', headers as Record<string, string>), OK)
  }
  t.strictSame(ran, [])
})

test('hooks of the app run for health, and know it by its config: case 032', async t => {
  const app = createApp(t)
  const ran: unknown[] = []
  app.addHook('onRequest', async (httpRequest, reply) => {
    const { mcp, mcpHealth } = httpRequest.routeOptions.config
    ran.push([mcp, mcpHealth])
    if (mcpHealth !== true && httpRequest.headers.authorization === undefined) return await reply.code(401).send({ who: 'are you' })
    reply.header('cache-control', 'public').header('x-app', 'yes')
  })
  app.setReplySerializer(() => 'the app\'s own')
  app.setErrorHandler((_error, _httpRequest, reply) => { reply.code(418).send('the app\'s own') })
  await app.register(genMcp, { server: echo, health: '/health' })
  await app.ready()
  t.strictSame(await healthAt(t, app, '/health'), OK)
  t.strictSame(ran, [[false, true], [false, true]])
  t.equal((await app.inject('/health')).headers['x-app'], 'yes')
  t.equal((await call(app, 'tools/list')).statusCode, 401)
  t.strictSame(ran.at(-1), [true, undefined])
})

test('a hook of the app that refuses is answered by the app, and not in JSON-RPC: case 032', async t => {
  const app = createApp(t)
  app.addHook('onRequest', async () => { throw Object.assign(new Error('too many'), { statusCode: 429 }) })
  await app.register(genMcp, { server: echo, health: '/health' })
  await app.ready()
  t.match((await app.inject('/health')).json(), { statusCode: 429, message: 'too many' })
})

test('routes of health are hidden from descriptions of the API: case 032', async t => {
  const app = createApp(t)
  const routes: RouteOptions[] = []
  app.addHook('onRoute', route => { routes.push(route) })
  await app.register(genMcp, { server: echo, health: '/health' })
  await app.ready()
  const own = routes.filter(({ url }) => url.startsWith('/health'))
  t.match(own, [{ url: '/health', method: ['GET', 'HEAD'] }, { url: '/health/', method: ['GET', 'HEAD'] }])
  for (const { schema, config } of own) t.match({ schema, config }, { schema: { hide: true }, config: { mcp: false, mcpHealth: true } })
})

test('health logs as its mount does: case 032', async t => {
  // Fastify takes these at each registration, so that they are none of our options by type.
  const logging = { logLevel: 'info', logSerializers: { req: () => 'seen' } }
  for (const [options, own] of [[{}, 1], [logging, 1], [{ logLevel: 'silent' }, 0]] as const) {
    const { app, lines } = await stage(t, echo, { listen: false, health: '/health', ...options })
    t.equal((await app.inject('/mcp/health')).statusCode, 200)
    const seen = lines.filter(({ msg }) => msg === 'incoming request')
    t.equal(seen.length, own)
    if ('logSerializers' in options) t.match(seen, [{ req: 'seen' }])
  }
})

test('health is answered over HTTP/2 too: case 032', async t => {
  const { port } = await stage(t, echo, { health: '/health', fastify: { http2: true } })
  const session = await openSession(t, `http://127.0.0.1:${port}`)
  for (const [method, body] of [['GET', '{"status":"ok"}'], ['HEAD', '']] as const) {
    const stream = session.request({ ':path': '/mcp/health', ':method': method })
    const [head] = await once(stream, 'response') as [Record<string, unknown>]
    t.equal(head[':status'], 200)
    t.equal(await text(stream), body)
  }
})

// ---- what it says

test('health says that a bus is down, for as long as it is: case 032', async t => {
  let delivers = true
  const listeners = new Set<Parameters<MessageBus['on']>[1]>()
  const bus: MessageBus = {
    on: (_topic, listener) => listeners.add(listener),
    removeListener: (_topic, listener) => { listeners.delete(listener) },
    emit: packet => { if (delivers) for (const listener of listeners) listener(packet, () => {}) }
  }
  const app = createApp(t)
  const busProbe = { timeout: 40, interval: 5 }
  await app.register(genMcp, { prefix: '/a', server: { ...echo, buses: [bus] }, health: '/health', busProbe })
  await app.register(genMcp, { prefix: '/b', server: echo, health: '/health', busProbe })
  await app.ready()
  const [a, b] = app.mcp.mounts
  t.strictSame(await healthAt(t, app, '/a/health'), OK)
  delivers = false
  await until(() => a?.gauges().busesDown === 1)
  t.strictSame(await healthAt(t, app, '/a/health'), [503, { status: 'busDown' }])
  t.strictSame(await healthAt(t, app, '/b/health'), OK, 'a mount is as well as its own buses')
  t.equal(b?.gauges().busesDown, 0)
  delivers = true
  await until(() => a?.gauges().busesDown === 0)
  t.strictSame(await healthAt(t, app, '/a/health'), OK)
})

interface Answer { readonly status: number | undefined, readonly body: string, readonly headers: IncomingMessage['headers'], readonly reused: boolean }

for (const return503OnClosing of [true, false]) {
  test(`while the app closes, health is answered 503 over old connections and new ones, with return503OnClosing ${return503OnClosing}: case 032`, async t => {
    const [running, release] = [gate(), gate()]
    const server = toolServer(async () => {
      running.open()
      await release.promise
      return result(toolResult.text('done'))
    })
    const { app, port } = await stage(t, server, { health: '/health', fastify: { return503OnClosing }, limits: { drain: 9_000 } })
    const agents = [1, 2].map(() => new Agent({ keepAlive: true, maxSockets: 1 }))
    t.teardown(() => { for (const agent of agents) agent.destroy() })
    const ask = async (method: string, agent: Agent | undefined): Promise<Answer> => {
      const sent = request({ port, host: '127.0.0.1', path: '/mcp/health', method, agent }).end()
      const [response] = await once(sent, 'response') as [IncomingMessage]
      return { status: response.statusCode, body: await text(response), headers: response.headers, reused: sent.reusedSocket }
    }
    for (const agent of agents) t.match(await ask('GET', agent), { status: 200, body: '{"status":"ok"}' })

    const answer = call(app, 'tools/call', { name: 'x', arguments: {} })
    await running.promise
    const closed = app.close()
    // A shutdown begins in a later turn than close() is called. The answer is that of a connection of its own.
    while ((await ask('GET', undefined)).status !== 503);
    const [first, second] = agents
    const answers = [await ask('GET', first), await ask('HEAD', second), await ask('GET', undefined), await ask('HEAD', undefined)]
    t.strictSame(answers.map(({ status }) => status), [503, 503, 503, 503])
    t.strictSame(answers.map(({ reused }) => reused), [true, true, false, false])
    const body = return503OnClosing ? '{"error":"Service Unavailable","message":"Service Unavailable","statusCode":503}' : '{"status":"draining"}'
    t.strictSame(answers.map(({ body }) => body), [body, '', body, ''])
    for (const { headers } of answers) t.equal(headers.connection, 'close', 'and whoever asked comes back over another connection')
    if (!return503OnClosing) for (const { headers } of answers) t.equal(headers['cache-control'], 'no-store')
    release.open()
    t.equal((await answer).statusCode, 200)
    await closed
    await t.rejects(ask('GET', undefined), { code: 'ECONNREFUSED' })
  })
}
