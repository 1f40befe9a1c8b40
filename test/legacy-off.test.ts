import { test } from 'tap'
import { call, mount } from './helpers/mount.js'
import { echo } from './helpers/servers.js'

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']

test('with legacy: false 2025 clients are told which revision is served, and get no session', async t => {
  const app = await mount(t, { server: echo, legacy: false })
  for (const version of VERSIONS) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'initialize', params: { protocolVersion: version, capabilities: {}, clientInfo: { name: 'old', version: '1' } } })
    const bare = await call(app, 'initialize', {}, { body, headers: { 'mcp-protocol-version': undefined, 'mcp-method': undefined } })
    t.equal(bare.statusCode, 400, `initialize, ${version}`)
    t.match(bare.json(), { jsonrpc: '2.0', id: 7, error: { data: { supported: ['2026-07-28'] } } }, `initialize, ${version}`)
    t.notOk('mcp-session-id' in bare.headers)

    const later = await call(app, 'tools/list', {}, { body: JSON.stringify({ jsonrpc: '2.0', id: 8, method: 'tools/list' }), headers: { 'mcp-protocol-version': version, 'mcp-method': undefined } })
    t.equal(later.statusCode, 400, `tools/list, ${version}`)
    t.match(later.json(), { id: 8, error: { code: -32022, data: { requested: version, supported: ['2026-07-28'] } } }, `tools/list, ${version}`)
  }
})

test('with legacy: false the streams and sessions of 2025 are not served: HTTP-06, HTTP-07, HTTP-08', async t => {
  const app = await mount(t, { server: echo, legacy: false })
  for (const method of ['GET', 'DELETE'] as const) {
    const response = await app.inject({ method, url: '/mcp', headers: { accept: 'text/event-stream', 'mcp-session-id': 'x' } })
    t.equal(response.statusCode, 405, method)
    t.equal(response.headers.allow, 'POST', method)
  }
  const response = await call(app, 'tools/list', {}, { headers: { 'mcp-session-id': 'x', 'last-event-id': '1' } })
  t.equal(response.statusCode, 200, 'a session id on modern traffic is ignored')
  t.notOk('mcp-session-id' in response.headers)
})
