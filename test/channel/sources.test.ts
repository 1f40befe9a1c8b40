import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import { Type } from '@sinclair/typebox'
import mqemitter from 'mqemitter'
import { test } from 'tap'
import { result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, openWire, postCall, stage } from '../helpers/sockets.js'
import type { BusListener, BusPacket, Channel, MessageBus, Source } from 'fastify-gen-mcp'

const tool = { name: 'tool', arguments: {} }
const done = () => result(toolResult.text('done'))

async function turn (): Promise<void> {
  await new Promise(resolve => { setImmediate(resolve) })
}

/** An exchange whose handler makes sources and streams; it keeps what arrives, and stops after `count` messages. */
function feed (make: (channel: Channel<unknown>) => unknown, count = Infinity) {
  const handled: unknown[] = []
  let channel: Channel<unknown> | undefined
  const server = toolServer<undefined, unknown>((_request, given) => {
    channel = given
    make(given)
    return stream(undefined)
  }, {
    handleMessage: message => {
      handled.push(message)
      return handled.length >= count ? stop() : stream(undefined)
    }
  })
  const exchange = testExchange(server, 'tools/call', tool)
  // The handler is called at once.
  return { ...exchange, exchange, handled, ended: exchange.ended, channel: channel as Channel<unknown> }
}

/** An emitter that goes on calling listeners which it was told to forget. */
class Stubborn {
  readonly listeners: ((...args: unknown[]) => void)[] = []
  removed = 0
  on (_event: string, listener: (...args: unknown[]) => void) { this.listeners.push(listener) }
  off () { this.removed++ }
  emit (...args: unknown[]) { for (const listener of this.listeners) listener(...args) }
}

/** A bus that does the same. */
function stubbornBus () {
  const listeners: BusListener[] = []
  const log: string[] = []
  const bus: MessageBus = {
    on: (topic, listener) => { log.push(`on ${topic}`); listeners.push(listener) },
    removeListener: topic => { log.push(`remove ${topic}`) },
    emit: packet => { for (const listener of listeners) listener(packet, () => { log.push('done') }) }
  }
  return { bus, log }
}

// ---- watch

test('watch makes one message of a promise', async t => {
  const { ended, handled } = feed(channel => { channel.watch(Promise.resolve(2), value => value * 2) }, 1)
  t.match(await ended, { cause: 'stop' })
  t.strictSame(handled, [4])
})

test('watch takes any thenable', async t => {
  const thenable: PromiseLike<string> = { then: onFulfilled => Promise.resolve('value').then(onFulfilled) }
  const { ended, handled } = feed(channel => { channel.watch(thenable, value => value) }, 1)
  await ended
  t.strictSame(handled, ['value'])
})

test('watch starts work at once and hands it a signal, which aborts when the source is released', async t => {
  const signals: AbortSignal[] = []
  const { ended, channel } = feed(channel => {
    for (const value of ['a', 'b']) {
      channel.watch(async signal => { signals.push(signal); return value }, value => value)
    }
    t.equal(signals.length, 2)
    t.notOk(signals[0]?.aborted)
  }, 2)
  await ended
  t.ok(signals[0]?.aborted)
  t.notOk(channel.signal.aborted, 'the exchange was stopped, not closed')
})

test('stop() of a watch aborts its work, of which nothing is delivered any more', async t => {
  const { promise, open } = gate<string>()
  let signal: AbortSignal | undefined
  let source: Source | undefined
  const { exchange, ended, handled } = feed(channel => {
    source = channel.watch(given => { signal = given; return promise }, value => value)
  })
  source?.stop()
  t.ok(signal?.aborted)
  open('too late')
  await turn()
  exchange.disconnect()
  t.match(await ended, { cause: 'disconnect', undelivered: 0 })
  t.strictSame(handled, [])
})

test('the end of the exchange aborts work that is watched', async t => {
  let signal: AbortSignal | undefined
  const { exchange, ended } = feed(channel => {
    channel.watch(async given => { signal = given; await new Promise(() => {}) }, () => 'never')
  })
  t.notOk(signal?.aborted)
  exchange.disconnect()
  t.ok(signal?.aborted)
  await ended
})

