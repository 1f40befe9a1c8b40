import { EventEmitter } from 'node:events'
import { setImmediate, setTimeout as delay } from 'node:timers/promises'
import mqemitter from 'mqemitter'
import { Type, type Static } from '@sinclair/typebox'
import {
  busSubscriptions, createSuite, defineServer, defineTool, elicitForm, fail, inputRequired, messageType, result, stop, stream, toolResult,
  type BusListener, type BusPacket, type BusSubscriptions, type CallToolResult, type Channel, type MessageBus, type RequestContext, type Server
} from 'fastify-gen-mcp'
import type { Entry, Ledger } from './ledger.js'

/** What handlers of the low-level server do, and tools of the Suite are named after. */
export const LOW_KINDS = ['now', 'later', 'progress', 'mailbox', 'sources', 'polite', 'flood', 'closes', 'fails', 'asks'] as const
export const SUITE_KINDS = ['plain', 'generator', 'streaming', 'closing'] as const
export type LowKind = typeof LOW_KINDS[number]
export type SuiteKind = typeof SUITE_KINDS[number]

/** Where a callback waits for its client. */
export type Hold = 'init' | 'handler' | 'stream' | 'close' | 'none'

const input = Type.Object({
  number: Type.Number(),
  kind: Type.String(),
  hold: Type.Unsafe<Hold>(Type.String()),
  /** Whether the server listens to the signal. */
  listens: Type.Boolean()
})
/** The arguments of every call. */
export type Arguments = Static<typeof input>

type Live = { readonly entry: Entry, readonly args: Arguments, readonly steps: number }
type Message = 'tick' | 'close' | 'end'

/** Events of a producer that waits for its reader; of one that does not. */
const POLITE_EVENTS = 12
const FLOOD_EVENTS = 250
const POLITE_FILLER = 'x'.repeat(16_384)
const FLOOD_FILLER = 'x'.repeat(65_536)
/** Of a stream that waits for messages. */
const STEPS = 3

const question = { confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }
const answerOf = ({ number }: Entry): CallToolResult<undefined> => toolResult.text(`answer #${number}#`)

/** A bus that counts who listens to it. */
export class CountingBus implements MessageBus {
  readonly #bus = mqemitter()
  listeners = 0

  on (topic: string, listener: BusListener, done?: () => void): void {
    this.listeners++
    this.#bus.on(topic, listener, done)
  }

  removeListener (topic: string, listener: BusListener, done?: () => void): void {
    this.listeners--
    this.#bus.removeListener(topic, listener, done)
  }

  emit (packet: BusPacket, done?: (error?: Error) => void): void {
    this.#bus.emit(packet, done)
  }
}

/** What the servers have in common, and what events come from. */
export interface World {
  readonly ledger: Ledger
  readonly emitter: EventEmitter
  readonly bus: CountingBus
  readonly changes: BusSubscriptions
  readonly low: Server
  readonly suite: Server
}

export function createWorld (ledger: Ledger): World {
  // As many listen as there are requests.
  const emitter = new EventEmitter().setMaxListeners(0)
  const bus = new CountingBus()
  const changes = busSubscriptions({ bus })
  return { ledger, emitter, bus, changes, low: createLow(ledger, emitter, bus), suite: createTools(ledger, changes) }
}

/** Arguments of a call; of a listen what stands for them. */
function argumentsOf ({ request }: RequestContext, { number }: Entry): Arguments {
  const { arguments: args } = request.params as { readonly arguments?: unknown }
  if (args !== undefined) return args as Arguments
  return { number, kind: 'listen', hold: 'stream', listens: true }
}

function createInit (ledger: Ledger) {
  return async (_arg: undefined, context: RequestContext): Promise<Entry> => {
    const entry = ledger.of(context)
    const args = argumentsOf(context, entry)
    if (args.number !== entry.number) entry.problems.push(`the arguments of ${args.number} came with its head`)
    entry.begin(context, args.listens)
    if (args.hold === 'init') await hold(entry)
    return entry
  }
}

