import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance } from 'fastify'
import { test, type Test } from 'tap'
import genMcp, { defineServer, result, toolResult, withArg, type GenMcpOptions, type Limits } from 'fastify-gen-mcp'
import { readOptions } from '../lib/options.js'
import { call, mount } from './helpers/mount.js'
import { echo, info, toolServer } from './helpers/servers.js'

const SECRET = 'a secret of at least thirty-two characters'
const MAX_TIMEOUT = 2_147_483_647

/** Registers with options that TypeScript would refuse, and gives the app before it is ready. */
function register (t: Test, options: object): FastifyInstance {
  // Fastify checks a level where there is a logger.
  const app = Fastify({ logger: { level: 'silent' } })
  t.teardown(async () => await app.close())
  app.register(genMcp, options as GenMcpOptions)
  return app
}

/** Asserts that an app does not become ready, and that the error names the option. */
async function refuses (t: Test, options: object, path: string, about = path): Promise<void> {
  const app = register(t, options)
  await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BAD_OPTION', message: new RegExp(`^Option ${path.replaceAll(/[.[\]]/g, '\\$&')} `) }, about)
}

const durations = ['1s', -1, 1.5, NaN, Infinity, MAX_TIMEOUT + 1, true, null, {}]
const counts = ['1', 0, -1, 1.5, NaN, Infinity, true, null, {}]

/** What no option may be. Fastify's own options are Fastify's to check, and not in this table. */
const nonsense: { readonly [O in Exclude<keyof GenMcpOptions, 'server' | 'constraints' | 'onRequest' | 'preHandler'> | 'prefix']-?: readonly unknown[] } = {
  prefix: [5, true, null, {}],
  path: [5, '', 'mcp', '/a b', '/:id', '/*', '/a?b=1', '/a#b', true, null, ['/mcp']],
  bodyLimit: counts,
  allowedOrigins: ['all', '*', 5, true, null, {}, [5], ['*'], ['app.example.com'], ['https://app.example.com/'], ['https://app.example.com/path'], ['https://APP.example.com'], ['https://app.example.com:443'], ['any'], ['']],
  allowedHosts: ['all', 5, true, null, () => true, [5], ['*'], ['https://a.example'], ['a.example/'], ['a b'], [''], ['a.example:']],
  keepAlive: durations,
  streamAfter: durations,
  heartbeat: durations,
  principal: ['user', 5, true, null, {}],
  secrets: ['a'.repeat(40), 5, null, {}, [], ['short'], [5], [SECRET, 'short'], [null]],
  tokens: ['x', 5, true, null, {}, { seal: () => '' }, { open: () => '' }, { seal: 'x', open: 'y' }],
  limits: ['x', 5, true, null, []],
  legacy: ['x', 0, null, []],
  sendServerInfo: ['yes', 0, 1, null, {}],
  health: [5, '', 'health', '/a b', '/:id', '/*', '/a?b=1', '/a#b', true, null, ['/health'], false],
  busProbe: [true, 5, 'x', null, []],
  onEnd: ['x', 5, true, null, {}]
}

for (const [option, values] of Object.entries(nonsense)) {
  test(`${option} with a value that makes no sense rejects ready, and is named`, async t => {
    for (const value of values) await refuses(t, { server: echo, [option]: value }, option, `${option}: ${describe(value)}`)
  })
}

const limits: { readonly [L in keyof Limits]-?: readonly unknown[] } = {
  mailbox: counts,
  onOverflow: ['drop', '', 5, true, null, {}],
  sendBuffer: counts,
  maxConcurrent: counts,
  maxStreams: counts,
  maxDuration: [...durations, 0],
  drain: durations
}

for (const [limit, values] of Object.entries(limits)) {
  test(`limits.${limit} with a value that makes no sense rejects ready, and is named`, async t => {
    for (const value of values) await refuses(t, { server: echo, limits: { [limit]: value } }, `limits.${limit}`, `limits.${limit}: ${describe(value)}`)
  })
}

for (const [member, values] of Object.entries({ timeout: [...durations, 0], interval: durations })) {
  test(`busProbe.${member} with a value that makes no sense rejects ready, and is named`, async t => {
    for (const value of values) await refuses(t, { server: echo, busProbe: { [member]: value } }, `busProbe.${member}`, `busProbe.${member}: ${describe(value)}`)
  })
}

test('an option that nobody knows rejects ready, and is named', async t => {
  await refuses(t, { server: echo, keepAliv: 5 }, 'keepAliv')
  await refuses(t, { server: echo, limits: { mailboxes: 5 } }, 'limits.mailboxes')
  await refuses(t, { server: echo, busProbe: { every: 5 } }, 'busProbe.every')
  await refuses(t, { server: [echo, undefined], greeting: 'x' }, 'greeting')
})

test('hooks and constraints that make no sense reject ready, and are named', async t => {
  for (const option of ['onRequest', 'preHandler', 'constraints']) await refuses(t, { server: echo, [option]: 'nonsense' }, option)
  await refuses(t, { server: echo, onRequest: [() => {}, 5] }, 'onRequest')
})

