import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { test, type Test } from 'tap'
import genMcp, { result, toolResult } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { echo, toolServer } from '../helpers/servers.js'
import { openSession, openWire, post, sendHttp2, stage } from '../helpers/sockets.js'

const FORBIDDEN = { status: 403, code: -32600 }

async function statusOf (app: FastifyInstance, headers: Readonly<Record<string, string>>): Promise<number> {
  return (await call(app, 'tools/list', {}, { headers })).statusCode
}

/** An app that listens there; requests still go through inject. */
async function listening (t: Test, options: { readonly host: string } | { readonly path: string }, app = Fastify()): Promise<FastifyInstance> {
  t.teardown(async () => await app.close())
  await app.register(genMcp, { server: echo })
  await app.listen('path' in options ? options : { ...options, port: 0 })
  return app
}

// ---- Origin

test('by default loopback origins are allowed, on any port and by any scheme, and no other: ORG-02, ORG-07, case 059', async t => {
  const app = await mount(t, { server: echo })
  for (const origin of ['http://localhost', 'http://localhost:3000', 'https://localhost:8443', 'http://127.0.0.1:5173', 'http://[::1]:3000']) {
    t.equal(await statusOf(app, { origin }), 200, origin)
  }
  for (const origin of ['https://evil.test', 'http://localhost.evil.test', 'http://evil.test:3000', 'http://127.0.0.1.evil.test', 'http://127.0.0.2', 'http://0.0.0.0:3000']) {
    refused(t, await call(app, 'tools/list', {}, { headers: { origin } }), FORBIDDEN, origin)
  }
})

test('a request without Origin passes: ORG-04', async t => {
  for (const allowedOrigins of [undefined, ['https://app.example.com'], () => false] as const) {
    const app = await mount(t, { server: echo, ...(allowedOrigins !== undefined && { allowedOrigins }) })
    t.equal((await call(app, 'tools/list')).statusCode, 200)
  }
})

test('an Origin that is null, no URL, in another form, or several in one, is refused: ORG-05', async t => {
  const app = await mount(t, { server: echo })
  const origins = [
    'null', 'NULL', '', 'localhost', 'http://', 'http://localhost/', 'http://localhost:3000/path', 'http://user@localhost:3000', 'http://LOCALHOST:3000', 'HTTP://localhost',
    'http://localhost:3000 http://localhost:3001', 'http://localhost:3000, https://evil.test', 'https://evil.test, http://localhost:3000', 'http://localhost:80', 'file://'
  ]
  for (const origin of origins) refused(t, await call(app, 'tools/list', {}, { headers: { origin } }), FORBIDDEN, JSON.stringify(origin))
})

test('null and what is no URL pass where they are allowed by name: ORG-05', async t => {
  const app = await mount(t, { server: echo, allowedOrigins: ['null', 'vscode-webview://abc'] })
  t.equal(await statusOf(app, { origin: 'null' }), 200)
  t.equal(await statusOf(app, { origin: 'vscode-webview://abc' }), 200)
  t.equal(await statusOf(app, { origin: 'http://localhost:3000' }), 403, 'the list is instead of the default')
})

test('a listed origin is compared whole, with scheme and port: ORG-06', async t => {
  const app = await mount(t, { server: echo, allowedOrigins: ['https://app.example.com', 'http://localhost:3000'] })
  t.equal(await statusOf(app, { origin: 'https://app.example.com' }), 200)
  t.equal(await statusOf(app, { origin: 'http://localhost:3000' }), 200)
  const origins = [
    'http://app.example.com', 'https://app.example.com:8443', 'https://app.example.com.evil.test', 'https://xapp.example.com', 'https://app.example.co', 'https://APP.example.com',
    'https://app.example.com/', 'https://example.com', 'http://localhost:30000', 'http://localhost', 'https://evil.test?https://app.example.com'
  ]
  for (const origin of origins) refused(t, await call(app, 'tools/list', {}, { headers: { origin } }), FORBIDDEN, origin)
})