// M13, rule 46
test('a rejection is a message where onRejected maps it', async t => {
  const { ended, handled } = feed(channel => {
    channel.watch(Promise.reject(new Error('broken')), () => 'fine', reason => (reason as Error).message)
    channel.watch(() => { throw new Error('broken at once') }, () => 'fine', reason => (reason as Error).message)
    channel.watch(async () => { throw new Error('broken later') }, () => 'fine', reason => (reason as Error).message)
  }, 3)
  t.match(await ended, { cause: 'stop' })
  t.strictSame([...handled].sort(), ['broken', 'broken at once', 'broken later'])
})

// M13, rule 45
test('a rejection that nobody maps crashes the exchange', async t => {
  const works: readonly (Promise<never> | (() => Promise<never>))[] = [
    Promise.reject(new Error('broken')), async () => { throw new Error('broken') }, () => { throw new Error('broken') }
  ]
  for (const work of works) {
    const { ended, answer, handled } = feed(channel => { channel.watch(work, () => 'never') })
    t.match(await ended, { cause: 'crash', reason: { message: 'broken' } })
    t.match(await answer, { error: { code: -32603, message: 'Internal error' } })
    t.strictSame(handled, [])
  }
})

// M13
test('a rejection after the source was released concerns nobody', async t => {
  let reject = (_reason: Error) => {}
  const work = new Promise<never>((_resolve, _reject) => { reject = _reject })
  const { exchange, ended } = feed(channel => {
    channel.watch(work, () => 'never')
    channel.watch(async signal => {
      await new Promise(resolve => { signal.addEventListener('abort', resolve) })
      throw signal.reason
    }, () => 'never', () => t.fail('was mapped'))
  })
  exchange.disconnect()
  reject(new Error('too late'))
  t.match(await ended, { cause: 'disconnect', reason: undefined })
  await turn()
})

test('the end of another exchange can be watched', async t => {
  const other = testExchange(toolServer(async () => { await turn(); return done() }), 'tools/call', tool)
  const { ended, handled } = feed(channel => { channel.watch(other.ref.ended, ({ cause }) => cause) }, 1)
  await ended
  t.strictSame(handled, ['result'])
})

test('undefined as what a mapping gives is no message', async t => {
  const { exchange, ended, handled, channel } = feed(channel => {
    // TypeScript asks for a message here; untyped code skips by giving none.
    channel.watch(Promise.resolve(1), () => undefined)
    channel.consume([1, 2, 3], { next: item => item === 2 ? undefined : item, done: () => undefined })
  })
  await turn()
  await turn()
  t.strictSame(handled, [1, 3])
  channel.close()
  t.match(await ended, { undelivered: 0 })
  exchange.disconnect()
})

// ---- on

test('on makes a message of each event of an EventEmitter, with all its arguments', async t => {
  const emitter = new EventEmitter()
  const { ended, handled } = feed(channel => {
    channel.on(emitter, 'event', (a: number, b: string) => `${a} ${b}`)
    emitter.emit('event', 1, 'one')
    emitter.emit('other', 0, 'none')
    emitter.emit('event', 2, 'two')
  }, 2)
  await ended
  t.strictSame(handled, ['1 one', '2 two'])
  t.equal(emitter.listenerCount('event'), 0)
})

test('on makes a message of each event of an EventTarget', async t => {
  const target = new EventTarget()
  const { exchange, ended, handled } = feed(channel => {
    channel.on(target, 'event', (event: Event) => event.type)
    target.dispatchEvent(new Event('event'))
  })
  await turn()
  t.strictSame(handled, ['event'])
  exchange.disconnect()
  t.match(await ended, { undelivered: 0 })
  target.dispatchEvent(new Event('event'))
  t.strictSame(handled, ['event'])
})

