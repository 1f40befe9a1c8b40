import { AsyncLocalStorage } from 'node:async_hooks'
import { channel as diagnosticsChannel } from 'node:diagnostics_channel'
import { readdir, readFile } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import { test, type Test } from 'tap'
import { defineServer, fail, listToolsResult, messageType, result, stream, toolResult, type ExchangeEnd, type ExchangeRef, type McpRequest, type Server } from 'fastify-gen-mcp'
import { call, mount } from './helpers/mount.js'
import { echo, info, toolServer } from './helpers/servers.js'
import { gate, openWire, postCall, stage } from './helpers/sockets.js'
import type { FastifyRequest } from 'fastify'

const TOOL = { name: 'x', arguments: {} }
const EVENTS = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const

/** What subscribers are handed. */
interface Traced {
  readonly request: McpRequest
  readonly httpRequest: FastifyRequest
  readonly callback?: string
  readonly end?: ExchangeEnd
  readonly error?: unknown
}
interface Event { readonly name: string, readonly traced: Traced, /** what it had when it was published */ readonly ended: boolean }

/** Listens to some of the events of the tracing channels until the test ends, and gives them in their order. */
function listen (t: Test, about: 'exchange' | 'callback' | 'both', events: readonly string[] = EVENTS): Event[] {
  const heard: Event[] = []
  for (const kind of about === 'both' ? ['exchange', 'callback'] : [about]) {
    for (const event of events) {
      const channel = diagnosticsChannel(`tracing:fastify-gen-mcp:${kind}:${event}`)
      const onMessage = (message: unknown): void => {
        const traced = message as Traced
        heard.push({ name: `${kind}:${traced.callback === undefined ? '' : `${traced.callback}:`}${event}`, traced, ended: traced.end !== undefined })
      }
      channel.subscribe(onMessage)
      t.teardown(() => { channel.unsubscribe(onMessage) })
    }
  }
  return heard
}

function names (heard: readonly Event[]): readonly string[] {
  return heard.map(({ name }) => name)
}

/** A server that has all callbacks and streams one message. */
function createStreamServer (over: Partial<Server<undefined, string, string, string>> = {}): Server<undefined, string, string, string> {
  return {
    ...defineServer({
      info,
      messages: messageType<string>(),
      capabilities: async () => ({ tools: {} }),
      init: async () => 'base',
      handleRequest: {
        'tools/call': async (_request, channel) => {
          channel.ref.post('go on')
          return stream('live')
        }
      },
      handleMessage: async () => result(toolResult.text('done')),
      handleNotification: async () => {}
    }),
    ...over
  }
}

test('an exchange is traced from its start to its end, with the request, the HTTP request and how it ended', async t => {
  const heard = listen(t, 'exchange')
  const { app, ended } = await stage(t, createStreamServer(), { listen: false })
  await call(app, 'tools/call', TOOL, { id: 'call-1' })
  const [end] = await ended()

  t.strictSame(names(heard), ['exchange:start', 'exchange:end', 'exchange:asyncStart', 'exchange:asyncEnd'])
  t.strictSame(heard.map(({ ended }) => ended), [false, false, true, true], 'the end is told from asyncStart on')
  const [first] = heard
  for (const { traced } of heard) t.equal(traced, first?.traced, 'one object for all')
  t.match(first?.traced, { request: { id: 'call-1', method: 'tools/call', params: TOOL }, httpRequest: { headers: { 'mcp-method': 'tools/call' } } })
  t.match(first?.traced.end, { cause: 'result', requestId: 'call-1' })
  t.strictSame(first?.traced.end, end, 'the same that onEnd is told')
  t.notOk(first !== undefined && 'error' in first.traced)
})

test('an exchange that is answered at once is traced in the same turn', async t => {
  const heard = listen(t, 'exchange')
  const app = await mount(t, { server: echo })
  await call(app, 'tools/list')
  t.strictSame([...names(heard)].sort(), ['exchange:asyncEnd', 'exchange:asyncStart', 'exchange:end', 'exchange:start'])
  t.equal(heard[0]?.name, 'exchange:start')
  t.match(heard[0]?.traced.end, { cause: 'result' })
})

