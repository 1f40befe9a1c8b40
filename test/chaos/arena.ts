import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { setTimeout as delay } from 'node:timers/promises'
import { memoryEvents } from 'fastify-gen-mcp/legacy'
import genMcp, { type Gauges } from 'fastify-gen-mcp'
import { initializeParams } from '../legacy/helpers.js'
import { Ledger, NUMBER } from './ledger.js'
import { createWorld, type World } from './servers.js'
import type { Era, Plan } from './plan.js'
import type { AddressInfo } from 'node:net'

/** What a process is told of that nobody has caught, and of listeners that pile up. */
const ALARMS = ['unhandledRejection', 'uncaughtException', 'warning'] as const
/** Bytes that a reader may leave unread. */
const SEND_BUFFER = 65_536
/** How long it may take until nothing is held any more, in ms. */
const SETTLING = 20_000
/** How long Fastify holds what it knows of a connection over HTTP/2, in ms. */
export const SESSION_TIMEOUT = 5_000
const secrets = ['a secret of at least thirty-two characters']

export interface ArenaOptions { /** ms */ readonly drain: number }

/** An app over HTTP/1.1 and one over HTTP/2, each with both servers, and what they notice. */
export class Arena {
  readonly ledger: Ledger
  readonly #world: World
  readonly #apps: readonly [FastifyInstance, FastifyInstance]
  readonly #alarms: string[]
  readonly #onAlarm = (alarm: unknown): void => { this.#alarms.push(alarm instanceof Error ? `${alarm.stack}` : String(alarm)) }
  readonly #ticking: NodeJS.Timeout
  /** Listeners of the bus that are a mount's, and no request's. */
  #atRest: number

  private constructor (ledger: Ledger, world: World, apps: readonly [FastifyInstance, FastifyInstance], alarms: string[]) {
    this.ledger = ledger
    this.#world = world
    this.#apps = apps
    this.#alarms = alarms
    this.#atRest = world.bus.listeners
    for (const event of ALARMS) process.on(event, this.#onAlarm)
    this.#ticking = setInterval(() => {
      world.emitter.emit('tick')
      world.bus.emit({ topic: 'chaos/tick' })
      world.changes.toolsChanged()
    }, 5)
  }

  static async open (options: ArenaOptions): Promise<Arena> {
    const ledger = new Ledger()
    const world = createWorld(ledger)
    const alarms: string[] = []
    return new Arena(ledger, world, [await build(world, alarms, {}, options), await build(world, alarms, { http2: true, http2SessionTimeout: SESSION_TIMEOUT }, options)], alarms)
  }

  port ({ http2 }: Pick<Plan, 'http2'>): number {
    return (this.#app(http2).server.address() as AddressInfo).port
  }

  /** The headers of a session. */
  async openSession ({ http2, server }: Pick<Plan, 'http2' | 'server'>, era: Era): Promise<Readonly<Record<string, string>>> {
    const payload = { jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams(era, { elicitation: { form: {} } }) }
    const { statusCode, headers, body } = await this.inject({ http2, server }, payload, {})
    const id = headers['mcp-session-id']
    if (statusCode !== 200 || typeof id !== 'string') throw new Error(`No session was opened: ${statusCode} ${body}`)
    return { 'mcp-session-id': id, ...(era !== '2025-03-26' && { 'mcp-protocol-version': era }) }
  }

  /** A POST of a 2025 client beside its connection. */
  async inject ({ http2, server }: Pick<Plan, 'http2' | 'server'>, payload: object, headers: Readonly<Record<string, string>>) {
    return await this.#app(http2).inject({
      method: 'POST',
      url: `/${server}`,
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', [NUMBER]: '0', ...headers },
      payload: JSON.stringify(payload)
    })
  }

  /** Connections that the servers count. */
  async connections (): Promise<number> {
    const counts = await Promise.all(this.#apps.map(async ({ server }) => await new Promise<number>((resolve, reject) => {
      server.getConnections((error, count) => { if (error === null) resolve(count); else reject(error) })
    })))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** What is held though it should not be, when there was time enough to let it go. */
  async held (connections: number): Promise<string[]> {
    const deadline = performance.now() + SETTLING
    for (;;) {
      const held = this.#held()
      const counted = await this.connections()
      if (counted !== connections) held.push(`the servers count ${counted} connections, and the clients ${connections}`)
      // What is not settled is told of request by request.
      if ((held.length === 0 && this.ledger.settled) || performance.now() > deadline) return held
      await delay(2)
    }
  }

  /** What must not happen to the process, and did, since this was asked for. */
  alarms (): string[] {
    return [...this.#alarms.splice(0), ...this.ledger.strangers.splice(0)]
  }

  /** Ends both apps; how long that took, in ms. */
  async closeApps (): Promise<number> {
    const began = performance.now()
    await Promise.all(this.#apps.map(async app => { await app.close() }))
    this.#atRest = 0
    return performance.now() - began
  }

  /** Ends all; what is left though nobody is there any more. */
  async close (): Promise<string[]> {
    clearInterval(this.#ticking)
    await this.closeApps()
    for (const event of ALARMS) process.off(event, this.#onAlarm)
    const { listeners } = this.#world.bus
    return listeners === 0 ? [] : [`${listeners} listeners of a bus after the close`]
  }

  #app (http2: boolean): FastifyInstance {
    return this.#apps[http2 ? 1 : 0]
  }

  #held (): string[] {
    const { emitter, bus } = this.#world
    const held = this.#apps.flatMap(({ mcp }) => mcp.mounts).flatMap(({ path, gauges }) => notZero(gauges()).map(gauge => `${path}: ${gauge}`))
    const listeners = emitter.listenerCount('tick')
    if (listeners !== 0) held.push(`${listeners} listeners of an emitter`)
    if (bus.listeners !== this.#atRest) held.push(`${bus.listeners - this.#atRest} listeners of a bus`)
    return held
  }
}

async function build ({ low, suite, ledger }: World, alarms: string[], options: FastifyServerOptions & Readonly<Record<string, unknown>>, { drain }: ArenaOptions): Promise<FastifyInstance> {
  const logger = { level: 'error', stream: { write: (line: string) => { alarms.push(line) } } }
  const app = Fastify({ ...options, logger })
  const shared = {
    secrets,
    onEnd: ledger.onEnd,
    keepAlive: 25,
    streamAfter: 40,
    limits: { sendBuffer: SEND_BUFFER, drain },
    legacy: { retry: 1, answerTimeout: 30_000, events: memoryEvents({ maxBytes: 1_048_576 }) }
  }
  await app.register(genMcp, { ...shared, prefix: '/low', server: low })
  await app.register(genMcp, { ...shared, prefix: '/suite', server: suite, heartbeat: 10 })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return app
}

function notZero (gauges: Gauges): string[] {
  return Object.entries(gauges).filter(([, value]) => value !== 0).map(([name, value]) => `${value} ${name}`)
}
