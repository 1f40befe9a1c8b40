import { setTimeout as delay } from 'node:timers/promises'
import { SESSION_TIMEOUT } from './arena.js'
import { Chaos, closeInTheMiddle } from './chaos.js'
import { measureHeap } from './heap.js'
import { NUMBERS_A_ROUND } from './plan.js'

const DEFAULT_RUNS = 10_000
/** Before the heap is first measured: what is made once has been made. */
const WARM_UP = 0.3
/**
 * What of the heap may have grown, in bytes: compiled code, caches, the events that are kept for clients who come back. It comes and goes by half of that,
 * and is no more after twice as many exchanges; `checkCollected` looks closer.
 */
const TOLERANCE = 4_194_304
/** After so many rounds, and on servers of its own, one is closed in the middle. */
const ROUNDS_A_CLOSE = 15
const MOST_FAILURES = 20

/** The long form: `CHAOS_RUNS` exchanges of `CHAOS_SEED`; with `CHAOS_INDEX` the round of that exchange, and no other. */
const runs = Number(process.env['CHAOS_RUNS'] ?? DEFAULT_RUNS)
const seed = Number(process.env['CHAOS_SEED'] ?? Date.now() % 0x7fffffff)
const index = process.env['CHAOS_INDEX']
const failures: string[] = []
const closes: number[] = []
const began = performance.now()
const chaos = await Chaos.open(seed)

async function drive (from: number, until: () => boolean): Promise<number> {
  let round = from
  for (; !until() && chaos.failures.length + failures.length < MOST_FAILURES; round++) {
    await chaos.round(round)
    if (round % ROUNDS_A_CLOSE !== 0) continue
    const closed = await closeInTheMiddle(seed, round)
    failures.push(...closed.failures)
    closes.push(closed.ms)
  }
  return round
}

if (index !== undefined) {
  const round = Math.floor(Number(index) / NUMBERS_A_ROUND)
  await chaos.round(round)
  failures.push(...(await closeInTheMiddle(seed, round)).failures)
} else {
  const next = await drive(1, () => chaos.exchanges >= runs * WARM_UP)
  await delay(2 * SESSION_TIMEOUT)
  const before = await measureHeap()
  await drive(next, () => chaos.exchanges >= runs)
  await delay(2 * SESSION_TIMEOUT)
  await chaos.checkCollected()
  const after = await measureHeap()
  const grown = after - before
  console.log(`heap: ${(before / 1_048_576).toFixed(2)} MiB after the warm-up, ${(after / 1_048_576).toFixed(2)} MiB at the end; ${TOLERANCE / 1_048_576} MiB more are tolerated`)
  if (grown > TOLERANCE) failures.push(`CHAOS_SEED=${seed}: the heap has grown by ${grown} bytes`)
}
await chaos.close()
failures.push(...chaos.failures)

function row (transport: string, era: string, stage: string, way: string, count: number | string, verdict: string): void {
  console.log(`${transport.padEnd(10)} ${era.padEnd(11)} ${stage.padEnd(8)} ${way.padEnd(13)} ${String(count).padStart(6)}  ${verdict}`)
}

row('transport', 'era', 'stage', 'way', 'count', 'verdict')
for (const [, { name: [transport, era, stage, way], count, broken }] of [...chaos.rows].sort(([a], [b]) => a < b ? -1 : 1)) row(transport, era, stage, way, count, broken === 0 ? 'holds' : `BROKEN ${broken}`)
row('in all', '', '', '', chaos.exchanges, failures.length === 0 ? 'holds' : 'BROKEN')
console.log(`seed ${seed}, ${((performance.now() - began) / 1_000).toFixed(1)} s; ${closes.length} closes in the middle, the longest ${Math.max(0, ...closes).toFixed()} ms`)
for (const failure of failures) console.log(`\n${failure}`)
if (failures.length > 0) process.exitCode = 1
