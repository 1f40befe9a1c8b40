import { json as readJson } from 'node:stream/consumers'
import { createGunzip } from 'node:zlib'
import { Type } from '@sinclair/typebox'
import { readSse } from 'fastify-gen-mcp/testing'
import { test } from 'tap'
import { createSuite, defineServer, defineTool, messageType, result, stream, toolResult, type CloseReason } from 'fastify-gen-mcp'
import { gate, post, postCall, postListen, stage, until, within, type Post, type StageOptions } from '../helpers/sockets.js'
import * as deploy from '../../examples/deploy.js'
import { initializeParams, Reading } from '../legacy/helpers.js'
import { nginx, startNginx } from './nginx.js'
import type { AddressInfo } from 'node:net'
import type { Message } from '../helpers/messages.js'

const host = 'api.example.com'
const skip = nginx === undefined && 'nginx is not installed'
/** As the README tells whoever has nginx on the same machine. */
const behindNginx: StageOptions = { fastify: { trustProxy: 'loopback' }, allowedHosts: [host] }

/** Calls that answer at once, that wait for a gate between two events, or that nobody ever answers; and listens that are told of a change. */
function createGated () {
  const go = gate()
  const closed = gate<CloseReason>()
  const listens: (() => void)[] = []
  const server = defineServer({
    info: { name: 'gated', version: '1.0.0' },
    capabilities: { tools: { listChanged: true } },
    messages: messageType<'changed'>(),
    handleRequest: {
      async 'tools/call' ({ params: { arguments: { events, waits } } }, channel) {
        if (events === true || waits === true) channel.sendProgress(1)
        if (waits === true) return stream('live')
        if (events === true) {
          await go.promise
          channel.sendProgress(2)
        }
        return result(toolResult.text('done'))
      },
      'subscriptions/listen' (_request, { ref }) {
        listens.push(() => { ref.post('changed') })
        return stream('a listen')
      }
    },
    handleMessage (_message, channel, live) {
      channel.sendNotification({ method: 'notifications/tools/list_changed' })
      return stream(live)
    },
    handleClose: (_context, _live, reason) => { closed.open(reason) }
  })
  return { server, go: go.open, closed: closed.promise, change: () => { for (const tell of listens) tell() } }
}

test('nginx passes Mcp-* headers, the address of the client and the host that was asked for: XPH-01', { skip }, async t => {
  const where = defineTool({
    name: 'where',
    description: 'Says where a call came from.',
    input: Type.Object({ region: Type.String({ 'x-mcp-header': 'Region' }) }),
    call: ({ region }, { httpRequest: { ip, protocol, host } }) => toolResult.data({ region, ip, protocol, host })
  })
  const { port } = await stage(t, createSuite({ info: { name: 'where', version: '1.0.0' }, tools: [where] }), behindNginx)
  const front = await startNginx(t, [port])
  const params = { name: 'where', arguments: { region: 'eu' } }
  const answer = await front.send(post('tools/call', params, { headers: { host, 'mcp-param-region': 'eu', 'x-forwarded-for': '203.0.113.9' } }))
  t.equal(answer.statusCode, 200)
  t.match(await readJson(answer), { result: { structuredContent: { region: 'eu', ip: '203.0.113.9', protocol: 'http', host } } })

  const foreign = await front.send(post('tools/call', params, { headers: { host: 'evil.example', 'mcp-param-region': 'eu' } }))
  t.equal(foreign.statusCode, 403)
})

test('nginx drops a header whose name has an underscore: the call is refused with -32020', { skip }, async t => {
  const underlined = defineTool({
    name: 'underlined',
    description: 'Takes a header that nginx does not pass.',
    input: Type.Object({ region: Type.String({ 'x-mcp-header': 'my_region' }) }),
    call: () => toolResult.text('passed')
  })
  const { port } = await stage(t, createSuite({ info: { name: 'underlined', version: '1.0.0' }, tools: [underlined] }), behindNginx)
  const call = post('tools/call', { name: 'underlined', arguments: { region: 'eu' } }, { headers: { host, 'mcp-param-my_region': 'eu' } })
  const dropped = await (await startNginx(t, [port])).send(call)
  t.equal(dropped.statusCode, 400)
  t.match(await readJson(dropped), { error: { code: -32020, data: { header: 'Mcp-Param-my_region' } } })
  const passed = await (await startNginx(t, [port], { 'listen 80;': 'underscores_in_headers on;\nlisten 80;' })).send(call)
  t.equal(passed.statusCode, 200)
})

