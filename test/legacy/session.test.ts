import { setTimeout as sleep } from 'node:timers/promises'
import { test, type Test } from 'tap'
import { defineServer, listToolsResult, result, toolResult, type JsonObject } from 'fastify-gen-mcp'
import { sealedSessions, sessionControllerTests, type LegacyOptions, type Session, type SessionController } from 'fastify-gen-mcp/legacy'
import { mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { echo, info } from '../helpers/servers.js'
import { stage } from '../helpers/sockets.js'
import { initializeParams, open, send, VERSIONS, type LegacySession } from './helpers.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Message } from '../helpers/messages.js'

const SECRETS = ['a secret of at least thirty-two characters'] as const
const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams() }
const list = (id = 1) => ({ jsonrpc: '2.0', id, method: 'tools/list' })
const httpRequest = { headers: {} } as FastifyRequest
const someone: Session = { protocolVersion: '2025-11-25', clientInfo: { name: 'c', version: '1' }, clientCapabilities: {}, principal: undefined }

/** Answers `tools/call` with what it knows of the session. */
const knowing = defineServer({
  info,
  capabilities: { tools: {}, logging: {}, resources: { subscribe: true } },
  handleRequest: {
    'tools/list': () => result(listToolsResult([])),
    'tools/call': ({ meta: { protocolVersion, clientInfo, clientCapabilities, logLevel } }) => result(toolResult.data({ protocolVersion, clientInfo, clientCapabilities, logLevel }))
  }
})

interface Kept extends SessionController { readonly sessions: Map<string, Session> }

/** What an operator would write over a store of theirs, which is 20 ms away. */
function mapController (latency = 20): Kept {
  const sessions = new Map<string, Session>()
  const wait = async (): Promise<void> => { await sleep(latency) }
  return {
    sessions,
    async create (session) {
      await wait()
      const id = crypto.randomUUID()
      sessions.set(id, session)
      return id
    },
    async fetch (id) {
      await wait()
      return sessions.get(id)
    },
    async update (id, session) {
      await wait()
      if (sessions.has(id)) sessions.set(id, session)
    },
    async delete (id) {
      await wait()
      sessions.delete(id)
    }
  }
}

async function knownOf (session: LegacySession): Promise<JsonObject | undefined> {
  return (await session.request('tools/call', { name: 'x' })).json<Message>().result?.['structuredContent'] as JsonObject | undefined
}

function isGone (t: Test, response: Awaited<ReturnType<LegacySession['request']>>, about: string): void {
  t.match(refused(t, response, { status: 404, code: -32600, ...(response.body.includes('"id"') && { id: 1 }) }, about).message, /initialize/, about)
}

// ---- ids

test('the id of a session comes with the answer to initialize, of visible ASCII, and no two are alike: LEG-16, LEG-17, LEG-18', async t => {
  const app = await mount(t, { server: echo, secrets: SECRETS })
  const ids = await Promise.all(Array.from({ length: 200 }, async () => (await open(app)).id))
  t.equal(new Set(ids).size, 200)
  for (const id of ids) t.match(id, /^[\x21-\x7E]{22,4096}$/)
  t.notOk('mcp-session-id' in (await (await open(app)).request('tools/list')).headers, 'it is said once')
})

