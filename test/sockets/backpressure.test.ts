import { test } from 'tap'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { defineServer, messageType, result, stream, toolResult, type Channel } from 'fastify-gen-mcp'
import { alarms, bodyOf, gate, NOTHING_HELD, openSession, openWire, postCall, sendHttp2, stage, within, type Stage } from '../helpers/sockets.js'
import type { Test } from 'tap'

const BOUND = { timeout: 60_000 }
const KIB = 1024
const FILLER = 'x'.repeat(64 * KIB)
const BIG = 20 * KIB * KIB

/** A client that can stop reading, over either version of HTTP. */
interface Reader {
  pause (): void
  resume (): void
  /** Resolves when its connection or stream has ended, and gives what came. */
  readonly all: Promise<string>
}

async function openReader (t: Test, { port }: Stage, http2: boolean, headers: Readonly<Record<string, string>> = {}): Promise<Reader> {
  const request = postCall({}, { headers })
  if (http2) {
    const response = sendHttp2(await openSession(t, `http://127.0.0.1:${port}`), request)
    return { pause: () => { response.stream.pause() }, resume: () => { response.stream.resume() }, all: response.closed.then(() => response.text) }
  }
  const wire = await openWire(t, port)
  wire.send({ ...request, headers: { ...request.headers, connection: 'close' } })
  return { pause: () => { wire.socket.pause() }, resume: () => { wire.socket.resume() }, all: wire.closed.then(() => wire.text) }
}

