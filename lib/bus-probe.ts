import { randomUUID } from 'node:crypto'
import { settle } from './awaitable.js'
import { isObject } from './decode/envelope.js'
import { createDeferred } from './deferred.js'
import { MCP_ERR_BUS_DOWN } from './errors.js'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Mount } from './mount.js'
import type { ProbeSettings } from './options.js'
import type { BusListener, MessageBus } from '../types/channel.js'

/** How often a bus is asked within its timeout: one message that is lost, or comes before the subscription does, is no silence. */
const TRIES = 4
/** What of Fastify's own bound on a start is left, in ms, so that the error is ours and says more. */
const BOOT_MARGIN = 1_000

/** Probes the buses that a mount cannot do without: before `ready()` resolves, which one that is down rejects, and at intervals until the app closes. */
export function probeBuses (fastify: FastifyInstance, mount: Mount): void {
  const { settings: { busProbe }, server: { buses = [] }, otherEra } = mount
  const places: [string, MessageBus | undefined][] = [...buses.map((bus, at): [string, MessageBus] => [`server.buses[${at}]`, bus]), ['legacy.bus', otherEra?.bus]]
  const named = new Map<MessageBus, string>()
  for (const [place, bus] of places) if (bus !== undefined) named.set(bus, [named.get(bus) ?? [], place].flat().join(' and '))
  if (busProbe === undefined || named.size === 0) return

  const probe = new BusProbe(named, { ...busProbe, bootTimeout: boundBoot(busProbe.timeout, fastify) }, fastify.log)
  mount.probe = probe
  // When all else is there: who connects the bus may be registered later.
  fastify.addHook('onReady', async () => { await probe.start() })
  // A shutdown has stopped it, but not every boot that fails comes to that.
  fastify.addHook('onClose', async () => { probe.stop() })
}

function boundBoot (timeout: number, { initialConfig }: FastifyInstance): number {
  // Fastify fills it in.
  const pluginTimeout = initialConfig.pluginTimeout as number
  return pluginTimeout === 0 ? timeout : Math.min(timeout, Math.max(pluginTimeout - BOOT_MARGIN, pluginTimeout / 2))
}

interface Settings extends ProbeSettings { /** What `timeout` is at boot, in ms. */ readonly bootTimeout: number }

/** Whether the messages of some buses come through, asked by messages to oneself. */
export class BusProbe {
  readonly #echoes: readonly Echo[]
  readonly #settings: Settings
  readonly #log: FastifyBaseLogger
  /** Of a try, or until the next round: there is never another. */
  #timer: NodeJS.Timeout | undefined
  #endRound: (() => void) | undefined
  #stopped = false

  /** The buses with the names that the log and errors have for them. */
  constructor (named: ReadonlyMap<MessageBus, string>, settings: Settings, log: FastifyBaseLogger) {
    this.#echoes = [...named].map(([bus, source]) => new Echo(bus, source))
    this.#settings = settings
    this.#log = log
  }

  /** How many are down. */
  get down (): number {
    return this.#echoes.filter(({ downSince }) => downSince !== undefined).length
  }

