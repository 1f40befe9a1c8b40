import { setImmediate, setTimeout as delay } from 'node:timers/promises'
import { composeHeaders } from '../../lib/testing/message.js'
import { meta } from '../helpers/mount.js'
import { Answer, PATIENCE, tokenOf } from './answer.js'
import { NUMBER, type Entry, type Place } from './ledger.js'
import { openLine, type Line, type Outgoing } from './line.js'
import { isModern, leaves, type Kind, type Plan, type Shot } from './plan.js'
import type { JsonObject } from 'fastify-gen-mcp'
import type { Arena } from './arena.js'

/** What came of one request, as its client sees it, and what the server must have counted. */
export interface Outcome {
  readonly plan: Plan
  readonly shot: Shot
  readonly answer: Answer
  readonly entry: Entry
  readonly began: 'no' | 'yes' | 'maybe'
  /** How it may have ended. */
  readonly causes: readonly string[]
  /** Its response must have come, all of it. */
  readonly whole: boolean
  readonly problems: string[]
}

/** Of the client: what it does takes at most so long, in ms. */
const LINGER = 12
/** A 2025 call that is asked for again and again. */
const RETURNS = 20

/** One connection, and others in its place where it was left. */
export class Drive {
  readonly #arena: Arena
  readonly #plan: Plan
  #session: Readonly<Record<string, string>> = {}
  #line: Line | undefined
  readonly outcomes: Outcome[] = []

  constructor (arena: Arena, plan: Plan) {
    this.#arena = arena
    this.#plan = plan
  }

  /** Drives all; gives the connection if it is kept. */
  async run (): Promise<Line | undefined> {
    const { era, shots, pipelined, keeps } = this.#plan
    try {
      if (!isModern(era)) this.#session = await this.#arena.openSession(this.#plan, era)
      if (pipelined) await this.#several(shots)
      else for (const shot of shots) await this.#one(shot)
    } finally {
      for (const { number } of shots) this.#arena.ledger.entry(number).letGo()
      if (!keeps || this.#line?.usable !== true) {
        await this.#line?.end()
        this.#line = undefined
      }
    }
    return this.#line
  }

  /** One more request over a connection that was kept. */
  async probe (line: Line, number: number): Promise<void> {
    const kind = this.#plan.server === 'low' ? 'now' : 'plain'
    this.#line = line
    await this.#one({ number, kind, stage: 'answer', way: 'stay', hold: 'none', timing: 'race', listens: false, accept: 'application/json, text/event-stream' })
    await line.end()
  }

  async #open (): Promise<Line> {
    if (this.#line?.usable === true) return this.#line
    await this.#line?.end()
    this.#line = await openLine(this.#plan.http2, this.#arena.port(this.#plan), this.#plan.smallWindow)
    return this.#line
  }