async function hold (entry: Entry): Promise<void> {
  entry.reach('held')
  await entry.wait()
}

// ---- the contract alone

function createLow (ledger: Ledger, emitter: EventEmitter, bus: CountingBus): Server {
  const init = createInit(ledger)
  return defineServer({
    info: { name: 'chaos', version: '1.0.0' },
    capabilities: { tools: { listChanged: true }, logging: {} },
    messages: messageType<Message>(),
    // A call that waits for nothing is answered in one go.
    init: (arg: undefined, context) => {
      const entry = ledger.of(context)
      const args = argumentsOf(context, entry)
      if (args.kind !== 'now') return init(arg, context)
      entry.began++
      return entry
    },
    handleRequest: {
      'tools/call': (request, channel, entry) => {
        const args = request.params.arguments as Arguments
        entry.keep(channel)
        return args.kind === 'now' ? result(answerOf(entry)) : call(entry, args, channel)
      },
      'subscriptions/listen' (_request, channel, entry) {
        entry.keep(channel)
        channel.every(3, () => { entry.heard(); return 'tick' })
        return live(entry, argumentsOf(channel, entry), 0)
      }
    },
    handleMessage: (message, channel, { entry, args, steps }) => handle(message, channel, entry, args, steps),
    async handleClose (_context, { entry, args }, reason) {
      entry.closes.push(reason)
      entry.reach('closing')
      if (args.hold === 'close') await entry.wait()
      else await delay(1)
    }
  })

  async function call (entry: Entry, args: Arguments, channel: Channel<Message>) {
    if (args.hold === 'handler') await hold(entry)
    switch (args.kind) {
      case 'later':
        await setImmediate()
        return result(answerOf(entry))
      case 'fails':
        await delay(1)
        return fail(`failed #${entry.number}#`)
      case 'progress':
        await report(entry, args, channel)
        return result(answerOf(entry))
      case 'polite':
      case 'flood':
        await produce(entry, args, channel)
        return result(answerOf(entry))
      case 'asks':
        return channel.inputResponses(question) === undefined ? inputRequired(question) : result(answerOf(entry))
      case 'closes':
        channel.after(1, 'close')
        return live(entry, args, 0)
      case 'mailbox':
        channel.startStream()
        post(channel)
        return live(entry, args, 0)
      case 'sources':
        listenTo(entry, channel)
        return live(entry, args, 0)
      default:
        throw new Error(`There is no ${args.kind}`)
    }
  }

  function listenTo (entry: Entry, channel: Channel<Message>): void {
    const tick = (): Message => { entry.heard(); return 'tick' }
    channel.on(emitter, 'tick', tick)
    channel.subscribe(bus, 'chaos/+', tick)
    channel.every(4, tick)
    channel.after(2, 'tick')
    channel.after(600_000, 'end')
    channel.consume(endless(entry), { next: tick })
    channel.watch(async signal => {
      entry.held++
      signal.addEventListener('abort', () => { entry.released++ })
      await entry.wait()
    }, () => 'end')
  }

  function live (entry: Entry, args: Arguments, steps: number) {
    entry.live = true
    return stream<Live>({ entry, args, steps })
  }

  async function handle (message: Message, channel: Channel<Message>, entry: Entry, args: Arguments, steps: number) {
    if (message === 'close') {
      channel.close()
      return live(entry, args, steps)
    }
    if (args.kind === 'listen') {
      channel.sendNotification({ method: 'notifications/tools/list_changed' })
      entry.reach('streaming')
      return entry.gone && steps >= STEPS ? stop() : live(entry, args, steps + 1)
    }
    channel.sendProgress(steps + 1, undefined, `#${entry.number}#`)
    entry.reach('streaming')
    if (args.kind === 'mailbox') {
      if (args.hold === 'stream') await entry.wait()
      if (steps + 1 >= STEPS) return result(answerOf(entry))
    }
    // What its sources tell goes on until the client lets it end.
    return message === 'end' ? result(answerOf(entry)) : live(entry, args, steps + 1)
  }
}