  /** Rejects with MCP_ERR_BUS_DOWN when nothing comes back from one, and then leaves nothing behind; else goes on at intervals. */
  async start (): Promise<void> {
    const { bootTimeout, interval } = this.#settings
    // Waited for, so that the process does not end before somebody has been told.
    await this.#ask(echo => { echo.open() }, (again, ms) => setTimeout(again, ms), bootTimeout)
    if (this.#stopped) return
    const silent = this.#echoes.filter(({ heard }) => !heard)
    if (silent.length > 0 || interval === 0) this.stop()
    else this.#wait()
    if (silent.length > 0) throw downError(silent, bootTimeout)
  }

  /** Asks no more, and takes back what it subscribed. */
  stop (): void {
    if (this.#stopped) return
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#endRound?.()
    for (const echo of this.#echoes) echo.close()
  }

  #wait (): void {
    this.#timer = setTimeout(() => { this.#round() }, this.#settings.interval).unref()
  }

  async #round (): Promise<void> {
    await this.#ask(echo => { echo.send() }, (again, ms) => setTimeout(again, ms).unref(), this.#settings.timeout)
    if (this.#stopped) return
    for (const echo of this.#echoes) this.#judge(echo)
    this.#wait()
  }

  /** One round: resolves when all have been heard, or its time is over. */
  async #ask (begin: (echo: Echo) => void, later: (again: () => void, ms: number) => NodeJS.Timeout, timeout: number): Promise<void> {
    const over = createDeferred<undefined>()
    this.#endRound = () => { over.resolve(undefined) }
    let tries = 1
    const again = (): void => {
      if (tries++ === TRIES) return over.resolve(undefined)
      for (const echo of this.#echoes) echo.send()
      this.#timer = later(again, timeout / TRIES)
    }
    this.#timer = later(again, timeout / TRIES)
    const answers = Promise.all(this.#echoes.map(async echo => { await echo.listen(() => { begin(echo) }) }))
    await Promise.race([answers, over.promise])
    clearTimeout(this.#timer)
  }

  #judge (echo: Echo): void {
    const { heard, source, downSince, problem, heardAt } = echo
    if (heard === (downSince === undefined)) return
    if (downSince === undefined) {
      echo.downSince = heardAt
      const silentMs = sinceMs(heardAt)
      this.#log.error({ ...problem !== undefined && { err: problem }, mcp: { source, silentMs } }, 'nothing comes back from a message bus: look at its connection')
    } else {
      echo.downSince = undefined
      this.#log.info({ mcp: { source, silentMs: sinceMs(downSince) } }, 'messages come back from a message bus again')
    }
  }
}

/** One bus, and what one asks it by: a topic of its own. */
class Echo {
  readonly source: string
  /** What it said, in this round, that has gone wrong. */
  problem: unknown
  /** Something came back, in this round. */
  heard = false
  /** When something came back last. */
  heardAt = performance.now()
  /** When something came back last, of one that is down. */
  downSince: number | undefined
  readonly #bus: MessageBus
  readonly #topic = `mcp/probe/${randomUUID()}`
  /** Of the messages of this round: what comes late says nothing of now. */
  #token = ''
  #wake: (() => void) | undefined
  #closed = false

  constructor (bus: MessageBus, source: string) {
    this.#bus = bus
    this.source = source
  }

  /** Begins a round; resolves when something comes back. */
  async listen (begin: () => void): Promise<void> {
    const answer = createDeferred<undefined>()
    this.#wake = () => { answer.resolve(undefined) }
    this.#token = randomUUID()
    this.heard = false
    this.problem = undefined
    // A bus may hand over within emit.
    begin()
    await answer.promise
  }

  /** Subscribes, and asks as soon as that may have been done: at once, and again when the bus confirms it in one way or another. */
  open (): void {
    const confirmed = (error?: unknown): void => {
      if (error != null) this.#note(error)
      else if (this.#closed) this.#remove()
      else this.send()
    }
    settle(() => this.#bus.on(this.#topic, this.#listener, confirmed), () => { confirmed() }, this.#note)
  }

  send (): void {
    if (this.heard || this.#closed) return
    const packet = { topic: this.#topic, token: this.#token }
    settle(() => this.#bus.emit(packet, error => { if (error != null) this.#note(error) }), () => {}, this.#note)
  }

  close (): void {
    this.#closed = true
    this.downSince = undefined
    this.#remove()
  }

  readonly #listener: BusListener = (packet: unknown, done) => {
    if (isObject(packet) && packet['token'] === this.#token && !this.#closed) {
      this.heard = true
      this.heardAt = performance.now()
      this.#wake?.()
    }
    done()
  }

  readonly #note = (error: unknown): void => { this.problem = error }

  #remove (): void {
    // One that is at fault has been told of.
    settle(() => this.#bus.removeListener(this.#topic, this.#listener), () => {}, () => {})
  }
}

function downError (silent: readonly Echo[], timeout: number): Error {
  const error = new MCP_ERR_BUS_DOWN(silent.map(({ source }) => source).join(', '), String(timeout))
  const problem = silent.find(({ problem }) => problem !== undefined)?.problem
  return problem === undefined ? error : Object.assign(error, { cause: problem })
}

/** Whole milliseconds since then. */
function sinceMs (then: number): number {
  return Math.round(performance.now() - then)
}