test('a crash is an error of its exchange and of its callback; what fails is none of the exchange', async t => {
  const heard = listen(t, 'both', ['error', 'asyncEnd'])
  const thrown = new Error('a bug')
  const app = await mount(t, {
    server: toolServer(({ params: { name } }) => {
      if (name === 'crash') throw thrown
      return fail('no')
    })
  })
  await call(app, 'tools/call', { name: 'crash', arguments: {} })
  t.strictSame(names(heard.filter(({ name }) => name.endsWith('error'))), ['callback:handleRequest:error', 'exchange:error'])
  for (const { traced } of heard) t.equal(traced.error, thrown)
  t.equal(heard.find(({ name }) => name === 'exchange:error')?.ended, true)

  heard.length = 0
  await call(app, 'tools/call', { name: 'fail', arguments: {} })
  t.strictSame(names(heard), ['callback:handleRequest:asyncEnd', 'exchange:asyncEnd'])
  t.notOk(heard.some(({ traced }) => 'error' in traced))
})

test('each callback is traced within its exchange, in order, by its name', async t => {
  const heard = listen(t, 'both', ['start', 'asyncEnd'])
  const { app, ended } = await stage(t, createStreamServer(), { listen: false })
  await call(app, 'tools/call', TOOL)
  await ended()
  t.strictSame(names(heard), [
    'exchange:start',
    'callback:capabilities:start', 'callback:capabilities:asyncEnd',
    'callback:init:start', 'callback:init:asyncEnd',
    'callback:handleRequest:start', 'callback:handleRequest:asyncEnd',
    'callback:handleMessage:start', 'callback:handleMessage:asyncEnd',
    'exchange:asyncEnd'
  ])
  for (const { traced } of heard) t.match(traced, { request: { method: 'tools/call' }, httpRequest: { id: /./ } })
})

test('a notification and its callback are traced', async t => {
  const heard = listen(t, 'both', ['start', 'asyncEnd'])
  const app = await mount(t, { server: createStreamServer({ capabilities: { tools: {} } }) })
  const body = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  t.equal((await call(app, 'notifications/cancelled', {}, { body })).statusCode, 202)
  t.strictSame(names(heard), [
    'exchange:start', 'callback:init:start', 'callback:init:asyncEnd', 'callback:handleNotification:start', 'callback:handleNotification:asyncEnd', 'exchange:asyncEnd'
  ])
  t.match(heard.at(-1)?.traced.end, { cause: 'accepted', method: 'notifications/cancelled', requestId: null })
})

test('a refusal is no exchange, and is not traced', async t => {
  const heard = listen(t, 'both')
  const app = await mount(t, { server: echo })
  t.equal((await call(app, 'tools/none')).statusCode, 404)
  t.strictSame(heard, [])
})

test('any one of the events is enough to be told of it', async t => {
  for (const event of ['start', 'end', 'asyncStart', 'asyncEnd', 'error']) {
    await t.test(event, async t => {
      const heard = listen(t, 'both', [event])
      const app = await mount(t, { server: toolServer(() => { throw new Error('a bug') }) })
      await call(app, 'tools/call', TOOL)
      t.strictSame([...names(heard)].sort(), [`callback:handleRequest:${event}`, `exchange:${event}`])
    })
  }
})

test('where nobody listens an exchange is not traced, and its callbacks stay synchronous', async t => {
  const started = gate<ExchangeRef<string>>()
  const order: string[] = []
  const { app, ended } = await stage(t, createStreamServer({
    capabilities: { tools: {} },
    init: () => {
      queueMicrotask(() => { order.push('microtask') })
      return 'base'
    },
    handleRequest: (_request, channel) => {
      order.push('handleRequest')
      started.open(channel.ref)
      return stream('live')
    }
  }), { listen: false })
  const response = call(app, 'tools/call', TOOL)
  const ref = await started.promise
  t.strictSame(order.slice(0, 1), ['handleRequest'], 'in the turn of init')

  // Whoever begins to listen meanwhile is told of callbacks from now on, and of no half exchange.
  await t.test('from now on', async t => {
    const later = listen(t, 'both')
    ref.post('go on')
    await response
    await ended()
    t.strictSame(names(later.filter(({ name }) => name.startsWith('exchange'))), [])
    t.strictSame(names(later), ['callback:handleMessage:start', 'callback:handleMessage:end', 'callback:handleMessage:asyncStart', 'callback:handleMessage:asyncEnd'])
  })
})

// ---- a store of the subscriber's

