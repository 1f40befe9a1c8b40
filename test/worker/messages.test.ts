import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { test } from 'tap'
import { fail, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { toolServer } from '../helpers/servers.js'
import { gate, stage } from '../helpers/sockets.js'
import type { ExchangeRef } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }

/** A server that streams at once and keeps what it is sent, until it is sent 'end'. */
function collector () {
  const handled: string[] = []
  const server = toolServer<undefined, string>(() => stream(undefined), {
    handleMessage: message => {
      handled.push(message)
      return message === 'end' ? result(toolResult.text('done')) : stream(undefined)
    }
  })
  return { handled, server }
}

// M1
test('post never runs a callback in the same turn', async t => {
  const { handled, server } = collector()
  const { ref, ended } = testExchange(server, 'tools/call', tool)
  await new Promise(resolve => { setImmediate(resolve) })
  t.equal(ref.post('a'), 'queued')
  t.strictSame(handled, [], 'the exchange waits for it, and yet')
  ref.post('end')
  await ended
  t.strictSame(handled, ['a', 'end'])
})

// M1
test('post says what became of the message, and does not throw, whatever it is', async t => {
  const handled: unknown[] = []
  const server = toolServer<undefined, unknown>(() => stream(undefined), {
    handleMessage: message => {
      handled.push(message)
      return handled.length === 5 ? stop() : stream(undefined)
    }
  })
  const { ref, ended } = testExchange(server, 'tools/call', tool)
  const messages = [null, undefined, Symbol('s'), 1n, () => {}]
  for (const message of messages) t.equal(ref.post(message), 'queued')
  await ended
  t.strictSame(handled, messages, 'undefined is a message like any other')
  for (const message of messages) t.equal(ref.post(message), 'closed')
})

