import { EventEmitter } from 'node:events'
import { test, type Test } from 'tap'
import { fail, inputRequired, McpError, messageType, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { call } from '../helpers/mount.js'
import { bareServer, toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, stage, type Stage, type StageOptions } from '../helpers/sockets.js'
import type { Awaitable, Channel, CloseReason, ExchangeEnd, MessageOutcome, RequestOutcome } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }
const done = () => result(toolResult.text('done'))

/** One way for an exchange to end. */
interface Ending {
  readonly title: string
  readonly cause: ExchangeEnd['cause']
  /** What the handler does before it answers or streams. */
  readonly handle: (channel: Channel<string>) => Awaitable<RequestOutcome<string, 'tools/call'>>
  readonly handleMessage?: (message: string, channel: Channel<string>) => Awaitable<MessageOutcome<string>>
  readonly options?: StageOptions
  /** What ends it from outside, once the handler has been called. */
  readonly end?: (stage: Stage, client: { vanish (): void }) => unknown
}

const live = stream('live')
const streamAndGo = (channel: Channel<string>) => { channel.ref.post('go'); return live }
const never = new Promise<never>(() => {})
async function untilAborted (_message: string, { signal }: Channel<string>) {
  if (!signal.aborted) await new Promise<void>(resolve => { signal.addEventListener('abort', () => { resolve() }, { once: true }) })
  return done()
}
const brokenSource = { next: () => { throw new Error('broken') }, [Symbol.iterator] () { return this } }

const answered: readonly Ending[] = [
  { title: 'a result of the handler', cause: 'result', handle: done },
  { title: 'a result of the handler that waited', cause: 'result', handle: async () => { await null; return done() } },
  { title: 'fail', cause: 'error', handle: () => fail('no') },
  { title: 'an McpError thrown', cause: 'error', handle: () => { throw McpError.unsupportedMethod('x') } },
  { title: 'a question to the client', cause: 'result', handle: () => inputRequired({}) },
  { title: 'a result of handleMessage', cause: 'result', handle: streamAndGo, handleMessage: done },
  { title: 'fail of handleMessage', cause: 'error', handle: streamAndGo, handleMessage: async () => fail('no') },
  { title: 'stop', cause: 'stop', handle: streamAndGo, handleMessage: () => stop('enough') },
  { title: 'stop with an Error', cause: 'stop', handle: streamAndGo, handleMessage: () => stop(new Error('broken')) }
]

const closed: readonly Ending[] = [
  { title: 'close()', cause: 'closed', handle: streamAndGo, handleMessage: (_message, channel) => { channel.close(); return live } },
  { title: 'close(), and then a result', cause: 'closed', handle: streamAndGo, handleMessage: (_message, channel) => { channel.close(); return done() } },
  {
    title: 'close(), and then a throw',
    cause: 'closed',
    handle: streamAndGo,
    handleMessage: (_message, channel) => {
      channel.close()
      throw new Error('late')
    }
  },
  { title: 'close() in the handler, and then stream()', cause: 'closed', handle: channel => { channel.close(); return live } },
  { title: 'a throw', cause: 'crash', handle: streamAndGo, handleMessage: () => { throw new Error('broken') } },
  { title: 'a rejection', cause: 'crash', handle: streamAndGo, handleMessage: async () => { throw new Error('broken') } },
  // What untyped code returns.
  { title: 'a bad return', cause: 'crash', handle: streamAndGo, handleMessage: () => undefined as unknown as MessageOutcome<string> },
  { title: 'a result that is no JSON', cause: 'crash', handle: streamAndGo, handleMessage: () => result(toolResult.text(1n as unknown as string)) },
  {
    title: 'a mapping that throws',
    cause: 'crash',
    handle: channel => {
      const emitter = new EventEmitter()
      channel.on(emitter, 'event', () => { throw new Error('broken') })
      setImmediate(() => { emitter.emit('event') })
      return live
    }
  },
  { title: 'a promise that rejects', cause: 'crash', handle: channel => { channel.watch(Promise.reject(new Error('broken')), () => 'never'); return live } },
  { title: 'an iterator that throws', cause: 'crash', handle: channel => { channel.consume(brokenSource, { next: () => 'never' }); return live } },
  { title: 'a shutdown', cause: 'shutdown', handle: () => live, end: ({ app }) => { app.close() } },
  {
    title: 'a shutdown while a callback runs',
    cause: 'shutdown',
    handle: streamAndGo,
    handleMessage: untilAborted,
    options: { limits: { drain: 20 } },
    end: ({ app }) => { app.close() }
  },
  { title: 'the time limit', cause: 'timeout', handle: () => live, options: { limits: { maxDuration: 20 } } },
  {
    title: 'a mailbox that is full',
    cause: 'overflow',
    handle: channel => {
      channel.ref.post('a')
      channel.ref.post('b')
      return live
    },
    options: { limits: { mailbox: 1 } }
  },
  { title: 'a client that leaves', cause: 'disconnect', handle: () => live, end: (_stage, client) => { client.vanish() } },
  {
    title: 'a client that leaves while a callback runs',
    cause: 'disconnect',
    handle: streamAndGo,
    handleMessage: untilAborted,
    end: (_stage, client) => { client.vanish() }
  }
]