test('the id stays small enough for a header, whatever a client says of itself', async t => {
  const much = 'ð'.repeat(10_000)
  const capabilities = { elicitation: { url: {}, more: much }, sampling: { tools: {}, more: much }, roots: { more: much }, experimental: { more: { much } }, extensions: { 'a/b': { much } } }
  for (const [name, declared] of Object.entries({ ...capabilities, all: undefined })) {
    const app = await mount(t, { server: knowing })
    const params = { protocolVersion: '2025-11-25', capabilities: declared === undefined ? capabilities : { [name]: declared }, clientInfo: { name: much, version: much, title: much } }
    const opened = await send(app, { ...initialize, params })
    const id = String(opened.headers['mcp-session-id'])
    t.ok(id.length <= 4096, `${name}: ${id.length}`)
    const { result } = (await send(app, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }, { 'mcp-session-id': id })).json<Message>()
    const { clientInfo, clientCapabilities } = result?.['structuredContent'] as { clientInfo: { name: string }, clientCapabilities: object }
    t.ok(much.startsWith(clientInfo.name) && clientInfo.name.length >= 50, name)
    t.strictSame(Object.keys(clientCapabilities), ['elicitation', 'sampling', 'roots'].filter(kind => name === 'all' || name === kind), `${name}: the kinds are kept`)
  }
  const app = await mount(t, { server: knowing })
  const session = await open(app, '2025-11-25', { capabilities: { experimental: { a: {} }, extensions: { 'a/b': { c: 1 } }, elicitation: { url: {} }, sampling: { tools: {} } } })
  t.match(await knownOf(session), { clientCapabilities: { experimental: { a: {} }, extensions: { 'a/b': { c: 1 } }, elicitation: { url: {} }, sampling: { tools: {} } } }, 'what is small is whole')
})

test('a controller that gives no id of visible ASCII is a crash, logged, and no header of it is sent: LEG-17', async t => {
  for (const id of ['', 'with space', 'é', 'a\nb', undefined as unknown as string]) {
    const { app, lines } = await stage(t, echo, { listen: false, legacy: { sessions: { create: () => id, fetch: () => undefined } } })
    const response = await send(app, initialize)
    t.equal(response.statusCode, 500, JSON.stringify(id))
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 0, error: { code: -32603, message: 'Internal error' } })
    t.notOk('mcp-session-id' in response.headers)
    t.equal(lines.filter(({ level }) => level >= 50).length, 1, 'logged once')
  }
})

test('the header of a session is read in any case: LEG-29', async t => {
  const { app, port } = await stage(t, echo)
  const session = await open(app)
  for (const name of ['Mcp-Session-Id', 'MCP-Session-Id', 'mcp-session-id', 'MCP-SESSION-ID']) {
    const response = await fetch(`http://127.0.0.1:${port}/mcp`, {
      method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', [name]: String(session.id) }, body: JSON.stringify(list())
    })
    t.equal(response.status, 200, name)
  }
})

// ---- which requests belong to one

test('without the id of a session all but initialize is 400, and an empty one is none: LEG-10, LEG-19', async t => {
  const app = await mount(t, { server: echo })
  for (const headers of [{ 'mcp-protocol-version': '2025-11-25' }, { 'mcp-session-id': '' }]) {
    for (const body of [list(), { jsonrpc: '2.0', id: 1, method: 'ping' }, { jsonrpc: '2.0', id: 1, result: {} }]) {
      t.match(refused(t, await send(app, body, headers), { status: 400, code: -32600, id: 1 }).message, /Mcp-Session-Id/)
    }
    const notification = await send(app, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, headers)
    refused(t, notification, { status: 400, code: -32600 }, 'a notification that is of this era')
    for (const method of ['GET', 'DELETE'] as const) {
      refused(t, await app.inject({ method, url: '/mcp', headers: { ...headers, accept: 'text/event-stream' } }), { status: 400, code: -32600 }, method)
    }
  }
})

test('an id that is unknown or expired is 404, with a body that says what to do: LEG-20, LEG-26, case 002', async t => {
  const app = await mount(t, { server: echo, secrets: SECRETS })
  const other = await open(await mount(t, { server: echo, secrets: ['another secret of thirty-two characters'] }))
  const short = await mount(t, { server: echo, secrets: SECRETS, legacy: { sessions: sealedSessions({ maxAge: 0 }) } })
  const expired = await send(short, initialize)
  for (const id of ['made-up', crypto.randomUUID(), String(other.id), String(expired.headers['mcp-session-id']), '__proto__', 'x'.repeat(5_000)]) {
    const headers = { 'mcp-session-id': id }
    isGone(t, await send(app, list(), headers), `POST ${id.slice(0, 20)}`)
    isGone(t, await send(app, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers), `a notification ${id.slice(0, 20)}`)
    for (const method of ['GET', 'DELETE'] as const) isGone(t, await app.inject({ method, url: '/mcp', headers: { ...headers, accept: 'text/event-stream' } }), `${method} ${id.slice(0, 20)}`)
  }
})

