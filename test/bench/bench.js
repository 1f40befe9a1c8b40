/**
 * Measures the built package against what it stands on, and prints one table.
 *
 *   node test/bench/bench.js [--quick] [--only=json,suite,stream,held,growth] [--strict] [--profile=dir]
 *
 * --quick: shorter rounds and fewer of them, for a look (also BENCH_QUICK=1); --strict: exits 1 when a bar is missed; --profile: each server leaves its CPU
 * profile in that folder.
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { measureGrowth } from './growth.js'
import { measureHeld } from './held.js'
import { pinned } from './process.js'
import { formatTable, isMissed } from './table.js'
import { measureJson, measureStream, measureSuite } from './throughput.js'

const subjects = { json: measureJson, suite: measureSuite, stream: measureStream, held: measureHeld, growth: measureGrowth }
const full = { rounds: 7, roundMs: 4_000, streams: 5_000, repeats: 5, changes: 5, calls: 100_000 }
const quick = { rounds: 3, roundMs: 1_000, streams: 1_000, repeats: 3, changes: 3, calls: 20_000 }

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: process.env.BENCH_QUICK === '1' },
    only: { type: 'string', default: Object.keys(subjects).join() },
    strict: { type: 'boolean', default: false },
    profile: { type: 'string' }
  }
})
const nodeOptions = values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${values.profile}`]
const chosen = values.only.split(',')
const unknown = chosen.find(name => !Object.hasOwn(subjects, name))
if (unknown !== undefined) throw new Error(`--only: ${unknown} is none of ${Object.keys(subjects).join(', ')}`)

console.log(`Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model}`)
if (!pinned) console.log('NOTE: server and load share their cores: there is no taskset here, or one core only')

const rows = []
for (const name of chosen) {
  const started = performance.now()
  rows.push(...await subjects[name]({ ...values.quick ? quick : full, nodeOptions }))
  console.log(`${name}: measured in ${Math.round((performance.now() - started) / 1000)} s`)
}
console.log(`\n${formatTable(rows)}`)
if (values.strict && rows.some(isMissed)) process.exitCode = 1