/** All that can be seen of the end of an exchange, in order. */
async function observe (t: Test, { handle, handleMessage = async () => await never, options = {}, end }: Ending) {
  const order: string[] = []
  const reasons: unknown[] = []
  const begun = gate<Channel<string>>()
  const server = toolServer<string, string>((_request, channel) => {
    channel.signal.addEventListener('abort', () => { order.push('abort') })
    channel.on({ on: () => {}, off: () => { order.push('source') } }, 'event', () => undefined)
    channel.defer(() => { order.push('first clean-up') })
    channel.defer(async () => { await null; order.push('second clean-up') })
    channel.ref.ended.then(({ cause }) => { order.push(`ended ${cause}`) }, () => { order.push('rejected') })
    begun.open(channel)
    return handle(channel)
  }, {
    messages: messageType<string>(),
    handleMessage,
    handleClose: (_context, state, reason) => { reasons.push([state, reason]); order.push('handleClose') }
  })
  const staged = await stage(t, server, { ...options, onEnd: ({ cause }) => { order.push(`onEnd ${cause}`) } })
  const client = createTestClient(staged.app)
  const opened = await client.open('tools/call', tool)
  const channel = await begun.promise
  await end?.(staged, opened)
  const [ended] = await staged.ended()
  await channel.ref.ended
  // What comes too late to be seen yet.
  await new Promise(resolve => { setTimeout(resolve, 10) })
  await client.close()
  return { order, reasons, ended, channel, staged }
}

/** The reactions to a promise run after what follows its resolution in the same turn. */
function split (order: readonly string[]) {
  const isReaction = (what: string) => what.startsWith('ended') || what === 'rejected'
  return { before: order.filter(what => !isReaction(what)), endings: order.filter(isReaction) }
}

for (const ending of answered) {
  // M8, M10, M11
  test(`answered by ${ending.title}: sources stop, clean-ups run, ended resolves, onEnd; no abort, no handleClose`, async t => {
    const { order, ended, channel, staged } = await observe(t, ending)
    const { before, endings } = split(order)
    t.strictSame(before, ['source', 'second clean-up', 'first clean-up', `onEnd ${ending.cause}`])
    t.strictSame(endings, [`ended ${ending.cause}`], 'once')
    t.match(ended, { cause: ending.cause })
    // CAN-04: a normal end of the response is not a cancellation.
    t.equal(channel.signal.aborted, false)
    t.strictSame(staged.gauges(), NOTHING_HELD)
  })
}

for (const ending of closed) {
  // M8, M10, M11
  test(`closed by ${ending.title}: signal aborts, sources stop, handleClose once, clean-ups, ended resolves, onEnd`, async t => {
    const { order, reasons, ended, channel, staged } = await observe(t, ending)
    const { before, endings } = split(order)
    t.strictSame(before, ['abort', 'source', 'handleClose', 'second clean-up', 'first clean-up', `onEnd ${ending.cause}`])
    t.strictSame(endings, [`ended ${ending.cause}`], 'once')
    t.strictSame(reasons, [['live', ending.cause]])
    t.match(ended, { cause: ending.cause })
    t.equal(channel.signal.aborted, true)
    t.strictSame(staged.gauges(), NOTHING_HELD)
  })
}

// ---- the order of the end