test('a sealed session lasts as long as it was given: LEG-26', async t => {
  let now = Date.now()
  t.intercept(Date, 'now', { value: () => now })
  const app = await mount(t, { server: echo })
  const session = await open(app)
  now += 86_400_000 - 1
  t.equal((await session.request('tools/list')).statusCode, 200)
  now++
  isGone(t, await session.request('tools/list'), 'after a day')
})

test('DELETE ends a session, and it stays ended: LEG-20, LEG-22, case 001', async t => {
  const app = await mount(t, { server: echo })
  const [session, other] = [await open(app), await open(app)]
  const deleted = await session.delete()
  t.equal(deleted.statusCode, 204)
  t.equal(deleted.body, '')
  isGone(t, await session.request('tools/list'), 'POST')
  isGone(t, await session.delete(), 'DELETE')
  isGone(t, await app.inject({ method: 'GET', url: '/mcp', headers: { ...session.headers, accept: 'text/event-stream' } }), 'GET')
  t.equal((await other.request('tools/list')).statusCode, 200, 'another one lives on')
})

test('DELETE is 405 where the controller cannot, and says what is served: LEG-23', async t => {
  const { create, fetch } = mapController()
  const app = await mount(t, { server: echo, legacy: { sessions: { create, fetch } } })
  const session = await open(app)
  const response = await session.delete()
  refused(t, response, { status: 405, code: -32600 })
  t.equal(response.headers['allow'], 'POST, GET')
  t.equal((await session.request('tools/list')).statusCode, 200)
})

test('nothing else in a session that lives is 404: LEG-21', async t => {
  const app = await mount(t, { server: knowing })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const [method, params] of [['no/such', {}], ['prompts/list', {}], ['resources/subscribe', {}], ['tools/call', {}], ['tools/list', { cursor: 5 }]] as const) {
      const response = await session.request(method, params)
      t.equal(response.statusCode, 200, `${version}, ${method}`)
      t.ok('error' in response.json<object>(), `${version}, ${method}`)
    }
  }
})

// ---- whose it is

const principals = { principal: ({ headers }: FastifyRequest) => headers['x-user'] as string | undefined }

test('a session is of whoever opened it, for anybody else it is not there: LEG-25, LEG-20, case 049', async t => {
  for (const legacy of [true, { sessions: mapController() }] satisfies (true | LegacyOptions)[]) {
    const about = legacy === true ? 'sealed' : 'kept'
    const app = await mount(t, { server: echo, secrets: SECRETS, ...principals, legacy })
    const alice = await open(app, '2025-11-25', { headers: { 'x-user': 'alice' } })
    const nobody = await open(app)
    for (const [session, user] of [[alice, 'bob'], [alice, undefined], [nobody, 'bob']] as const) {
      const { 'x-user': _, ...headers } = session.headers
      const theirs = { ...headers, ...(user !== undefined && { 'x-user': user }) }
      const unknown = await send(app, list(), { 'mcp-session-id': 'made-up', ...(user !== undefined && { 'x-user': user }) })
      const post = await send(app, list(), theirs)
      t.strictSame(post.json(), unknown.json(), `${about}: the same words as for an id that is none`)
      isGone(t, post, `${about}: POST`)
      isGone(t, await send(app, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, theirs), `${about}: a notification`)
      for (const method of ['GET', 'DELETE'] as const) isGone(t, await app.inject({ method, url: '/mcp', headers: { ...theirs, accept: 'text/event-stream' } }), `${about}: ${method}`)
    }
    for (const session of [alice, nobody]) t.equal((await session.request('tools/list')).statusCode, 200, `${about}: its owner goes on`)
    const bob = await send(app, initialize, { 'x-user': 'bob', 'mcp-session-id': String(alice.id) })
    t.equal(bob.statusCode, 200, `${about}: and another may open one beside it`)
    t.not(bob.headers['mcp-session-id'], alice.id)
  }
})

