import { queryObjects, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Exchange } from '../../lib/channel/exchange.js'
import { Output } from '../../lib/legacy/output.js'
import { EventStream } from '../../lib/transport/event-stream.js'

/** One line of the table. */
export interface Row { readonly subject: string, readonly figure: string, readonly bound: string, readonly holds: boolean }

/** What is measured; `scale` 1 is the long form. */
export type Subject = (scale: number) => Promise<Row[]>

export const MIB = 1_048_576

/** What lives as long as a request, a stream or an answer does, and no longer; the rest of each is held by one of these, or holds one. */
const SHORT_LIVED = { Exchange, EventStream, Output }

// Not only where the command line says so, since tests run these subjects too.
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Bytes of the heap that are in use when what nobody holds has gone. */
export async function heapUsed (): Promise<number> {
  for (let turn = 0; turn < 2; turn++) {
    // What a tick still has on its stack is held.
    await new Promise(resolve => { setTimeout(resolve, 20) })
    collectGarbage()
  }
  return process.memoryUsage().heapUsed
}

/** Objects of one request each that are still held; empty where there are none. */
export async function survivors (): Promise<string> {
  await heapUsed()
  return Object.entries(SHORT_LIVED).map(([name, type]) => [name, queryObjects(type, { format: 'count' })] as const)
    .filter(([, count]) => count > 0).map(([name, count]) => `${count} ${name}`).join(', ')
}

export function median (values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}

/** Growth of the heap over so many of something; a bound for each, and a megabyte for what the engine learns meanwhile. */
export function growthRow (subject: string, before: number, after: number, count: number, each: number): Row {
  const growth = after - before
  return {
    subject: `${subject}: heap, from 20 % to 100 %`,
    figure: `${(growth / 1024).toFixed(0)} KiB, ${(growth / count).toFixed(1)} bytes each`,
    bound: `1 MiB, and ${each} bytes each`,
    holds: growth <= MIB + each * count
  }
}

/** Nothing of it is left, as far as the mount knows and as far as the heap does. */
export async function leftRow (subject: string, house: { readonly held: () => Promise<string> }): Promise<Row> {
  const held = await house.held()
  const left = await survivors()
  return { subject: `${subject}: what is left`, figure: [held, left].filter(text => text !== '').join('; ') || 'nothing', bound: 'nothing', holds: held === '' && left === '' }
}