/** From other turns, as code does that holds a ref. */
function post ({ ref }: Pick<Channel<Message>, 'ref'>, step = 1): void {
  globalThis.setImmediate(() => {
    ref.post('tick')
    if (step < STEPS) post({ ref }, step + 1)
  })
}

async function * endless (entry: Entry): AsyncGenerator<number, void> {
  entry.held++
  try {
    for (let item = 0; ; item++) {
      await delay(3)
      yield item
    }
  } finally {
    entry.released++
  }
}

async function report (entry: Entry, args: Arguments, channel: Channel<never>): Promise<void> {
  channel.sendProgress(1, undefined, `#${entry.number}#`)
  entry.reach('streaming')
  if (args.hold === 'stream') await entry.wait()
  for (let step = 2; step <= STEPS; step++) {
    await setImmediate()
    channel.sendProgress(step, undefined, `#${entry.number}#`)
  }
}

/** A producer that waits for its reader, or one that does not. */
async function produce (entry: Entry, args: Arguments, channel: Channel<never>): Promise<void> {
  const polite = args.kind === 'polite'
  const [count, filler] = polite ? [POLITE_EVENTS, POLITE_FILLER] : [FLOOD_EVENTS, FLOOD_FILLER]
  for (let step = 1; step <= count; step++) {
    if (channel.sendProgress(step, undefined, `#${entry.number}# ${filler}`) === 'closed') break
    entry.reach('streaming')
    if (polite) await channel.drained()
    else await setImmediate()
    if (step === 1 && args.hold === 'stream' && polite) await entry.wait()
  }
}

// ---- the Suite

function createTools (ledger: Ledger, changes: BusSubscriptions): Server {
  const shared = { description: 'For chaos', input }
  const init = createInit(ledger)
  const plain = defineTool({
    ...shared,
    name: 'plain',
    async call (args, channel) {
      const entry = ledger.of(channel)
      entry.keep(channel)
      if (args.hold === 'handler') await hold(entry)
      return answerOf(entry)
    }
  })
  const generator = defineTool({
    ...shared,
    name: 'generator',
    async * call (args, channel) {
      const entry = ledger.of(channel)
      entry.keep(channel)
      entry.held++
      try {
        if (args.hold === 'handler') await hold(entry)
        for (let progress = 1; progress <= STEPS; progress++) {
          yield { progress, message: `#${entry.number}#` }
          entry.reach('streaming')
          if (progress === 1 && args.hold === 'stream') await entry.wait()
        }
        return answerOf(entry)
      } finally {
        entry.released++
      }
    }
  })
  const streams = ['streaming', 'closing'].map(name => defineTool({
    ...shared,
    name,
    messages: messageType<Message>(),
    async call (args, channel) {
      const entry = ledger.of(channel)
      entry.keep(channel)
      if (args.hold === 'handler') await hold(entry)
      channel.every(3, () => { entry.heard(); return name === 'closing' ? 'close' : 'tick' })
      entry.live = true
      return stream({ entry, args, steps: 0 })
    },
    async handleMessage (message, channel, { entry, args, steps }) {
      if (message === 'close') channel.close()
      else channel.sendProgress(steps + 1, undefined, `#${entry.number}#`)
      entry.reach('streaming')
      if (steps === 0 && args.hold === 'stream') await entry.wait()
      return steps + 1 >= STEPS ? answerOf(entry) : stream({ entry, args, steps: steps + 1 })
    },
    async handleClose (_context, { entry, args }, reason) {
      entry.closes.push(reason)
      entry.reach('closing')
      if (args.hold === 'close') await entry.wait()
    }
  }))
  const suite = createSuite({ info: { name: 'chaos', version: '1.0.0' }, tools: [plain, generator, ...streams], subscriptions: changes })
  // A Suite has no state of its own.
  return Object.assign(suite, { init })
}
