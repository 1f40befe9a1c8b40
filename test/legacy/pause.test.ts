import { test } from 'tap'
import { pauseStream } from 'fastify-gen-mcp/legacy'
import { createListenServer, toolServer } from '../helpers/servers.js'
import { result, toolResult, type Channel } from 'fastify-gen-mcp'
import { call as modernCall } from '../helpers/mount.js'
import { gate, NOTHING_HELD, stage, type StageOptions } from '../helpers/sockets.js'
import { messagesIn, open, read, readStream, VERSIONS } from './helpers.js'
import type { Test } from 'tap'

const BOUND = { timeout: 30_000 }
const params = { name: 'tool', arguments: {}, _meta: { progressToken: 'p' } }

/** A tool that reports, lets go of its connection for so many ms, reports again, and ends when it is let. */
async function setUp (t: Test, retry: number | undefined, options: StageOptions = {}) {
  const paused: boolean[] = []
  const go = gate()
  const channels: Channel[] = []
  const subject = await stage(t, toolServer(async (_request, channel) => {
    channels.push(channel)
    channel.sendProgress(1)
    paused.push(pauseStream(channel, retry))
    channel.sendProgress(2)
    await go.promise
    return result(toolResult.text('done'))
  }), options)
  return { ...subject, paused, go: go.open, channels }
}

for (const [given, option, expected] of [[20, undefined, 20], [undefined, { retry: 30 }, 30], [undefined, undefined, 1_000]] as const) {
  test(`2025-11-25: a call lets go of its connection with a hint of ${expected} ms, and is read on (LEG-42, LEG-43, LEG-53)`, BOUND, async t => {
    const subject = await setUp(t, given, { ...(option !== undefined && { legacy: option }) })
    const session = await open(subject.app)
    const first = await read(t, subject.port, 'POST', session.compose('tools/call', params))
    const frames = await first.rest()
    t.match(frames, [{ id: /_0$/, data: '' }, { id: /_1$/, data: /"progress":1/ }, { retry: expected }])
    t.equal(frames.length, 3)
    t.ok(first.response.complete)
    t.strictSame(subject.paused, [true])
    t.match(subject.gauges(), { exchanges: 1, timers: 0 })
    t.equal(subject.channels[0]?.signal.aborted, false)

    const second = await readStream(t, subject.port, session, frames[1]?.id)
    t.match(await second.message(), { params: { progress: 2 } })
    subject.go()
    t.match(messagesIn(await second.rest()), [{ id: 1, result: { content: [{ text: 'done' }] } }])
    t.strictSame(subject.gauges(), NOTHING_HELD)
  })
}

test('a connection that is let go before anything was said is a stream with nothing but its first event (LEG-43)', BOUND, async t => {
  const go = gate()
  const subject = await stage(t, toolServer(async (_request, channel) => {
    t.equal(pauseStream(channel, 5), true)
    t.equal(pauseStream(channel, 5), false, 'there is no connection any more')
    await go.promise
    return result(toolResult.text('done'))
  }))
  const session = await open(subject.app)
  const first = await read(t, subject.port, 'POST', session.compose('tools/call', params))
  t.match(await first.rest(), [{ id: /_0$/, data: '' }, { retry: 5 }])
  go.open()
  await subject.ended(2)
  const second = await readStream(t, subject.port, session, first.frames[0]?.id)
  t.match(messagesIn(await second.rest()), [{ id: 1, result: {} }])
})

for (const version of VERSIONS) {
  for (const [name, options, headers] of [
    ['where no events are kept', { legacy: { events: false } }, {}], ['that takes JSON alone', {}, { accept: 'application/json' }],
    ...(version === '2025-11-25' ? [] : [['of a revision that does not come back (LEG-40)', {}, {}] as const])
  ] as const) {
    test(`${version}: nothing is let go of for a client ${name}`, BOUND, async t => {
      const subject = await setUp(t, 5, options)
      const session = await open(subject.app, version)
      const coming = read(t, subject.port, 'POST', session.compose('tools/call', params, { headers }))
      subject.go()
      const reading = await coming
      await reading.closed
      t.ok(reading.response.complete)
      t.strictSame(subject.paused, [false])
      if (reading.response.headers['content-type'] !== 'text/event-stream') return
      t.match(messagesIn(reading.frames), [{ params: { progress: 1 } }, { params: { progress: 2 } }, { id: 1, result: {} }])
    })
  }
}

test('a client of 2026-07-28 and a listen are let go of by nobody', BOUND, async t => {
  const subject = await setUp(t, 5, { listen: false })
  subject.go()
  t.match(await modernCall(subject.app, 'tools/call', params), { statusCode: 200 })
  t.strictSame(subject.paused, [false])

  const paused: boolean[] = []
  const { server } = createListenServer()
  const listening = await stage(t, {
    ...server,
    handleRequest (request, channel, state) {
      paused.push(pauseStream(channel))
      return server.handleRequest(request, channel, state)
    }
  })
  await readStream(t, listening.port, await open(listening.app))
  t.strictSame(paused, [false])
})
