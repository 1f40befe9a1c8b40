import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'tap'
import { defineServer, messageType, result, stream, toolResult, type Channel } from 'fastify-gen-mcp'
import { alarms, eventsOf, gate, NOTHING_HELD, openSession, openWire, postCall, sendHttp2, stage, type Wire } from '../helpers/sockets.js'
import type { FastifyRequest } from 'fastify'

/** A server whose call with `secret` is over at once, and whose other calls stay until 'done' is posted. */
function createServer (leftovers: Channel<string>[], going: Channel<string>[]) {
  return defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'tools/call' ({ params }, channel) {
        const { secret, streams } = params.arguments
        if (secret === undefined) {
          going.push(channel)
          channel.startStream()
          return stream('live')
        }
        leftovers.push(channel)
        if (streams === true) channel.sendProgress(1, 2, 'secret')
        channel.every(1, () => 'secret')
        channel.after(1, 'secret')
        return result(toolResult.text('secret'))
      }
    },
    handleMessage (message, channel, live) {
      if (message !== 'secret') return result(toolResult.text(message))
      channel.sendLog('emergency', 'secret')
      return stream(live)
    }
  })
}

/** Reads one whole response that is JSON or a stream. */
async function readResponse (wire: Wire): Promise<string> {
  const text = await wire.received('"result"')
  if (/\r\ntransfer-encoding: chunked/i.test(text)) await wire.received('\r\n0\r\n\r\n')
  return wire.take()
}

for (const streams of [false, true]) {
  test(`a connection that is used again gets nothing of a finished request: of ${streams ? 'a stream' : 'one JSON body'}`, async t => {
    const leftovers: Channel<string>[] = []
    const going: Channel<string>[] = []
    const subject = await stage(t, createServer(leftovers, going), { heartbeat: 1 })
    const wire = await openWire(t, subject.port)
    wire.send(postCall({ secret: true, streams }, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }))
    t.match(await readResponse(wire), /secret/)

    wire.send(postCall({}, { id: 2, meta: { progressToken: 'second' } }))
    await wire.received('text/event-stream')
    const [old] = leftovers
    const [current] = going
    // M21
    t.equal(old?.sendProgress(5, 6, 'secret'), 'closed')
    t.equal(old?.sendLog('emergency', 'secret'), 'closed')
    t.equal(old?.sendNotification({ method: 'notifications/tools/list_changed' }), 'closed')
    t.equal(old?.acknowledge(), 'closed')
    t.equal(old?.startStream(), false)
    t.equal(old?.close(), false)
    t.equal(old?.ref.post('secret'), 'closed')
    t.throws(() => { old?.header('x-secret', 'secret') })
    await old?.drained()
    t.equal((await old?.ref.ended)?.cause, 'result')

    // The first one's timers would have fired often by the time the second one's own have.
    await wire.received('"progress":-1e-7')
    current?.ref.post('done')
    const text = await readResponse(wire)
    t.notMatch(text, /secret/)
    t.match(text, /"progressToken":"second"/)
    t.match(text, /"text":"done"/)
    t.match(await subject.ended(2), [{ cause: 'result', requestId: 1 }, { cause: 'result', requestId: 2 }])
    t.same(subject.gauges(), NOTHING_HELD)
    t.same(alarms(subject.lines), [])
  })
}

test('a connection serves one request after the other, JSON and streams in turn, each with its own answer: cases 010, 011', async t => {
  const COUNT = 1000
  const warnings: Error[] = []
  const onWarning = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', onWarning)
  t.teardown(() => { process.off('warning', onWarning) })
  const server = defineServer({
    handleRequest: {
      async 'tools/call' ({ params }, channel) {
        const { n } = params.arguments
        if (Number(n) % 2 === 0) channel.sendProgress(Number(n))
        await new Promise(resolve => setImmediate(resolve))
        return result(toolResult.text(`answer ${String(n)}`))
      }
    }
  })
  const subject = await stage(t, server)
  const counts = () => [subject.app.server, process].map(emitter => emitter.eventNames().map(name => [name, emitter.listenerCount(name)]))
  const wire = await openWire(t, subject.port)
  wire.send(postCall({ n: 1 }))
  await readResponse(wire)
  const before = counts()
  for (let n = 2; n <= COUNT; n++) {
    wire.send(postCall({ n }, { id: n }))
    const text = await readResponse(wire)
    const answers = text.match(/"text":"answer \d+"/g)
    if (answers?.length !== 1 || answers[0] !== `"text":"answer ${n}"`) t.fail(`request ${n} was answered ${text}`)
  }
  t.same(counts(), before)
  t.same(warnings, [])
  await subject.ended(COUNT)
  t.same(subject.gauges(), NOTHING_HELD)
})

test('what was streamed over a connection is let go: case 013', { timeout: 60_000 }, async t => {
  const COUNT = 500
  setFlagsFromString('--expose-gc')
  // The flag makes the function known to new contexts only.
  const collect = runInNewContext('gc') as () => void
  const requests: WeakRef<FastifyRequest>[] = []
  const server = defineServer({
    handleRequest: {
      async 'tools/call' (_request, channel) {
        requests.push(new WeakRef(channel.httpRequest))
        channel.sendProgress(1)
        await new Promise(resolve => setImmediate(resolve))
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server, {
    fastify: { connectionTimeout: 60_000 },
    before (app) { app.addHook('onTimeout', async () => {}) }
  })
  const wire = await openWire(t, subject.port)
  for (let n = 1; n <= COUNT; n++) {
    wire.send(postCall({}, { id: n }))
    await readResponse(wire)
  }
  await subject.ended(COUNT)
  for (let round = 0; round < 5; round++) {
    // References that are read live on until the turn is over.
    await new Promise(resolve => setImmediate(resolve))
    collect()
  }
  const held = requests.filter(reference => reference.deref() !== undefined).length
  t.equal(requests.length, COUNT)
  t.ok(held <= 3, `${held} requests are held`)
})

test('requests at the same time on one connection have their own responses (HTTP-21): HTTP/2', async t => {
  const arrived = gate()
  const channels: Channel<string>[] = []
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      'tools/call' ({ id }, channel) {
        channels.push(channel)
        channel.sendProgress(Number(id))
        if (channels.length === 3) arrived.open()
        return stream(id)
      }
    },
    handleMessage: (_message, _channel, id) => result(toolResult.text(`answer ${id}`))
  })
  const subject = await stage(t, server, { fastify: { http2: true } })
  const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
  const responses = [11, 12, 13].map(id => sendHttp2(session, postCall({}, { id, meta: { progressToken: id } })))
  await arrived.promise
  for (const channel of channels.reverse()) channel.ref.post('go')
  for (const [index, id] of [11, 12, 13].entries()) {
    const response = responses[index]
    await response?.closed
    const events = eventsOf(response?.text ?? '')
    t.match(events, [{ params: { progressToken: id, progress: id } }, { id, result: { content: [{ text: `answer ${id}` }] } }])
    t.equal(events.length, 2)
  }
})