test('a store that is bound to the start of an exchange is seen by all its callbacks, and by no other exchange', async t => {
  const storage = new AsyncLocalStorage<string>()
  const start = diagnosticsChannel('tracing:fastify-gen-mcp:exchange:start')
  start.bindStore(storage, message => `span of ${String((message as Traced).request.id)}`)
  t.teardown(() => { start.unbindStore(storage) })
  const seen: Record<string, string | undefined> = {}
  const note = (callback: string, id: unknown): void => { seen[`${String(id)} ${callback}`] = storage.getStore() }
  const { app, ended } = await stage(t, createStreamServer({
    capabilities: async context => {
      note('capabilities', (context.request as McpRequest).id)
      return { tools: {} }
    },
    init: async (_arg, context) => {
      await setImmediate()
      note('init', (context.request as McpRequest).id)
      return 'base'
    },
    handleRequest: async (request, channel) => {
      note('handleRequest', request.id)
      channel.defer(() => { note('defer', request.id) })
      channel.after(1, 'go on')
      return stream('live')
    },
    handleMessage: async (_message, channel) => {
      await setImmediate()
      note('handleMessage', channel.request.id)
      return result(toolResult.text('done'))
    }
  }), { listen: false })

  await Promise.all(['a', 'b'].map(async id => await call(app, 'tools/call', TOOL, { id })))
  await ended(2)
  const callbacks = ['capabilities', 'init', 'handleRequest', 'handleMessage', 'defer']
  t.strictSame(seen, Object.fromEntries(['a', 'b'].flatMap(id => callbacks.map(callback => [`${id} ${callback}`, `span of ${id}`]))))
  t.equal(storage.getStore(), undefined)
})

test('a store is seen by a handleMessage that others caused, and by handleClose whoever closed the exchange', async t => {
  const storage = new AsyncLocalStorage<string>()
  const start = diagnosticsChannel('tracing:fastify-gen-mcp:exchange:start')
  start.bindStore(storage, () => 'span')
  t.teardown(() => { start.unbindStore(storage) })
  const seen: [string, string | undefined][] = []
  const started: { ref?: ExchangeRef<string>, close?: () => boolean } = {}
  const { port, ended } = await stage(t, createStreamServer({
    handleRequest: async (_request, channel) => {
      started.ref = channel.ref
      started.close = () => channel.close()
      channel.startStream()
      return stream('live')
    },
    handleMessage: async (_message, channel) => {
      seen.push(['handleMessage', storage.getStore()])
      channel.sendProgress(1)
      return stream('live')
    },
    handleClose: async (_context, _live, reason) => { seen.push([reason, storage.getStore()]) }
  }))
  const wire = await openWire(t, port)
  wire.send(postCall())
  await wire.received('text/event-stream')
  storage.run('another request', () => { started.ref?.post('from elsewhere') })
  await wire.received('notifications/progress')
  wire.socket.destroy()
  await ended()

  const other = await openWire(t, port)
  other.send(postCall())
  await other.received('text/event-stream')
  storage.run('another request', () => { started.close?.() })
  await ended(2)
  t.strictSame(seen, [['handleMessage', 'span'], ['disconnect', 'span'], ['closed', 'span']])
})

// ---- trace context

const PARENT = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'vendor=1', baggage: 'user=ada' }
const LINKED = { traceparent: `00-${'c'.repeat(32)}-${'d'.repeat(16)}-00`, tracestate: 'gateway=2', baggage: 'user=bob' }

test('every event has the parent of its trace, and the one of the HTTP headers to link to: OTEL-04, case 092', async t => {
  const heard = listen(t, 'both')
  const { app, ended } = await stage(t, createStreamServer(), { listen: false })
  await call(app, 'tools/call', TOOL, { meta: PARENT, headers: LINKED })
  await ended()
  t.ok(heard.length > EVENTS.length)
  for (const { name, traced: { request: { meta }, httpRequest: { headers } } } of heard) {
    t.match(meta, PARENT, name)
    t.match(headers, LINKED, name)
  }

  heard.length = 0
  await call(app, 'tools/call', TOOL, { headers: LINKED })
  await ended(2)
  t.ok(heard.length > EVENTS.length)
  for (const { name, traced } of heard) t.match(traced.request.meta, LINKED, name)
})

