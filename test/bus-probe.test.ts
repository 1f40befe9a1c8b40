import { createHook } from 'node:async_hooks'
import mqemitter from 'mqemitter'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { test, type Test } from 'tap'
import genMcp, {
  busSubscriptions, createSuite, defineServer, withArg, type BusListener, type BusPacket, type GenMcpOptions, type MessageBus
} from 'fastify-gen-mcp'
import { BusProbe } from '../lib/bus-probe.js'
import { MCP_ERR_BUS_DOWN } from '../lib/errors.js'
import { info } from './helpers/servers.js'
import { alarms, gate, stage, until, type Line, type Stage, type StageOptions } from './helpers/sockets.js'

const TIMEOUT = 60
/** Of a bus that answers, in its own time, on a machine that is busy. */
const PATIENCE = 20_000

type Done = ((error?: Error) => void) | undefined
interface TestBus extends MessageBus {
  /** Who listens, to what. */
  readonly listeners: Map<BusListener, string>
  /** What was emitted, whether or not it was handed over. */
  readonly emitted: BusPacket[]
  /** False: it takes what is emitted, and nothing comes of that. */
  delivers: boolean
}

/** A bus that hands over at once and calls nobody back, but for what `replace` makes of it. */
function createBus (replace: (bus: TestBus) => Partial<MessageBus> = () => ({})): TestBus {
  const bus: TestBus = {
    listeners: new Map(),
    emitted: [],
    delivers: true,
    on (topic, listener) { bus.listeners.set(listener, topic) },
    removeListener (_topic, listener) { bus.listeners.delete(listener) },
    emit (packet) {
      bus.emitted.push(packet)
      if (bus.delivers) for (const [listener, topic] of bus.listeners) if (topic === packet.topic) listener(packet, () => {})
    }
  }
  const { on, removeListener, emit } = bus
  return Object.assign(bus, replace({ ...bus, on, removeListener, emit }))
}

function serverOf (...buses: readonly MessageBus[]) {
  return defineServer({ info, capabilities: {}, buses, handleRequest: {} })
}

/** An app with such a mount that is not ready yet, and its log. */
function create (t: Test, options: GenMcpOptions, fastify: FastifyServerOptions = {}): { readonly app: FastifyInstance, readonly lines: readonly Line[] } {
  const lines: Line[] = []
  const app = Fastify({ logger: { level: 'debug', stream: { write: (line: string) => { lines.push(JSON.parse(line) as Line) } } }, ...fastify })
  t.teardown(async () => await app.close())
  app.register(genMcp, options)
  return { app, lines }
}

async function serve (t: Test, bus: MessageBus, busProbe: StageOptions['busProbe'] = { timeout: TIMEOUT, interval: 10 }, options: StageOptions = {}): Promise<Stage> {
  return await stage(t, serverOf(bus), { listen: false, ...busProbe !== undefined && { busProbe }, ...options })
}

/** The timers that the probe has made and that are not over, from now on. */
function watchTimers (t: Test): { readonly alive: () => number, readonly made: () => number } {
  const alive = new Set<number>()
  let made = 0
  const hook = createHook({
    init (id, type) {
      if (type !== 'Timeout' || new Error('where').stack?.includes('lib/bus-probe') !== true) return
      made++
      alive.add(id)
    },
    destroy: id => { alive.delete(id) }
  }).enable()
  t.teardown(() => { hook.disable() })
  return { alive: () => alive.size, made: () => made }
}

/** What keeps the process from ending. */
function waits (): number {
  return process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
}

const probed = (lines: readonly Line[]): readonly Line[] => lines.filter(({ msg }) => msg.includes('message bus'))

// ---- nobody is asked

test('without a bus nothing is probed: no listener, no timer, no line: case 005', async t => {
  const timers = watchTimers(t)
  const unused = createBus()
  const suite = createSuite({ info, tools: [], subscriptions: busSubscriptions() })
  t.strictSame(suite.buses, [])
  for (const server of [serverOf(), suite, createSuite({ info, tools: [] })]) {
    // Without sessions there is nothing to tell.
    for (const legacy of [true, false, { sessions: false, bus: unused } as const]) {
      const { app, lines } = create(t, { server, legacy })
      await app.ready()
      t.strictSame(lines, [])
      t.equal(app.mcp.mounts[0]?.gauges().busesDown, 0)
      await app.close()
    }
  }
  t.equal(timers.made(), 0)
  t.strictSame([unused.listeners.size, unused.emitted.length], [0, 0])
})