test('a session is no ticket: each request passes the hooks of the app, and their 401 keeps its headers: LEG-24, LEG-88', async t => {
  const challenge = 'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"'
  const { app } = await stage(t, echo, {
    listen: false,
    before: app => app.addHook('onRequest', async ({ headers }) => {
      if (headers.authorization !== 'Bearer good') throw Object.assign(new Error('No token'), { statusCode: 401, headers: { 'www-authenticate': challenge } })
    })
  })
  const session = await open(app, '2025-06-18', { headers: { authorization: 'Bearer good' } })
  for (const authorization of ['Bearer bad', '']) {
    const post = await session.request('tools/list', {}, { headers: { authorization } })
    const { authorization: _, ...headers } = session.headers
    const get = await app.inject({ method: 'GET', url: '/mcp', headers: { ...headers, authorization, accept: 'text/event-stream' } })
    for (const response of [post, get, await session.delete({ authorization })]) {
      t.equal(response.statusCode, 401)
      t.equal(response.headers['www-authenticate'], challenge)
    }
  }
  t.equal((await session.request('tools/list')).statusCode, 200, 'its owner goes on')
})

test('an Origin that is not allowed is 403 on every verb, in a session or not: LEG-87', async t => {
  const app = await mount(t, { server: echo, allowedOrigins: ['https://good.example'] })
  const session = await open(app, '2025-03-26', { headers: { origin: 'https://good.example' } })
  const evil = { ...session.headers, origin: 'https://evil.example', accept: 'text/event-stream' }
  refused(t, await send(app, initialize, { origin: 'https://evil.example' }), { status: 403, code: -32600 }, 'initialize')
  refused(t, await session.request('tools/list', {}, { headers: { origin: 'https://evil.example' } }), { status: 403, code: -32600 }, 'POST')
  for (const method of ['GET', 'DELETE'] as const) refused(t, await app.inject({ method, url: '/mcp', headers: evil }), { status: 403, code: -32600 }, method)
  t.equal((await session.request('tools/list')).statusCode, 200)
})

// ---- replicas and restarts

test('any replica with the same secrets serves a session, and a restart ends none: case 001, case 002', async t => {
  const replica = async (): Promise<FastifyInstance> => await mount(t, { server: knowing, secrets: SECRETS })
  const first = await replica()
  const session = await open(first, '2025-06-18', { capabilities: { roots: { listChanged: true } } })
  await first.close()

  const second = await replica()
  const response = await send(second, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }, { 'mcp-session-id': String(session.id) })
  t.equal(response.statusCode, 200)
  t.match(response.json(), {
    result: { structuredContent: { protocolVersion: '2025-06-18', clientInfo: { name: 'client', version: '1.0.0' }, clientCapabilities: { roots: { listChanged: true } } } }
  }, 'what was agreed on is known')

  const rotated = await mount(t, { server: knowing, secrets: ['the next secret of thirty-two characters', ...SECRETS] })
  t.equal((await send(rotated, list(), session.headers)).statusCode, 200, 'with a new secret before the old one')
})

test('with a random secret a restart ends all sessions, with the answer that makes clients open another: case 002', async t => {
  const { app: first, lines } = await stage(t, echo, { listen: false })
  const session = await open(first)
  t.equal(lines.filter(({ level, msg }) => level === 40 && /random secret/.test(msg)).length, 1, 'that this will be so was said')
  await first.close()
  isGone(t, await send(await mount(t, { server: echo }), list(), session.headers), 'after a restart')
})