  async #one (shot: Shot): Promise<void> {
    const line = await this.#open()
    const outcome = this.#expect(shot, shot.stage === 'head' || shot.stage === 'body' ? shot.way === 'trickle' ? 'yes' : 'no' : 'yes')
    const { stage, way } = shot
    const early = stage === 'head' || stage === 'body'
    if (early && way !== 'trickle') {
      await line.send(this.#compose(shot), outcome.answer, stage)
      await this.#linger(shot)
      // A client that trickles has not left.
      line.leave(way as 'destroy', outcome.answer)
      await this.#cut(outcome)
      return
    }
    await line.send(this.#compose(shot), outcome.answer, early ? 'trickle' : 'whole')
    await this.#act(line, outcome)
  }

  /** All in one go: what happens to one connection happens to them all. */
  async #several (shots: readonly Shot[]): Promise<void> {
    const line = await this.#open()
    const middle = shots.find(({ stage }) => stage !== 'answer') ?? shots[shots.length - 1] as Shot
    // The others go when their connection does.
    const breaks = leaves(middle.way) && middle.way !== 'cancelStream'
    const outcomes = shots.map(shot => shot === middle ? this.#expect(shot, 'yes') : this.#expect(shot, breaks ? 'maybe' : 'yes', breaks))
    line.sendAll(outcomes.map(({ shot, answer }) => [this.#compose(shot), answer] as const))
    const acting = outcomes[shots.indexOf(middle)] as Outcome
    await this.#act(line, acting)
    for (const { answer } of outcomes) await answer.until(() => answer.over, 'its end')
  }

  /** What its client does, when it has come so far. */
  async #act (line: Line, outcome: Outcome): Promise<void> {
    const { shot: { stage, kind }, answer, entry } = outcome
    switch (stage) {
      case 'work':
        await this.#reached(outcome, 'held')
        break
      case 'stream':
        await answer.until(() => kind === 'asks' ? answer.asked !== undefined : answer.events > 0, 'an event')
        break
      case 'closing':
        await this.#reached(outcome, 'closing')
        break
      default:
        await answer.until(() => answer.over, 'its answer')
    }
    await this.#treat(line, outcome)
    entry.letGo()
  }

  async #treat (line: Line, outcome: Outcome): Promise<void> {
    const { shot, answer, entry } = outcome
    const { dice, http2 } = this.#plan
    switch (shot.way) {
      case 'stay':
        entry.letGo()
        break
      case 'pause':
        line.pause(answer)
        entry.letGo()
        await this.#linger(shot)
        line.resume(answer)
        break
      case 'trickle':
        entry.letGo()
        while (!answer.over) {
          line.pause(answer)
          await delay(1)
          line.resume(answer)
          await setImmediate()
        }
        break
      case 'stall':
        line.pause(answer)
        if (shot.timing === 'race') entry.letGo()
        await this.#linger(shot)
        line.leave(http2 ? dice.pick('cancelStream', 'reset') : 'reset', answer)
        await this.#left(outcome)
        return
      case 'cancel':
        await this.#cancel(outcome)
        break
      case 'resume':
        await this.#resume(line, outcome)
        return
      default:
        if (shot.timing === 'race' && dice.chance(0.5)) entry.letGo()
        line.leave(shot.way, answer)
        if (leaves(shot.way)) return await this.#left(outcome)
        entry.letGo()
    }
    if (shot.kind === 'asks' && shot.way === 'stay' && shot.stage === 'stream') await this.#respond(outcome)
    await answer.until(() => answer.over, 'its end')
  }

  /** The client has left: the server notices, and in the 2025 era goes on all the same. */
  async #left (outcome: Outcome): Promise<void> {
    const { shot, entry, problems } = outcome
    if (shot.timing === 'race' || shot.stage === 'closing' || shot.stage === 'answer') entry.letGo()
    await this.#cut(outcome)
    if (shot.stage === 'closing' || shot.stage === 'answer' || entry.began === 0) return
    if (isModern(this.#plan.era) || shot.kind === 'standing') {
      if (shot.timing === 'race' && shot.kind !== 'listen' && shot.kind !== 'standing') return
      const deadline = performance.now() + PATIENCE
      while (!entry.noticed && performance.now() < deadline) await delay(1)
      if (!entry.noticed) problems.push('nobody noticed that the client had left')
    } else if (shot.kind === 'asks') {
      await this.#respond(outcome)
    } else if (shot.timing === 'noticed') {
      await delay(3)
      if (entry.noticed) problems.push('the call of a client that lost its connection was ended')
    }
  }

  async #cut ({ answer }: Outcome): Promise<void> {
    await answer.until(() => answer.over, 'the end of its connection')
  }

  async #cancel ({ shot: { number }, entry, problems }: Outcome): Promise<void> {
    const { statusCode } = await this.#arena.inject(this.#plan, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: number, reason: 'chaos' } }, this.#session)
    if (statusCode !== 202) problems.push(`the cancellation was answered ${statusCode}`)
    entry.letGo()
  }