test('with busProbe false a bus is not asked, and one that is down is nobody\'s business', async t => {
  const timers = watchTimers(t)
  const bus = createBus()
  bus.delivers = false
  const { app, gauges, lines } = await serve(t, bus, false)
  t.equal(gauges().busesDown, 0)
  t.strictSame([bus.listeners.size, bus.emitted.length, timers.made()], [0, 0, 0])
  await app.close()
  t.strictSame(probed(lines), [])
})

// ---- at boot

/** An emit of nothing that comes back is not enough to say that a bus is up, whatever else it says. */
const down: Readonly<Record<string, (bus: TestBus) => Partial<MessageBus>>> = {
  'takes all and hands over nothing': () => ({ emit: () => {} }),
  'says that it emitted, and did not': () => ({ emit: (_packet, done) => { done?.() } }),
  'confirms no subscription and has none': () => ({ on: () => {} }),
  'never keeps its promises': () => ({ on: async () => await new Promise(() => {}), emit: async () => await new Promise(() => {}) }),
  'hands over to somebody else': bus => ({ emit: packet => { bus.emit({ ...packet, topic: 'elsewhere' }) } }),
  'hands over what is not ours': bus => ({
    emit ({ topic }) {
      const strange = [null, 'text', [], { topic }, { topic, token: '' }] as unknown as BusPacket[]
      for (const packet of strange) for (const [listener] of bus.listeners) listener(packet, () => {})
    }
  })
}
const failure = new Error('connection refused')
const failing: typeof down = {
  'throws when it is listened to': () => ({ on: () => { throw failure } }),
  'rejects when it is listened to': () => ({ on: async () => { throw failure } }),
  'calls back with an error when it is listened to': () => ({ on: (_topic, _listener, done: Done) => { done?.(failure) } }),
  'calls back later and twice with an error': () => ({ on: (_topic, _listener, done: Done) => { for (let i = 0; i < 2; i++) setImmediate(() => { done?.(failure) }) } }),
  'throws when it emits': () => ({ emit: () => { throw failure } }),
  'rejects when it emits': () => ({ emit: async () => { throw failure } }),
  'calls back with an error when it emits, twice': () => ({ emit: (_packet, done) => { for (let i = 0; i < 2; i++) done?.(failure) } }),
  'fails in all it does': () => ({ on: () => { throw failure }, emit: () => { throw failure }, removeListener: () => { throw failure } })
}

for (const [how, replace] of Object.entries({ ...down, ...failing })) {
  test(`a bus that ${how} rejects ready with one clear error, and nothing is left behind: case 005`, async t => {
    const timers = watchTimers(t)
    const bus = createBus(replace)
    const { app, lines } = create(t, { server: serverOf(bus), busProbe: { timeout: TIMEOUT } })
    const begin = performance.now()
    const error = await app.ready().then(() => undefined, (error: Error) => error)
    t.type(error, MCP_ERR_BUS_DOWN)
    t.match(error, { code: 'MCP_ERR_BUS_DOWN', message: /^Nothing came back from the message bus server\.buses\[0\] within 60 ms: look at / })
    t.equal(error?.cause, how in failing ? failure : undefined)
    t.ok(performance.now() - begin < PATIENCE)
    t.equal(bus.listeners.size, 0)
    t.strictSame(lines, [])
    // async_hooks tell of the end of a timer in a later turn.
    await until(() => timers.alive() === 0)
    await t.resolves(app.close())
  })
}

test('a bus that another one is beside is named, of several all, and the one that answers is left alone', async t => {
  const [up, first, second] = [createBus(), createBus(down['takes all and hands over nothing']), createBus(failing['throws when it emits'])]
  const { app } = create(t, { server: serverOf(first, up), legacy: { bus: second }, busProbe: { timeout: TIMEOUT } })
  await t.rejects(async () => { await app.ready() }, { message: /bus server\.buses\[0\], legacy\.bus within/, cause: failure })
  for (const { listeners } of [up, first]) t.equal(listeners.size, 0)
  await app.close()
  t.equal(second.listeners.size, 0)
})

