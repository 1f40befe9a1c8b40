/** How many calls a server answers, and how many events it sends, against others in alternating rounds. */
import { startLoad, startServer } from './process.js'
import { median, row } from './table.js'
import { EVENTS_A_CALL } from './wire.js'

/** The share of its core that a server has when nothing but the load holds it back. */
const FULL = 0.9

/** An echo call, answered with JSON. */
export async function measureJson ({ rounds, roundMs, nodeOptions }) {
  const results = await compete({ rounds, roundMs, nodeOptions, connections: 32, warmUp: 20_000 }, {
    fastify: ['fastify', 'echo'], asyncFastify: ['fastify-async', 'echo'], sync: ['ours', 'echo'], async: ['ours', 'echo-async'], http: ['http', 'echo']
  })
  return [
    compare('JSON, sync handler / Fastify', results.fastify, results.sync, { least: 0.85 }, 'calls'),
    compare('JSON, async handler / Fastify, async handler', results.asyncFastify, results.async, { least: 0.85 }, 'calls'),
    compare('JSON, async handler / Fastify, sync handler', results.fastify, results.async, undefined, 'calls'),
    compare('JSON, sync handler / node:http', results.http, results.sync, undefined, 'calls'),
    compare('JSON, bare Fastify / node:http', results.http, results.fastify, undefined, 'calls'),
    compareCpu('JSON, CPU of a call / Fastify', results.fastify, results.sync)
  ]
}

/** A call that sends progress: all at once, and an event in each turn of the event loop. */
export async function measureStream ({ rounds, roundMs, nodeOptions }) {
  const rows = []
  for (const [tool, name] of [['progress', 'in one loop'], ['progress-paced', 'a turn each']]) {
    const results = await compete({ rounds, roundMs, nodeOptions, connections: 16, warmUp: 3_000 }, { http: ['http', tool], ours: ['ours', tool], fastify: ['fastify', tool] })
    rows.push(
      compare(`stream, ${name} / node:http`, results.http, results.ours, { least: 1 }, 'events', EVENTS_A_CALL),
      compare(`stream, ${name} / Fastify hijack`, results.fastify, results.ours, undefined, 'events', EVENTS_A_CALL),
      compareCpu(`stream, ${name}, CPU of a call / node:http`, results.http, results.ours)
    )
  }
  return rows
}

/** Gives each of the entrants, `[kind, tool]`, its turn in every round; the first to go is another each time. */
async function compete ({ rounds, roundMs, nodeOptions, connections, warmUp }, entrants) {
  const load = startLoad()
  const running = await Promise.all(Object.entries(entrants).map(async ([name, [kind, tool]]) => ({ name, tool, server: await startServer(kind, nodeOptions), rates: [], costs: [] })))
  await checkSame(load, running)

  // By their number, since the compiler goes by it and a slow machine gets there late.
  for (const { server, tool } of running) await load.call('callTimes', server.port, tool, connections, warmUp, warmUp)
  const shares = []
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < running.length; turn++) {
      const { server, tool, rates, costs } = running[(round + turn) % running.length]
      const before = await server.call('cpu')
      const { count, seconds } = await load.call('callFor', server.port, tool, connections, roundMs)
      const cpu = await server.call('cpu') - before
      rates.push(count / seconds)
      costs.push(cpu / count)
      shares.push(cpu / (seconds * 1e6))
    }
  }
  const share = median(shares)
  if (share < FULL) console.log(`NOTE: the servers had ${Math.round(share * 100)} % of their core: something else runs here, and these ratios say little`)
  await Promise.all([load, ...running.map(({ server }) => server)].map(async process => { await process.stop() }))
  return Object.fromEntries(running.map(({ name, rates, costs }) => [name, { rates, costs }]))
}

/** What is compared must say the same. Whether a stream goes out in chunks, and in which, is each server's affair. */
async function checkSame (load, running) {
  const answers = await Promise.all(running.map(async ({ server, tool }) => normalize(await load.call('probe', server.port, tool))))
  const odd = answers.findIndex(answer => answer !== answers[0])
  if (odd !== -1) throw new Error(`The servers differ:\n${answers[0]}\n${answers[odd]}`)
}

function normalize (response) {
  const [head, body] = response.split(/\r\n\r\n(.*)/s)
  const fields = head.toLowerCase().split('\r\n').filter(line => !/^(?:date|content-length|transfer-encoding):/.test(line)).sort()
  return `${fields.join('\n')}\n${body.replace(/[0-9a-f]+\r\n|\r\n/g, '')}`
}

function compare (subject, base, ours, bar, unit, unitsACall = 1) {
  const ratios = ours.rates.map((rate, round) => rate / base.rates[round])
  const format = rates => `${Math.round(median(rates) * unitsACall).toLocaleString('en')} ${unit}/s`
  return row(subject, format(base.rates), format(ours.rates), median(ratios), bar)
}

function compareCpu (subject, base, ours) {
  const ratios = ours.costs.map((cost, round) => cost / base.costs[round])
  const format = costs => `${median(costs).toFixed(1)} us`
  return row(subject, format(base.costs), format(ours.costs), median(ratios))
}
