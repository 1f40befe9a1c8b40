import { test } from 'tap'
import { Chaos, closeInTheMiddle } from './chaos.js'

/** Always the same, so that what fails here fails again. */
const SEED = 20_260_728
const EXCHANGES = 300
const BOUND = { timeout: 120_000 }

test('clients that leave, stop reading and come back at every stage of a request leave nothing behind: CAN-01, CAN-02, CAN-04, CAN-05, HTTP-21, LEG-41, LEG-53: cases 018, 019', BOUND, async t => {
  const chaos = await Chaos.open(SEED)
  for (let round = 1; chaos.exchanges < EXCHANGES; round++) await chaos.round(round)
  await chaos.checkCollected()
  await chaos.close()
  t.strictSame(chaos.failures, [], `${chaos.exchanges} exchanges`)
})

test('a close in the middle of it ends within its bound, with each exchange ended once: case 024', BOUND, async t => {
  const { failures, exchanges, ms } = await closeInTheMiddle(SEED, 1)
  t.strictSame(failures, [], `${exchanges} exchanges, closed in ${ms.toFixed()} ms`)
})
