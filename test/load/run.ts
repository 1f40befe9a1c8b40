import { calls } from './calls.js'
import { closing } from './closing.js'
import { largeResults } from './large-results.js'
import { listens } from './listens.js'
import { slowReader } from './slow-reader.js'
import type { Row, Subject } from './measure.js'

/** The long form: `LOAD_SCALE` makes it shorter; arguments choose subjects by a part of their names. */
const scale = Number(process.env['LOAD_SCALE'] ?? 1)
const chosen = process.argv.slice(2)
const subjects: Readonly<Record<string, Subject>> = { calls, listens, 'slow reader': slowReader, 'large results': largeResults, closing }

const rows: Row[] = []
for (const [name, measure] of Object.entries(subjects)) {
  if (chosen.length > 0 && !chosen.some(part => name.includes(part))) continue
  const began = performance.now()
  try {
    rows.push(...await measure(scale))
  } catch (error) {
    // The others are measured all the same.
    rows.push({ subject: name, figure: (error as Error).message, bound: 'to end', holds: false })
    console.error(error)
  }
  console.log(`${name}: ${((performance.now() - began) / 1_000).toFixed(0)} s`)
}

const widths = (['subject', 'figure', 'bound'] as const).map(member => Math.max(...rows.map(row => row[member].length)))
const line = (cells: readonly string[]): string => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
console.log(`\n${line(['subject', 'figure', 'bound', 'verdict'])}`)
for (const { subject, figure, bound, holds } of rows) console.log(line([subject, figure, bound, holds ? 'holds' : 'MISSED']))
if (rows.some(({ holds }) => !holds)) process.exitCode = 1
