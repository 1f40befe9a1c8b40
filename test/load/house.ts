import mqemitter from 'mqemitter'
import Fastify, { type FastifyInstance } from 'fastify'
import genMcp, { busSubscriptions, createSuite, defineResources, defineTool, readResourceResult, toolResult } from 'fastify-gen-mcp'
import { memoryEvents } from 'fastify-gen-mcp/legacy'
import type { EventEmitter } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { BusSubscriptions, ExchangeEnd, GenMcpOptions, MessageBus } from 'fastify-gen-mcp'

const DEADLINE = 15_000
/** Small, so that what is kept for clients that come back has reached its bound long before it is measured. */
const KEPT = 262_144

/** An app with one mount at /mcp, on a port of its own, and what can be known of it from outside. */
export interface House {
  readonly app: FastifyInstance
  readonly port: number
  readonly changes: BusSubscriptions
  /** How many exchanges ended, by cause. */
  readonly ends: Partial<Record<ExchangeEnd['cause'], number>>
  /** Waits until the mount holds nothing and as many listeners and timers are there as at first; what is held all the same, after some time. */
  held (): Promise<string>
  close (): Promise<void>
}

/** A Suite that can do what the subjects ask for. */
export async function openHouse (options: Omit<GenMcpOptions, 'server'> = {}): Promise<House> {
  const { bus, subscribed } = createCountedBus()
  const changes = busSubscriptions({ bus })
  const server = createSuite({
    info: { name: 'load', version: '1.0.0' },
    subscriptions: changes,
    resources: [defineResources({ prefix: 'mem://', read: ({ uri }) => readResourceResult({ uri, text: '' }) })],
    tools: [
      defineTool({ name: 'sync', description: 'Answers at once', call: () => toolResult.text('done') }),
      defineTool({
        name: 'async',
        description: 'Answers in a later turn',
        async call () {
          await new Promise(resolve => { setImmediate(resolve) })
          return toolResult.text('done')
        }
      }),
      defineTool({
        name: 'streamed',
        description: 'Answers after some progress',
        async * call () {
          for (let progress = 1; progress <= 3; progress++) yield { progress, total: 3 }
          return toolResult.text('done')
        }
      })
    ]
  })
  const ends: House['ends'] = {}
  const app = Fastify()
  await app.register(genMcp, {
    prefix: '/mcp',
    secrets: ['a secret of at least thirty-two characters'],
    legacy: { events: memoryEvents({ maxBytes: KEPT }) },
    ...options,
    server,
    onEnd ({ cause }) { ends[cause] = (ends[cause] ?? 0) + 1 }
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const listeners = (): number => listenersOf(app.server) + listenersOf(process) + subscribed()
  const listenersAtFirst = listeners()
  const timersAtFirst = timers()
  return {
    app,
    port: (app.server.address() as AddressInfo).port,
    changes,
    ends,
    async held () {
      const deadline = performance.now() + DEADLINE
      const holds = (): string => Object.entries({ ...app.mcp.mounts[0]?.gauges(), listeners: listeners() - listenersAtFirst, ticking: timers() - timersAtFirst })
        .filter(([, value]) => value !== 0).map(([name, value]) => `${value} ${name}`).join(', ')
      while (holds() !== '' && performance.now() < deadline) await new Promise(resolve => { setTimeout(resolve, 20) })
      return holds()
    },
    async close () { await app.close() }
  }
}

function listenersOf (emitter: EventEmitter): number {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0)
}

/** Timers that keep the process; those of the package do not, and its gauges count them. */
function timers (): number {
  return process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length
}

/** An MQEmitter, and who listens to it. */
function createCountedBus (): { readonly bus: MessageBus, readonly subscribed: () => number } {
  const emitter = mqemitter()
  let count = 0
  return {
    subscribed: () => count,
    bus: {
      on (topic, listener, done) {
        count++
        emitter.on(topic, listener, done)
      },
      removeListener (topic, listener, done) {
        count--
        emitter.removeListener(topic, listener, done)
      },
      emit: (packet, done) => { emitter.emit(packet, done) }
    }
  }
}
