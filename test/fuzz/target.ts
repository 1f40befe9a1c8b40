import fc from 'fast-check'
import { buildRange, type Range } from './app.js'
import { judge, type Scene } from './judge.js'
import { readPublished, type Published } from './published.js'
import { collectTokens, fire, load, openSession, USERS, VERSIONS, type Answer, type Sent, type Shot, type Tokens } from './shot.js'
import type { Socket } from 'node:net'

/** What is drawn, and how much of all the inputs that is. */
export interface Target { readonly name: string, readonly weight: number, readonly shot: fc.Arbitrary<Shot> }

export interface Verdict {
  readonly target: string
  readonly inputs: number
  readonly seed: number
  readonly seconds: number
  /** What broke, with the smallest input that was found; undefined if nothing did. */
  readonly failure: string | undefined
}

/** Requests of one input, which are under way together. */
const TOGETHER = 6
/** How often what is held is asked for, until nothing is. */
const TURNS = 200

/** The range with all that is needed to judge what comes of it. */
export class Gallery {
  readonly range: Range
  readonly #published: Published
  readonly tokens: Tokens
  readonly #prototypes = snapshot()
  readonly #alarms: string[] = []
  readonly #onAlarm = (alarm: unknown): void => { this.#alarms.push(alarm instanceof Error ? `${alarm.name}: ${alarm.stack}` : String(alarm)) }
  readonly #sockets = new Set<Socket>()
  inputs = 0

  private constructor (range: Range, published: Published, tokens: Tokens) {
    this.range = range
    this.#published = published
    this.tokens = tokens
    for (const event of ['unhandledRejection', 'uncaughtException', 'warning']) process.on(event, this.#onAlarm)
    range.app.server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => { this.#sockets.delete(socket) })
    })
  }

  static async open (seed: number, http2 = false): Promise<Gallery> {
    const range = await buildRange(seed, http2)
    return new Gallery(range, readPublished(), await collectTokens(range))
  }

  async close (): Promise<void> {
    for (const event of ['unhandledRejection', 'uncaughtException', 'warning']) process.off(event, this.#onAlarm)
    // Node's HTTP/2 server keeps sockets whose sessions broke the protocol, and its close waits for them without end.
    for (const socket of this.#sockets) socket.destroy()
    await this.range.app.close()
  }

  /** Fires all at once, through `inject` unless `send` says how; throws what is wrong. `beside`: what else is under way. */
  async volley (
    shots: readonly Shot[], send: (sent: Sent) => Promise<Answer> = async sent => await fire(this.range, sent), beside: readonly Sent[] = []
  ): Promise<void> {
    const loaded = await Promise.all(shots.map(async shot => {
      const tokens = await this.#tokensFor(shot)
      return { tokens, sent: load(shot, tokens) }
    }))
    const others = [...loaded.map(({ sent }) => sent), ...beside]
    const shared = { range: this.range, published: this.#published, others }
    const problems = (await Promise.all(loaded.map(async ({ tokens, sent }) => await this.#one({ ...shared, tokens }, sent, send)))).flat()
    // An unhandled rejection is told of when the turn is over.
    await new Promise(resolve => { setImmediate(resolve) })
    problems.push(...this.alarms())
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }

  /** What must not happen to the process, and did, since this was asked for. */
  alarms (): string[] {
    return [...this.#alarms.splice(0), ...this.range.alarms.splice(0), ...(snapshot() === this.#prototypes ? [] : ['a prototype was changed'])]
  }

  /** Throws if the mount holds something though nobody asks for anything. */
  async checkHeld (): Promise<void> {
    for (let turn = 0; turn < TURNS && held(this.range) !== '[]'; turn++) await new Promise(resolve => { setTimeout(resolve, 5) })
    const left = held(this.range)
    if (left !== '[]') throw new Error(`The mount still holds ${left}`)
  }

  async #one (scene: Scene, sent: Sent, send: (sent: Sent) => Promise<Answer>): Promise<string[]> {
    this.inputs++
    try {
      return judge(scene, sent, await send(sent))
    } catch (error) {
      return [(error as Error).message]
    }
  }

  /** What a DELETE ends is a session of its own. */
  async #tokensFor (shot: Shot): Promise<Tokens> {
    if (shot.verb !== 'DELETE') return this.tokens
    const name = /@@(session\/[^@|]+)@@/.exec(shot.headers['mcp-session-id'] ?? '')?.[1]
    const [, version, user] = name?.split('/') ?? []
    const known = VERSIONS.find(known => known === version)
    if (name === undefined || known === undefined) return this.tokens
    const owner = USERS.find(known => String(known) === user)
    const id = await openSession(this.range, known, owner)
    const { values, sessions } = this.tokens
    return { ...this.tokens, values: new Map([...values, [name, id]]), sessions: new Map([...sessions, [id, { version: known, user: owner }]]) }
  }
}

/** Draws so many inputs of one target, or fewer if one breaks something. */
export async function shootAt (gallery: Gallery, { name, shot }: Target, inputs: number, seed: number): Promise<Verdict> {
  const began = performance.now()
  const before = gallery.inputs
  let failure: string | undefined
  let round = seed
  for (; gallery.inputs - before < inputs; round++) {
    const numRuns = Math.ceil((inputs - (gallery.inputs - before)) / TOGETHER)
    const property = fc.asyncProperty(fc.array(shot, { minLength: 1, maxLength: TOGETHER }), async shots => { await gallery.volley(shots) })
    const outcome = await fc.check(property, { seed: round, numRuns, endOnFailure: false })
    if (outcome.failed) {
      failure = describe(outcome)
      break
    }
  }
  try {
    await gallery.checkHeld()
  } catch (error) {
    failure ??= String(error)
  }
  return { target: name, inputs: gallery.inputs - before, seed, seconds: (performance.now() - began) / 1_000, failure }
}

/** The seed that finds it again, the smallest input, and what was wrong. */
export function describe<T> ({ seed, counterexamplePath, counterexample, errorInstance }: fc.RunDetails<T>): string {
  return `seed ${seed}, path ${counterexamplePath}\n${fc.stringify(counterexample)}\n${String(errorInstance)}`
}

function held ({ gauges }: Range): string {
  return JSON.stringify(Object.entries(gauges()).filter(([, value]) => value !== 0))
}

function snapshot (): string {
  return [Object.prototype, Array.prototype, Function.prototype, String.prototype].map(prototype => Reflect.ownKeys(prototype).map(String).join(' ')).join('\n')
}
