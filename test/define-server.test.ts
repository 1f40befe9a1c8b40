import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import { test } from 'tap'
import genMcp, { defineServer, listToolsResult, messageType, result, routeRequests, stream, toolResult, withArg } from 'fastify-gen-mcp'
import { testExchange } from 'fastify-gen-mcp/testing'
import { call, mount } from './helpers/mount.js'
import * as moduleServer from './helpers/module-server.js'
import type { Channel, CloseReason, RequestContext, RequestOf } from 'fastify-gen-mcp'
import type { FastifyInstance } from 'fastify'

const tool = { name: 'tool', arguments: {} }

const textOf = async (app: FastifyInstance, url?: string): Promise<string> =>
  (await call(app, 'tools/call', tool, url === undefined ? {} : { url })).json().result.content[0].text

// ---- defineServer

test('defineServer takes a handler for all methods', async t => {
  const app = await mount(t, { server: defineServer({ handleRequest: ({ method }) => result(toolResult.text(method)) }) })
  t.equal(await textOf(app), 'tools/call')
})

test('defineServer takes a handler a method, and a method that is not listed is 404', async t => {
  const app = await mount(t, {
    server: defineServer({
      init: () => ({ name: 'state' }),
      handleRequest: {
        'tools/list': () => result(listToolsResult([])),
        'tools/call': ({ params }, channel, state) => result(toolResult.text(`${params.name} ${channel.request.method} ${state.name}`))
      }
    })
  })
  t.equal(await textOf(app), 'tool tools/call state')
  t.strictSame((await call(app, 'tools/list')).json().result.tools, [])
  const response = await call(app, 'prompts/list', {}, { id: 'x' })
  t.equal(response.statusCode, 404)
  t.strictSame(response.json(), { jsonrpc: '2.0', id: 'x', error: { code: -32601, message: 'Method not found', data: { method: 'prompts/list' } } })
})

test('defineServer keeps every other member of its definition, and leaves the definition alone', async t => {
  const definition = {
    info: { name: 'x', version: '1' },
    instructions: 'Be kind.',
    capabilities: { tools: {} },
    messages: messageType<string>(),
    arg: Type.Object({ n: Type.Number() }),
    setup: () => {},
    init: () => 'state',
    handleRequest: { 'tools/call': () => result(toolResult.text('')) },
    handleNotification: () => {},
    handleClose: () => {}
  } as const
  const server = defineServer(definition)
  for (const key of Object.keys(definition) as (keyof typeof definition)[]) {
    if (key === 'handleRequest') t.type(server.handleRequest, 'function')
    else t.equal(server[key], definition[key], key)
  }
  t.type(definition.handleRequest, 'object')
})

test('a route that waits and one that does not are answered alike', async t => {
  const app = await mount(t, {
    server: defineServer({ handleRequest: { 'tools/call': () => result(toolResult.text('now')), 'prompts/list': async () => { throw new Error('secret') } } })
  })
  t.equal(await textOf(app), 'now')
  t.equal((await call(app, 'prompts/list')).statusCode, 500)
})

// SEC-05
test('routes are own members: what a table inherits is no route', async t => {
  const inherited = Object.create({ 'tools/call': () => result(toolResult.text('inherited')) }) as { 'tools/list': () => ReturnType<typeof result> }
  const handle = routeRequests(inherited as never)
  for (const method of ['tools/call', 'toString', '__proto__', 'constructor', 'hasOwnProperty']) {
    const outcome = await handle({ method, id: 1, params: {} } as never, {} as never, undefined as never)
    t.match(outcome, { type: 'error', error: { rpcCode: -32601, data: { method } } })
  }
})

test('a table that is changed later changes nothing', async t => {
  const routes = { 'tools/call': () => result(toolResult.text('first')) }
  const app = await mount(t, { server: defineServer({ handleRequest: routes }) })
  routes['tools/call'] = () => result(toolResult.text('second'))
  t.equal(await textOf(app), 'first')
})

test('messageType checks nothing', async t => {
  t.match(messageType<string>(), { [Symbol.for('TypeBox.Kind')]: 'Unknown' })
})

// ---- arg

const greeter = defineServer({
  arg: Type.Object({ greeting: Type.String(), times: Type.Optional(Type.Number()) }),
  init: ({ greeting, times = 1 }) => greeting.repeat(times),
  handleRequest: (_request, _channel, text) => result(toolResult.text(text))
})

// Rule 11
test('a server that declares its arg takes it from the options of its mount', async t => {
  t.equal(await textOf(await mount(t, { server: greeter, greeting: 'Hi', times: 2 })), 'HiHi')
})

// Rule 15
test('an arg that does not fit fails the boot, and names the option', async t => {
  const attempts: readonly (readonly [register: (app: FastifyInstance) => unknown, message: RegExp])[] = [
    [async app => await app.register(genMcp, { prefix: '/mcp', server: greeter, greeting: 7 } as never), /greeting/],
    [async app => await app.register(genMcp, { prefix: '/mcp', server: greeter } as never), /greeting/],
    [async app => await app.register(genMcp, { prefix: '/mcp', server: greeter, greeting: 'Hi', stranger: 1 } as never), /stranger/],
    [async app => await app.register(genMcp, { prefix: '/mcp', server: [greeter, { greeting: 7 }] as never }), /server\[1\]\.greeting/]
  ]
  for (const [register, message] of attempts) {
    const app = Fastify()
    t.teardown(async () => { await app.close() })
    await t.rejects(async () => { await register(app) }, { code: 'MCP_ERR_BAD_OPTION', message })
  }
})