test('what is Fastify\'s to check rejects ready as well', async t => {
  const codes = { logLevel: 'FST_ERR_ROUTE_LOG_LEVEL_INVALID' }
  for (const [option, code] of Object.entries(codes)) {
    const app = register(t, { server: echo, [option]: 'nonsense' })
    await t.rejects(async () => { await app.ready() }, { code }, option)
  }
})

test('secrets and tokens together reject ready', async t => {
  await refuses(t, { server: echo, secrets: [SECRET], tokens: { seal: () => '', open: () => ({ ok: false, reason: 'invalid' }) } }, 'tokens')
})

test('a secret stays out of the message that refuses it', async t => {
  const app = register(t, { server: echo, secrets: [SECRET, 'too short a one'] })
  const error = await app.ready().then(() => undefined, (error: Error) => error)
  t.match(error?.message, /^Option secrets has at \[1\]/)
  t.notMatch(error?.message, 'too short a one')
})

test('a server that is none rejects ready, and the member is named', async t => {
  await refuses(t, {}, 'server', 'no server at all')
  for (const server of [null, 5, 'x', true]) await refuses(t, { server }, 'server', describe(server))
  await refuses(t, { server: [] }, 'server[0]')
  await refuses(t, { server: [5, {}] }, 'server[0]')
  await refuses(t, { server: {} }, 'server.handleRequest')
  await refuses(t, { server: { handleRequest: 'x' } }, 'server.handleRequest')
  await refuses(t, { server: [{}, {}] }, 'server[0].handleRequest')
  for (const callback of ['setup', 'init', 'handleNotification', 'handleMessage', 'handleClose']) {
    await refuses(t, { server: { ...echo, [callback]: 'x' } }, `server.${callback}`)
  }
})

test('what a server says of itself is checked at boot', async t => {
  await refuses(t, { server: { ...echo, info: { name: 'x' } } }, 'server.info.version')
  await refuses(t, { server: { ...echo, info: 'x' } }, 'server.info')
  await refuses(t, { server: { ...echo, capabilities: { tools: true } } }, 'server.capabilities.tools')
  await refuses(t, { server: { ...echo, capabilities: 5 } }, 'server.capabilities')
  await refuses(t, { server: [{ ...echo, info: { name: 5, version: '1' } }, undefined] }, 'server[0].info.name')
  await refuses(t, { server: { ...echo, arg: 'x' } }, 'server.arg')
  await refuses(t, { server: { ...echo, messages: { type: 'nonsense' } } }, 'server.messages')
})

test('a cache hint that is none is refused at boot', async t => {
  for (const cache of [5, null, {}, { scope: 'all', ttlMs: 1 }, { scope: 'public', ttlMs: -1 }, { scope: 'public' }]) await refuses(t, { server: { ...echo, cache } }, 'server.cache')
})

test('buses that are none are refused at boot', async t => {
  const bus = { on () {}, removeListener () {}, emit () {} }
  for (const buses of [5, null, {}, bus]) await refuses(t, { server: { ...echo, buses } }, 'server.buses')
  for (const none of [5, null, undefined, {}, { ...bus, on: 5 }, { ...bus, removeListener: undefined }, { ...bus, emit: 'x' }]) {
    await refuses(t, { server: { ...echo, buses: [bus, none] } }, 'server.buses[1]')
    await refuses(t, { server: [{ ...echo, buses: [none] }, undefined] }, 'server[0].buses[0]')
  }
})

test('instructions that are no text are refused at boot', async t => {
  await refuses(t, { server: { ...echo, instructions: 5 } }, 'server.instructions')
})

test('an option that is undefined is one that was left out', async t => {
  const names = [...Object.keys(nonsense), 'constraints', 'onRequest', 'preHandler', 'logLevel', 'logSerializers']
  const app = register(t, { server: echo, ...Object.fromEntries(names.map(name => [name, undefined])) })
  await app.ready()
  t.equal((await call(app, 'tools/list')).statusCode, 200)
  t.strictSame(readOptions({ server: echo, limits: undefined, keepAlive: undefined }).settings, readOptions({ server: echo }).settings)
  t.strictSame(readOptions({ server: echo, limits: { drain: undefined, mailbox: undefined } }).settings, readOptions({ server: echo }).settings)
})

test('the defaults are those that are documented', async t => {
  const { prefix, path, health, route, arg, settings } = readOptions({ server: echo })
  t.strictSame({ prefix, path, health, route, arg }, { prefix: '', path: undefined, health: undefined, route: {}, arg: undefined })
  t.strictSame(settings, {
    allowedOrigins: 'loopback',
    allowedHosts: 'loopback',
    keepAlive: 15_000,
    streamAfter: 10_000,
    heartbeat: 0,
    principal: undefined,
    secrets: undefined,
    tokens: undefined,
    limits: {
      mailbox: 1_000, onOverflow: 'end', sendBuffer: 1_048_576, maxConcurrent: Infinity, maxStreams: Infinity, maxDuration: Infinity, drain: 10_000, retryAfter: 10
    },
    sendServerInfo: true,
    busProbe: { timeout: 5_000, interval: 30_000 },
    onEnd: undefined
  })
})

