import { t as root, test, type Test } from 'tap'
import { calls } from './calls.js'
import { closing } from './closing.js'
import { measure, measureLimit } from './large-results.js'
import { listens } from './listens.js'
import { measure as measureSlowReader } from './slow-reader.js'
import type { Row } from './measure.js'

/** A part of what `npm run load` measures; what goes by the clock is left to that. */
const BOUND = { timeout: 110_000 }
/** Those that measure in processes of their own are under way together. */
const TOGETHER = { ...BOUND, buffered: true }
root.jobs = 3
const SHORT = 0.01

function hold (t: Test, rows: readonly Row[]): void {
  t.ok(rows.length > 0)
  for (const { subject, figure, bound, holds } of rows) if (!subject.includes('last / first')) t.ok(holds, `${subject}: ${figure}, of ${bound}`)
}

test('a slow reader is dropped with its cause, a fast one beside it hears all, and memory is bounded: case 020', TOGETHER, async t => {
  hold(t, await measureSlowReader('2026-07-28', false, 10_000))
})

test('a result of 50 MB costs less than four times its size, and one over maxResultSize is an error that names the limit: case 014', TOGETHER, async t => {
  const rows = await Promise.all([measure({ era: '2026-07-28', sse: false, suite: true }), measureLimit('2025-11-25')])
  hold(t, rows.flat())
})

test('open streams of every kind end cleanly when the app is closed, and the process by itself: case 079', TOGETHER, async t => {
  hold(t, await closing(SHORT))
})

test('nothing is left of calls, listens and GET streams when they are over', BOUND, async t => {
  hold(t, await calls(SHORT / 3))
  hold(t, await listens(SHORT / 3))
})
