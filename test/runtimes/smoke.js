/**
 * One mount, driven over sockets by whichever Node, Fastify and build this file finds beside it. Prints each step that held, and ends with the first that does
 * not. Plain JavaScript with bare imports, so that it also runs where somebody has installed the package.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { connect } from 'node:net'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import Fastify from 'fastify'
import genMcp, { busSubscriptions, createSuite, defineServer, defineTool, stream, toolResult } from 'fastify-gen-mcp'
import { sealedSessions } from 'fastify-gen-mcp/legacy'
import { createTestClient } from 'fastify-gen-mcp/testing'

const SEND_BUFFER = 256 * 1024
const FILLER = 'x'.repeat(64 * 1024)
const LEGACY = '2025-11-25'
/** What never comes ends the process rather than hold up whoever started it. */
const watchdog = setTimeout(() => { throw new Error('the smoke did not end within two minutes') }, 120_000)

const changes = busSubscriptions()
const suite = createSuite({
  info: { name: 'smoke', version: '1.0.0' },
  tools: [
    defineTool({ name: 'add', input: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } }, call: ({ a, b }) => toolResult.data(a + b) }),
    defineTool({
      name: 'count',
      async * call () {
        for (let n = 1; n <= 3; n++) yield { progress: n, total: 3 }
        return toolResult.text('counted')
      }
    }),
    defineTool({
      name: 'export',
      async call (_args, channel) {
        for (let n = 1; n <= 20; n++) {
          channel.sendProgress(n, 20, 'x'.repeat(20_000))
          await channel.drained()
        }
        return toolResult.text('exported')
      }
    })
  ],
  subscriptions: changes
})

/** Sends until it is told that nobody listens any more. */
const flood = { most: 0 }
const flooding = defineServer({
  handleRequest: {
    async 'tools/call' (_request, channel) {
      channel.startStream()
      for (let n = 1; n <= 10_000 && channel.sendProgress(n, undefined, FILLER) !== 'closed'; n++) {
        flood.most = Math.max(flood.most, app.mcp.mounts[1].gauges().bufferedBytes)
        await wait(1)
      }
      return stream('live')
    }
  }
})

const app = Fastify()
const ended = new Promise(resolve => {
  app.register(genMcp, { prefix: '/mcp', server: suite, legacy: { sessions: sealedSessions() } })
  app.register(genMcp, { prefix: '/flood', server: flooding, limits: { sendBuffer: SEND_BUFFER }, onEnd: resolve })
})
const origin = await app.listen({ port: 0, host: '127.0.0.1' })

function post (method, params, { id = 1, path = '/mcp', headers = {}, meta = {} } = {}) {
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {}, ...meta }
  return [`${origin}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...params.name !== undefined && { 'mcp-name': params.name },
      ...headers
    },
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta } })
  }]
}

function postLegacy (method, params, headers = {}, id = 1) {
  return fetch(`${origin}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params })
  })
}

/** The messages of an event stream, as they come. */
async function * eventsOf (response) {
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  let text = ''
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + chunk).split('\n\n')
    text = blocks.pop()
    for (const block of blocks) {
      const data = /^data: ?(\S.*)$/m.exec(block)?.[1]
      if (data !== undefined) yield JSON.parse(data)
    }
  }
}

async function collect (events) {
  const all = []
  for await (const event of events) all.push(event)
  return all
}

/** The next event that has this method. */
async function nextOf (events, method) {
  for (;;) {
    const { value, done } = await events.next()
    assert.ok(!done, `the stream ended before ${method}`)
    if (value.method === method) return value
  }
}