test('an answer is written before sources stop', async t => {
  const order: string[] = []
  const { app } = await stage(t, toolServer((_request, channel) => {
    channel.on({ on: () => {}, off: () => { order.push('source') } }, 'event', () => undefined)
    return done()
  }), { listen: false, before: app => app.addHook('onSend', (_httpRequest, _reply, _payload, next) => { order.push('answer'); next() }) })
  await call(app, 'tools/call', tool)
  t.strictSame(order, ['answer', 'source'])
})

// M10, M11
test('handleClose is waited for, then the clean-ups one after the other, then ended resolves', async t => {
  const order: string[] = []
  const slow = async (what: string) => {
    order.push(`begin ${what}`)
    await new Promise(resolve => { setImmediate(resolve) })
    order.push(`end ${what}`)
  }
  const exchange = testExchange(toolServer<number, string>((_request, channel) => {
    channel.defer(async () => { await slow('first') })
    channel.defer(async () => { await slow('second') })
    return stream(1)
  }, { handleClose: async () => { await slow('handleClose') } }), 'tools/call', tool)
  exchange.disconnect()
  await exchange.ended
  t.strictSame(order, ['handleClose', 'second', 'first'].flatMap(what => [`begin ${what}`, `end ${what}`]))
})

// M11, rule 93
test('a throw of handleClose or of a clean-up is logged, and the rest runs', async t => {
  const order: string[] = []
  const { app, lines, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.defer(() => { order.push('first') })
    channel.defer(() => { throw new Error('of the second') })
    channel.defer(async () => { throw new Error('of the third') })
    channel.ref.post('go')
    return stream(1)
  }, {
    handleMessage: (_message, channel) => { channel.close(); return stream(1) },
    handleClose: async () => { throw new Error('of handleClose') }
  }), { listen: false })
  await call(app, 'tools/call', tool)
  t.match(await ended(), [{ cause: 'closed' }])
  t.strictSame(order, ['first'])
  t.strictSame(alarms(lines).map(({ err }) => (err as Error).message), ['of handleClose', 'of the third', 'of the second'])
})

test('a synchronous throw of handleClose is logged as well', async t => {
  const { app, lines, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.close()
    return stream(1)
  }, { handleClose: () => { throw new Error('of handleClose') } }), { listen: false })
  await call(app, 'tools/call', tool)
  await ended()
  t.match(alarms(lines), [{ err: { message: 'of handleClose' }, mcp: { method: 'tools/call' } }])
})

test('a throw of onEnd is logged, and the client has its answer', async t => {
  const { app, lines } = await stage(t, toolServer(done), { listen: false, onEnd: () => { throw new Error('of onEnd') } })
  t.equal((await call(app, 'tools/call', tool)).statusCode, 200)
  t.match(alarms(lines), [{ err: { message: 'of onEnd' } }])
})

test('a clean-up that is deferred by a clean-up runs too', async t => {
  const order: string[] = []
  const exchange = testExchange(toolServer((_request, channel) => {
    channel.defer(async () => {
      order.push('outer')
      await null
      channel.defer(() => { order.push('inner') })
    })
    return done()
  }), 'tools/call', tool)
  await exchange.ended
  t.strictSame(order, ['outer', 'inner'])
})

test('what is deferred by handleClose runs after it', async t => {
  const order: string[] = []
  const exchange = testExchange(toolServer<number>(() => stream(1), {
    handleClose: context => {
      context.defer(() => { order.push('deferred') })
      order.push('handleClose')
    }
  }), 'tools/call', tool)
  exchange.disconnect()
  await exchange.ended
  t.strictSame(order, ['handleClose', 'deferred'])
})

test('a clean-up that is deferred after the end runs at once, and what it throws is logged', async t => {
  let late: Channel | undefined
  const { app, lines } = await stage(t, toolServer((_request, channel) => {
    late = channel
    return done()
  }), { listen: false })
  await call(app, 'tools/call', tool)
  let ran = false
  late?.defer(() => { ran = true })
  t.ok(ran)
  late?.defer(() => { throw new Error('sync') })
  late?.defer(async () => { throw new Error('async') })
  await new Promise(resolve => { setImmediate(resolve) })
  t.strictSame(alarms(lines).map(({ err }) => (err as Error).message), ['sync', 'async'])
})

