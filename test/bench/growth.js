/** Whether a call costs more when many have gone before, or when many listens are open. */
import { startLoad, startServer } from './process.js'
import { median, row } from './table.js'

const CONNECTIONS = 32
const WINDOW = 1_000
/** A window is some 50 ms, in which anything may happen: the middle of so many is taken at either end. */
const WINDOWS = 5
const LISTENS = 1_000
/** Machines have their moods; growth with the number of anything would be far beyond this. */
const bar = { most: 1.15 }

/** So many calls, and calls beside open listens. */
export async function measureGrowth ({ calls, repeats, nodeOptions }) {
  const server = await startServer('ours', nodeOptions)
  const load = startLoad()
  const callTimes = async count => await load.call('callTimes', server.port, 'echo', CONNECTIONS, count, WINDOW)

  // The first calls of a process wait for the compiler.
  await callTimes(20 * WINDOW)
  const rows = [await measureMany(server, callTimes, calls), await measureBesideListens(server, load, callTimes, repeats)]
  await load.stop()
  await server.stop()
  return rows
}

async function measureMany (server, callTimes, calls) {
  const before = await server.call('memory')
  const windows = await callTimes(calls)
  const after = await server.call('memory')
  const first = median(windows.slice(0, WINDOWS))
  const last = median(windows.slice(-WINDOWS))
  const kept = ((after.used - before.used) / calls).toFixed(1)
  return row(`last / first ${WINDOW} of ${calls} calls (${kept} bytes kept a call)`, ...[first, last].map(format), last / first, bar)
}

async function measureBesideListens (server, load, callTimes, repeats) {
  const alone = []
  const beside = []
  for (let repeat = 0; repeat < repeats; repeat++) {
    alone.push(median(await callTimes(2 * WINDOWS * WINDOW)))
    await load.call('open', server.port, LISTENS)
    beside.push(median(await callTimes(2 * WINDOWS * WINDOW)))
    await load.call('close')
    while (await server.call('listens') > 0);
  }
  const ratios = beside.map((time, index) => time / alone[index])
  return row(`${WINDOW} calls beside ${LISTENS} listens / beside none`, ...[alone, beside].map(times => format(median(times))), median(ratios), bar)
}

function format (ms) {
  return `${ms.toFixed(1)} ms`
}
