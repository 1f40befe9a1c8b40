import { constants } from 'node:http2'
import { test } from 'tap'
import { defineServer, messageType, result, stream, toolResult } from 'fastify-gen-mcp'
import { alarms, gate, openSession, postCall, sendHttp2, stage, within } from '../helpers/sockets.js'

const FILLER = 'x'.repeat(65_536)

test('HTTP/2: a stream that is dropped in the middle does not look whole: of a reader that is too slow', async t => {
  const server = defineServer({
    handleRequest: {
      async 'tools/call' (_request, channel) {
        for (let n = 1; channel.sendProgress(n, undefined, FILLER) === 'sent'; n++) await new Promise(resolve => setImmediate(resolve))
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server, { fastify: { http2: true }, limits: { sendBuffer: 1_000 } })
  const response = sendHttp2(await openSession(t, `http://127.0.0.1:${subject.port}`), postCall())
  response.stream.pause()
  t.match(await subject.ended(), [{ cause: 'overflow' }])
  response.stream.resume()
  await within(response.closed, 'the end of the stream')
  t.equal(response.stream.rstCode, constants.NGHTTP2_CANCEL)
  t.notMatch(response.text, /"result"/)
  t.same(alarms(subject.lines), [])
})

test('HTTP/2: a request that a shutdown gives up is dropped, and not ended', async t => {
  const reached = gate()
  const server = defineServer({
    messages: messageType<string>(),
    handleRequest: {
      async 'tools/call' (_request, channel) {
        channel.sendProgress(1, undefined, FILLER + FILLER)
        reached.open()
        return stream('live')
      }
    },
  })
  const subject = await stage(t, server, { fastify: { http2: true }, limits: { drain: 50 } })
  const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
  const response = sendHttp2(session, postCall())
  response.stream.pause()
  await within(reached.promise, 'the call')
  const closing = subject.app.close()
  t.match(await subject.ended(), [{ cause: 'shutdown' }])
  // A reader that goes on reading before the grace is over gets it all.
  await new Promise(resolve => setTimeout(resolve, 1_000))
  response.stream.resume()
  await within(response.closed, 'the end of the stream')
  t.equal(response.stream.rstCode, constants.NGHTTP2_CANCEL)
  session.close()
  await closing
})

test('HTTP/2: a body that is no JSON is refused without a header that HTTP/2 does not have', async t => {
  const warnings: Error[] = []
  const onWarning = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', onWarning)
  t.teardown(() => { process.off('warning', onWarning) })
  const subject = await stage(t, defineServer({ handleRequest: { 'tools/call': () => result(toolResult.text('done')) } }), { fastify: { http2: true } })
  const session = await openSession(t, `http://127.0.0.1:${subject.port}`)
  const response = sendHttp2(session, { ...postCall(), payload: '{"cut off' })
  t.equal((await response.head)[':status'], 400)
  await within(response.closed, 'the answer')
  t.match(response.text, /-32700/)
  // A warning is told of in a turn of its own.
  await new Promise(resolve => setImmediate(resolve))
  t.same(warnings, [])
})
