/** What open listens cost: memory, and the time to tell all of them of a change. */
import { execSync } from 'node:child_process'
import { setTimeout } from 'node:timers/promises'
import { startLoad, startServer } from './process.js'
import { median, row } from './table.js'

/** File descriptors that a process needs for itself. */
const SPARE = 200
const WARM_UP = 200
/** In ms. Of changes that follow each other sooner a Suite makes one, which it tells later. */
const PAUSE = 100
const kinds = ['http', 'fastify', 'ours', 'suite']

/** Opens so many listens on fresh servers, each kind in turn. */
export async function measureHeld ({ streams: wanted, repeats, changes, nodeOptions }) {
  const streams = bound(wanted)
  const memory = Object.fromEntries(kinds.map(kind => [kind, { rss: [], used: [] }]))
  const times = { http: [], ours: [], suite: [] }

  for (let repeat = 0; repeat < repeats; repeat++) {
    const holders = []
    for (const kind of kinds) {
      const holder = await hold(kind, streams, nodeOptions)
      memory[kind].rss.push(holder.rss)
      memory[kind].used.push(holder.used)
      if (kind in times) holders.push(holder)
      else await holder.stop()
    }
    for (let change = 0; change < changes; change++) {
      for (const { kind, tell } of holders) {
        await setTimeout(PAUSE)
        times[kind].push(await tell())
      }
    }
    for (const holder of holders) await holder.stop()
  }
  return [
    compareMemory(`${streams} listens, memory after gc / node:http`, memory.http.used, memory.ours.used, { most: 1.4 }),
    compareMemory(`${streams} listens, RSS / node:http`, memory.http.rss, memory.ours.rss, { most: 1.4 }),
    compareMemory(`${streams} listens, memory after gc / Fastify hijack`, memory.fastify.used, memory.ours.used),
    compareMemory(`${streams} listens, RSS / Fastify hijack`, memory.fastify.rss, memory.ours.rss),
    compareTimes(`one change to ${streams} listens / node:http`, times.http, times.ours),
    compareMemory(`Suite, ${streams} listens, memory after gc / node:http`, memory.http.used, memory.suite.used, { most: 1.4 }),
    compareMemory(`Suite, ${streams} listens, RSS / node:http`, memory.http.rss, memory.suite.rss, { most: 1.4 }),
    compareTimes(`Suite, one change to ${streams} listens / node:http`, times.http, times.suite)
  ]
}

/** A server with so many listens, and what one of them costs in bytes. */
async function hold (kind, streams, nodeOptions) {
  const server = await startServer(kind, nodeOptions)
  const load = startLoad()
  await load.call('open', server.port, WARM_UP)
  await load.call('close')
  while (await server.call('listens') > 0);

  const before = await server.call('memory')
  await load.call('open', server.port, streams)
  const after = await server.call('memory')
  return {
    kind,
    rss: (after.rss - before.rss) / streams,
    used: (after.used - before.used) / streams,

    /** Milliseconds from a change until the last client knows. */
    async tell () {
      const received = load.call('receive')
      const from = await server.call('change')
      return Number(BigInt(await received) - BigInt(from)) / 1e6
    },
    async stop () {
      await load.stop()
      await server.stop()
    }
  }
}

/** As many as the system lets a process have. */
function bound (wanted) {
  const limit = Number(execSync('ulimit -n', { shell: '/bin/sh', encoding: 'utf8' })) || Infinity
  const streams = Math.min(wanted, limit - SPARE)
  if (streams < wanted) console.log(`NOTE: ${streams} listens instead of ${wanted}: a process may have no more than ${limit} open files (ulimit -n)`)
  return streams
}

function compareMemory (subject, base, ours, bar) {
  const format = all => `${(median(all) / 1024).toFixed(2)} KiB`
  return row(subject, format(base), format(ours), median(ours) / median(base), bar)
}

function compareTimes (subject, base, ours) {
  const format = all => `${median(all).toFixed(1)} ms`
  return row(subject, format(base), format(ours), median(ours.map((time, index) => time / base[index])), { most: 1.5 })
}