/** The loop has had time to write all that it could. */
async function settled (subject: Stage): Promise<void> {
  for (let same = 0, last = -1; same < 20; same = last === subject.gauges().bufferedBytes ? same + 1 : 0) {
    last = subject.gauges().bufferedBytes
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

for (const http2 of [false, true]) {
  const version = http2 ? 'HTTP/2' : 'HTTP/1.1'

  test(`${version}: a reader that stops loses its stream when more than sendBuffer is unsent, and nobody else does (HTTP-22): case 020`, BOUND, async t => {
    const SEND_BUFFER = 256 * KIB
    const started = [gate(), gate()] as const
    const paused = gate()
    const closes: unknown[] = []
    let mostBuffered = 0
    let calls = 0
    const server = defineServer({
      handleRequest: {
        async 'tools/call' (_request, channel) {
          const slow = calls++ === 0
          channel.startStream()
          started[slow ? 0 : 1].open()
          await paused.promise
          for (let n = 1; n <= (slow ? 100_000 : 100); n++) {
            if (channel.sendProgress(n, undefined, FILLER) === 'closed') break
            await new Promise(resolve => setImmediate(resolve))
            if (slow) mostBuffered = Math.max(mostBuffered, subject.gauges().bufferedBytes)
            else await channel.drained()
          }
          if (slow) closes.push(channel.signal.aborted, (channel.signal.reason as Error | undefined)?.message)
          return slow ? stream('live') : result(toolResult.text('done'))
        }
      },
      handleClose: (_context, live, reason) => { closes.push(live, reason) }
    })
    const subject = await stage(t, server, { fastify: { http2 }, limits: { sendBuffer: SEND_BUFFER } })
    const slow = await openReader(t, subject, http2)
    await started[0].promise
    slow.pause()
    const fast = await openReader(t, subject, http2)
    await started[1].promise
    paused.open()

    const [first, second] = await subject.ended(2)
    t.same(new Set([first?.cause, second?.cause]), new Set(['overflow', 'result']))
    t.match(closes, [true, /overflow/, 'live', 'overflow'])
    t.ok(mostBuffered > SEND_BUFFER, 'it was let go that far')
    // What the fast one has in flight counts too.
    t.ok(mostBuffered < 4 * SEND_BUFFER, `at most ${mostBuffered} bytes were unsent`)
    slow.resume()
    const cut = await slow.all
    t.notMatch(cut, /"result"|"error"/)
    t.match((await fast.all).match(/"progress":\d+/g)?.length, 100)
    t.match(await fast.all, /"text":"done"/)
    t.same(subject.gauges(), NOTHING_HELD)
    t.same(alarms(subject.lines), [])
  })

  for (const [form, headers] of [['one JSON body', { accept: 'application/json' }], ['the last event of a stream', {}]] as const) {
    test(`${version}: an answer of 20 MB arrives at a slow reader whatever sendBuffer says: as ${form}`, BOUND, async t => {
      const paused = gate()
      const server = defineServer({
        handleRequest: {
          async 'tools/call' (_request, channel) {
            if (channel.startStream()) channel.sendProgress(1)
            started.open()
            await paused.promise
            return result(toolResult.text('x'.repeat(BIG)))
          }
        }
      })
      const started = gate()
      const subject = await stage(t, server, { fastify: { http2 }, limits: { sendBuffer: 1000 } })
      const reader = await openReader(t, subject, http2, headers)
      await started.promise
      reader.pause()
      paused.open()
      t.match(await subject.ended(), [{ cause: 'result' }])
      await new Promise(resolve => setTimeout(resolve, 100))
      reader.resume()
      const whole = await reader.all
      const text = http2 ? whole : bodyOf(whole)
      t.match(text.slice(-500), /x"\}\]/)
      t.equal(text.lastIndexOf('x') + 1 - text.indexOf('x'.repeat(KIB)), BIG)
      t.same(alarms(subject.lines), [])
    })
  }

  test(`${version}: drained() holds a producer that asks while its reader does not read`, BOUND, async t => {
    const COUNT = 320
    const started = gate()
    const paused = gate()
    let sent = 0
    let most = 0
    const server = defineServer({
      handleRequest: {
        async 'tools/call' (_request, channel) {
          channel.startStream()
          started.open()
          await paused.promise
          for (let n = 1; n <= COUNT; n++) {
            channel.sendProgress(n, undefined, FILLER)
            sent = n
            await channel.drained()
            most = Math.max(most, subject.gauges().bufferedBytes)
          }
          return result(toolResult.text('done'))
        }
      }
    })
    const subject = await stage(t, server, { fastify: { http2 } })
    const reader = await openReader(t, subject, http2)
    await started.promise
    reader.pause()
    paused.open()
    await settled(subject)
    const held = sent
    t.ok(held < COUNT, `${held} of ${COUNT} were sent while nobody read`)
    t.ok(subject.gauges().bufferedBytes <= 3 * FILLER.length, `${subject.gauges().bufferedBytes} bytes are unsent`)
    reader.resume()
    const text = await reader.all
    t.equal(text.match(/"progress":\d+/g)?.length, COUNT)
    t.match(text, /"text":"done"/)
    t.ok(most <= 3 * FILLER.length, `at most ${most} bytes were unsent when it went on`)
    t.match(subject.ends, [{ cause: 'result', events: COUNT + 1 }])
  })

  test(`${version}: drained() ends when the client leaves`, BOUND, async t => {
    const waiting = gate()
    const server = defineServer({
      handleRequest: {
        async 'tools/call' (_request, channel) {
          channel.startStream()
          started.open()
          await paused.promise
          while (channel.sendProgress(++progress, undefined, FILLER) === 'sent') {
            const drained = channel.drained()
            setImmediate(waiting.open)
            // Two that wait are both woken.
            await Promise.all([drained, channel.drained()])
          }
          return result(toolResult.text('too late'))
        }
      }
    })
    const started = gate()
    const paused = gate()
    let progress = 0
    const subject = await stage(t, server, { fastify: { http2 } })
    if (http2) {
      const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
      const response = sendHttp2(session, postCall())
      await started.promise
      response.stream.pause()
      paused.open()
      await waiting.promise
      await settled(subject)
      session.destroy()
    } else {
      const wire = await openWire(t, subject.port)
      wire.send(postCall())
      await started.promise
      wire.socket.pause()
      paused.open()
      await waiting.promise
      await settled(subject)
      wire.socket.destroy()
    }
    t.match(await subject.ended(), [{ cause: 'disconnect' }])
    t.same(subject.gauges(), NOTHING_HELD)
  })
}

test('drained() lets a producer go on also where the app has set a high water mark of its own', BOUND, async t => {
  const COUNT = 200
  const paused = gate()
  const started = gate()
  const server = defineServer({
    handleRequest: {
      async 'tools/call' (_request, channel) {
        channel.startStream()
        started.open()
        await paused.promise
        for (let n = 1; n <= COUNT; n++) {
          channel.sendProgress(n, undefined, FILLER)
          await channel.drained()
        }
        return result(toolResult.text('done'))
      }
    }
  })
  // As large as Node's own default will be one day: writes are taken long before the socket has drained.
  const subject = await stage(t, server, { fastify: { http: { highWaterMark: 1024 * KIB } }, limits: { drain: 100, sendBuffer: 100 * KIB * KIB } })
  const reader = await openReader(t, subject, false)
  await started.promise
  reader.pause()
  paused.open()
  await settled(subject)
  reader.resume()
  t.match(await within(reader.all, 'the whole answer'), /"text":"done"/)
})

test('what is consumed is pulled no faster than the reader reads', BOUND, async t => {
  let pulled = 0
  async function * items (): AsyncGenerator<number> {
    while (pulled < 320) yield ++pulled
  }
  const paused = gate()
  const started = gate()
  const server = defineServer({
    messages: messageType<number | 'done'>(),
    handleRequest: {
      async 'tools/call' (_request, channel) {
        channel.startStream()
        started.open()
        await paused.promise
        channel.consume(items(), { next: item => item, done: () => 'done' as const })
        return stream({})
      }
    },
    handleMessage (message, channel, live) {
      if (message === 'done') return result(toolResult.text('done'))
      channel.sendProgress(message, undefined, FILLER)
      return stream(live)
    }
  })
  const subject = await stage(t, server)
  const reader = await openReader(t, subject, false)
  await started.promise
  reader.pause()
  paused.open()
  await settled(subject)
  t.ok(pulled < 320, `${pulled} of 320 were pulled while nobody read`)
  reader.resume()
  t.equal((await reader.all).match(/"progress":\d+/g)?.length, 320)
})

test('what is unsent for a moment only is no overflow: a burst of more than sendBuffer to a reader that reads', BOUND, async t => {
  const server = defineServer({
    handleRequest: {
      async 'tools/call' (_request, channel) {
        for (let n = 1; n <= 50; n++) {
          channel.sendProgress(n, undefined, FILLER.slice(0, 8 * KIB))
          await channel.drained()
        }
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server, { limits: { sendBuffer: 32 * KIB } })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: {} }, { progressToken: 'p' })
  t.equal((await call.answer).notifications.length, 50)
  t.match(subject.ends, [{ cause: 'result' }])
})

test('keep-alive comments pile up no further than events do', BOUND, async t => {
  const SEND_BUFFER = 64 * KIB
  const channels: Channel[] = []
  const server = defineServer({
    handleRequest: {
      'tools/call' (_request, channel) {
        channels.push(channel)
        channel.startStream()
        return stream('live')
      }
    }
  })
  const subject = await stage(t, server, { keepAlive: 1, limits: { sendBuffer: SEND_BUFFER } })
  const wire = await openWire(t, subject.port)
  wire.send(postCall())
  await wire.received(':\n\n')
  wire.socket.pause()
  // Fills what the system holds between the two, and all but a little of what the mount may.
  const [channel] = channels
  for (let progress = 1; subject.gauges().bufferedBytes < SEND_BUFFER - 2 * KIB && channel?.closed === false; progress++) {
    channel.sendProgress(progress, undefined, FILLER.slice(0, KIB))
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal(channel?.closed, false)
  t.match(await subject.ended(), [{ cause: 'overflow' }])
})