test('a clean-up that is deferred when it is over, and yet a callback runs, waits for the callback', async t => {
  const { promise, open } = gate()
  const order: string[] = []
  const exchange = testExchange(toolServer(async (_request, channel) => {
    await promise
    channel.defer(() => { order.push('clean-up') })
    order.push('handler')
    return done()
  }), 'tools/call', tool)
  exchange.disconnect()
  open()
  await exchange.ended
  t.strictSame(order, ['handler', 'clean-up'])
})

// M11
test('ended resolves with the same facts for whoever asks, whenever they ask', async t => {
  let ref: Channel['ref'] | undefined
  const { app, ends } = await stage(t, toolServer((_request, channel) => {
    ref = channel.ref
    return done()
  }), { listen: false })
  await call(app, 'tools/call', tool)
  t.strictSame(await ref?.ended, ends[0])
  t.ok(Object.isFrozen(await ref?.ended))
})

test('a ref that is first asked for after the end has ended', async t => {
  let late: Channel | undefined
  await testExchange(toolServer((_request, channel) => { late = channel; return done() }), 'tools/call', tool).ended
  t.equal(late?.ref.post(undefined as never), 'closed')
  t.match(await late?.ref.ended, { cause: 'result' })
})

test('what is told of the end', async t => {
  const { app, ends } = await stage(t, bareServer(({ method, params }, channel) => {
    channel.sendProgress(1)
    return 'uri' in params ? fail({ kind: 'resourceNotFound', uri: params.uri }) : result(toolResult.text(method))
  }), { listen: false })
  const client = createTestClient(app, { progressToken: 'p' })
  const response = await call(app, 'tools/call', { name: 'a tool', arguments: {} }, { id: 7 })
  await client.request('resources/read', { uri: 'x:y' })
  await client.request('tools/list', {})

  const [first, second, third] = ends
  t.strictSame(Object.keys(first ?? {}), [
    'cause', 'reason', 'method', 'name', 'protocolVersion', 'requestId', 'statusCode', 'streamed', 'events', 'bytes', 'undelivered', 'durationMs'
  ])
  t.match(first, { cause: 'result', reason: undefined, method: 'tools/call', name: 'a tool', protocolVersion: '2026-07-28', requestId: 7 })
  t.match(first, { statusCode: 200, streamed: false, events: 1, undelivered: 0 })
  t.equal(first?.bytes, response.rawPayload.length)
  t.ok(first !== undefined && first.durationMs >= 0 && first.durationMs < 10_000)
  t.match(second, { cause: 'error', reason: { code: 'MCP_ERR_RESOURCE_NOT_FOUND' }, method: 'resources/read', name: 'x:y', streamed: true, events: 2 })
  t.match(third, { cause: 'result', name: undefined, streamed: true, events: 2 })
})

// ---- handleClose

const closers: readonly (readonly [cause: CloseReason, close: (channel: Channel<string>) => unknown])[] = [
  ['closed', channel => channel.close()],
  ['crash', () => { throw new Error('broken') }]
]

// M10, rules 91 and 99
test('without a live state handleClose does not run, and clean-ups do', async t => {
  for (const [cause, close] of closers) {
    let cleaned = false
    const exchange = testExchange(toolServer<string, string>((_request, channel) => {
      channel.defer(() => { cleaned = true })
      close(channel)
      return done()
    }, { handleClose: () => { t.fail('handleClose ran') } }), 'tools/call', tool)
    t.match(await exchange.ended, { cause })
    t.ok(cleaned)
  }
})

// M9, M10, rules 75 and 89
test('handleClose gets the state of the last stream(), also of one that came after the close', async t => {
  const states: unknown[] = []
  const server = toolServer<number, string>((_request, channel) => {
    channel.ref.post('a')
    channel.ref.post('b')
    return stream(1)
  }, {
    handleMessage: (message, channel) => {
      if (message === 'b') channel.close()
      return stream(message === 'a' ? 2 : 3)
    },
    handleClose: (_context, live) => { states.push(live) }
  })
  await testExchange(server, 'tools/call', tool).ended
  t.strictSame(states, [3])
})

// M9, M10
test('stream(undefined) is a live state too', async t => {
  const states: unknown[] = []
  const server = toolServer<undefined>(() => stream(undefined), { handleClose: (_context, live) => { states.push(live) } })
  const exchange = testExchange(server, 'tools/call', tool)
  exchange.disconnect()
  await exchange.ended
  t.strictSame(states, [undefined])
})

