/** Servers against each other, in alternating rounds. */
import { startLoad, startServer } from './process.js'
import { median, row } from './table.js'

/** The share of its core that a server has when nothing but the load holds it back. */
const FULL = 0.9

/**
 * Gives each of the entrants, `[kind, tool]`, its turn in every round; the first to go is another each time. Each turn has a process of its own: two of
 * the same server differ by up to 8 %, for as long as they live.
 */
export async function compete ({ rounds, roundMs, nodeOptions, connections, warmUp }, entrants) {
  const load = startLoad()
  const results = Object.entries(entrants).map(([name, [kind, tool]]) => ({ name, kind, tool, rates: [], costs: [], answer: undefined }))
  const shares = []
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < results.length; turn++) {
      const entrant = results[(round + turn) % results.length]
      const { rate, cost, share } = await measure(entrant)
      entrant.rates.push(rate)
      entrant.costs.push(cost)
      shares.push(share)
    }
    checkSame(results)
  }
  await load.stop()
  const share = median(shares)
  if (share < FULL) console.log(`NOTE: the servers had ${Math.round(share * 100)} % of their core: something else runs here, and these ratios say little`)
  return Object.fromEntries(results.map(({ name, rates, costs }) => [name, { rates, costs }]))

  async function measure (entrant) {
    const { kind, tool } = entrant
    const server = await startServer(kind, nodeOptions)
    entrant.answer ??= normalize(await load.call('probe', server.port, tool))
    // By their number, since the compiler goes by it and a slow machine gets there late.
    await load.call('callTimes', server.port, tool, connections, warmUp, warmUp)
    const before = await server.call('cpu')
    const { count, seconds } = await load.call('callFor', server.port, tool, connections, roundMs)
    const cpu = await server.call('cpu') - before
    await server.stop()
    return { rate: count / seconds, cost: cpu / count, share: cpu / (seconds * 1e6) }
  }
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
function checkSame (results) {
  const odd = results.find(({ answer }) => answer !== results[0].answer)
  if (odd !== undefined) throw new Error(`The servers differ:\n${results[0].answer}\n${odd.answer}`)
}

function normalize (response) {
  const [head, body] = response.split(/\r\n\r\n(.*)/s)
  const fields = head.toLowerCase().split('\r\n').filter(line => !/^(?:date|content-length|transfer-encoding):/.test(line)).sort()
  return `${fields.join('\n')}\n${body.replace(/[0-9a-f]+\r\n|\r\n/g, '')}`
}