// ---- controllers

for (const { name, run } of sessionControllerTests(() => mapController())) test(`a Map that is 20 ms away ${name}: case 003`, async () => { await run() })
for (const { name, run } of sessionControllerTests(() => sealedSessions())) test(`sealedSessions ${name}: case 003`, async () => { await run() })

test('a controller that is broken in one way fails the tests that are about it, and no other: case 003', async t => {
  const good = (): Kept => mapController(0)
  const broken: Readonly<Record<string, readonly [make: () => SessionController, fails: readonly string[]]>> = {
    forgetful: [() => ({ ...good(), fetch: () => undefined }), ['gives back', 'keeps sessions apart', 'keeps a log level', 'knows a session no more']],
    'that shortens': [() => {
      const { fetch, ...rest } = good()
      return { ...rest, fetch: async (id, httpRequest) => { const session = await fetch(id, httpRequest); return session && { ...session, clientCapabilities: {} } } }
    }, ['gives back']],
    'that shows everybody the last one': [() => {
      const { sessions, ...rest } = good()
      return { ...rest, fetch: async () => await sleep(1, [...sessions.values()].at(-1)) }
    }, ['knows no id', 'keeps sessions apart', 'knows a session no more']],
    'that counts': [() => {
      const { create: _, ...rest } = good()
      let count = 0
      return { ...rest, async create (session) { rest.sessions.set(String(++count), session); return String(count) } }
    }, ['gives ids of visible']],
    'with spaces in its ids': [() => {
      const { create, ...rest } = good()
      return { ...rest, async create (session) { const id = `session ${crypto.randomUUID()}`; rest.sessions.set(id, session); return id } }
    }, ['gives ids of visible']],
    'of one id for all': [() => {
      const { create, ...rest } = good()
      return { ...rest, create (session) { rest.sessions.set('0123456789abcdef0123456789abcdef', session); return '0123456789abcdef0123456789abcdef' } }
    }, ['gives each session', 'keeps sessions apart', 'knows a session no more']],
    'that takes a beginning for the whole': [() => {
      const { sessions, ...rest } = good()
      return { ...rest, fetch: id => id === '' ? undefined : [...sessions].find(([key]) => key.startsWith(id))?.[1] }
    }, ['knows no id']],
    'that rejects what it does not know': [() => {
      const { sessions, ...rest } = good()
      return { ...rest, fetch: async id => sessions.get(id) ?? await Promise.reject(new Error('unknown')) }
    }, ['knows no id', 'knows a session no more']],
    'with an object for a map': [() => {
      const sessions: Record<string, Session> = {}
      return { create (session) { const id = crypto.randomUUID(); sessions[id] = session; return id }, fetch: id => sessions[id] }
    }, ['knows no id']],
    'whose delete does nothing': [() => ({ ...good(), delete () {} }), ['knows a session no more']],
    'whose delete takes all': [() => {
      const { sessions, ...rest } = good()
      return { ...rest, delete: () => { sessions.clear() } }
    }, ['knows a session no more']],
    'whose delete fails the second time': [() => {
      const { sessions, ...rest } = good()
      return { ...rest, async delete (id) { if (!sessions.delete(id)) throw new Error('unknown') } }
    }, ['knows a session no more']],
    'whose update does nothing': [() => ({ ...good(), update () {} }), ['keeps a log level']],
    'that gives a session once': [() => {
      const { sessions, ...rest } = good()
      const seen = new Set<string>()
      return { ...rest, fetch: id => seen.size === seen.add(id).size ? undefined : sessions.get(id) }
    }, ['answers two requests']]
  }
  for (const [name, [make, fails]] of Object.entries(broken)) {
    const failed: string[] = []
    for (const { name: test, run } of sessionControllerTests(make)) await run().catch(() => { failed.push(test) })
    t.strictSame(failed.filter(test => !fails.some(beginning => test.startsWith(beginning))), [], `a controller ${name}: no other fails`)
    t.strictSame(fails.filter(beginning => !failed.some(test => test.startsWith(beginning))), [], `a controller ${name}: each of these fails`)
  }
})