test('the buses of a Suite, of legacy clients and of a bound server are asked', async t => {
  const busProbe = { timeout: TIMEOUT }
  const suite = (bus: MessageBus) => createSuite({ info, tools: [], subscriptions: busSubscriptions({ bus }) })
  const mounts: readonly (readonly [string, (bus: MessageBus) => GenMcpOptions])[] = [
    ['server.buses[0]', bus => ({ server: suite(bus) })],
    ['server.buses[0]', bus => ({ server: withArg(serverOf(bus), undefined) })],
    ['server.buses[0]', bus => ({ server: [serverOf(bus), undefined] })],
    ['legacy.bus', bus => ({ server: serverOf(), legacy: { bus } })],
    ['server.buses[0] and legacy.bus', bus => ({ server: suite(bus), legacy: { bus } })]
  ]
  for (const [name, optionsOf] of mounts) {
    const bus = createBus()
    bus.delivers = false
    const { app } = create(t, { ...optionsOf(bus), busProbe })
    const error = await app.ready().then(() => undefined, (error: Error) => error)
    t.match(error?.message, `bus ${name} within`)
    t.equal(new Set(bus.emitted.map(({ topic }) => topic)).size, 1, 'a bus is asked once, wherever it is')
  }
})

test('buses that a server makes in setup are asked', async t => {
  const bus = createBus()
  const server = { ...serverOf(), buses: [] as MessageBus[], setup () { server.buses = [bus] } }
  const { app } = create(t, { server })
  await app.ready()
  t.equal(bus.emitted.length, 1)
  t.equal(bus.listeners.size, 1)
})

test('a listener is asked for by a topic that nobody else has, each mount by its own', async t => {
  const bus = createBus()
  const app = Fastify()
  t.teardown(async () => await app.close())
  for (const prefix of ['/a', '/b']) await app.register(genMcp, { prefix, server: serverOf(bus) })
  await app.ready()
  const topics = [...bus.listeners.values()]
  t.equal(new Set(topics).size, 2)
  for (const topic of topics) t.match(topic, /^mcp\/probe\/[0-9a-f-]{36}$/)
  await app.close()
  t.equal(bus.listeners.size, 0)
})

/** Ways to be a bus that works. */
const up: Readonly<Record<string, (bus: TestBus) => Partial<MessageBus>>> = {
  'hands over at once and calls nobody back': () => ({}),
  'calls back, and twice': bus => ({
    on (topic, listener, done) {
      bus.on(topic, listener)
      for (let i = 0; i < 2; i++) setImmediate(() => { done?.() })
    },
    emit (packet, done) {
      setImmediate(() => { bus.emit(packet) })
      for (let i = 0; i < 2; i++) done?.()
    }
  }),
  'calls back with null for no error': bus => ({
    on (topic, listener, done: Done) {
      bus.on(topic, listener)
      done?.(null as unknown as undefined)
    },
    emit (packet, done) {
      bus.emit(packet)
      done?.(null as unknown as undefined)
    }
  }),
  'subscribes in its own time and calls back then': bus => ({
    on (topic, listener, done) {
      setTimeout(() => {
        bus.on(topic, listener)
        done?.()
      }, 20)
    }
  }),
  'subscribes in its own time and keeps its promise': bus => ({
    async on (topic, listener) {
      await new Promise(resolve => { setTimeout(resolve, 20) })
      bus.on(topic, listener)
    },
    async emit (packet) { bus.emit(packet) }
  }),
  'subscribes in its own time and tells nobody': bus => ({ on (topic, listener) { setTimeout(() => { bus.on(topic, listener) }, 20) } }),
  'fails at first': bus => {
    let tries = 0
    return { emit (packet) { if (tries++ > 1) bus.emit(packet); else throw failure } }
  },
  'hands over twice, and what it was not given': bus => ({
    emit (packet) {
      for (const [listener] of bus.listeners) listener(null as unknown as BusPacket, () => {})
      for (let i = 0; i < 2; i++) bus.emit(packet)
    }
  }),
  'hands over what was JSON on its way': bus => ({ emit (packet) { setTimeout(() => { bus.emit(JSON.parse(JSON.stringify(packet)) as BusPacket) }, 5) } })
}

