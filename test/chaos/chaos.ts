import { setTimeout as delay } from 'node:timers/promises'
import { until } from '../helpers/sockets.js'
import { Arena } from './arena.js'
import { Dice } from './dice.js'
import { Drive, type Outcome } from './drive.js'
import { collect } from './heap.js'
import { judge } from './judge.js'
import { drawPlan, NUMBERS_A_ROUND } from './plan.js'
import type { Line } from './line.js'

/** Connections of a round, which are driven at the same time. */
const CONNECTIONS = 16
/** Numbers of a round from here on are those of requests over connections that were kept. */
const KEPT = 900
const DRAIN = 10_000
/** Of a shutdown in the middle, in ms; and what it may take beyond: the last answers, and the turn of a busy machine. */
const SHORT_DRAIN = 300
const CLOSE_MARGIN = 5_000
/** HTTP requests that Node and Fastify still know by their latest sockets. */
const MAY_LIVE = 8

/** What was done so often, and how often something was broken by it. */
export interface Row { readonly name: readonly [transport: string, era: string, stage: string, way: string], count: number, broken: number }

export interface Report { readonly rows: ReadonlyMap<string, Row>, readonly failures: readonly string[] }

/** Drives rounds of connections against one arena, and holds what came of them. */
export class Chaos {
  readonly #seed: number
  readonly #arena: Arena
  readonly rows = new Map<string, Row>()
  readonly failures: string[] = []
  exchanges = 0

  private constructor (seed: number, arena: Arena) {
    this.#seed = seed
    this.#arena = arena
  }

  static async open (seed: number): Promise<Chaos> {
    return new Chaos(seed, await Arena.open({ drain: DRAIN }))
  }

  async close (): Promise<void> {
    this.failures.push(...await this.#arena.close())
  }

  /** One round; `round` names it, and with the seed finds it again. */
  async round (round: number): Promise<void> {
    const arena = this.#arena
    const drives = Array.from({ length: CONNECTIONS }, (_, index) => new Drive(arena, drawPlan(this.#seed, round, index)))
    const kept: [Drive, Line][] = []
    const problems: string[] = []
    await Promise.all(drives.map(async drive => {
      try {
        const line = await drive.run()
        if (line !== undefined) kept.push([drive, line])
      } catch (error) {
        problems.push(`a client failed: ${(error as Error).stack}, after ${describe(drive.outcomes.at(-1))}`)
      }
    }))
    problems.push(...(await arena.held(kept.length)).map(held => `left: ${held}`))
    await Promise.all(kept.map(async ([drive, line], index) => {
      try {
        await drive.probe(line, round * NUMBERS_A_ROUND + KEPT + index)
      } catch (error) {
        problems.push(`a connection that was kept failed: ${String(error)}`)
      }
    }))
    problems.push(...(await arena.held(0)).map(held => `left at the end: ${held}`), ...arena.alarms())
    for (const outcome of drives.flatMap(({ outcomes }) => outcomes)) this.#count(outcome)
    for (const problem of problems) this.#fail(round * NUMBERS_A_ROUND, problem)
    arena.ledger.clear()
  }

  /** How many of the latest HTTP requests are still held by anything. */
  async checkCollected (): Promise<void> {
    await collect()
    const { alive, remembered } = this.#arena.ledger
    if (alive > MAY_LIVE) this.failures.push(`${alive} of ${remembered} HTTP requests are held though their exchanges are over`)
  }

  #count (outcome: Outcome): void {
    const { plan: { http2, era }, shot: { number, stage, way } } = outcome
    this.exchanges++
    const name = [http2 ? 'HTTP/2' : 'HTTP/1.1', era, stage, way] as const
    const row = this.rows.get(name.join()) ?? { name, count: 0, broken: 0 }
    this.rows.set(name.join(), row)
    row.count++
    const problems = judge(outcome)
    if (problems.length === 0) return
    row.broken++
    this.#fail(number, `${describe(outcome)}: ${problems.join('; ')}`)
  }

  #fail (index: number, problem: string): void {
    this.failures.push(`CHAOS_SEED=${this.#seed} CHAOS_INDEX=${index}: ${problem}`)
  }
}

/** Closes both apps while a round is under way; what was wrong, and how long the close took, in ms. */
export async function closeInTheMiddle (seed: number, round: number): Promise<{ readonly failures: readonly string[], readonly ms: number, readonly exchanges: number }> {
  const arena = await Arena.open({ drain: SHORT_DRAIN })
  const drives = Array.from({ length: CONNECTIONS }, (_, index) => new Drive(arena, drawPlan(seed, round, index)))
  // Whoever comes too late is refused.
  const driven = Promise.all(drives.map(async drive => { await (await drive.run().catch(() => undefined))?.end().catch(() => {}) }))
  const dice = new Dice(seed + round)
  const under = 6 + dice.below(20)
  // Some are under way, and not all.
  await until(() => drives.flatMap(({ outcomes }) => outcomes).length >= under)
  await delay(dice.below(10))
  const ms = await arena.closeApps()
  await driven
  const failures = [...await arena.held(0), ...arena.alarms()]
  for (const outcome of drives.flatMap(({ outcomes }) => outcomes)) failures.push(...judge(outcome, true).map(problem => `${describe(outcome)}: ${problem}`))
  if (ms > SHORT_DRAIN + CLOSE_MARGIN) failures.push(`the close took ${ms.toFixed()} ms`)
  failures.push(...await arena.close())
  return { failures: failures.map(failure => `CHAOS_SEED=${seed} CHAOS_INDEX=${round * NUMBERS_A_ROUND}, closed in the middle: ${failure}`), ms, exchanges: drives.flatMap(({ outcomes }) => outcomes).length }
}

function describe (outcome: Outcome | undefined): string {
  if (outcome === undefined) return 'nothing'
  const { plan: { http2, era, server, pipelined, smallWindow }, shot } = outcome
  return JSON.stringify({ http2, era, server, pipelined, smallWindow, ...shot })
}