test('a controller without update and delete passes: they may be left out', async t => {
  for (const { name, run } of sessionControllerTests(() => { const { create, fetch } = mapController(); return { create, fetch } })) await t.resolves(run(), name)
})

test('a session of a store lives through requests at once, a log level, subscriptions, a restart and its end: case 003, case 001, case 002', async t => {
  const controller = mapController()
  const replica = async (): Promise<FastifyInstance> => await mount(t, { server: knowing, legacy: { sessions: controller } })
  const [first, second] = [await replica(), await replica()]
  const session = await open(first, '2025-06-18')
  const both = await Promise.all([session.request('tools/call', { name: 'x' }, { id: 1 }), session.request('tools/list', {}, { id: 2 })])
  t.strictSame(both.map(response => [response.statusCode, response.json<Message>().id]), [[200, 1], [200, 2]])

  const changes = await Promise.all([
    session.request('logging/setLevel', { level: 'error' }, { id: 3 }),
    ...['a', 'b', 'c'].map(async (uri, index) => await session.request('resources/subscribe', { uri: `test://${uri}` }, { id: 4 + index }))
  ])
  for (const change of changes) t.strictSame(change.json<Message>().result, {})
  t.strictSame(controller.sessions.get(String(session.id)), {
    protocolVersion: '2025-06-18',
    clientInfo: { name: 'client', version: '1.0.0' },
    clientCapabilities: {},
    principal: undefined,
    logLevel: 'error',
    resourceSubscriptions: ['test://a', 'test://b', 'test://c']
  }, 'no change undoes another')
  t.equal((await knownOf(session))?.['logLevel'], 'error')
  await Promise.all([session.request('resources/unsubscribe', { uri: 'test://a' }), session.request('resources/unsubscribe', { uri: 'test://c' })])
  t.strictSame(controller.sessions.get(String(session.id))?.resourceSubscriptions, ['test://b'])

  const elsewhere = await send(second, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }, session.headers)
  t.match(elsewhere.json(), { result: { structuredContent: { protocolVersion: '2025-06-18', logLevel: 'error' } } }, 'another replica knows it all')
  await first.close()
  const restarted = await replica()
  t.match((await send(restarted, list(), session.headers)).json(), { result: { tools: [] } }, 'and so does the next process')
  t.equal((await second.inject({ method: 'DELETE', url: '/mcp', headers: session.headers })).statusCode, 204)
  isGone(t, await send(restarted, list(), session.headers), 'where it ends, it ends for all')
})