test('the tuple binds an arg as it is', async t => {
  const arg = { greeting: 'Hey' }
  const seen: unknown[] = []
  const server = defineServer({
    init: (given: { greeting: string }) => { seen.push(given); return given.greeting },
    handleRequest: (_request, _channel, text) => result(toolResult.text(text))
  })
  t.equal(await textOf(await mount(t, { server: [server, arg] })), 'Hey')
  t.equal(seen[0], arg)
})

test('withArg binds an arg, which need not be looked for in the options any more', async t => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  await app.register(genMcp, { prefix: '/one', server: withArg(greeter, { greeting: 'One' }) })
  await app.register(genMcp, { prefix: '/two', server: withArg(greeter, { greeting: 'Two' }) })
  t.equal(await textOf(app, '/one'), 'One')
  t.equal(await textOf(app, '/two'), 'Two')

  const stranger = Fastify()
  t.teardown(async () => { await stranger.close() })
  const options = { prefix: '/mcp', server: withArg(greeter, { greeting: 'x' }), greeting: 'y' }
  await t.rejects(async () => { await stranger.register(genMcp, options) }, { code: 'MCP_ERR_BAD_OPTION' })
})

test('withArg throws for an arg that does not fit', async t => {
  t.throws(() => withArg(greeter, { greeting: 7 } as never), { code: 'MCP_ERR_BAD_OPTION', message: /withArg\.greeting/ })
})

// ---- a class instance

class Counter {
  readonly info = { name: 'counter', version: '1.0.0' }
  readonly instructions = 'Count.'
  readonly cache = { scope: 'private', ttlMs: 7 } as const
  readonly capabilities = { tools: {} }
  readonly messages = messageType<string>()
  readonly #log: string[] = []

  get log (): readonly string[] { return this.#log }

  setup (fastify: FastifyInstance, arg: number) { this.#log.push(`setup ${typeof fastify.register} ${arg}`) }
  init (arg: number, _context: RequestContext) { this.#log.push(`init ${arg}`); return { left: arg } }
  readonly handleRequest = routeRequests({
    'tools/call': (_request: RequestOf<'tools/call'>, channel: Channel<string>, state: { left: number }) => {
      this.#log.push('handleRequest')
      channel.ref.post('message')
      return stream(state)
    }
  })

  handleNotification () { this.#log.push('handleNotification') }

  handleMessage (message: string, channel: Channel<string>, live: { left: number }) {
    this.#log.push(`${message} ${live.left}`)
    if (live.left === 0) channel.close()
    else channel.ref.post('message')
    return stream({ left: live.left - 1 })
  }

  handleClose (_context: RequestContext, live: { left: number }, reason: CloseReason) { this.#log.push(`${reason} ${live.left}`) }
}

const lived = ['init 1', 'handleRequest', 'message 1', 'message 0', 'closed -1', 'handleNotification']

test('a class instance is a server, with its private members, and with its arg bound in either way', async t => {
  for (const bind of [(counter: Counter) => withArg(counter, 1), (counter: Counter) => [counter, 1] as const]) {
    const counter = new Counter()
    const app = await mount(t, { server: bind(counter) as never })
    await call(app, 'tools/call', tool)
    await call(app, 'notifications/cancelled', { requestId: 1 }, { id: undefined })
    t.strictSame(counter.log.filter(line => line !== 'init 1'), ['setup function 1', ...lived.slice(1)])
    t.equal(counter.log.filter(line => line === 'init 1').length, 2, 'once an exchange')
    const { result: discovered } = (await call(app, 'server/discover')).json()
    t.match(discovered, { instructions: 'Count.', ttlMs: 7, capabilities: { tools: {} }, _meta: { 'io.modelcontextprotocol/serverInfo': counter.info } })
  }
})

test('methods of the prototype are bound, and the bound server is frozen', async t => {
  const server = withArg(new Counter(), 1)
  t.ok(Object.isFrozen(server))
  t.notOk('arg' in server)
  const minimal = withArg({ handleRequest: () => result(toolResult.text('x')) }, undefined)
  t.strictSame(Object.keys(minimal), ['handleRequest'], 'what is not there is not made up')
})

// ---- a module

test('a module is a server', async t => {
  const app = await mount(t, { server: moduleServer, principal: () => 'anna' })
  t.equal(await textOf(app), 'Hello, anna')
  const bound = await mount(t, { server: withArg(moduleServer, { greeting: 'Hi' }) })
  t.equal(await textOf(bound), 'Hi, nobody')
})

test('a server needs no HTTP to be tried', async t => {
  const exchange = testExchange(greeter, 'tools/call', tool, { arg: { greeting: 'Hi' } })
  t.match(await exchange.answer, { result: { content: [{ text: 'Hi' }] } })
})
