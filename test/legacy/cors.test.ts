import cors, { type FastifyCorsOptions } from '@fastify/cors'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import Fastify from 'fastify'
import { test, type Test } from 'tap'
import genMcp from 'fastify-gen-mcp'
import { call } from '../helpers/mount.js'
import { isStream } from '../helpers/messages.js'
import { refused } from '../helpers/refusal.js'
import { stage, until, type Stage, type StageOptions } from '../helpers/sockets.js'
import { createInteropServer } from '../interop/server.js'
import { open, readStream, send, VERSIONS } from './helpers.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'

const BOUND = { timeout: 30_000 }
const ORIGIN = 'https://app.example.com'
/** What a page may read of each answer. */
const exposedHeaders = ['mcp-session-id', 'www-authenticate', 'retry-after']
/** What the README says. Headers that a request may have are left to the plugin, which allows those that are asked for. */
const settings: FastifyCorsOptions = { origin: [ORIGIN], methods: ['GET', 'POST', 'DELETE'], exposedHeaders }
const asked = [
  'authorization', 'content-type', 'accept', 'mcp-session-id', 'mcp-protocol-version', 'last-event-id', 'mcp-method', 'mcp-name', 'mcp-param-region'
]

type Order = 'before' | 'after'

async function setUp (t: Test, { order = 'before', ...options }: StageOptions & { readonly order?: Order } = {}): Promise<Stage & ReturnType<typeof createInteropServer>> {
  const interop = createInteropServer()
  const subject = await stage(t, interop.suite, {
    fastify: { forceCloseConnections: true },
    allowedOrigins: [ORIGIN],
    [order]: async (app: FastifyInstance) => { await app.register(cors, settings) },
    ...options
  })
  return { ...interop, ...subject }
}

async function preflight (app: FastifyInstance, method: string, origin = ORIGIN, url = '/mcp'): Promise<LightMyRequestResponse> {
  const headers = { origin, 'access-control-request-method': method, 'access-control-request-headers': asked.join(', ') }
  return await app.inject({ method: 'OPTIONS', url, headers })
}

function list (header: unknown): string[] {
  return String(header).toLowerCase().split(',').map(name => name.trim())
}

for (const order of ['before', 'after'] as const) {
  test(`a preflight that names every header and method of either era is allowed, and nobody is asked who it is: registered ${order} the mount: cases 054, 056`, async t => {
    let checked = 0
    const { app } = await setUp(t, {
      order,
      listen: false,
      onRequest (_httpRequest, reply) {
        checked++
        reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'who are you?' })
      }
    })
    for (const method of ['GET', 'POST', 'DELETE']) {
      for (const url of ['/mcp', '/mcp/']) {
        const { statusCode, headers, body } = await preflight(app, method, ORIGIN, url)
        t.equal(statusCode, 204, `${method} ${url}`)
        t.equal(body, '')
        t.equal(headers['access-control-allow-origin'], ORIGIN)
        t.ok(list(headers['access-control-allow-methods']).includes(method.toLowerCase()))
        t.strictSame(asked.filter(name => !list(headers['access-control-allow-headers']).includes(name)), [])
      }
    }
    t.equal(checked, 0, 'case 054')
    const refusal = await send(app, {}, { origin: ORIGIN })
    t.equal(refusal.statusCode, 401)
    t.equal(checked, 1)
    t.equal(refusal.headers['access-control-allow-origin'], ORIGIN, 'which the page may read')
    t.ok(list(refusal.headers['access-control-expose-headers']).includes('www-authenticate'), 'case 055')
  })
}

test('in a scope of its own @fastify/cors is for the mount alone', async t => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.get('/health', () => ({ ok: true }))
  await app.register(async scope => {
    await scope.register(cors, settings)
    await scope.register(genMcp, { server: createInteropServer().suite, allowedOrigins: [ORIGIN] })
  })
  t.equal((await preflight(app, 'POST')).statusCode, 204)
  t.equal((await call(app, 'tools/list', {}, { headers: { origin: ORIGIN } })).headers['access-control-allow-origin'], ORIGIN)
  t.notOk('access-control-allow-origin' in (await app.inject({ url: '/health', headers: { origin: ORIGIN } })).headers)
})

