import { test } from 'tap'
import { defineServer, readResourceResult, result, toolResult, type ExchangeEnd } from 'fastify-gen-mcp'
import { bytesOf, LONG } from '../../lib/transport/long.js'
import { open } from '../legacy/helpers.js'
import { call, mount } from '../helpers/mount.js'
import { eventsOf } from '../helpers/sockets.js'
import type { JsonObject } from 'fastify-gen-mcp'

/** Pairs of surrogates at odd places, and what ends lines to some readers. */
const TEXT = `x${'😀'.repeat(LONG)}\u2028é\n"`

const server = defineServer({
  info: { name: 'long', version: '1.0.0' },
  capabilities: { tools: {}, resources: {} },
  handleRequest: {
    'tools/call': ({ params: { name } }, channel) => {
      if (name === 'told') channel.sendProgress(1)
      return result({ ...toolResult.text(TEXT), ...(name === 'named' && { _meta: { 'com.example/own': 1 } }) })
    },
    'resources/read': ({ params: { uri } }) => result(readResourceResult({ uri, blob: 'AAAA'.repeat(LONG) }))
  }
})

test('the parts of a long text are its bytes, with no pair of surrogates torn apart', t => {
  for (const text of ['', 'x', TEXT, TEXT.slice(1), 'é'.repeat(70_000)]) {
    const parts = [...bytesOf(text)]
    t.ok(Buffer.concat(parts).equals(Buffer.from(text)))
    t.ok(parts.every(({ length }) => length > 0 && length < LONG))
  }
  t.end()
})

test('a long answer is what a short one is: as JSON, as an event, behind others, with a _meta of its own', async t => {
  const ends: ExchangeEnd[] = []
  const app = await mount(t, { server, onEnd: end => { ends.push(end) } })
  const expected = (meta: object = {}) => ({
    jsonrpc: '2.0', id: 1, result: { resultType: 'complete', content: [{ type: 'text', text: TEXT }], _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'long', version: '1.0.0' }, ...meta } }
  })
  for (const [name, accept] of [['plain', 'application/json'], ['named', 'application/json'], ['plain', 'text/event-stream'], ['told', 'text/event-stream']] as const) {
    const response = await call(app, 'tools/call', { name, arguments: {} }, { headers: { accept }, meta: { progressToken: 'p' } })
    t.equal(response.statusCode, 200)
    const messages = accept === 'application/json' ? [response.json<JsonObject>()] : eventsOf(response.body)
    t.same(messages.at(-1), expected(name === 'named' ? { 'com.example/own': 1 } : {}), `${name}, ${accept}`)
    t.equal(messages.length, name === 'told' ? 2 : 1)
    t.equal(ends.at(-1)?.bytes, response.rawPayload.length, 'all of it is counted')
    if (accept === 'application/json') {
      t.equal(response.headers['content-length'], String(response.rawPayload.length))
      t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
    } else {
      t.notOk(response.body.includes('\u2028'))
    }
  }
  const read = await call(app, 'resources/read', { uri: 'mem://a' })
  t.match(read.json(), { result: { contents: [{ blob: /^(?:AAAA){1048576}$/ }], _meta: {} } })
})

test('a long answer to a 2025 client, as JSON and behind the event that names its stream', async t => {
  const ends: ExchangeEnd[] = []
  const app = await mount(t, { server, onEnd: end => { ends.push(end) } })
  const session = await open(app)
  for (const accept of ['application/json', 'text/event-stream']) {
    const response = await session.request('tools/call', { name: 'plain', arguments: {} }, { headers: { accept } })
    t.equal(response.statusCode, 200)
    const data = accept === 'application/json' ? response.body : /^data: (\{.*)$/m.exec(response.body)?.[1] ?? ''
    t.same(JSON.parse(data), { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: TEXT }] } })
    t.equal(ends.at(-1)?.bytes, response.rawPayload.length)
    t.equal(/^id: /m.test(response.body), accept === 'text/event-stream')
  }
})

test('a long result that is no object in JSON is a crash like a short one', async t => {
  const list = Object.assign([TEXT], { content: [{ type: 'text', text: TEXT }] })
  for (const value of [list, { content: [{ type: 'text', text: TEXT }], toJSON: () => [TEXT] }]) {
    const app = await mount(t, { server: defineServer({ handleRequest: { 'tools/call': () => result(value as unknown as ReturnType<typeof toolResult.text>) } }) })
    const response = await call(app, 'tools/call', { name: 'any', arguments: {} })
    t.match(response.json(), { error: { code: -32603 } })
    t.equal(response.statusCode, 500)
  }
})

test('a long answer ends a response with trailers too', async t => {
  const app = await mount(t, { server, preHandler: async (_request, reply) => { reply.trailer('x-done', async () => 'yes') } })
  const response = await call(app, 'tools/call', { name: 'told', arguments: {} }, { headers: { accept: 'text/event-stream' }, meta: { progressToken: 'p' } })
  t.match(eventsOf(response.body).at(-1), { result: { content: [{ text: TEXT }] } })
  t.match(response.trailers, { 'x-done': 'yes' })
})