// M9, rules 77 and 90
test('an answer given after the close is dropped, and handleClose runs with the last live state', async t => {
  for (const late of [done(), fail('late'), stop('late'), undefined]) {
    const states: unknown[] = []
    const { app, ended, lines } = await stage(t, toolServer<number, string>((_request, channel) => {
      channel.ref.post('go')
      return stream(1)
    }, {
      handleMessage: (_message, channel) => {
        channel.close()
        return late as MessageOutcome<number>
      },
      handleClose: (_context, live, reason) => { states.push([live, reason]) }
    }), { listen: false })
    const response = await call(app, 'tools/call', tool)
    t.equal(response.body, '')
    t.match(await ended(), [{ cause: 'closed', events: 0 }])
    t.strictSame(states, [[1, 'closed']])
    t.strictSame(alarms(lines), [])
  }
})

test('handleClose gets a context, which cannot send, and runs when the callback has settled', async t => {
  const { promise, open } = gate()
  const order: string[] = []
  const exchange = testExchange(toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, {
    handleMessage: async () => {
      await promise
      order.push('handleMessage')
      return stream(2)
    },
    handleClose: (context, live) => {
      order.push(`handleClose ${live}`)
      t.notOk('sendProgress' in context)
      t.equal(context.request.method, 'tools/call')
      t.ok(context.signal.aborted)
      return done() as unknown as undefined
    }
  }), 'tools/call', tool)
  await new Promise(resolve => { setImmediate(resolve) })
  exchange.disconnect()
  await new Promise(resolve => { setImmediate(resolve) })
  t.strictSame(order, [])
  open()
  await exchange.ended
  t.strictSame(order, ['handleMessage', 'handleClose 2'])
})

test('a second cause changes nothing', async t => {
  let closes = 0
  const answers: unknown[] = []
  const { app, ends, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    answers.push(channel.close(), channel.closed, channel.close())
    channel.watch(Promise.reject(new Error('broken')), () => 'never')
    channel.signal.throwIfAborted()
    return stream(1)
  }, { handleClose: () => { closes++ } }), { listen: false, limits: { maxDuration: 5 } })
  await call(app, 'tools/call', tool)
  await ended()
  await new Promise(resolve => { setTimeout(resolve, 20) })
  t.strictSame(answers, [true, true, false])
  t.equal(closes, 0)
  t.match(ends, [{ cause: 'closed' }])
  t.equal(ends.length, 1)
})

// ---- M19: close() from the server

test('close() on an open stream ends it with no further event', async t => {
  const { app, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, {
    handleMessage: (_message, channel) => {
      channel.sendProgress(1)
      t.equal(channel.close(), true)
      t.equal(channel.sendProgress(2), 'closed')
      t.equal(channel.close(), false)
      return stream(1)
    }
  }), { listen: false })
  const answer = await createTestClient(app).request('tools/call', tool, { progressToken: 'p' })
  t.equal(answer.statusCode, 200)
  t.equal(answer.notifications.length, 1)
  t.notOk(answer.result ?? answer.error)
  t.match(await ended(), [{ cause: 'closed', events: 1 }])
})

test('close() on a listen ends it with the result of a listen', async t => {
  const { app } = await stage(t, bareServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, { handleMessage: (_message, channel) => { channel.close(); return stream(1) } }), { listen: false })
  const answer = await createTestClient(app).request('subscriptions/listen', { notifications: { toolsListChanged: true } })
  t.match(answer.result, { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } })
})

// Rule 78
test('close() before any output answers with an error', async t => {
  const { app, ends } = await stage(t, toolServer((_request, channel) => { channel.close(); return done() }), { listen: false })
  const response = await call(app, 'tools/call', tool)
  t.equal(response.statusCode, 200)
  t.match(response.headers['content-type'], /^application\/json/)
  t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Request closed by the server' } })
  t.match(ends, [{ cause: 'closed' }])
})

test('close() answers a client that takes JSON only with an error, also after stream()', async t => {
  const { app } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('go')
    return stream(1)
  }, { handleMessage: (_message, channel) => { channel.close(); return stream(1) } }), { listen: false })
  const response = await call(app, 'tools/call', tool, { headers: { accept: 'application/json' } })
  t.match(response.json(), { error: { code: -32603, message: 'Request closed by the server' } })
})