test('without @fastify/cors a preflight is refused like any other verb', async t => {
  const { app } = await stage(t, createInteropServer().suite, { listen: false, allowedOrigins: [ORIGIN] })
  const response = await preflight(app, 'POST')
  refused(t, response, { status: 405, code: -32600 })
  t.equal(response.headers.allow, 'POST, GET, DELETE')
  t.notOk('access-control-allow-origin' in response.headers)
})

test('a page of another origin gets no leave, and no answer: ORG-01', async t => {
  const { app } = await setUp(t, { listen: false })
  const stranger = 'https://evil.example.net'
  t.not((await preflight(app, 'POST', stranger)).headers['access-control-allow-origin'], stranger)
  const session = await open(app)
  for (const method of ['POST', 'GET', 'DELETE'] as const) {
    const response = await app.inject({ method, url: '/mcp', headers: { ...session.headers, origin: stranger }, ...(method === 'POST' && { payload: {} }) })
    refused(t, response, { status: 403, code: -32600 }, method)
  }
  t.equal((await session.request('ping')).statusCode, 200)
})

/** Checks that a page may read an answer, and the headers that it needs. */
function readable (t: Test, { headers }: Pick<LightMyRequestResponse, 'headers'>, name: string): void {
  t.equal(headers['access-control-allow-origin'], ORIGIN, name)
  t.strictSame(exposedHeaders.filter(exposed => !list(headers['access-control-expose-headers']).includes(exposed)), [], name)
}

test('what a page needs is exposed on answers themselves, JSON and streams of both eras: case 055', BOUND, async t => {
  const { app, port } = await setUp(t)
  const own = { origin: ORIGIN }
  for (const version of VERSIONS) {
    const session = await open(app, version, { headers: own })
    t.ok(session.id)
    readable(t, session.opened, `${version}: initialize`)
    t.notOk(isStream(session.opened))
    const json = await session.request('tools/list')
    t.notOk(isStream(json))
    readable(t, json, `${version}: JSON`)
    const stream = await session.request('tools/call', { name: 'count', arguments: {}, _meta: { progressToken: 1 } })
    t.ok(isStream(stream))
    readable(t, stream, `${version}: a stream`)
    readable(t, await session.notify('notifications/progress'), `${version}: 202`)
    readable(t, await session.request('no/such'), `${version}: an error`)
    readable(t, await send(app, {}, { ...session.headers, 'mcp-session-id': 'unknown' }), `${version}: a refusal`)
    const { response } = await readStream(t, port, session)
    t.equal(response.statusCode, 200)
    readable(t, response, `${version}: GET`)
    readable(t, await session.delete(), `${version}: DELETE`)
  }
  const json = await call(app, 'tools/list', {}, { headers: own })
  t.notOk(isStream(json))
  readable(t, json, 'JSON')
  const stream = await call(app, 'tools/call', { name: 'count', arguments: {} }, { headers: own, meta: { progressToken: 1 } })
  t.ok(isStream(stream))
  readable(t, stream, 'a stream')
  readable(t, await call(app, 'no/such', {}, { headers: own }), 'an error')
})

// ---- official clients, held to what a browser holds them to

const SAFE_REQUEST = new Set(['accept', 'accept-language', 'content-language'])
const SAFE_RESPONSE = new Set(['cache-control', 'content-language', 'content-length', 'content-type', 'expires', 'last-modified', 'pragma'])