test('a notification has the parent of its trace: OTEL-04', async t => {
  const heard = listen(t, 'both')
  const app = await mount(t, { server: createStreamServer({ capabilities: { tools: {} } }) })
  const notify = async (meta: object): Promise<unknown> => await call(app, 'notifications/cancelled', {}, {
    body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, _meta: meta } }), headers: LINKED
  })
  await notify(PARENT)
  t.ok(heard.length > EVENTS.length)
  for (const { name, traced } of heard) t.match(traced.request.meta, PARENT, name)
  heard.length = 0
  await notify({})
  for (const { name, traced } of heard) t.match(traced.request.meta, LINKED, name)
})

test('a subscriber that makes a span of each exchange needs no more than the channels, and each line of the log can have its trace: OTEL-04, OTEL-07, case 092', async t => {
  // What a tracing library does: the store is the span that is current, and the logger asks for it.
  const storage = new AsyncLocalStorage<{ readonly traceId: string | undefined }>()
  const start = diagnosticsChannel('tracing:fastify-gen-mcp:exchange:start')
  start.bindStore(storage, message => ({ traceId: (message as Traced).request.meta.traceparent?.slice(3, 35) }))
  t.teardown(() => { start.unbindStore(storage) })
  const lines: { readonly msg: string, readonly traceId?: string }[] = []
  const logger = { level: 'debug', mixin: () => ({ ...storage.getStore() }), stream: { write: (line: string) => { lines.push(JSON.parse(line) as typeof lines[number]) } } }
  const app = await mount(t, {
    server: toolServer(async (_request, channel) => {
      channel.log.info('from the tool')
      await setImmediate()
      channel.log.info('and later')
      return result(toolResult.text('x'))
    })
  }, { logger })
  await Promise.all([PARENT, LINKED].map(async meta => await call(app, 'tools/call', TOOL, { meta })))
  const traces = (msg: string): readonly unknown[] => lines.filter(line => line.msg === msg).map(({ traceId }) => traceId).sort()
  for (const msg of ['from the tool', 'and later', 'an MCP exchange ended']) t.strictSame(traces(msg), ['a'.repeat(32), 'c'.repeat(32)], msg)
})

test('no tracing library is installed with the package, or looked for: OTEL-07', async t => {
  const { dependencies, peerDependencies } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')) as Record<string, Record<string, string>>
  const needed = Object.keys({ ...dependencies, ...peerDependencies })
  t.ok(needed.includes('fastify'))
  t.strictSame(needed.filter(name => /opentelemetry|dd-trace/.test(name)), [])
  const lib = new URL('../lib/', import.meta.url)
  const files = (await readdir(lib, { recursive: true })).filter(file => file.endsWith('.ts'))
  t.ok(files.length > 50)
  for (const file of files) t.notMatch(await readFile(new URL(file, lib), 'utf8'), /from '@opentelemetry|import\('@opentelemetry/, file)
})

// ---- dead letters

test('a message that is posted to an exchange that has ended is a dead letter, with whom it was for', async t => {
  const letters: unknown[] = []
  const deadLetters = diagnosticsChannel('fastify-gen-mcp:deadletter')
  const onLetter = (letter: unknown): void => { letters.push(letter) }
  deadLetters.subscribe(onLetter)
  t.teardown(() => { deadLetters.unsubscribe(onLetter) })
  const started = gate<ExchangeRef<string>>()
  const app = await mount(t, {
    server: createStreamServer({
      handleRequest: async (_request, channel) => {
        started.open(channel.ref)
        channel.ref.post('in time')
        return stream('live')
      }
    })
  })
  await call(app, 'tools/call', TOOL)
  const ref = await started.promise
  await ref.ended
  t.strictSame(letters, [])

  const message = { job: 7 }
  t.equal(ref.post(message as never), 'closed')
  t.equal(ref.post('again'), 'closed')
  t.strictSame(letters, [{ id: ref.id, message }, { id: ref.id, message: 'again' }])
  t.equal((letters[0] as { readonly message: unknown }).message, message, 'as it was')
})

test('a dead letter to which nobody listens is no more than closed', async t => {
  const started = gate<ExchangeRef<never>>()
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      started.open(channel.ref)
      return result(toolResult.text('x'))
    }, { handleMessage: () => result(listToolsResult([])) })
  })
  await call(app, 'tools/call', TOOL)
  const ref = await started.promise
  t.equal(ref.post('late' as never), 'closed')
})