test('the limits of what makes sense are taken', async t => {
  const given = {
    keepAlive: 0,
    streamAfter: MAX_TIMEOUT,
    heartbeat: 1,
    bodyLimit: 1,
    sendServerInfo: false,
    legacy: false,
    health: '/health/',
    busProbe: { timeout: 1, interval: 0 },
    secrets: ['x'.repeat(32)],
    allowedOrigins: ['https://app.example.com', 'http://localhost:3000', 'null', 'vscode-webview://abc', 'https://[::1]:8443'],
    allowedHosts: ['a.example', 'A.example:8080', '127.0.0.1', '[::1]', '[::1]:80'],
    limits: { mailbox: 1, onOverflow: 'dropNewest', sendBuffer: 1, maxConcurrent: 1, maxStreams: 1, maxDuration: 1, drain: 0 }
  }
  const { settings, route, health } = readOptions({ server: echo, ...given })
  t.match(settings, { keepAlive: 0, streamAfter: MAX_TIMEOUT, heartbeat: 1, sendServerInfo: false, busProbe: { timeout: 1, interval: 0 } })
  t.equal(health, '/health/')
  t.equal(readOptions({ server: echo, busProbe: false }).settings.busProbe, undefined)
  t.strictSame(readOptions({ server: echo, busProbe: { interval: undefined } }).settings, readOptions({ server: echo }).settings)
  t.strictSame(settings.limits, { ...given.limits, retryAfter: 1 }, 'a client is never told to come back at once')
  t.strictSame(route, { bodyLimit: 1 })
  t.equal(readOptions({ server: echo, allowedOrigins: 'any' }).settings.allowedOrigins, 'any')
  t.equal(readOptions({ server: echo, limits: { drain: 1_001 } }).settings.limits.retryAfter, 2)
})

// ---- the arg of a server

const greeter = defineServer({
  info,
  capabilities: { tools: {} },
  arg: Type.Object({ greeting: Type.String(), loud: Type.Optional(Type.Boolean()) }),
  init: arg => arg,
  handleRequest: { 'tools/call': (_request, _channel, arg) => result(toolResult.data(arg)) }
})

async function argAt (app: FastifyInstance): Promise<unknown> {
  return (await call(app, 'tools/call', { name: 'x', arguments: {} })).json<{ result: { structuredContent: unknown } }>().result.structuredContent
}

test('options that are not ours are the arg of a server that declares one', async t => {
  t.strictSame(await argAt(await mount(t, { server: greeter, greeting: 'hi', loud: true, keepAlive: 5 })), { greeting: 'hi', loud: true })
  t.strictSame(await argAt(await mount(t, { server: [greeter, { greeting: 'bound' }] })), { greeting: 'bound' })
  t.strictSame(await argAt(await mount(t, { server: withArg(greeter, { greeting: 'with' }) })), { greeting: 'with' })
})

test('an arg that does not fit rejects ready, and is named', async t => {
  await refuses(t, { server: greeter }, 'greeting', 'missing')
  await refuses(t, { server: greeter, greeting: 5 }, 'greeting')
  await refuses(t, { server: greeter, greeting: 'x', loud: 'yes' }, 'loud')
  await refuses(t, { server: greeter, greeting: 'x', volume: 5 }, 'volume', 'known to neither')
  await refuses(t, { server: [greeter, { greeting: 5 }] }, 'server[1].greeting')
  await refuses(t, { server: [greeter, undefined] }, 'server[1]')
  t.throws(() => withArg(greeter, { greeting: 5 as unknown as string }), { code: 'MCP_ERR_BAD_OPTION', message: /^Option withArg\.greeting / })
})

test('a server whose arg is no object takes it bound, and never from the options', async t => {
  const numbered = defineServer({ info, capabilities: { tools: {} }, arg: Type.Number(), init: arg => arg, handleRequest: { 'tools/call': (_request, _channel, arg) => result(toolResult.data({ arg })) } })
  t.strictSame(await argAt(await mount(t, { server: [numbered, 5] })), { arg: 5 })
  await refuses(t, { server: numbered }, 'arg')
})

test('a bound arg needs no schema, and then is not checked', async t => {
  const server = { ...toolServer(() => result(toolResult.text('x'))), setup: (_fastify: FastifyInstance, arg: unknown) => { seen = arg } }
  let seen: unknown
  await mount(t, { server: [server, { anything: true }] })
  t.strictSame(seen, { anything: true })
})

function describe (value: unknown): string {
  return typeof value === 'number' || typeof value === 'function' ? String(value) : JSON.stringify(value)
}
