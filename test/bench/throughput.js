/** How many calls a server answers, and how many events it sends, against others. */
import { compare, compareCpu, compete } from './compete.js'
import { EVENTS_A_CALL } from './wire.js'

/** Of calls that are answered with JSON. */
const JSON_LOAD = { connections: 32, warmUp: 20_000 }

/** An echo call, answered with JSON. */
export async function measureJson ({ rounds, roundMs, nodeOptions }) {
  const results = await compete({ rounds, roundMs, nodeOptions, ...JSON_LOAD }, {
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

/** An echo call to a Suite, with few tools and with many. */
export async function measureSuite ({ rounds, roundMs, nodeOptions }) {
  const results = await compete({ rounds, roundMs, nodeOptions, ...JSON_LOAD }, {
    fastify: ['fastify', 'echo'], one: ['suite', 'echo'], hundred: ['suite-100', 'echo'], thousand: ['suite-1000', 'echo']
  })
  return [
    compare('Suite, echo / Fastify', results.fastify, results.one, { least: 0.75 }, 'calls'),
    compare('Suite, echo, 100 tools / 1 tool', results.one, results.hundred, { least: 0.95 }, 'calls'),
    compare('Suite, echo, 1,000 tools / 1 tool', results.one, results.thousand, { least: 0.95 }, 'calls'),
    compareCpu('Suite, CPU of a call / Fastify', results.fastify, results.one)
  ]
}

/** A call that sends progress: all at once, and an event in each turn of the event loop. */
export async function measureStream ({ rounds, roundMs, nodeOptions }) {
  const rows = []
  for (const [tool, name] of [['progress', 'in one loop'], ['progress-paced', 'a turn each']]) {
    const results = await compete({ rounds, roundMs, nodeOptions, connections: 16, warmUp: 3_000 }, {
      http: ['http', tool], ours: ['ours', tool], fastify: ['fastify', tool]
    })
    rows.push(
      compare(`stream, ${name} / node:http`, results.http, results.ours, { least: 1 }, 'events', EVENTS_A_CALL),
      compare(`stream, ${name} / Fastify hijack`, results.fastify, results.ours, undefined, 'events', EVENTS_A_CALL),
      compareCpu(`stream, ${name}, CPU of a call / node:http`, results.http, results.ours)
    )
  }
  return rows
}