test('a ref is one object, frozen, with an id of its own', async t => {
  const refs: ExchangeRef<never>[] = []
  const server = toolServer((_request, channel) => {
    t.equal(channel.ref, channel.ref)
    refs.push(channel.ref)
    return result(toolResult.text('done'))
  })
  for (let round = 0; round < 2; round++) await testExchange(server, 'tools/call', tool).ended
  t.ok(refs.every(Object.isFrozen))
  t.not(refs[0]?.id, refs[1]?.id)
  t.match(refs[0]?.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

// M2
test('the next message is taken only after the callback before it has settled', async t => {
  let running = 0
  let most = 0
  const order: string[] = []
  const server = toolServer<undefined, string>(async (_request, channel) => {
    running++
    for (const message of ['a', 'b', 'c', 'end']) channel.ref.post(message)
    await new Promise(resolve => { setImmediate(resolve) })
    running--
    return stream(undefined)
  }, {
    handleMessage: async message => {
      most = Math.max(most, ++running)
      order.push(`begin ${message}`)
      // The first takes longest.
      for (let turn = 0; turn < 5 - order.length; turn++) await new Promise(resolve => { setImmediate(resolve) })
      order.push(`end ${message}`)
      running--
      return message === 'end' ? stop() : stream(undefined)
    }
  })
  await testExchange(server, 'tools/call', tool).ended
  t.equal(most, 1)
  t.strictSame(order, ['a', 'b', 'c', 'end'].flatMap(message => [`begin ${message}`, `end ${message}`]))
})

// M3
test('messages of all sources come in the order in which they were posted', async t => {
  const handled: string[] = []
  const emitter = new EventTarget()
  const server = toolServer<undefined, string>((_request, channel) => {
    channel.on(emitter, 'tick', () => 'event')
    channel.ref.post('1')
    emitter.dispatchEvent(new Event('tick'))
    channel.ref.post('2')
    emitter.dispatchEvent(new Event('tick'))
    channel.ref.post('3')
    return stream(undefined)
  }, {
    handleMessage: message => {
      handled.push(message)
      return handled.length === 5 ? stop() : stream(undefined)
    }
  })
  await testExchange(server, 'tools/call', tool).ended
  t.strictSame(handled, ['1', 'event', '2', 'event', '3'])
})

// M3
test('a message posted from inside a callback goes to the end', async t => {
  const handled: string[] = []
  const server = toolServer<undefined, string>((_request, channel) => {
    channel.ref.post('a')
    channel.ref.post('b')
    return stream(undefined)
  }, {
    handleMessage: (message, channel) => {
      handled.push(message)
      if (message === 'a') channel.ref.post('of a')
      return message === 'of a' ? stop() : stream(undefined)
    }
  })
  await testExchange(server, 'tools/call', tool).ended
  t.strictSame(handled, ['a', 'b', 'of a'])
})

// M4, rules 20 and 35
test('messages posted before stream() wait, and are delivered after it', async t => {
  const { promise, open } = gate()
  const order: string[] = []
  const server = toolServer<string, string>(async (_request, channel) => {
    channel.ref.post('early')
    await promise
    order.push('handler')
    return stream('live')
  }, {
    handleMessage: (message, _channel, live) => {
      order.push(`${message} ${live}`)
      return stop()
    }
  })
  const { ref, ended } = testExchange(server, 'tools/call', tool)
  t.equal(ref.post('later'), 'queued')
  await new Promise(resolve => { setImmediate(resolve) })
  t.strictSame(order, [])
  open()
  t.match(await ended, { undelivered: 1 })
  t.strictSame(order, ['handler', 'early live'])
})

// M5, rule 36
test('if the handler answers instead, what waits is dropped and counted', async t => {
  for (const outcome of [result(toolResult.text('done')), fail('no')]) {
    const server = toolServer<never, string>((_request, channel) => {
      channel.ref.post('a')
      channel.ref.post('b')
      return outcome
    }, { handleMessage: () => t.fail('a message was handled') as never })
    t.match(await testExchange(server, 'tools/call', tool).ended, { cause: outcome.type, undelivered: 2 })
  }
})

test('what waits when handleMessage answers or stops is dropped and counted', async t => {
  for (const outcome of [result(toolResult.text('done')), fail('no'), stop()]) {
    const server = toolServer<number, string>((_request, channel) => {
      for (const message of ['a', 'b', 'c']) channel.ref.post(message)
      return stream(1)
    }, { handleMessage: () => outcome })
    t.match(await testExchange(server, 'tools/call', tool).ended, { undelivered: 2 })
  }
})

// M6, rule 44
test('after the end post says closed, and a diagnostics channel tells of the message', async t => {
  const letters: unknown[] = []
  const listener = (letter: unknown) => { letters.push(letter) }
  subscribe('fastify-gen-mcp:deadletter', listener)
  t.teardown(() => { unsubscribe('fastify-gen-mcp:deadletter', listener) })

  const { handled, server } = collector()
  const { ref, ended } = testExchange(server, 'tools/call', tool)
  ref.post('end')
  await ended
  t.strictSame(letters, [])
  t.equal(ref.post('too late'), 'closed')
  t.strictSame(letters, [{ id: ref.id, message: 'too late' }])
  t.strictSame(handled, ['end'])
})

// M7, rule 87
test('a close overtakes the messages that are queued, which are dropped and counted', async t => {
  const { promise, open } = gate()
  const handled: string[] = []
  const server = toolServer<undefined, string>(() => stream(undefined), {
    handleMessage: async message => {
      handled.push(message)
      await promise
      return stream(undefined)
    }
  })
  const exchange = testExchange(server, 'tools/call', tool)
  for (const message of ['a', 'b', 'c']) exchange.ref.post(message)
  await new Promise(resolve => { setImmediate(resolve) })
  exchange.disconnect()
  open()
  t.match(await exchange.ended, { cause: 'disconnect', undelivered: 2 })
  t.strictSame(handled, ['a'])
})

// M18
test('every 64 messages I/O has its turn', async t => {
  const count = 1000
  let handled = 0
  let turns = 0
  const turn = () => { turns++; if (handled < count) setImmediate(turn) }
  const server = toolServer<undefined, number>((_request, channel) => {
    for (let message = 1; message <= count; message++) channel.ref.post(message)
    setImmediate(turn)
    return stream(undefined)
  }, {
    handleMessage: message => {
      handled = message
      return message === count ? stop() : stream(undefined)
    }
  })
  await testExchange(server, 'tools/call', tool).ended
  t.ok(turns >= Math.floor(count / 64), `${turns} turns`)
  t.ok(turns <= count / 8, 'and not after each')
})

test('messages that nobody handles do not starve I/O either', async t => {
  let turns = 0
  const exchange = testExchange(toolServer<undefined, number>((_request, channel) => {
    for (let message = 0; message < 300; message++) channel.ref.post(message)
    return stream(undefined)
  }), 'tools/call', tool)
  const turned = new Promise<void>(resolve => {
    const turn = () => { if (++turns === 6) resolve(); else setImmediate(turn) }
    setImmediate(turn)
  })
  await turned
  exchange.disconnect()
  t.match(await exchange.ended, { undelivered: 300 })
})

// ---- M17: a bounded mailbox, SEC-06

const overrun = { code: -32603, message: 'The request was overrun by its own messages' }

test('past its limit the exchange ends, since a silent loss is worse than a visible failure', async t => {
  const statuses: string[] = []
  const closed: unknown[] = []
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    for (const message of ['a', 'b', 'c', 'd']) statuses.push(channel.ref.post(message))
    return stream(1)
  }, {
    handleMessage: () => t.fail('a message was handled') as never,
    handleClose: (_context, live, reason) => { closed.push([live, reason]) }
  }), { listen: false, limits: { mailbox: 2 } })

  const { statusCode, error } = await createTestClient(app).request('tools/call', tool)
  t.equal(statusCode, 200)
  t.strictSame(error, overrun)
  t.strictSame(statuses, ['queued', 'queued', 'overflow', 'closed'])
  t.match(ends, [{ cause: 'overflow', undelivered: 3 }])
  t.strictSame(closed, [[1, 'overflow']], 'stream() came too late for the client, and yet sets the state')
})

