/** Servers against each other, in alternating rounds. */
import { startLoad, startServer } from './process.js'
import { median, row } from './table.js'

/** The share of its core that a server has when nothing but the load holds it back. */
const FULL = 0.9

/** Gives each of the entrants, `[kind, tool]`, its turn in every round; the first to go is another each time. */
export async function compete ({ rounds, roundMs, nodeOptions, connections, warmUp }, entrants) {
  const load = startLoad()
  const running = await Promise.all(Object.entries(entrants).map(async ([name, [kind, tool]]) => {
    return { name, tool, server: await startServer(kind, nodeOptions), rates: [], costs: [] }
  }))
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

/** How many units each did in a second. */
export function compare (subject, base, ours, bar, unit, unitsACall = 1) {
  const ratios = ours.rates.map((rate, round) => rate / base.rates[round])
  const format = rates => `${Math.round(median(rates) * unitsACall).toLocaleString('en')} ${unit}/s`
  return row(subject, format(base.rates), format(ours.rates), median(ratios), bar)
}

/** What a call cost each. */
export function compareCpu (subject, base, ours) {
  const ratios = ours.costs.map((cost, round) => cost / base.costs[round])
  const format = costs => `${median(costs).toFixed(1)} us`
  return row(subject, format(base.costs), format(ours.costs), median(ratios))
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