const steps = {
  async 'a JSON call' () {
    const response = await fetch(...post('tools/call', { name: 'add', arguments: { a: 2, b: 3 } }))
    assert.equal(response.status, 200)
    assert.match(response.headers.get('content-type'), /^application\/json/)
    const { result } = await response.json()
    assert.equal(result.structuredContent, 5)
  },

  async 'a refusal' () {
    const response = await fetch(...post('tools/call', { name: 'add', arguments: {} }, { headers: { 'mcp-name': 'other' } }))
    assert.equal(response.status, 400)
    assert.equal((await response.json()).error.code, -32020)
  },

  async 'a stream with progress' () {
    const response = await fetch(...post('tools/call', { name: 'count', arguments: {} }, { meta: { progressToken: 'p' } }))
    const events = await collect(eventsOf(response))
    assert.deepEqual(events.map(({ params, result }) => params?.progress ?? result.content[0].text), [1, 2, 3, 'counted'])
  },

  async 'a producer that waits for its reader, over a socket and without one' () {
    const meta = { progressToken: 'p' }
    const overSocket = await collect(eventsOf(await fetch(...post('tools/call', { name: 'export', arguments: {} }, { meta }))))
    assert.equal(overSocket.length, 21)
    const { notifications } = await createTestClient(app, { path: '/mcp' }).request('tools/call', { name: 'export', arguments: {} }, meta)
    assert.equal(notifications.length, 20)
  },

  async 'a slow reader is bounded' () {
    const [, { headers, body }] = post('tools/call', { name: 'flood', arguments: {} }, { meta: { progressToken: 'p' } })
    const socket = connect(new URL(origin).port, '127.0.0.1')
    // That it is cut off is what is wanted.
    socket.on('error', () => {})
    await once(socket, 'connect')
    const lines = Object.entries({ host: 'localhost', ...headers, 'content-length': Buffer.byteLength(body) }).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`POST /flood HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
    await once(socket, 'data')
    socket.pause()
    const { cause } = await ended
    assert.equal(cause, 'overflow')
    assert.ok(flood.most > SEND_BUFFER && flood.most < 4 * SEND_BUFFER, `at most ${flood.most} bytes were unsent`)
    socket.destroy()
    assert.equal(app.mcp.mounts[1].gauges().bufferedBytes, 0)
  },

  async 'a 2025 client: initialize, a call, and the GET stream' () {
    const opened = await postLegacy('initialize', { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'smoke', version: '1.0.0' } })
    assert.equal(opened.status, 200)
    const id = opened.headers.get('mcp-session-id')
    const { result } = await answerOf(opened)
    assert.equal(result.protocolVersion, LEGACY)
    const session = { 'mcp-session-id': id, 'mcp-protocol-version': LEGACY }
    const initialized = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...session },
      body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })
    })
    assert.equal(initialized.status, 202)
    const called = await answerOf(await postLegacy('tools/call', { name: 'add', arguments: { a: 4, b: 5 } }, session, 2))
    assert.equal(called.result.structuredContent ?? JSON.parse(called.result.content[0].text), 9)

    // Not by fetch, which opens a spare connection when it is aborted: that Node would wait for in close().
    const asking = get(`${origin}/mcp`, { agent: false, headers: { accept: 'text/event-stream', ...session } })
    const [incoming] = await once(asking, 'response')
    assert.equal(incoming.statusCode, 200)
    const standing = new Response(Readable.toWeb(incoming), { headers: { 'content-type': incoming.headers['content-type'] } })
    const events = eventsOf(standing)
    const told = nextOf(events, 'notifications/tools/list_changed')
    changes.toolsChanged()
    await told
    await events.return()
    asking.destroy()
  },

  async 'a client of the testing export' () {
    const client = createTestClient(app, { path: '/mcp' })
    const { statusCode, result } = await client.request('tools/call', { name: 'add', arguments: { a: 1, b: 1 } })
    assert.deepEqual([statusCode, result.structuredContent], [200, 2])
    await client.close()
  },

  async 'required, it is the same and can be registered as it is' () {
    // Before 20.19 that takes a flag.
    if (!process.features.require_module) return
    const required = createRequire(import.meta.url)('fastify-gen-mcp')
    assert.equal(required.genMcp, genMcp)
    const other = Fastify()
    await other.register(required, { server: suite })
    assert.equal((await createTestClient(other).request('tools/call', { name: 'add', arguments: { a: 1, b: 2 } })).result.structuredContent, 3)
    await other.close()
  },

  async 'a listen, which close() ends with its result' () {
    const events = eventsOf(await fetch(...post('subscriptions/listen', { notifications: { toolsListChanged: true } }, { id: 7 })))
    await nextOf(events, 'notifications/subscriptions/acknowledged')
    changes.toolsChanged()
    await nextOf(events, 'notifications/tools/list_changed')
    const [rest] = await Promise.all([collect(events), app.close()])
    assert.deepEqual(rest.map(({ id, result }) => [id, result.resultType]), [[7, 'complete']])
    const held = app.mcp.mounts.map(mount => Object.entries(mount.gauges()).filter(([, value]) => value !== 0))
    assert.deepEqual(held, [[], []])
  }
}

/** A 2025 answer, in one body or as the last event. */
async function answerOf (response) {
  return /^application\/json/.test(response.headers.get('content-type')) ? await response.json() : (await collect(eventsOf(response))).at(-1)
}

console.log(`node ${process.version}, fastify ${app.version}`)
for (const [name, step] of Object.entries(steps)) {
  await step()
  console.log(`ok ${name}`)
}
clearTimeout(watchdog)