test('an open stream that is overrun ends with an error event', async t => {
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('a')
    return stream(1)
  }, {
    handleMessage: async (_message, channel) => {
      channel.ref.post('b')
      channel.ref.post('c')
      return stream(2)
    }
  }), { listen: false, limits: { mailbox: 1 } })
  const { statusCode, headers, error } = await createTestClient(app).request('tools/call', tool)
  t.equal(statusCode, 200)
  t.match(headers, { 'content-type': /^text\/event-stream/ })
  t.strictSame(error, overrun)
  t.match(ends, [{ cause: 'overflow', undelivered: 2, streamed: true }])
})

test('if so chosen, the oldest message is dropped and counted', async t => {
  const statuses: string[] = []
  const handled: string[] = []
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    for (const message of ['a', 'b', 'c', 'd']) statuses.push(channel.ref.post(message))
    return stream(1)
  }, {
    handleMessage: message => {
      handled.push(message)
      return handled.length === 2 ? stop() : stream(1)
    }
  }), { listen: false, limits: { mailbox: 2, onOverflow: 'dropOldest' } })
  await createTestClient(app).request('tools/call', tool)
  t.strictSame(statuses, ['queued', 'queued', 'queued', 'queued'])
  t.strictSame(handled, ['c', 'd'])
  t.match(ends, [{ cause: 'stop', undelivered: 2 }])
})

test('if so chosen, the newest message is dropped and counted', async t => {
  const statuses: string[] = []
  const handled: string[] = []
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    for (const message of ['a', 'b', 'c', 'd']) statuses.push(channel.ref.post(message))
    return stream(1)
  }, {
    handleMessage: message => {
      handled.push(message)
      return handled.length === 2 ? stop() : stream(1)
    }
  }), { listen: false, limits: { mailbox: 2, onOverflow: 'dropNewest' } })
  await createTestClient(app).request('tools/call', tool)
  t.strictSame(statuses, ['queued', 'queued', 'overflow', 'overflow'])
  t.strictSame(handled, ['a', 'b'])
  t.match(ends, [{ cause: 'stop', undelivered: 2 }])
})

test('a message that is being handled takes no room', async t => {
  const statuses: string[] = []
  const { app, ends } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.ref.post('a')
    return stream(1)
  }, {
    handleMessage: (message, channel) => {
      if (message === 'c') return stop()
      if (message === 'a') statuses.push(channel.ref.post('b'))
      if (message === 'b') statuses.push(channel.ref.post('c'))
      return stream(1)
    }
  }), { listen: false, limits: { mailbox: 1 } })
  await createTestClient(app).request('tools/call', tool)
  t.strictSame(statuses, ['queued', 'queued'])
  t.match(ends, [{ cause: 'stop', undelivered: 0 }])
})

test('a mailbox takes a thousand messages unless told otherwise', async t => {
  const statuses: string[] = []
  const { app, ends } = await stage(t, toolServer<number, number>((_request, channel) => {
    for (let message = 0; message < 1001; message++) statuses.push(channel.ref.post(message))
    return stream(1)
  }), { listen: false })
  t.strictSame((await createTestClient(app).request('tools/call', tool)).error, overrun)
  t.equal(statuses.indexOf('overflow'), 1000)
  t.match(ends, [{ cause: 'overflow', undelivered: 1001 }])
})