const streamed: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'with the configuration of the README': {},
  'with its buffers on': { 'proxy_buffering off;': 'proxy_buffering on;' },
  'over HTTP/1.0': { 'proxy_http_version 1.1;': 'proxy_http_version 1.0;' },
  compressed: { 'listen 80;': 'gzip on; gzip_proxied any; gzip_min_length 1; gzip_types text/event-stream;\nlisten 80;' }
}
for (const [how, edit] of Object.entries(streamed)) {
  test(`nginx passes each event on when it is sent, ${how}: HTTP-16`, { skip }, async t => {
    const { server, go } = createGated()
    const { port } = await stage(t, server, behindNginx)
    const front = await startNginx(t, [port], edit)
    const response = await front.send(postCall({ events: true }, { headers: { host, 'accept-encoding': 'gzip' } }))
    t.match(response.headers, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform' })
    t.equal(response.headers['content-encoding'], how.startsWith('compressed') ? 'gzip' : undefined)
    const events = readSse(response.headers['content-encoding'] === 'gzip' ? response.pipe(createGunzip()) : response)[Symbol.asyncIterator]()
    const next = async () => (await within(events.next(), 'an event', 60_000)).value?.data as Message
    t.match(await next(), { params: { progress: 1 } })
    go() // the second is sent when the first has come
    t.match(await next(), { params: { progress: 2 } })
    t.match(await next(), { result: { content: [{ text: 'done' }] } })
  })
}

test('nginx passes the comments of a silent listen on, which outlives its proxy_read_timeout: HTTP-18, case 023', { skip }, async t => {
  const { server, change } = createGated()
  const { port } = await stage(t, server, { ...behindNginx, keepAlive: 500 })
  const front = await startNginx(t, [port], { 'proxy_read_timeout 60s;': 'proxy_read_timeout 4s;' })
  const listen = new Reading(await front.send(postListen({ toolsListChanged: true }, { headers: { host } })))
  t.match(await listen.message(), { method: 'notifications/subscriptions/acknowledged' })
  while (listen.comments < 10) await within(listen.changed(), 'a comment', 60_000) // at least 5 s
  change()
  t.match(await listen.message(), { method: 'notifications/tools/list_changed' })
})

test('without comments nginx ends a silent listen', { skip }, async t => {
  const { server, closed } = createGated()
  const { port } = await stage(t, server, { ...behindNginx, keepAlive: 0 })
  const front = await startNginx(t, [port], { 'proxy_read_timeout 60s;': 'proxy_read_timeout 1s;' })
  const listen = new Reading(await front.send(postListen({ toolsListChanged: true }, { headers: { host } })))
  await listen.message()
  await within(listen.closed, 'the end of the listen', 60_000)
  t.equal(listen.response.complete, false)
  t.equal(await within(closed, 'handleClose', 60_000), 'disconnect')
})

test('nginx serves a session of 2025 on any replica, and its GET stream: LEG-88', { skip }, async t => {
  const { server, change } = createGated()
  const options = { ...behindNginx, secrets: ['a secret that both of the replicas have'] }
  const replicas = [await stage(t, server, options), await stage(t, server, options)]
  const front = await startNginx(t, replicas.map(({ port }) => port))
  const headers = { host, 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const opened = await front.send({ headers, payload: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams() }) })
  t.equal(opened.statusCode, 200)
  await readJson(opened)
  const session = { ...headers, 'mcp-session-id': String(opened.headers['mcp-session-id']), 'mcp-protocol-version': '2025-11-25' }

  const standing = new Reading(await front.send({ headers: { ...session, accept: 'text/event-stream' } }, 'GET'))
  t.equal(standing.statusCode, 200)
  for (const id of [1, 2, 3, 4]) {
    const called = new Reading(await front.send({ headers: session, payload: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'tool', arguments: { events: false }, _meta: {} } }) }))
    t.equal(called.statusCode, 200)
  }
  for (const { ends } of replicas) await until(() => ends.some(({ method, cause }) => method === 'tools/call' && cause === 'result')) // at each of them one call at least
  change()
  t.match(await within(standing.message(), 'the change', 60_000), { method: 'notifications/tools/list_changed' })

  const ended = await front.send({ headers: session }, 'DELETE')
  t.equal(ended.statusCode, 204)
})