for (const [how, replace] of Object.entries(up)) {
  test(`a bus that ${how} is one that answers, and has no listener when the app is closed`, async t => {
    const timers = watchTimers(t)
    const bus = createBus(replace)
    // What tells nobody, and what fails, is asked again in a fourth of this.
    const { app, lines, gauges } = await serve(t, bus, { timeout: 4_000 })
    t.equal(bus.listeners.size, 1)
    t.equal(gauges().busesDown, 0)
    await app.close()
    await until(() => timers.alive() === 0)
    t.equal(bus.listeners.size, 0)
    t.strictSame(probed(lines), [])
  })
}

test('an MQEmitter is a bus that answers', async t => {
  const bus = mqemitter()
  const { app, gauges, lines } = await serve(t, bus)
  t.equal(gauges().busesDown, 0)
  bus.close(() => {})
  await until(() => gauges().busesDown === 1)
  t.match(alarms(lines), [{ err: { message: 'mqemitter is closed' }, mcp: { source: 'server.buses[0]' } }])
  await t.resolves(app.close())
})

test('an answer that comes too late is none, and harms nobody', async t => {
  const late: (() => void)[] = []
  const bus = createBus(bus => ({ emit (packet) { late.push(() => { bus.emit(packet) }) } }))
  // Listeners that are removed are called all the same.
  bus.removeListener = () => {}
  const { app, lines } = create(t, { server: serverOf(bus), busProbe: { timeout: TIMEOUT } })
  await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BUS_DOWN' })
  t.ok(late.length > 1, 'it is asked more than once')
  for (const answer of late) answer()
  t.strictSame(lines, [])
})

test('a subscription that is confirmed when nobody waits any more is taken back', async t => {
  const confirm: (() => void)[] = []
  const bus = createBus(bus => ({
    on (topic, listener, done) {
      confirm.push(() => {
        bus.on(topic, listener)
        done?.()
      })
    }
  }))
  const { app } = create(t, { server: serverOf(bus), busProbe: { timeout: TIMEOUT } })
  await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BUS_DOWN' })
  confirm[0]?.()
  t.equal(bus.listeners.size, 0)
})

test('a timeout that is longer than the app\'s own ends before that, so that the error is ours', async t => {
  for (const pluginTimeout of [300, 1_500]) {
    const bus = createBus(down['takes all and hands over nothing'])
    const { app } = create(t, { server: serverOf(bus), busProbe: { timeout: 2_147_483_647 } }, { pluginTimeout })
    await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BUS_DOWN', message: `within ${pluginTimeout === 300 ? 150 : 750} ms` })
  }
  const { app } = create(t, { server: serverOf(createBus(down['takes all and hands over nothing'])), busProbe: { timeout: TIMEOUT } }, { pluginTimeout: 0 })
  await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BUS_DOWN', message: `within ${TIMEOUT} ms` })
})

test('a boot that fails for another reason leaves no listener when the app is closed', async t => {
  const bus = createBus()
  const { app } = create(t, { server: serverOf(bus) })
  app.addHook('onReady', async () => { throw new Error('another reason') })
  await t.rejects(async () => { await app.ready() }, { message: 'another reason' })
  await app.close()
  t.equal(bus.listeners.size, 0)
})

test('with interval 0 a bus is asked at boot alone: no timer, no listener stays', async t => {
  const timers = watchTimers(t)
  const bus = createBus()
  const { gauges } = await serve(t, bus, { interval: 0 })
  t.equal(bus.emitted.length, 1)
  t.equal(bus.listeners.size, 0)
  await until(() => timers.alive() === 0)
  t.equal(gauges().busesDown, 0)
})

test('a probe that is stopped while it waits rejects nothing and leaves nothing behind', async t => {
  const timers = watchTimers(t)
  const { app } = create(t, { server: serverOf() })
  const bus = createBus(down['takes all and hands over nothing'])
  const probe = new BusProbe(new Map([[bus, 'bus']]), { timeout: PATIENCE, bootTimeout: PATIENCE, interval: 10 }, app.log)
  const started = probe.start()
  t.equal(bus.listeners.size, 1)
  probe.stop()
  await started
  t.equal(bus.listeners.size, 0)
  await until(() => timers.alive() === 0)
})

// ---- later

