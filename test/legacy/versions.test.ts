import { test } from 'tap'
import { defineServer, result, toolResult } from 'fastify-gen-mcp'
import { mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { echo, info } from '../helpers/servers.js'
import { open, send, VERSIONS } from './helpers.js'
import type { Message } from '../helpers/messages.js'

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
const supported = [...VERSIONS]

/** What it is told of a revision, and a result that differs from one to the other. */
const telling = defineServer({
  info,
  capabilities: { tools: {} },
  handleRequest: {
    'tools/call': ({ meta }) => result(toolResult.content({ type: 'text', text: meta.protocolVersion }, { type: 'resource_link', uri: 'test://a', name: 'a' }))
  }
})

test('a version header that is none of these revisions is 400 and names those that are, in a session or not: LEG-31, case 041', async t => {
  const app = await mount(t, { server: echo })
  const session = await open(app)
  const without = await mount(t, { server: echo, legacy: { sessions: false } })
  for (const version of ['2020-01-01', 'foobar', '2099-01-01', '2024-11-05', '2025-11-25, 2025-11-25', '2025-11-2', '2026-07-28', '']) {
    const error = refused(t, await session.request('tools/list', {}, { headers: { 'mcp-protocol-version': version } }), { status: 400, code: -32600, id: 1 }, version)
    t.strictSame(error.data, { supported }, version)
    for (const about of ['ping', 'initialized']) {
      const body = about === 'ping' ? { jsonrpc: '2.0', id: 1, method: 'ping' } : { jsonrpc: '2.0', method: 'notifications/initialized' }
      t.equal((await session.post(body, { 'mcp-protocol-version': version })).statusCode, 400, `${version}, ${about}`)
    }
    for (const method of ['GET', 'DELETE'] as const) {
      const response = await app.inject({ method, url: '/mcp', headers: { ...session.headers, accept: 'text/event-stream', 'mcp-protocol-version': version } })
      refused(t, response, { status: 400, code: -32600 }, `${version}, ${method}`)
    }
  }
  refused(t, await send(without, list, { 'mcp-protocol-version': '2024-11-05' }), { status: 400, code: -32600, id: 1 }, 'without sessions')
  for (const version of ['2020-01-01', 'foobar']) {
    // Nothing says that it is of this era, and the other one has no request without its envelope.
    t.equal((await send(without, list, { 'mcp-protocol-version': version })).statusCode, 400, `${version}, without sessions`)
  }
  t.equal((await session.request('tools/list')).statusCode, 200, 'the session lives on')
})

test('without the header a session is of the version that was agreed on: LEG-30, case 041', async t => {
  const app = await mount(t, { server: telling })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    const response = await send(app, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }, { 'mcp-session-id': String(session.id) })
    t.match(response.json(), { result: { content: [{ text: version }, { type: version === '2025-03-26' ? 'text' : 'resource_link' }] } }, version)
  }
})

test('another of these versions in the header changes nothing of what was agreed on: LEG-32', async t => {
  const app = await mount(t, { server: telling })
  for (const version of VERSIONS) {
    const session = await open(app, version)
    for (const header of VERSIONS) {
      const response = await session.request('tools/call', { name: 'x' }, { headers: { 'mcp-protocol-version': header } })
      t.match(response.json(), { result: { content: [{ text: version }, { type: version === '2025-03-26' ? 'text' : 'resource_link' }] } }, `${header} in ${version}`)
    }
  }
  const session = await open(app, '2025-06-18')
  refused(t, await session.post([list], { 'mcp-protocol-version': '2025-03-26' }), { status: 400, code: -32600 }, 'no batch by header')
})

test('without sessions the header says the version, and none is 2025-03-26: LEG-30, LEG-28', async t => {
  const app = await mount(t, { server: telling, legacy: { sessions: false } })
  const params = { name: 'x' }
  for (const [header, expected] of [[undefined, '2025-03-26'], ['2025-03-26', '2025-03-26'], ['2025-06-18', '2025-06-18'], ['2025-11-25', '2025-11-25'], [' 2025-11-25 ', '2025-11-25']] as const) {
    const response = await send(app, { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, header === undefined ? {} : { 'mcp-protocol-version': header })
    const { content } = response.json<Message>().result as { content: readonly { readonly type: string, readonly text?: string }[] }
    t.strictSame(content.map(({ type }) => type), ['text', expected === '2025-03-26' ? 'text' : 'resource_link'], expected)
    t.equal(content[0]?.text, expected, String(header))
  }
})
