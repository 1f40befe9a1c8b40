import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { result, toolResult, type JsonObject } from 'fastify-gen-mcp'
import { call as modernCall } from '../helpers/mount.js'
import { toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, stage, until, within, type Stage, type StageOptions } from '../helpers/sockets.js'
import { messagesIn, open, read, VERSIONS } from './helpers.js'
import type { Session } from 'fastify-gen-mcp/legacy'
import type { Test } from 'tap'

const BOUND = { timeout: 30_000 }
const callOf = (args: JsonObject = {}): JsonObject => ({ name: 'tool', arguments: args })

interface Run { readonly signal: AbortSignal, readonly abortedAt: Promise<number>, readonly go: () => void }

/** A tool that waits for its signal or for leave to go on; `say`: as a stream. */
async function setUp (t: Test, options: StageOptions = {}): Promise<Stage & { readonly runs: readonly Run[] }> {
  const runs: Run[] = []
  const server = toolServer(async ({ params }, channel) => {
    const { signal } = channel
    const go = gate()
    const aborted = gate<number>()
    if (params.arguments['say'] === true) channel.startStream()
    runs.push({ signal, abortedAt: aborted.promise, go: go.open })
    signal.addEventListener('abort', () => {
      aborted.open(performance.now())
      go.open()
    })
    await go.promise
    return result(toolResult.text('done'))
  })
  const subject = await stage(t, server, options)
  return { ...subject, runs }
}

for (const version of VERSIONS) {
  test(`${version}: notifications/cancelled aborts that request, whose stream ends without an answer, and logs the reason (LEG-63): case 016`, BOUND, async t => {
    const subject = await setUp(t)
    const session = await open(subject.app, version)
    const reading = await read(t, subject.port, 'POST', session.compose('tools/call', callOf({ say: true }), { id: 7 }))
    const cancelled = await session.notify('notifications/cancelled', { requestId: 7, reason: 'x'.repeat(300) })
    t.equal(cancelled.statusCode, 202)
    t.equal(cancelled.body, '')
    await reading.closed
    t.ok(reading.response.complete)
    t.strictSame(messagesIn(reading.frames), [])
    t.equal(subject.runs[0]?.signal.aborted, true)
    t.match(await subject.ended(2), [{}, { cause: 'disconnect', requestId: 7 }])
    t.match(subject.lines.find(({ msg }) => msg === 'an MCP request was cancelled'), { level: 20, mcp: { method: 'tools/call', reason: 'x'.repeat(200) } })
    t.strictSame(subject.gauges(), NOTHING_HELD)
    t.strictSame(alarms(subject.lines), [])
    // Its id is free again.
    const again = session.request('tools/call', callOf(), { id: 7 })
    await until(() => subject.runs.length === 2)
    subject.runs[1]?.go()
    t.match((await again).json(), { id: 7, result: {} })
  })

  test(`${version}: a request that was cancelled before it was a stream ends without an answer too (LEG-63)`, BOUND, async t => {
    const subject = await setUp(t, { listen: false })
    const session = await open(subject.app, version)
    for (const [accept, statusCode] of [['application/json, text/event-stream', 200], ['application/json', 202]] as const) {
      const response = session.request('tools/call', callOf(), { id: 'a', headers: { accept } })
      await until(() => subject.gauges().exchanges === 1)
      await session.notify('notifications/cancelled', { requestId: 'a' })
      const answer = await response
      t.equal(answer.statusCode, statusCode)
      t.notMatch(answer.body, /result|error/)
    }
    t.strictSame(subject.gauges(), NOTHING_HELD)
  })
}

test('a cancellation of an unknown, finished, or differently typed id, or a malformed one, is accepted and ignored (LEG-63)', BOUND, async t => {
  const subject = await setUp(t)
  const session = await open(subject.app)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', callOf({ say: true }), { id: 7 }))
  for (const params of [{ requestId: 8 }, { requestId: '7' }, { requestId: null }, { requestId: [7] }, {}, { requestId: 1.5 }, undefined]) {
    const response = await session.notify('notifications/cancelled', params)
    t.strictSame([response.statusCode, response.body], [202, ''], JSON.stringify(params))
  }
  await session.notify('notifications/other', { requestId: 7 })
  t.equal(subject.runs[0]?.signal.aborted, false)
  subject.runs[0]?.go()
  t.match(await reading.message(), { id: 7, result: {} })
  await reading.closed
  t.equal((await session.notify('notifications/cancelled', { requestId: 7 })).statusCode, 202)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a cancellation from another session, or without one, changes nothing (LEG-63, CAN-06): case 016', BOUND, async t => {
  const subject = await setUp(t, { principal: ({ headers }) => headers.authorization })
  const session = await open(subject.app, '2025-11-25', { headers: { authorization: 'ann' } })
  const other = await open(subject.app, '2025-11-25', { headers: { authorization: 'ann' } })
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', callOf({ say: true }), { id: 7 }))
  t.equal((await other.notify('notifications/cancelled', { requestId: 7 })).statusCode, 202)
  t.equal((await other.notify('notifications/cancelled', { requestId: 7 }, { 'mcp-session-id': '' })).statusCode, 400)
  t.equal((await session.notify('notifications/cancelled', { requestId: 7 }, { authorization: 'mallory' })).statusCode, 404)
  await modernCall(subject.app, 'notifications/cancelled', { requestId: 7 }, { body: { id: undefined } })
  t.equal(subject.runs[0]?.signal.aborted, false)
  subject.runs[0]?.go()
  t.match(await reading.message(), { id: 7, result: {} })
})

