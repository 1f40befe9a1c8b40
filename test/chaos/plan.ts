import { Dice } from './dice.js'
import type { Hold, LowKind, SuiteKind } from './servers.js'
import type { Leaving } from './line.js'

export const ERAS = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26'] as const
export type Era = typeof ERAS[number]
/** Where in its life a request is when its client does something. */
export type Stage = 'head' | 'body' | 'work' | 'stream' | 'closing' | 'answer'
/**
 * What it does: leaves; goes on (`stay`, after a `pause`, in pieces: `trickle`); reads no more and then leaves (`stall`). In the 2025 era it may cancel, or
 * leave and read on (`resume`).
 */
export type Way = Leaving | 'stay' | 'pause' | 'trickle' | 'stall' | 'cancel' | 'resume'
export type Kind = LowKind | SuiteKind | 'listen' | 'standing'

/** One request, and how its client treats it. */
export interface Shot {
  readonly number: number
  readonly kind: Kind
  readonly stage: Stage
  readonly way: Way
  readonly hold: Hold
  /** The callback goes on when the server has noticed what the client did, or in a race with it. */
  readonly timing: 'noticed' | 'race'
  readonly listens: boolean
  readonly accept: string
}

/** One connection. */
export interface Plan {
  readonly http2: boolean
  readonly era: Era
  readonly server: 'low' | 'suite'
  readonly smallWindow: boolean
  /** All at once; what the client does it does to the one in the middle. */
  readonly pipelined: boolean
  readonly shots: readonly Shot[]
  /** It stays open, if it still is, until the others are done. */
  readonly keeps: boolean
  readonly dice: Dice
}

/** Numbers of requests in a round. */
export const NUMBERS_A_ROUND = 1_000
const NUMBERS_A_PLAN = 20
const BOTH = 'application/json, text/event-stream'

/** What a client does after which nothing of its request reaches it. */
export function leaves (way: Way): boolean {
  return ['destroy', 'reset', 'halfClose', 'cancelStream', 'goawayError', 'stall', 'resume'].includes(way)
}

export function isModern (era: Era): boolean {
  return era === '2026-07-28'
}

export function drawPlan (seed: number, round: number, index: number): Plan {
  const dice = new Dice(seed ^ Math.imul(round * 100 + index + 1, 0x9E3779B1))
  const first = round * NUMBERS_A_ROUND + index * NUMBERS_A_PLAN + 1
  const http2 = dice.chance(0.5)
  const era = dice.chance(0.5) ? '2026-07-28' : dice.pick('2025-11-25', '2025-11-25', '2025-06-18', '2025-03-26')
  const server = dice.pick('low', 'low', 'suite')
  const pipelined = dice.chance(0.25)
  const about = { http2, era, server, dice } as const
  const count = pipelined ? 2 + dice.below(3) : 1 + dice.below(4)
  const middle = pipelined ? dice.below(count) : -1
  const shots = Array.from({ length: count }, (_, at) => drawShot(about, first + at, pipelined ? at === middle ? 'middle' : 'beside' : 'alone'))
  return { ...about, smallWindow: http2 && dice.chance(0.3), pipelined, shots, keeps: dice.chance(0.3) }
}

type About = Pick<Plan, 'http2' | 'era' | 'server' | 'dice'>

function drawShot (about: About, number: number, place: 'alone' | 'middle' | 'beside'): Shot {
  const { dice, era } = about
  const stage = place === 'beside'
    ? 'answer'
    : place === 'middle'
      ? dice.pick<Stage>('work', 'stream', 'stream', 'answer')
      : dice.pick<Stage>('head', 'body', 'work', 'work', 'stream', 'stream', 'stream', 'closing', 'answer', 'answer')
  const kind = drawKind(about, stage, place)
  const way = place === 'beside' ? 'stay' : drawWay(about, stage, kind)
  const timing = kind === 'flood' ? 'race' : dice.pick('noticed', 'race')
  const plain = stage === 'head' || stage === 'body' || stage === 'answer'
  return {
    number,
    kind,
    stage,
    way,
    hold: stage === 'work' ? dice.pick('init', 'handler') : stage === 'stream' ? 'stream' : stage === 'closing' ? 'close' : 'none',
    timing,
    listens: timing === 'noticed' || dice.chance(0.5),
    accept: kind === 'standing' ? 'text/event-stream' : plain && isModern(era) && kind !== 'listen' ? dice.pick(BOTH, BOTH, 'application/json', 'text/event-stream') : BOTH
  }
}

function drawKind ({ server, era, dice }: About, stage: Stage, place: string): Kind {
  const modern = isModern(era)
  if (server === 'suite') {
    switch (stage) {
      case 'closing': return 'closing'
      case 'stream': return dice.pick<Kind>('generator', 'streaming', place === 'alone' ? modern ? 'listen' : 'standing' : 'streaming')
      case 'work':
      case 'answer': return dice.pick('plain', 'generator', 'streaming')
      default: return 'plain'
    }
  }
  switch (stage) {
    case 'closing': return 'closes'
    // 2025-03-26 has no elicitation.
    case 'stream': return place === 'alone'
      ? dice.pick<Kind>('progress', 'mailbox', 'mailbox', 'sources', 'sources', 'polite', ...(modern ? ['flood', 'listen', 'listen'] as const : era === '2025-03-26' ? ['standing'] as const : ['standing', 'asks'] as const))
      : dice.pick<Kind>('progress', 'mailbox', 'sources')
    case 'work': return dice.pick('later', 'progress', 'mailbox', 'sources', 'polite', 'fails')
    case 'answer': return dice.pick<Kind>('now', 'now', 'later', 'progress', 'mailbox', 'sources', 'polite', 'fails', modern ? 'listen' : 'now', modern ? 'asks' : 'now')
    default: return dice.pick('now', 'later', 'mailbox')
  }
}

function drawWay ({ http2, era, server, dice }: About, stage: Stage, kind: Kind): Way {
  const breaking = http2 ? ['cancelStream', 'destroy', 'reset'] as const : ['destroy', 'reset', 'halfClose'] as const
  if (stage === 'head' || stage === 'body') return dice.pick<Way>(...breaking, 'trickle')
  if (kind === 'asks' && stage === 'stream') return dice.pick<Way>(...breaking, 'stay')
  const leaving = http2 ? [...breaking, 'goawayError', 'goaway', 'close'] as const : breaking
  if (stage === 'answer' || stage === 'closing') return dice.pick<Way>(...leaving, 'stay', 'stay', stage === 'closing' ? 'pause' : 'stay')
  if (kind === 'flood') return dice.pick<Way>('pause', 'stall', 'stall', 'trickle')
  // Nothing else ends these.
  if ((kind === 'listen' || kind === 'standing') && server === 'suite') return http2 ? dice.pick<Way>(...breaking, 'goawayError', 'stall') : dice.pick<Way>(...breaking, 'stall')
  const slow = stage === 'work' ? ['pause', 'stall'] as const : ['pause', 'stall', 'trickle'] as const
  const legacy: readonly Way[] = isModern(era) || kind === 'standing' ? [] : stage === 'stream' ? ['cancel', 'resume', 'resume', 'resume'] : ['cancel']
  return dice.pick<Way>(...leaving, ...slow, 'stay', ...legacy)
}
