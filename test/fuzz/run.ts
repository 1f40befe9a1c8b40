import { shootAtHttp2 } from './http2.js'
import { measure, parsers } from './linear.js'
import { shootAtSockets } from './sockets.js'
import { Gallery, shootAt, type Verdict } from './target.js'
import { targets } from './targets/index.js'

const DEFAULT_RUNS = 200_000
/** Of all inputs, those that go over sockets, which take longest. */
const ON_SOCKETS = 0.03
const ON_HTTP2 = 0.02

/** The long form: `FUZZ_RUNS` inputs of `FUZZ_SEED`; arguments choose targets by a part of their names. */
const runs = Number(process.env['FUZZ_RUNS'] ?? DEFAULT_RUNS)
const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 0x7fffffff)
const chosen = process.argv.slice(2)
const isChosen = (name: string): boolean => chosen.length === 0 || chosen.some(part => name.includes(part))
const failures: string[] = []
let inputs = 0

function tell (verdict: Verdict): void {
  const { target, seconds, failure } = verdict
  inputs += verdict.inputs
  console.log(row(target, String(verdict.inputs), String(verdict.seed), seconds.toFixed(1), failure === undefined ? 'holds' : 'BROKEN'))
  if (failure !== undefined) failures.push(`${target}: ${failure}`)
}

function row (target: string, ...[inputs = '', seed = '', seconds = '', verdict = '']: readonly string[]): string {
  return `${target.padEnd(45)} ${inputs.padStart(8)} ${seed.padStart(11)} ${seconds.padStart(8)}  ${verdict}`
}

console.log(row('target', 'inputs', 'seed', 'seconds', 'verdict'))
const gallery = await Gallery.open(seed)
const all = targets(seed)
const weights = all.reduce((sum, { weight }) => sum + weight, 0)
for (const target of all) if (isChosen(target.name)) tell(await shootAt(gallery, target, Math.ceil(runs * (1 - ON_SOCKETS - ON_HTTP2) * target.weight / weights), seed))
if (isChosen('sockets')) tell(await shootAtSockets(gallery, Math.ceil(runs * ON_SOCKETS), seed))
await gallery.close()
if (isChosen('HTTP/2')) {
  const overHttp2 = await Gallery.open(seed, true)
  tell(await shootAtHttp2(overHttp2, Math.ceil(runs * ON_HTTP2), seed))
  await overHttp2.close()
}
console.log(row('in all', String(inputs)))

for (const parser of parsers) {
  if (!isChosen('linear')) break
  const { name, small, large, holds } = measure(parser)
  console.log(`${`linear: ${name}`.padEnd(66)} ${small.toFixed(3)} ms, four times as long ${large.toFixed(3)} ms  ${holds ? 'holds' : 'BROKEN'}`)
  if (!holds) failures.push(`${name} is not linear`)
}
for (const failure of failures) console.log(`\n${failure}`)
if (failures.length > 0) process.exitCode = 1