test('a body that is too large is refused by the mount, in JSON-RPC, and by nginx before it: HTTP-23', { skip }, async t => {
  const { server } = createGated()
  const { port } = await stage(t, server, behindNginx)
  const front = await startNginx(t, [port])
  const call = (size: number): Post => post('tools/call', { name: 'tool', arguments: { text: 'x'.repeat(size) } }, { headers: { host } })
  const fits = await front.send(call(1_000_000))
  t.equal(fits.statusCode, 200)
  // So small that it is with the app when that refuses and closes: what is still on its way then may be answered by a reset, and nginx with 502.
  const narrow = await stage(t, createGated().server, { ...behindNginx, bodyLimit: 2_000 })
  const refused = await (await startNginx(t, [narrow.port])).send(call(3_000))
  t.equal(refused.statusCode, 413)
  t.match(await readJson(refused), { jsonrpc: '2.0', error: { code: -32600, message: 'The body is too large' } })
  const stopped = await front.send(call(2_200_000))
  t.equal(stopped.statusCode, 413)
  t.equal(stopped.headers['content-type'], 'text/html')
})

test('a client that leaves nginx is one that leaves the mount: handleClose runs', { skip }, async t => {
  const { server, closed } = createGated()
  const { port, ended } = await stage(t, server, behindNginx)
  const front = await startNginx(t, [port])
  const waiting = new Reading(await front.send(postCall({ waits: true }, { headers: { host } })))
  t.match(await waiting.message(), { params: { progress: 1 } })
  waiting.response.socket.destroy()
  t.equal(await within(closed, 'handleClose', 60_000), 'disconnect')
  t.match(await ended(1), [{ cause: 'disconnect' }])
})

for (const [version, complete] of [['1.1', false], ['1.0', true]] as const) {
  test(`over HTTP/${version} a stream that is cut off ${complete ? 'looks as if it had ended' : 'does not look as if it had ended'}`, { skip }, async t => {
    const { server } = createGated()
    const { app, port } = await stage(t, server, behindNginx)
    const front = await startNginx(t, [port], { 'proxy_http_version 1.1;': `proxy_http_version ${version};` })
    const waiting = new Reading(await front.send(postCall({ waits: true }, { headers: { host } })))
    await waiting.message()
    app.server.closeAllConnections()
    await within(waiting.closed, 'the end of the response', 60_000)
    t.equal(waiting.response.complete, complete)
  })
}

test('the deployment of the README serves both eras behind the nginx of the README, and its probes', { skip }, async t => {
  const app = await deploy.build()
  t.teardown(async () => { await app.close() })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const front = await startNginx(t, [port])
  const called = await front.send(post('tools/call', { name: 'add', arguments: { a: 2, b: 3 } }, { headers: { host } }))
  t.match(await readJson(called), { result: { structuredContent: 5 } })
  for (const [asked, answer] of [[`${host}:80`, 200], ['evil.example', 403]] as const) {
    const payload = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: initializeParams() })
    const opened = await front.send({ headers: { host: asked, 'content-type': 'application/json' }, payload })
    t.equal(opened.statusCode, answer)
    await readJson(opened)
  }
  // Past nginx, as an orchestrator asks.
  t.equal((await fetch(`http://127.0.0.1:${port}/health`)).status, 200)
})

test('nginx passes over a replica that is gone, for calls too', { skip }, async t => {
  const { server } = createGated()
  const gone = await stage(t, server, behindNginx)
  const left = await stage(t, server, behindNginx)
  const front = await startNginx(t, [gone.port, left.port])
  await gone.app.close()
  for (const id of [1, 2, 3, 4]) {
    const answer = await front.send(post('tools/call', { name: 'tool', arguments: {} }, { id, headers: { host } }))
    t.equal(answer.statusCode, 200)
    t.match(await readJson(answer), { id, result: { content: [{ text: 'done' }] } })
  }
  t.match(await left.ended(4), [{ cause: 'result' }, { cause: 'result' }, { cause: 'result' }, { cause: 'result' }])
})

test('without Host the mount of a loopback address sees the name of the upstream, and refuses', { skip }, async t => {
  const { server } = createGated()
  const { port, lines } = await stage(t, server)
  const front = await startNginx(t, [port], { 'proxy_set_header Host $host;': '' })
  const answer = await front.send(post('tools/call', { name: 'tool', arguments: {} }, { headers: { host } }))
  t.equal(answer.statusCode, 403)
  t.match(lines.filter(({ level }) => level === 40), [{ msg: 'an MCP request was refused', mcp: { refused: 'hostForbidden', host: 'mcp', option: 'allowedHosts' } }])
})