test('in 2026-07-28 a disconnect cancels and a cancelled notification does not; in 2025 it is the other way round (CAN-01, CAN-06, LEG-41): case 016', BOUND, async t => {
  const subject = await setUp(t)
  const session = await open(subject.app)
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const modern = await client.open('tools/call', callOf({ say: true }) as never)
  await modern.head
  const legacy = await read(t, subject.port, 'POST', session.compose('tools/call', callOf({ say: true }), { id: 7 }))
  const stray = await modernCall(subject.app, 'notifications/cancelled', { requestId: 1 }, { body: { id: undefined } })
  t.equal(stray.statusCode, 202)
  t.strictSame(subject.runs.map(({ signal }) => signal.aborted), [false, false])

  modern.vanish()
  await within(subject.runs[0]?.abortedAt as Promise<number>, 'the abort')
  await legacy.drop()
  await until(() => subject.gauges().timers === 0)
  t.equal(subject.runs[1]?.signal.aborted, false)
  await session.notify('notifications/cancelled', { requestId: 7 })
  t.equal(subject.runs[1]?.signal.aborted, true)
  await subject.ended(3)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('DELETE aborts what runs within 100 ms, and nothing of another session; a normal finish aborts nothing: case 015', BOUND, async t => {
  const subject = await setUp(t)
  const [session, other] = [await open(subject.app), await open(subject.app)]
  const streamed = await read(t, subject.port, 'POST', session.compose('tools/call', callOf({ say: true }), { id: 1 }))
  const silent = session.request('tools/call', callOf(), { id: 2 })
  const others = await read(t, subject.port, 'POST', other.compose('tools/call', callOf({ say: true }), { id: 1 }))
  await until(() => subject.runs.length === 3)
  const started = performance.now()
  t.equal((await session.delete()).statusCode, 204)
  for (const { abortedAt } of subject.runs.filter(({ signal }) => signal.aborted)) t.ok(await abortedAt - started < 100)
  t.equal(subject.runs.filter(({ signal }) => signal.aborted).length, 2)
  await streamed.closed
  t.strictSame(messagesIn(streamed.frames), [])
  t.notMatch((await silent).body, /result|error/)
  t.equal((await session.request('ping')).statusCode, 404)

  const [run] = subject.runs.filter(({ signal }) => !signal.aborted)
  run?.go()
  t.match(await others.message(), { id: 1, result: {} })
  await others.closed
  await delay(20)
  t.equal(run?.signal.aborted, false)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a shutdown aborts what runs longer than it may: case 015', BOUND, async t => {
  const subject = await setUp(t, { limits: { drain: 50 } })
  const session = await open(subject.app)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', callOf({ say: true })))
  await within(subject.app.close(), 'the end of the app', 5_000)
  t.equal(subject.runs[0]?.signal.aborted, true)
  t.match(messagesIn(await reading.rest()), [{ id: 1, error: { code: -32603 } }])
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a shutdown drops a call that neither ends nor is read', BOUND, async t => {
  const go = gate()
  const subject = await stage(t, toolServer(async (_request, channel) => {
    channel.startStream()
    for (let n = 1; n <= 200; n++) channel.sendProgress(n, undefined, 'x'.repeat(100_000))
    await go.promise
    return result(toolResult.text('done'))
  }), { limits: { drain: 50, sendBuffer: 100_000_000 } })
  const session = await open(subject.app)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', { ...callOf(), _meta: { progressToken: 'p' } }))
  reading.stall()
  await within(subject.app.close(), 'the end of the app', 5_000)
  go.open()
  reading.goOn()
  await reading.closed
  t.equal(reading.response.complete, false)
  await subject.ended(2)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a shutdown drops an answer as JSON that is not read', BOUND, async t => {
  const subject = await stage(t, toolServer(() => result(toolResult.text('x'.repeat(20_000_000)))), { limits: { drain: 50 } })
  const session = await open(subject.app)
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', callOf(), { headers: { accept: 'application/json' } }))
  reading.stall()
  await within(subject.app.close(), 'the end of the app', 5_000)
  reading.goOn()
  await reading.closed
  t.equal(reading.response.complete, false)
})

test('2025-03-26: a batch that a shutdown dropped is not answered by what comes later', BOUND, async t => {
  const updating = gate()
  const updated = gate()
  const sessions = new Map<string, Session>()
  const subject = await stage(t, toolServer((_request, channel) => {
    for (let n = 1; n <= 200; n++) channel.sendProgress(n, undefined, 'x'.repeat(100_000))
    return new Promise(() => {})
  }), {
    limits: { drain: 50, sendBuffer: 100_000_000 },
    legacy: {
      sessions: {
        create (session) {
          sessions.set('session', session)
          return 'session'
        },
        fetch: id => sessions.get(id),
        async update () {
          updating.open()
          await updated.promise
        }
      }
    }
  })
  const session = await open(subject.app, '2025-03-26')
  const calls = [{ id: 1, method: 'tools/call', params: { ...callOf(), _meta: { progressToken: 'p' } } }, { id: 2, method: 'logging/setLevel', params: { level: 'error' } }]
  const { headers } = session.compose('ping')
  const reading = await read(t, subject.port, 'POST', { headers, payload: JSON.stringify(calls.map(call => ({ jsonrpc: '2.0', ...call }))) })
  reading.stall()
  await updating.promise
  await within(subject.app.close(), 'the end of the app', 5_000)
  updated.open()
  reading.goOn()
  await reading.closed
  t.equal(reading.response.complete, false)
  t.strictSame(alarms(subject.lines), [])
})