/** What fetch is to a page of ORIGIN: asks before, and shows of an answer what the server exposes (Fetch Standard, CORS protocol). */
function createPageFetch (preflights: string[]): (url: string | URL, init?: RequestInit) => Promise<Response> {
  return async (url, init = {}) => {
    const method = init.method ?? 'GET'
    const headers = new Headers(init.headers)
    const unsafe = [...headers.keys()].filter(name => !SAFE_REQUEST.has(name)).sort()
    if (unsafe.length > 0 || !['GET', 'HEAD', 'POST'].includes(method)) {
      preflights.push(`${method} ${unsafe.join()}`)
      const leave = await fetch(url, { method: 'OPTIONS', headers: { origin: ORIGIN, 'access-control-request-method': method, 'access-control-request-headers': unsafe.join() } })
      await leave.arrayBuffer()
      if (!leave.ok || !mayRead(leave)) throw new TypeError(`Failed to fetch: the preflight of ${method} was answered ${leave.status}`)
      if (method === 'DELETE' && !list(leave.headers.get('access-control-allow-methods')).includes('delete')) throw new TypeError('Failed to fetch: DELETE is not allowed')
      const denied = unsafe.filter(name => !list(leave.headers.get('access-control-allow-headers')).includes(name))
      if (denied.length > 0) throw new TypeError(`Failed to fetch: ${denied.join()} is not allowed`)
    }
    headers.set('origin', ORIGIN)
    const response = await fetch(url, { ...init, headers })
    if (!mayRead(response)) throw new TypeError('Failed to fetch: the page may not read the answer')
    const exposed = new Set(list(response.headers.get('access-control-expose-headers')))
    const { body, status, statusText } = response
    return new Response(body, { status, statusText, headers: [...response.headers].filter(([name]) => SAFE_RESPONSE.has(name) || exposed.has(name)) })
  }
}

function mayRead ({ headers }: Response): boolean {
  return headers.get('access-control-allow-origin') === ORIGIN
}

test('the client of the first generation works in a page: handshake, call, stream, GET, end: cases 055, 056', BOUND, async t => {
  const { port, gauges } = await setUp(t)
  const preflights: string[] = []
  const transport = new TransportV1(new URL(`http://127.0.0.1:${port}/mcp`), { fetch: createPageFetch(preflights) })
  const client = new ClientV1({ name: 'v1', version: '1.0.0' })
  t.teardown(async () => { await client.close() })
  // Its own types do not go together under exactOptionalPropertyTypes.
  await client.connect(transport as Transport)
  t.ok(transport.sessionId)
  t.ok((await client.listTools()).tools.length > 0)
  const seen: number[] = []
  await client.callTool({ name: 'count' }, undefined, { onprogress: ({ progress }) => { seen.push(progress) } })
  t.strictSame(seen, [1, 2])
  await until(() => gauges().listens === 1)
  await transport.terminateSession()
  await until(() => gauges().exchanges === 0)
  t.match(preflights, [
    'POST content-type', 'POST content-type,mcp-protocol-version,mcp-session-id', /mcp-session-id$/, /mcp-session-id$/, /mcp-session-id$/,
    'DELETE mcp-protocol-version,mcp-session-id'
  ])
})

test('a page that is not shown the session id gets no further than the handshake', BOUND, async t => {
  const { port } = await setUp(t, { before: async app => { await app.register(cors, { origin: [ORIGIN], methods: ['GET', 'POST', 'DELETE'] }) } })
  const transport = new TransportV1(new URL(`http://127.0.0.1:${port}/mcp`), { fetch: createPageFetch([]) })
  const client = new ClientV1({ name: 'v1', version: '1.0.0' })
  t.teardown(async () => { await client.close() })
  await t.rejects(client.connect(transport as Transport).then(async () => await client.listTools()), { message: /Mcp-Session-Id is missing/ })
})

test('the client of the second generation works in a page: call and listen of the current revision: case 056', BOUND, async t => {
  const { port, changes, gauges } = await setUp(t)
  const preflights: string[] = []
  const client = new Client({ name: 'v2', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  t.teardown(async () => { await client.close() })
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), { fetch: createPageFetch(preflights) }))
  t.equal(client.getNegotiatedProtocolVersion(), '2026-07-28')
  t.ok((await client.listTools()).tools.length > 0)
  t.match(await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }), { structuredContent: { sum: 3 } })
  const changed = new Promise<void>(resolve => { client.setNotificationHandler('notifications/tools/list_changed', () => { resolve() }) })
  const subscription = await client.listen({ toolsListChanged: true })
  changes.toolsChanged()
  await changed
  await subscription.close()
  await until(() => gauges().listens === 0)
  t.ok(preflights.includes('POST content-type,mcp-method,mcp-name,mcp-protocol-version'))
})