test('a change that a store does not take is a crash, and the ones after it are made', async t => {
  const controller = mapController()
  let fails = 2
  const { app, lines } = await stage(t, knowing, {
    listen: false,
    legacy: {
      sessions: {
        ...controller,
        async update (...args) {
          if (fails-- > 0) throw new Error('the store is down')
          await controller.update?.(...args)
        }
      }
    }
  })
  const session = await open(app)
  const failed = await session.request('logging/setLevel', { level: 'error' })
  t.equal(failed.statusCode, 500)
  t.strictSame(failed.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.match(lines.filter(({ level }) => level >= 50), [{ err: { message: 'the store is down' } }], 'logged, once')
  const both = [session.request('logging/setLevel', { level: 'error' }), session.request('resources/subscribe', { uri: 'test://a' })] as const
  t.equal((await both[0]).statusCode, 500)
  t.strictSame((await both[1]).json<Message>().result, {}, 'one that waited for it')
  t.strictSame((await session.request('logging/setLevel', { level: 'error' })).json<Message>().result, {})
  t.match(controller.sessions.get(String(session.id)), { logLevel: 'error', resourceSubscriptions: ['test://a'] })
})

test('a store that fails to find a session is 500, and never 404: LEG-21', async t => {
  const { app, lines } = await stage(t, echo, { listen: false, legacy: { sessions: { create: () => 'x'.repeat(32), fetch: async () => { throw new Error('down') } } } })
  const response = await send(app, list(), { 'mcp-session-id': 'x'.repeat(32) })
  t.equal(response.statusCode, 500)
  t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.equal(lines.filter(({ level }) => level >= 50).length, 1)
})

test('of the sealed sessions that were ended the last 100,000 are remembered', async t => {
  const controller = sealedSessions()
  const [first, second] = [await controller.create(someone, httpRequest), await controller.create(someone, httpRequest)]
  for (const id of [first, second]) await controller.delete?.(id, httpRequest)
  for (let at = 0; at < 99_998; at++) await controller.delete?.(`other ${at}`, httpRequest)
  for (const id of [first, second]) t.equal(await controller.fetch(id, httpRequest), undefined, 'so many are')
  await controller.delete?.('one more', httpRequest)
  t.match(await controller.fetch(first, httpRequest), someone, 'then the first to go is forgotten')
  t.equal(await controller.fetch(second, httpRequest), undefined, 'and it alone')
})

// ---- without sessions

test('without sessions each request stands alone: no id is given, and one that is sent is ignored: LEG-16, LEG-28, case 004', async t => {
  const app = await mount(t, { server: knowing, legacy: { sessions: false } })
  for (const version of VERSIONS) {
    const { id, opened } = await open(app, version, { capabilities: { elicitation: {}, roots: {} } })
    t.equal(id, undefined, version)
    t.match(opened.json(), { result: { protocolVersion: version, capabilities: { resources: {} } } }, version)
  }
  for (const headers of [{}, { 'mcp-session-id': 'made-up' }, { 'mcp-session-id': '' }]) {
    t.match((await send(app, list(), headers)).json(), { result: { tools: [] } })
    t.strictSame((await send(app, { jsonrpc: '2.0', id: 1, method: 'ping' }, headers)).json(), { jsonrpc: '2.0', id: 1, result: {} })
    t.equal((await send(app, { jsonrpc: '2.0', id: 1, result: {} }, headers)).statusCode, 202, 'an answer that nobody waits for')
    t.equal((await send(app, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, headers)).statusCode, 202)
    t.equal((await send(app, initialize, headers)).statusCode, 200, 'and initialize may come again')
  }
  const known = await send(app, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }, { 'mcp-protocol-version': '2025-11-25' })
  t.strictSame(known.json<Message>().result?.['structuredContent'], { protocolVersion: '2025-11-25', clientCapabilities: {}, logLevel: 'info' }, 'nothing is known of the client')

  for (const method of ['GET', 'DELETE'] as const) {
    const response = await app.inject({ method, url: '/mcp', headers: { accept: 'text/event-stream', 'mcp-session-id': 'made-up' } })
    refused(t, response, { status: 405, code: -32600 }, method)
    t.equal(response.headers['allow'], 'POST', method)
  }
  for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
    t.match((await send(app, { jsonrpc: '2.0', id: 1, method, params: { uri: 'test://a' } })).json(), { error: { code: -32601 } }, method)
  }
  t.strictSame((await send(app, { jsonrpc: '2.0', id: 1, method: 'logging/setLevel', params: { level: 'error' } })).json<Message>().result, {}, 'a level is taken, and known to nobody')
})

test('without sessions any number of requests is served, one after the other and at once: case 004', async t => {
  const app = await mount(t, { server: echo, legacy: { sessions: false } })
  for (let id = 0; id < 20; id++) t.equal((await send(app, list(id))).json<Message>().id, id)
  const responses = await Promise.all(Array.from({ length: 20 }, async () => await send(app, list(7))))
  t.strictSame(responses.map(({ statusCode }) => statusCode), Array(20).fill(200), 'even under one id')
})