// M12
test('a mapping runs at the moment of the event, so that it captures the value then', async t => {
  const emitter = new EventEmitter()
  const state = { value: 1 }
  const { ended, handled } = feed(channel => {
    channel.on(emitter, 'event', () => state.value)
    emitter.emit('event')
    state.value = 2
    emitter.emit('event')
    state.value = 3
  }, 2)
  await ended
  t.strictSame(handled, [1, 2])
})

// M12
test('undefined skips an event', async t => {
  const emitter = new EventEmitter()
  const { ended, handled } = feed(channel => {
    channel.on(emitter, 'event', (n: number) => n % 2 === 0 ? n : undefined)
    for (const n of [1, 2, 3, 4]) emitter.emit('event', n)
  }, 2)
  t.match(await ended, { undelivered: 0 })
  t.strictSame(handled, [2, 4])
})

// M12
test('a mapping that throws crashes its exchange, and not whoever emits', async t => {
  const emitter = new EventEmitter()
  const { ended, answer } = feed(channel => { channel.on(emitter, 'event', () => { throw new Error('broken') }) })
  t.doesNotThrow(() => emitter.emit('event'))
  t.match(await ended, { cause: 'crash', reason: { message: 'broken' } })
  t.match(await answer, { error: { message: 'Internal error' } })
})

// M15
test('a mapping that ends the exchange makes no message any more', async t => {
  const emitter = new EventEmitter()
  const { ended, handled } = feed(channel => { channel.on(emitter, 'event', () => { channel.close(); return 'late' }) })
  emitter.emit('event')
  t.match(await ended, { cause: 'closed', undelivered: 0 })
  t.strictSame(handled, [])
})

test('stop() takes the listener off, and may be called again', async t => {
  const emitter = new EventEmitter()
  let source: Source | undefined
  const { exchange, ended, handled } = feed(channel => { source = channel.on(emitter, 'event', () => 'event') })
  t.equal(emitter.listenerCount('event'), 1)
  source?.stop()
  source?.stop()
  t.equal(emitter.listenerCount('event'), 0)
  emitter.emit('event')
  exchange.disconnect()
  await ended
  t.strictSame(handled, [])
})

// M15
test('an emitter that calls a listener after it was taken off is not listened to', async t => {
  const emitter = new Stubborn()
  let source: Source | undefined
  const { exchange, ended, handled } = feed(channel => {
    channel.on(emitter, 'event', () => 'held')
    source = channel.on(emitter, 'event', () => t.fail('was mapped'))
    source.stop()
  })
  emitter.emit()
  await turn()
  t.strictSame(handled, ['held'])
  exchange.disconnect()
  t.equal(emitter.removed, 2)
  emitter.emit()
  t.match(await ended, { undelivered: 0 })
  t.strictSame(handled, ['held'])
})

// M15: an EventEmitter calls the listeners that it had when the event began.
test('a close by one listener of an event keeps what a later one of the same event makes', async t => {
  const emitter = new EventEmitter()
  const { ended, handled, channel } = feed(channel => {
    emitter.on('event', () => { channel.close() })
    channel.on(emitter, 'event', () => t.fail('was mapped'))
  })
  emitter.emit('event')
  t.ok(channel.closed)
  t.match(await ended, { cause: 'closed', undelivered: 0 })
  t.strictSame(handled, [])
})

// ---- subscribe