test('a bus that goes down is told of once, counted, and told of once when it comes back', async t => {
  const [bus, other] = [createBus(), createBus()]
  const { app, lines, gauges } = await stage(t, serverOf(bus, other), { listen: false, busProbe: { timeout: TIMEOUT, interval: 10 } })
  const rounds = async (count: number): Promise<void> => {
    const tokens = new Set<unknown>()
    const from = other.emitted.length
    await until(() => {
      for (const { token } of other.emitted.slice(from)) tokens.add(token)
      return tokens.size > count
    })
  }
  await rounds(3)
  t.strictSame(probed(lines), [])

  bus.delivers = false
  await until(() => gauges().busesDown === 1)
  await rounds(3)
  t.match(probed(lines), [{ level: 50, msg: 'nothing comes back from a message bus: look at its connection', mcp: { source: 'server.buses[0]' } }])
  t.equal(probed(lines).length, 1)
  t.ok((probed(lines)[0]?.['mcp'] as { silentMs: number }).silentMs >= TIMEOUT, 'and how long it has been silent')
  t.equal(gauges().busesDown, 1)

  bus.delivers = true
  await until(() => gauges().busesDown === 0)
  await rounds(3)
  t.match(probed(lines)[1], { level: 30, msg: 'messages come back from a message bus again', mcp: { source: 'server.buses[0]' } })
  t.equal(probed(lines).length, 2)
  t.ok((probed(lines)[1]?.['mcp'] as { silentMs: number }).silentMs >= TIMEOUT)

  bus.delivers = false
  await until(() => gauges().busesDown === 1)
  t.equal(alarms(lines).length, 2, 'the next time is another')
  await app.close()
  t.equal(gauges().busesDown, 0, 'nobody asks any more')
  t.strictSame([bus.listeners.size, other.listeners.size], [0, 0])
})

test('one message of a round that is lost is no silence', async t => {
  let lose = false
  const bus = createBus(bus => ({
    emit (packet) {
      bus.emitted.push(packet)
      const lost = lose && bus.emitted.filter(({ token }) => token === packet['token']).length === 1
      if (!lost) for (const [listener] of bus.listeners) listener(packet, () => {})
    }
  }))
  const { lines, gauges } = await serve(t, bus, { timeout: 200, interval: 5 })
  lose = true
  const from = bus.emitted.length
  await until(() => bus.emitted.length >= from + 6)
  t.equal(gauges().busesDown, 0)
  t.strictSame(probed(lines), [])
})

test('a bus that throws later is told of once, and what it threw with it', async t => {
  let broken = false
  const bus = createBus(bus => ({ emit (packet) { if (broken) throw failure; else bus.emit(packet) } }))
  const { lines, gauges } = await serve(t, bus)
  broken = true
  await until(() => gauges().busesDown === 1)
  t.match(alarms(lines), [{ err: { message: 'connection refused' } }])
})

test('an app that is closed while a bus is asked is closed at once, and says nothing of the bus', async t => {
  const bus = createBus()
  const timers = watchTimers(t)
  const { app, lines } = await serve(t, bus, { timeout: PATIENCE, interval: 1 })
  bus.delivers = false
  const from = bus.emitted.length
  await until(() => bus.emitted.length > from)
  await app.close()
  await until(() => timers.alive() === 0)
  t.strictSame(probed(lines), [])
  t.equal(bus.listeners.size, 0)
})

test('a shutdown asks no more from its beginning, so that a bus that is closed meanwhile is not told of', async t => {
  const bus = createBus()
  const [draining, go] = [gate(), gate()]
  const { app } = await serve(t, bus, { timeout: TIMEOUT, interval: 1 }, {
    after: app => app.addHook('preClose', async () => {
      draining.open()
      await go.promise
    })
  })
  const closing = app.close()
  await draining.promise
  t.equal(bus.listeners.size, 0)
  go.open()
  await closing
})

test('the timer of the probe keeps no process alive, and there is one however many buses there are', async t => {
  const timers = watchTimers(t)
  const before = waits()
  const app = Fastify()
  t.teardown(async () => await app.close())
  await app.register(genMcp, { server: serverOf(createBus(), createBus(), createBus()) })
  await app.ready()
  await until(() => waits() <= before && timers.alive() === 1)
  t.equal(timers.alive(), 1)
})

test('an app whose bus fails to let go is closed all the same', async t => {
  for (const removeListener of [() => { throw failure }, async () => { throw failure }]) {
    const { app, lines } = await serve(t, createBus(() => ({ removeListener })))
    await t.resolves(app.close())
    t.strictSame(alarms(lines), [])
  }
})