  /** Answers what the server asked. */
  async #respond ({ answer: { asked }, problems }: Outcome): Promise<void> {
    const { statusCode } = await this.#arena.inject(this.#plan, { jsonrpc: '2.0', id: asked, result: { action: 'accept', content: { sure: true } } }, this.#session)
    if (statusCode !== 202) problems.push(`the response was answered ${statusCode}`)
  }

  /** Loses the connection, maybe more than once, and reads on until the answer. */
  async #resume (line: Line, outcome: Outcome): Promise<void> {
    const { shot, answer, entry, problems } = outcome
    const { dice } = this.#plan
    if (shot.timing === 'race') entry.letGo()
    line.leave('reset', answer)
    await this.#cut(outcome)
    for (let turn = 0; turn < RETURNS && !answer.answered; turn++) {
      if (turn > 0 || dice.chance(0.5)) entry.letGo()
      const again = await this.#open()
      const { heads } = answer
      answer.reopen()
      await again.send(this.#composeGet(shot, answer.eventId), answer, 'whole')
      await answer.until(() => answer.heads > heads, 'what followed')
      if (answer.status !== 200 && answer.status !== 204) problems.push(`reading on was answered ${answer.status}`)
      if (turn === 0 && dice.chance(0.3)) {
        again.leave('reset', answer)
        await this.#cut(outcome)
      }
      entry.letGo()
      await answer.until(() => answer.over, 'the end of what followed')
    }
  }

  async #reached ({ entry, answer }: Outcome, place: Place): Promise<void> {
    await Promise.race([entry.reached(place), answer.until(() => answer.over, place)])
  }

  async #linger ({ stage }: Shot): Promise<void> {
    const ms = this.#plan.dice.below(stage === 'stream' ? LINGER : 4)
    if (ms > 0) await delay(ms)
  }

  #expect (shot: Shot, began: Outcome['began'], mayBeCut = false): Outcome {
    const { era } = this.#plan
    const entry = this.#arena.ledger.entry(shot.number)
    if (shot.hold === 'none') entry.letGo()
    const modern = isModern(era) || shot.kind === 'standing'
    const own = naturalEnd(shot.kind)
    const left = leaves(shot.way) && (shot.stage === 'work' || shot.stage === 'stream')
    // The 2025 era knows no end by a lost connection, or by one that is read too slowly.
    const causes = shot.way === 'cancel'
      ? ['disconnect']
      : !modern || !(left || mayBeCut || shot.kind === 'flood')
          ? [own]
          : [...(left || mayBeCut ? ['disconnect'] : []), ...(left && shot.timing === 'noticed' ? [] : [own]), ...(shot.kind === 'flood' ? ['overflow', own] : [])]
    const outcome: Outcome = {
      plan: this.#plan, shot, answer: new Answer(shot.number), entry, began, causes, whole: !mayBeCut && (!leaves(shot.way) || shot.stage === 'answer') && shot.kind !== 'flood', problems: []
    }
    this.outcomes.push(outcome)
    return outcome
  }

  // ---- what goes out

  #compose (shot: Shot): Outgoing {
    const { number, kind, hold, listens, accept } = shot
    const { server, era } = this.#plan
    if (kind === 'standing') return this.#composeGet(shot, undefined)
    const modern = isModern(era)
    const method = kind === 'listen' ? 'subscriptions/listen' : 'tools/call'
    const given: JsonObject = kind === 'listen'
      ? { notifications: { toolsListChanged: true } }
      : { name: server === 'suite' ? kind : 'tool', arguments: { number, kind, hold, listens } }
    const own = { progressToken: tokenOf(number) }
    const params: JsonObject = { ...given, _meta: modern ? meta({ ...own, 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } }) as JsonObject : own }
    return {
      verb: 'POST',
      path: `/${server}`,
      headers: { ...(modern ? composeHeaders(method, params) : { 'content-type': 'application/json', ...this.#session }), accept, [NUMBER]: String(number) },
      payload: JSON.stringify({ jsonrpc: '2.0', id: number, method, params })
    }
  }

  #composeGet ({ number }: Shot, eventId: string | undefined): Outgoing {
    const headers = { ...this.#session, accept: 'text/event-stream', [NUMBER]: String(number), ...(eventId !== undefined && { 'last-event-id': eventId }) }
    return { verb: 'GET', path: `/${this.#plan.server}`, headers, payload: '' }
  }
}

/** How a request ends that nobody interferes with. */
function naturalEnd (kind: Kind): string {
  if (kind === 'fails') return 'error'
  if (kind === 'listen' || kind === 'standing') return 'stop'
  return kind === 'closes' || kind === 'closing' ? 'closed' : 'result'
}
