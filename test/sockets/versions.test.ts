import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { request as requestHttps } from 'node:https'
import { test } from 'tap'
import { defineServer, result, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { alarms, bodyOf, eventsOf, NOTHING_HELD, openSession, openWire, postCall, postListen, sendHttp2, stage, type Post } from '../helpers/sockets.js'

const cert = readFileSync(new URL('../helpers/localhost.cert.pem', import.meta.url))
const key = readFileSync(new URL('../helpers/localhost.key.pem', import.meta.url))
/** RFC 9110, 7.6.1, and those that HTTP/2 forbids. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'te', 'trailer']

const server = defineServer({
  handleRequest: {
    'tools/call' ({ params }, channel) {
      if (params.arguments['streams'] === true) channel.sendProgress(1)
      if (params.arguments['crashes'] === true) throw new Error('secret')
      return result(toolResult.text('done'))
    },
    'subscriptions/listen': () => stream('live')
  }
})

function collectWarnings (t: { teardown (work: () => void): void }): Error[] {
  const warnings: Error[] = []
  const onWarning = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', onWarning)
  t.teardown(() => { process.off('warning', onWarning) })
  return warnings
}

for (const tls of [false, true]) {
  test(`HTTP/2 ${tls ? 'with' : 'without'} TLS: JSON, streams and errors, with no header that belongs to a hop: case 026`, async t => {
    const warnings = collectWarnings(t)
    const subject = await stage(t, server, { fastify: { http2: true, ...(tls && { https: { key, cert } }) } })
    const session = await openSession(t, `${tls ? 'https' : 'http'}://127.0.0.1:${subject.port}`, { ca: cert })

    const json = sendHttp2(session, postCall({}, { id: 1 }))
    await json.closed
    t.match(await json.head, { ':status': 200, 'content-type': 'application/json; charset=utf-8' })
    t.match(JSON.parse(json.text), { id: 1, result: { content: [{ text: 'done' }] } })

    const streamed = sendHttp2(session, postCall({ streams: true }, { id: 2 }))
    await streamed.closed
    t.match(await streamed.head, { ':status': 200, 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' })
    t.match(eventsOf(streamed.text), [{ params: { progress: 1 } }, { id: 2, result: { content: [{ text: 'done' }] } }])

    const crashed = sendHttp2(session, postCall({ crashes: true }, { id: 3 }))
    await crashed.closed
    t.match(await crashed.head, { ':status': 500 })
    t.same(JSON.parse(crashed.text), { jsonrpc: '2.0', id: 3, error: { code: -32603, message: 'Internal error' } })

    const listen = sendHttp2(session, postListen({ toolsListChanged: true }, { id: 4 }))
    await listen.received('acknowledged')
    t.match(subject.gauges(), { listens: 1 })

    for (const response of [json, streamed, crashed, listen]) t.same(HOP_BY_HOP.filter(name => name in response.head), [])
    const closing = subject.app.close()
    await listen.closed
    t.match(eventsOf(listen.text), [{ method: 'notifications/subscriptions/acknowledged' }, { id: 4, result: { resultType: 'complete' } }])
    session.close()
    await closing
    t.same(warnings, [])
    t.same(subject.gauges(), NOTHING_HELD)
  })
}

test('HTTP/1.1: Node alone sets the headers that belong to a hop: case 026', async t => {
  const headersOf = (text: string): string[] => text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n').slice(1).map(line => line.split(':', 1)[0]?.toLowerCase() ?? '')
  const set: string[] = []
  const subject = await stage(t, server, {
    before (app) {
      app.addHook('onRequest', async (_request, { raw }) => {
        const { setHeader, writeHead } = raw
        raw.setHeader = (name, value) => {
          set.push(name.toLowerCase())
          return setHeader.call(raw, name, value)
        }
        raw.writeHead = ((statusCode: number, headers: Record<string, string> = {}) => {
          set.push(...Object.keys(headers).map(name => name.toLowerCase()))
          return writeHead.call(raw, statusCode, headers)
        }) as typeof raw.writeHead
      })
    }
  })
  for (const args of [{}, { streams: true }, { crashes: true }]) {
    const wire = await openWire(t, subject.port)
    wire.send(postCall(args, { headers: { connection: 'close' } }))
    await wire.closed
    t.ok(headersOf(wire.text).includes('connection'), 'of Node\'s own')
  }
  t.ok(set.includes('content-type'), 'what is set is seen')
  t.same(set.filter(name => HOP_BY_HOP.includes(name)), [])
})

test('HTTPS: JSON and streams', async t => {
  const subject = await stage(t, server, { fastify: { https: { key, cert } } })
  const ask = async ({ headers, payload }: Post): Promise<{ readonly status: number | undefined, readonly text: string }> => await new Promise((resolve, reject) => {
    requestHttps({ host: '127.0.0.1', servername: 'localhost', port: subject.port, path: '/mcp', method: 'POST', headers, ca: cert, agent: false }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', chunk => { text += chunk }).on('end', () => { resolve({ status: response.statusCode, text }) }).on('error', reject)
    }).on('error', reject).end(payload)
  })
  const json = await ask(postCall())
  t.equal(json.status, 200)
  t.match(JSON.parse(json.text), { result: { content: [{ text: 'done' }] } })
  const streamed = await ask(postCall({ streams: true }))
  t.equal(streamed.status, 200)
  t.match(eventsOf(streamed.text), [{ params: { progress: 1 } }, { result: {} }])
  await subject.ended(2)
  t.same(subject.gauges(), NOTHING_HELD)
})

test('an app that makes its own node:http server serves JSON and streams, and closes', async t => {
  let made = 0
  const subject = await stage(t, server, {
    fastify: {
      serverFactory (handler: RequestListener) {
        made++
        return createHttpServer({ keepAliveTimeout: 1000 }, handler)
      }
    }
  })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  t.match(await client.request('tools/call', { name: 'tool', arguments: {} }), { statusCode: 200, result: { content: [{ text: 'done' }] } })
  const call = await client.open('tools/call', { name: 'tool', arguments: { streams: true } }, { progressToken: 'p' })
  t.match(await call.answer, { notifications: [{ params: { progress: 1 } }], result: { content: [{ text: 'done' }] } })
  const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  await listen.head
  await subject.app.close()
  t.match(await listen.answer, { result: { resultType: 'complete' } })
  t.equal(made, 1)
  t.same(alarms(subject.lines), [])
})

test('HTTP/1.0: a stream ends with its connection', async t => {
  const subject = await stage(t, server)
  const wire = await openWire(t, subject.port)
  const { headers, payload } = postCall({ streams: true })
  const lines = Object.entries({ ...headers, 'content-length': String(payload.length) }).map(([name, value]) => `${name}: ${value}\r\n`)
  wire.socket.write(`POST /mcp HTTP/1.0\r\n${lines.join('')}\r\n${payload}`)
  await wire.closed
  t.notMatch(wire.text, /transfer-encoding/i)
  t.match(eventsOf(bodyOf(wire.text)), [{ params: { progress: 1 } }, { result: { content: [{ text: 'done' }] } }])
})