test('subscribe makes a message of each packet of a topic, with wildcards', async t => {
  const bus = mqemitter()
  t.teardown(() => { bus.close(() => {}) })
  const { ended, handled } = feed(channel => {
    channel.subscribe(bus, 'jobs/+', (packet: BusPacket & { readonly progress: number }) => `${packet.topic} ${packet.progress}`)
    channel.subscribe(bus, `of/${channel.ref.id}`, packet => packet.topic)
    bus.emit({ topic: 'jobs/1', progress: 10 })
    bus.emit({ topic: 'other/1', progress: 0 })
    bus.emit({ topic: 'jobs/2', progress: 20 })
    bus.emit({ topic: `of/${channel.ref.id}` })
  }, 3)
  await ended
  t.match(handled, ['jobs/1 10', 'jobs/2 20', /^of\//])
})

test('done is called at once and always, so that a slow client cannot stall the bus', async t => {
  const bus = mqemitter({ concurrency: 1 })
  t.teardown(() => { bus.close(() => {}) })
  const { promise, open } = gate()
  const handled: unknown[] = []
  let mapped = 0
  const exchange = testExchange(toolServer<undefined, unknown>((_request, channel) => {
    channel.subscribe(bus, 'jobs', ({ n }) => {
      mapped++
      return n === 1 ? undefined : n
    })
    return stream(undefined)
  }, {
    handleMessage: async message => {
      handled.push(message)
      await promise
      return stream(undefined)
    }
  }), 'tools/call', tool)
  // Each waits for the bus to be done with it: a listener that held one up would hold up all.
  for (let n = 0; n < 5; n++) await new Promise<void>(resolve => { bus.emit({ topic: 'jobs', n }, () => { resolve() }) })
  t.equal(mapped, 5)
  t.strictSame(handled, [0], 'the client is slow')
  exchange.disconnect()
  // The listener is taken off in the next turn of the loop.
  await new Promise<void>(resolve => { bus.emit({ topic: 'jobs', n: 6 }, () => { resolve() }) })
  t.equal(mapped, 5)
  open()
  t.match(await exchange.ended, { undelivered: 3 })
})

// M15
test('a bus that calls a listener after it was removed is not listened to, and yet told done', async t => {
  const { bus, log } = stubbornBus()
  const { exchange, ended } = feed(channel => { channel.subscribe(bus, 'topic', () => t.fail('was mapped')) })
  exchange.disconnect()
  bus.emit({ topic: 'topic' })
  t.strictSame(log, ['on topic', 'remove topic', 'done'])
  await ended
})

test('stop() unsubscribes', async t => {
  const { bus, log } = stubbornBus()
  let source: Source | undefined
  const { exchange, ended, handled } = feed(channel => { source = channel.subscribe(bus, 'topic', () => 'message') })
  source?.stop()
  bus.emit({ topic: 'topic' })
  exchange.disconnect()
  await ended
  t.strictSame(log, ['on topic', 'remove topic', 'done'])
  t.strictSame(handled, [])
})

test('a mapping of packets that throws crashes its exchange, and not the bus', async t => {
  const { bus, log } = stubbornBus()
  const { ended } = feed(channel => { channel.subscribe(bus, 'topic', () => { throw new Error('broken') }) })
  t.doesNotThrow(() => { bus.emit({ topic: 'topic' }) })
  t.match(await ended, { cause: 'crash', reason: { message: 'broken' } })
  t.strictSame(log, ['on topic', 'done', 'remove topic'])
})

test('what subscribe yields and does not fit the server\'s messages is skipped and logged; other sources are trusted', async t => {
  const { bus } = stubbornBus()
  const handled: unknown[] = []
  const { app, lines } = await stage(t, toolServer<undefined, { readonly n: number }>((_request, channel) => {
    channel.subscribe(bus, 'topic', packet => packet['payload'] as { n: number })
    const payloads = [{ n: 1 }, { n: 'secret' }, undefined, null, 'secret', { n: 2 }]
    for (const payload of payloads) bus.emit({ topic: 'topic', payload })
    channel.ref.post({ n: 'trusted' } as unknown as { n: number })
    return stream(undefined)
  }, {
    messages: Type.Object({ n: Type.Number() }),
    handleMessage: message => {
      handled.push(message)
      return handled.length === 3 ? done() : stream(undefined)
    }
  }), { listen: false })
  await createTestClient(app).request('tools/call', tool)
  t.strictSame(handled, [{ n: 1 }, { n: 2 }, { n: 'trusted' }])
  const warnings = lines.filter(({ level }) => level === 40)
  t.match(warnings, [{ mcp: { source: 'subscribe' } }, {}, {}])
  t.equal(warnings.length, 3, 'undefined is skipped without a word')
  t.notMatch(JSON.stringify(warnings), /secret/)
})

// ---- after, every

test('after makes one message, later', async t => {
  const begun = performance.now()
  const { ended, handled } = feed(channel => { channel.after(30, 'late') }, 1)
  await turn()
  t.strictSame(handled, [])
  await ended
  t.strictSame(handled, ['late'])
  t.ok(performance.now() - begun >= 25)
})

test('after has no mapping that could skip: undefined is a message like any other', async t => {
  const second = gate()
  const { exchange, ended, handled } = feed(channel => {
    channel.after(0, undefined)
    channel.watch(async () => { await new Promise(resolve => { setTimeout(resolve, 30) }) }, () => { second.open(); return 'second' })
  })
  await second.promise
  await turn()
  t.strictSame(handled, [undefined, 'second'])
  exchange.disconnect()
  await ended
})

test('every makes messages until it is stopped', async t => {
  let calls = 0
  let source: Source | undefined
  const stopped = gate()
  const { exchange, ended, handled } = feed(channel => {
    source = channel.every(2, () => {
      if (calls === 2) {
        source?.stop()
        stopped.open()
      }
      return ++calls
    })
  })
  await stopped.promise
  await new Promise(resolve => { setTimeout(resolve, 20) })
  t.equal(calls, 3)
  exchange.disconnect()
  await ended
  t.match(handled, [1, 2])
})

test('timers are stopped by stop() and by the end of the exchange', async t => {
  let source: Source | undefined
  const { exchange, ended, handled } = feed(channel => {
    source = channel.after(5, 'stopped')
    channel.after(20, 'ended')
    channel.every(20, () => t.fail('was called') as never)
  })
  source?.stop()
  exchange.disconnect()
  await ended
  await new Promise(resolve => { setTimeout(resolve, 40) })
  t.strictSame(handled, [])
})

test('a mapping of every that throws crashes its exchange', async t => {
  const { ended } = feed(channel => { channel.every(1, () => { throw new Error('broken') }) })
  t.match(await ended, { cause: 'crash', reason: { message: 'broken' } })
})

// ---- consume

/** An iterator that tells what is asked of it. */
function tape (items: readonly unknown[], { sync = false, fails = false } = {}) {
  const log: string[] = []
  let at = 0
  const step = () => {
    log.push(`next ${at}`)
    if (at === items.length && fails) throw new Error('broken')
    return at < items.length ? { done: false as const, value: items[at++] } : { done: true as const, value: undefined }
  }
  const back = () => {
    log.push('return')
    return { done: true as const, value: undefined }
  }
  const iterable = sync
    ? { [Symbol.iterator]: () => ({ next: step, return: back }) }
    : { [Symbol.asyncIterator]: () => ({ next: async () => step(), return: async () => back() }) }
  return { log, iterable: iterable as AsyncIterable<unknown> | Iterable<unknown> }
}

test('consume makes a message of each item, and one of the end', async t => {
  async function * generator () { yield * [1, 2, 3] }
  for (const items of [[1, 2, 3], new Set([1, 2, 3]), generator(), Readable.from([1, 2, 3])] as (AsyncIterable<number> | Iterable<number>)[]) {
    const { ended, handled } = feed(channel => { channel.consume(items, { next: item => item * 10, done: () => 'end' }) }, 4)
    t.match(await ended, { cause: 'stop' })
    t.strictSame(handled, [10, 20, 30, 'end'])
  }
})

test('the end of the items is no message where done does not make one, and the stream goes on', async t => {
  const { exchange, ended, handled, channel } = feed(channel => { channel.consume([1], { next: item => item }) })
  await turn()
  await turn()
  t.strictSame(handled, [1])
  t.notOk(channel.closed)
  exchange.disconnect()
  await ended
})

// M16
test('consume asks for the next item only after the message before was handled', async t => {
  for (const sync of [false, true]) {
    const { log, iterable } = tape(['a', 'b'], { sync })
    const gates = [gate(), gate()]
    const exchange = testExchange(toolServer<undefined, unknown>((_request, channel) => {
      channel.consume(iterable, { next: item => item, done: () => 'end' })
      return stream(undefined)
    }, {
      handleMessage: async message => {
        log.push(`handle ${message}`)
        if (message === 'end') return stop()
        await gates[message === 'a' ? 0 : 1]?.promise
        log.push(`handled ${message}`)
        return stream(undefined)
      }
    }), 'tools/call', tool)
    await turn()
    await turn()
    t.strictSame(log, ['next 0', 'handle a'])
    for (const { open } of gates) open()
    await exchange.ended
    t.strictSame(log, ['next 0', 'handle a', 'handled a', 'next 1', 'handle b', 'handled b', 'next 2', 'handle end'], 'and no return(): it was at its end')
  }
})

// M16
test('consume waits for the socket to drain', async t => {
  const item = 'x'.repeat(100_000)
  let asked = 0
  const all = 200
  function * items () { while (asked < all) { asked++; yield item } }
  const { port, ended } = await stage(t, toolServer<number, string>((_request, channel) => {
    channel.consume(items(), { next: item => item })
    return stream(1)
  }, {
    handleMessage: (text, channel, step) => {
      channel.sendProgress(step, undefined, text)
      return step === all ? done() : stream(step + 1)
    }
  }), { limits: { sendBuffer: 50_000_000 } })
  const wire = await openWire(t, port)
  wire.send(postCall())
  await wire.received('"progress":1,')
  wire.socket.pause()
  let before = -1
  while (asked !== before) {
    before = asked
    await new Promise(resolve => { setTimeout(resolve, 100) })
  }
  t.ok(asked < all, `${asked} of ${all}`)
  wire.socket.resume()
  t.match(await ended(), [{ cause: 'result', events: all + 1 }])
})

// M16
test('consume calls return() of the iterator at the end of the exchange, whatever ends it, and on stop()', async t => {
  for (const how of ['disconnect', 'stop', 'stop()']) {
    for (const sync of [false, true]) {
      const { log, iterable } = tape(['a', 'b', 'c'], { sync })
      const { promise, open } = gate()
      let source: Source | undefined
      const exchange = testExchange(toolServer<undefined, unknown>((_request, channel) => {
        source = channel.consume(iterable, { next: item => item })
        return stream(undefined)
      }, {
        handleMessage: async () => {
          await promise
          return how === 'stop' ? stop() : stream(undefined)
        }
      }), 'tools/call', tool)
      await turn()
      if (how === 'stop()') source?.stop()
      if (how === 'disconnect') exchange.disconnect()
      open()
      await turn()
      if (how === 'stop()') exchange.disconnect()
      await exchange.ended
      await turn()
      t.strictSame(log, ['next 0', 'return'], `${how}, ${sync ? 'sync' : 'async'}`)
    }
  }
})

test('an iterator that has no return(), or one that fails, is let go all the same', async t => {
  const iterators: readonly object[] = [
    { next: async () => ({ done: false, value: 1 }) },
    { next: async () => ({ done: false, value: 1 }), return: async () => { throw new Error('broken') } },
    { next: () => ({ done: false, value: 1 }), return: () => { throw new Error('broken') } }
  ]
  for (const iterator of iterators) {
    const items = { [Symbol.asyncIterator]: () => iterator } as AsyncIterable<number>
    const { exchange, ended } = feed(channel => { channel.consume(items, { next: item => item }) })
    await turn()
    exchange.disconnect()
    t.match(await ended, { cause: 'disconnect', reason: undefined })
    await turn()
  }
})

test('an item that comes after the release is not delivered', async t => {
  const { promise, open } = gate()
  async function * late () {
    await promise
    yield 'late'
    t.fail('was asked again')
  }
  const { exchange, ended, handled } = feed(channel => { channel.consume(late(), { next: () => t.fail('was mapped') }) })
  exchange.disconnect()
  open()
  await ended
  await turn()
  t.strictSame(handled, [])
})

// M13
test('a failure of the iterator is a message where error maps it', async t => {
  for (const sync of [false, true]) {
    const { log, iterable } = tape(['a'], { sync, fails: true })
    const { ended, handled } = feed(channel => {
      channel.consume(iterable, { next: item => item, done: () => 'end', error: reason => (reason as Error).message })
    }, 2)
    t.match(await ended, { cause: 'stop' })
    t.strictSame(handled, ['a', 'broken'])
    t.notOk(log.includes('return'), 'an iterator that failed is at its end')
  }
})

// M13
test('a failure of the iterator that nobody maps crashes the exchange', async t => {
  const broken: readonly (Iterable<number> | AsyncIterable<number>)[] = [
    { [Symbol.iterator]: () => { throw new Error('broken') } },
    { [Symbol.asyncIterator]: () => { throw new Error('broken') } },
    { [Symbol.iterator]: () => ({ next: () => { throw new Error('broken') } }) },
    { [Symbol.asyncIterator]: () => ({ next: async () => { throw new Error('broken') } }) },
    new Readable({ objectMode: true, read () { this.destroy(new Error('broken')) } })
  ]
  for (const items of broken) {
    const { ended } = feed(channel => { channel.consume(items, { next: item => item }) })
    t.match(await ended, { cause: 'crash', reason: { message: 'broken' } })
  }
})

// M12
test('a mapping of items that throws crashes the exchange, and return() is called', async t => {
  const { log, iterable } = tape(['a', 'b'])
  const { ended } = feed(channel => { channel.consume(iterable, { next: () => { throw new Error('broken') } }) })
  t.match(await ended, { cause: 'crash', reason: { message: 'broken' } })
  await turn()
  t.strictSame(log, ['next 0', 'return'])
})

test('a mapping of the end, or of a failure, that throws crashes the exchange', async t => {
  const ofEnd = feed(channel => { channel.consume([], { next: item => item, done: () => { throw new Error('of the end') } }) })
  t.match(await ofEnd.ended, { cause: 'crash', reason: { message: 'of the end' } })
  const { iterable } = tape([], { fails: true })
  const ofFailure = feed(channel => { channel.consume(iterable, { next: item => item, error: () => { throw new Error('of the failure') } }) })
  t.match(await ofFailure.ended, { cause: 'crash', reason: { message: 'of the failure' } })
  const ofRejection = feed(channel => { channel.watch(Promise.reject(new Error('x')), () => 'never', () => { throw new Error('of the rejection') }) })
  t.match(await ofRejection.ended, { cause: 'crash', reason: { message: 'of the rejection' } })
})

test('several sources of items are pulled side by side', async t => {
  const first = tape(['a', 'b'])
  const second = tape([1, 2])
  const { ended, handled } = feed(channel => {
    channel.consume(first.iterable, { next: item => item })
    channel.consume(second.iterable, { next: item => item })
  }, 4)
  await ended
  t.strictSame(handled, ['a', 1, 'b', 2])
})

// M16, M17
test('a message that is dropped does not count for the one that is being handled', async t => {
  const { promise, open } = gate()
  const { log, iterable } = tape(['a', 'b'])
  const handling = gate<Channel<unknown>>()
  const { app } = await stage(t, toolServer<undefined, unknown>((_request, channel) => {
    channel.consume(iterable, { next: item => item })
    return stream(undefined)
  }, {
    handleMessage: async (message, channel) => {
      handling.open(channel)
      if (message === 'a') await promise
      return message === 'end' ? done() : stream(undefined)
    }
  }), { listen: false, limits: { mailbox: 1, onOverflow: 'dropOldest' } })
  const answer = createTestClient(app).request('tools/call', tool)
  const { ref } = await handling.promise
  ref.post('dropped')
  ref.post('kept')
  await turn()
  await turn()
  t.strictSame(log, ['next 0'], 'a is still being handled')
  ref.post('end')
  open()
  await answer
})

// M16, M17
test('an item whose message was dropped is done with, and the next one is asked for', async t => {
  const { promise, open } = gate()
  const { log, iterable } = tape(['a', 'b', 'c'])
  const handling = gate()
  const handled: unknown[] = []
  const { app } = await stage(t, toolServer<undefined, unknown>((_request, channel) => {
    channel.ref.post('first')
    return stream(undefined)
  }, {
    handleMessage: async (message, channel) => {
      handled.push(message)
      if (message === 'first') {
        channel.consume(iterable, { next: item => item })
        handling.open()
        await promise
      }
      return message === 'c' ? done() : stream(undefined)
    }
  }), { listen: false, limits: { mailbox: 1, onOverflow: 'dropNewest' } })
  const answer = createTestClient(app).request('tools/call', tool)
  await handling.promise
  await turn()
  t.strictSame(log, ['next 0'])
  open()
  await answer
  t.strictSame(handled, ['first', 'a', 'b', 'c'])
})

// ---- all of them

/** Every source there is, each of which would deliver something if it were let. */
function makeAll (channel: Channel<unknown>, log: string[]) {
  const emitter = new EventEmitter()
  const target = new EventTarget()
  const bus = mqemitter()
  const map = (source: string) => () => { log.push(source); return source }
  channel.watch(Promise.resolve(1), map('watch'))
  channel.watch(Promise.reject(new Error('x')), map('watch'), map('watch rejected'))
  channel.watch(async () => { log.push('work'); return 1 }, map('watch work'))
  channel.consume([1], { next: map('consume'), done: map('consume done'), error: map('consume error') })
  channel.on(emitter, 'event', map('emitter'))
  channel.on(target, 'event', map('target'))
  channel.subscribe(bus, '#', map('bus'))
  channel.after(1, 'after')
  channel.every(1, map('every'))
  return { emitter, target, bus }
}

test('a source that is made after the end delivers nothing, starts nothing and leaves nothing', async t => {
  const log: string[] = []
  const { app, gauges, lines, ended } = await stage(t, toolServer<undefined, unknown>((_request, channel) => {
    channel.close()
    const { emitter, target, bus } = makeAll(channel, log)
    t.equal(emitter.listenerCount('event'), 0)
    emitter.emit('event')
    target.dispatchEvent(new Event('event'))
    bus.emit({ topic: 'topic' })
    return stream(undefined)
  }, { handleMessage: () => t.fail('a message was handled') as never }), { listen: false })
  await createTestClient(app).request('tools/call', tool)
  t.match(await ended(), [{ cause: 'closed', undelivered: 0 }])
  await new Promise(resolve => { setTimeout(resolve, 30) })
  t.strictSame(log, [])
  t.strictSame(gauges(), NOTHING_HELD)
  t.strictSame(alarms(lines), [])
})

test('every source counts until it is released, and timers count as such', async t => {
  const { promise, open } = gate()
  const begun = gate()
  const { app, gauges } = await stage(t, toolServer<undefined, unknown>(async (_request, channel) => {
    channel.watch(promise, () => 'never')
    channel.on(new EventEmitter(), 'event', () => undefined)
    channel.on(new EventTarget(), 'event', () => undefined)
    channel.subscribe(mqemitter(), '#', () => undefined)
    channel.consume(Readable.from([]), { next: item => item }).stop()
    channel.after(60_000, 'never')
    channel.every(60_000, () => 'never')
    begun.open()
    await promise
    return done()
  }), { listen: false, streamAfter: 0 })
  const answer = createTestClient(app).request('tools/call', tool)
  await begun.promise
  await turn()
  t.match(gauges(), { exchanges: 1, sources: 6, timers: 2 })
  open()
  await answer
  t.strictSame(gauges(), NOTHING_HELD)
})

test('a source that makes messages before stream() is there, and one that makes them after an answer is not', async t => {
  const emitter = new EventEmitter()
  const exchange = testExchange(toolServer<never, unknown>((_request, channel) => {
    channel.on(emitter, 'event', () => 'event')
    emitter.emit('event')
    return done()
  }, { handleMessage: () => t.fail('a message was handled') as never }), 'tools/call', tool)
  t.match(await exchange.ended, { cause: 'result', undelivered: 1 })
  t.equal(emitter.listenerCount('event'), 0)
})
