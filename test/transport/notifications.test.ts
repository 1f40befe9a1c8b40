import { test } from 'tap'
import { McpError, result, toolResult } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer, echo, toolServer } from '../helpers/servers.js'
import { gate } from '../helpers/sockets.js'

const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const NO_HEADERS = { 'mcp-protocol-version': undefined, 'mcp-method': undefined, 'mcp-name': undefined }

test('an accepted notification is answered 202 with nothing, known or not: HTTP-04, RPC-10, RPC-11, case 035', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const [method, params] of [
    ['notifications/cancelled', { requestId: 1 }], ['notifications/cancelled', { requestId: 'a', reason: 'late' }], ['notifications/initialized', {}],
    ['notifications/unknown', { any: 1 }], ['notifications/progress', { progressToken: 1 }], ['tools/call', { name: 'x' }], ['no/such', {}], ['', {}]
  ] as const) {
    const response = await call(app, method, params, { id: undefined })
    t.equal(response.statusCode, 202, method)
    t.equal(response.rawPayload.length, 0, method)
    t.notOk('content-type' in response.headers, method)
    t.match(response.headers['content-length'], /^(?:0|undefined)$/)
  }
  t.strictSame(ran, ['init', 'handleNotification', 'init', 'handleNotification'], 'a notification of the revision reaches the server, and no other')
})

test('a notification needs no headers and no _meta: HDR-16, case 045', async t => {
  const app = await mount(t, { server: echo })
  for (const method of ['notifications/initialized', 'notifications/cancelled']) {
    const params = { requestId: 1 }
    const current = { 'mcp-protocol-version': '2026-07-28' }
    for (const overrides of [
      { headers: { 'mcp-method': undefined } }, { headers: NO_HEADERS }, { headers: { ...NO_HEADERS, ...current }, body: { params } },
      { headers: NO_HEADERS, body: { params } }, { meta: { [VERSION]: undefined, [CAPABILITIES]: undefined } },
      { meta: { [VERSION]: 5, [CAPABILITIES]: [] } }, { headers: { 'mcp-name': 'stray' } }
    ]) {
      const response = await call(app, method, params, { id: undefined, ...overrides })
      t.equal(response.statusCode, 202, JSON.stringify(overrides))
      t.equal(response.body, '')
    }
  }
  t.equal((await call(app, 'notifications/unknown', {}, { id: undefined, body: { params: undefined } })).statusCode, 202)
  t.equal((await call(app, 'notifications/unknown', {}, { id: undefined, body: { params: [1] } })).statusCode, 202)
})

test('a notification that contradicts its headers, or names another version, is refused with 400 and no id: HTTP-05, HDR-16, RPC-10', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server, legacy: false })
  for (const method of ['notifications/cancelled', 'notifications/unknown']) {
    const params = { requestId: 1 }
    const old = { 'mcp-protocol-version': '1999-01-01' }
    for (const [overrides, code] of [
      [{ headers: { 'mcp-method': 'tools/call' } }, -32020], [{ headers: old }, -32020], [{ headers: old, body: { params } }, -32022],
      [{ headers: { 'mcp-protocol-version': '2025-11-25' }, body: { params } }, -32022],
      [{ headers: NO_HEADERS, meta: { [VERSION]: '1999-01-01' } }, -32022], [{ headers: old, meta: { [VERSION]: '1999-01-01' } }, -32022]
    ] as const) {
      refused(t, await call(app, method, params, { id: undefined, ...overrides }), { status: 400, code }, `${method} ${JSON.stringify(overrides)}`)
    }
  }
  t.strictSame(ran, [])
})

test('a notification whose params do not fit is refused with 400, -32602 and no id: HTTP-05', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const params of [
    undefined, {}, [], 5, { requestId: null }, { requestId: 1.5 }, { requestId: 1, reason: 5 }, { requestId: 1, _meta: { progressToken: {} } }
  ]) {
    const response = await call(app, 'notifications/cancelled', {}, { id: undefined, body: { params } })
    refused(t, response, { status: 400, code: -32602 }, JSON.stringify(params))
  }
  t.strictSame(ran, [])
})

test('a notification that a server refuses or crashes on is answered with a status and no id: HTTP-05', async t => {
  for (const [thrown, status, code] of [
    [new McpError({ kind: 'cursor' }), 400, -32602], [new McpError({ kind: 'custom', rpcCode: 5, message: 'no', statusCode: 403 }), 403, 5],
    [new Error('secret'), 500, -32603]
  ] as const) {
    const app = await mount(t, { server: bareServer(() => result(toolResult.text('ok')), { handleNotification: () => { throw thrown } }) })
    refused(t, await call(app, 'notifications/cancelled', { requestId: 1 }, { id: undefined }), { status, code }, thrown.message)
  }
})

test('a cancelled notification ends no request, however its id is called: RPC-14', async t => {
  const begun = gate()
  const finish = gate()
  const app = await mount(t, {
    server: toolServer(async (_request, { signal }) => {
      begun.open()
      await finish.promise
      return result(toolResult.data(signal.aborted))
    })
  })
  const running = call(app, 'tools/call', { name: 'x' }, { id: 1 })
  await begun.promise
  t.equal((await call(app, 'notifications/cancelled', { requestId: 1 }, { id: undefined })).statusCode, 202)
  finish.open()
  t.match((await running).json(), { id: 1, result: { structuredContent: false } })
})