test('a foreign Origin is refused whatever the verb, before any hook of the mount and before the body is read: ORG-01, ORG-02, ORG-03', async t => {
  const ran: string[] = []
  const app = await mount(t, {
    server: toolServer(() => {
      ran.push('server')
      return result(toolResult.text('x'))
    }),
    principal: () => {
      ran.push('principal')
      return undefined
    },
    onRequest: async () => { ran.push('onRequest') },
    preHandler: async () => { ran.push('preHandler') }
  })
  for (const method of ['POST', 'GET', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'] as const) {
    for (const url of ['/mcp', '/mcp/']) {
      const response = await app.inject({ method, url, headers: { origin: 'https://evil.test', 'content-type': 'text/plain' }, ...(method === 'POST' && { payload: 'not json' }) })
      // The error has no id: `refused` asserts what members there are.
      refused(t, response, FORBIDDEN, `${method} ${url}`)
      t.notOk('allow' in response.headers)
    }
  }
  t.equal((await app.inject({ method: 'HEAD', url: '/mcp', headers: { origin: 'https://evil.test' } })).statusCode, 403)
  t.strictSame(ran, [])
})

test('any allows every origin', async t => {
  const app = await mount(t, { server: echo, allowedOrigins: 'any' })
  for (const origin of ['https://evil.test', 'null', 'nonsense']) t.equal(await statusOf(app, { origin }), 200, origin)
})

test('a function decides about an origin, at once or later; only true is a yes', async t => {
  const asked: [string, string | undefined][] = []
  const answers = new Map<string, unknown>([
    ['https://yes.test', true], ['https://later.test', Promise.resolve(true)], ['https://no.test', false], ['https://never.test', Promise.resolve(false)], ['https://truthy.test', 'yes']
  ])
  const app = await mount(t, {
    server: echo,
    allowedOrigins: (origin: string, httpRequest: FastifyRequest) => {
      asked.push([origin, httpRequest.headers['x-tenant']?.toString()])
      return answers.get(origin) as boolean
    }
  })
  for (const [origin, status] of [['https://yes.test', 200], ['https://later.test', 200], ['https://no.test', 403], ['https://never.test', 403], ['https://truthy.test', 403]] as const) {
    t.equal(await statusOf(app, { origin, 'x-tenant': 'acme' }), status, origin)
  }
  t.strictSame(asked[0], ['https://yes.test', 'acme'], 'it is given the request')
  t.equal(asked.length, 5)
  t.equal((await call(app, 'tools/list')).statusCode, 200)
  t.equal(asked.length, 5, 'without an Origin it is not asked')
})

test('a function that fails is a fault of ours: nothing of it reaches the client, and the log has it', async t => {
  for (const fail of [() => { throw new Error('origins table is gone') }, async () => await Promise.reject(new Error('origins table is gone'))]) {
    const { app, lines } = await stage(t, echo, { listen: false, allowedOrigins: fail })
    const response = await call(app, 'tools/list', {}, { headers: { origin: 'https://app.example.com' } })
    t.strictSame([response.statusCode, response.json()], [500, { jsonrpc: '2.0', error: { code: -32603, message: 'Internal error' } }])
    t.match(lines.filter(({ level }) => level >= 50), [{ err: { message: 'origins table is gone' } }])
  }
})

// ---- Host

test('on loopback a foreign Host is refused by default, whatever the verb: ORG-08, case 059', async t => {
  const app = await listening(t, { host: '127.0.0.1' })
  for (const host of ['localhost', 'localhost:3000', 'LOCALHOST:3000', '127.0.0.1:3000', '[::1]:3000', '[::1]']) t.equal(await statusOf(app, { host }), 200, host)
  for (const host of ['evil.test', 'evil.test:3000', 'localhost.evil.test', '127.0.0.1.evil.test', 'localhost:evil', '[::2]:3000', '127.0.0.2']) {
    refused(t, await call(app, 'tools/list', {}, { headers: { host } }), FORBIDDEN, host)
  }
  for (const method of ['GET', 'DELETE'] as const) refused(t, await app.inject({ method, url: '/mcp', headers: { host: 'evil.test' } }), FORBIDDEN, method)
})

test('inject counts as loopback, before the app listens and when it never does: ORG-08', async t => {
  const app = await mount(t, { server: echo })
  t.equal(await statusOf(app, { host: 'evil.test' }), 403)
  await app.listen({ port: 0, host: '0.0.0.0' })
  t.equal(await statusOf(app, { host: 'evil.test' }), 200, 'what it listens on is looked at when it does')
})

test('an app that listens beyond loopback, on a Unix socket or behind a proxy takes any Host by default', async t => {
  // The path of a socket must be short.
  const folder = mkdtempSync(join(tmpdir(), 'mcp-'))
  t.teardown(() => { rmSync(folder, { recursive: true }) })
  const apps = {
    '0.0.0.0': await listening(t, { host: '0.0.0.0' }),
    'a Unix socket': await listening(t, { path: join(folder, 'socket') }),
    trustProxy: await listening(t, { host: '127.0.0.1' }, Fastify({ trustProxy: true }))
  }
  for (const [about, app] of Object.entries(apps)) {
    t.equal(await statusOf(app, { host: 'mcp.example.com' }), 200, about)
    t.equal(await statusOf(app, { host: 'mcp.example.com', origin: 'https://evil.test' }), 403, `${about}: Origin is checked as ever`)
  }
})

test('IPv6 loopback is loopback', async t => {
  const app = Fastify()
  t.teardown(async () => await app.close())
  await app.register(genMcp, { server: echo })
  try {
    await app.listen({ port: 0, host: '::1' })
  } catch (error) {
    // A machine without IPv6 cannot listen there.
    t.match(error, { code: /^EADDRNOTAVAIL|EAFNOSUPPORT$/ })
    return
  }
  t.equal(await statusOf(app, { host: '[::1]:3000' }), 200)
  t.equal(await statusOf(app, { host: 'evil.test' }), 403)
})

test('the raw Host is what counts, not what a proxy header says', async t => {
  const app = await listening(t, { host: '127.0.0.1' })
  t.equal(await statusOf(app, { host: 'evil.test', 'x-forwarded-host': 'localhost' }), 403)
  t.equal(await statusOf(app, { host: 'localhost', 'x-forwarded-host': 'evil.test' }), 200)
})

test('listed hosts are allowed and no other, on any port unless one is named: ORG-06, ORG-08, case 058', async t => {
  const app = await mount(t, { server: echo, allowedHosts: ['mcp.example.com', 'Other.example:8080', '[::1]'] })
  for (const host of ['mcp.example.com', 'mcp.example.com:8443', 'MCP.example.com', 'other.example:8080', '[::1]:80']) t.equal(await statusOf(app, { host }), 200, host)
  for (const host of ['evil.test', 'localhost', 'other.example', 'other.example:80', 'x.mcp.example.com', 'mcp.example.com.evil.test']) {
    refused(t, await call(app, 'tools/list', {}, { headers: { host } }), FORBIDDEN, host)
  }
  await app.listen({ port: 0, host: '0.0.0.0' })
  t.equal(await statusOf(app, { host: 'evil.test' }), 403, 'wherever it listens')
})

test('any allows every host', async t => {
  const app = await mount(t, { server: echo, allowedHosts: 'any' })
  t.equal(await statusOf(app, { host: 'evil.test' }), 200)
})

test('a refusal warns once, with the value and the option that would allow it: case 058', async t => {
  const refusals = [
    [{ host: 'mcp.example.com' }, { refused: 'hostForbidden', host: 'mcp.example.com', option: 'allowedHosts' }],
    [{ origin: 'https://app.example.com' }, { refused: 'originForbidden', origin: 'https://app.example.com', option: 'allowedOrigins' }]
  ] as const
  for (const [headers, mcp] of refusals) {
    for (const options of [{}, 'origin' in headers ? { allowedOrigins: () => false } : { allowedHosts: ['other.example'] }]) {
      const { app, lines } = await stage(t, echo, { listen: false, ...options })
      t.equal(await statusOf(app, headers), 403)
      const warnings = lines.filter(({ level }) => level >= 40)
      t.equal(warnings.length, 1)
      t.match(warnings, [{ level: 40, mcp, reqId: /./ }])
    }
  }
})

test('a request of HTTP/1.0 without a Host passes, since no browser sends one', async t => {
  const { port } = await stage(t, echo)
  const wire = await openWire(t, port)
  const { headers, payload } = post('tools/list')
  const lines = Object.entries({ ...headers, 'content-length': String(payload.length) }).map(([name, value]) => `${name}: ${value}\r\n`)
  wire.socket.write(`POST /mcp HTTP/1.0\r\n${lines.join('')}\r\n${payload}`)
  t.match(await wire.received('"tools"'), /^HTTP\/1\.1 200 /)
})

test('an empty Host is none of the loopback names', async t => {
  const { port } = await stage(t, echo)
  const wire = await openWire(t, port)
  wire.send({ ...post('tools/list', {}, { headers: { host: '' } }) })
  t.match(await wire.received('Host not allowed'), /^HTTP\/1\.1 403 /)
})

test('on HTTP/2 the authority is the host: ORG-08', async t => {
  const app = Fastify({ http2: true })
  t.teardown(async () => await app.close())
  await app.register(genMcp, { server: echo })
  const session = await openSession(t, await app.listen({ port: 0, host: '127.0.0.1' }))
  const statusFor = async (authority: string): Promise<number | undefined> => {
    const { headers, payload } = post('tools/list')
    const response = sendHttp2(session, { headers: { ...headers, ':authority': authority }, payload })
    return (await response.head)[':status']
  }
  t.equal(await statusFor('localhost:3000'), 200)
  t.equal(await statusFor('evil.test'), 403)
})
