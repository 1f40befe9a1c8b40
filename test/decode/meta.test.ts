import { test } from 'tap'
import { decodeMeta, decodeNotificationMeta, readVersion } from '../../lib/decode/meta.js'
import { McpError } from '../../lib/errors.js'
import { result, toolResult, type RequestMeta } from 'fastify-gen-mcp'
import { call, meta, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer, echo, toolServer } from '../helpers/servers.js'
import type { Response } from 'light-my-request'
import type { Test } from 'tap'

const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'
const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

/** The `_meta` of one request as its handler gets it. */
async function received (t: Test, over: Readonly<Record<string, unknown>>): Promise<RequestMeta> {
  let got: RequestMeta | undefined
  const app = await mount(t, {
    server: bareServer(request => {
      got = request.meta
      return result(toolResult.text('ok'))
    })
  })
  const { statusCode } = await call(app, 'tools/call', { name: 'x' }, { meta: over })
  t.equal(statusCode, 200)
  if (got === undefined) throw new Error('The handler was not asked')
  return got
}

test('a request without _meta, or without one of its two required members, is refused with 400, -32602: META-01, HDR-17', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  const incomplete = [
    undefined, {}, { _meta: null }, { _meta: 5 }, { _meta: [] }, { _meta: {} },
    { _meta: meta({ [VERSION]: undefined }) }, { _meta: meta({ [VERSION]: 20260728 }) }, { _meta: meta({ [VERSION]: null }) },
    { _meta: meta({ [CAPABILITIES]: undefined }) }, { _meta: meta({ [CAPABILITIES]: [] }) }, { _meta: meta({ [CAPABILITIES]: null }) },
    { _meta: meta({ [CAPABILITIES]: true }) }, { _meta: meta({ [CAPABILITIES]: 'all' }) }
  ]
  for (const method of ['server/discover', 'tools/list', 'no/such']) {
    for (const params of incomplete) {
      const response = await call(app, method, {}, { id: 'i', body: { params } })
      const { data } = refused(t, response, { status: 400, code: -32602, id: 'i' }, JSON.stringify(params))
      t.match(data, { issues: [{ path: /^params/, message: /^must be/ }] })
    }
  }
  t.strictSame(ran, [])
})

test('the two required members are all that a request must say of itself: META-02, EXT-04', async t => {
  const got = await received(t, {})
  t.strictSame(got, { extra: {}, protocolVersion: '2026-07-28', clientCapabilities: {} })
})

test('a client info reaches the handler, and one that is none is left out: META-02, META-03, META-09', async t => {
  const clientInfo = { name: 'inspector', version: '2', title: 'Inspector', icons: [{ src: 'https://example.com/a.png' }] }
  t.strictSame((await received(t, { [CLIENT_INFO]: clientInfo })).clientInfo, clientInfo)
  for (const wrong of [5, null, [], 'x', {}, { name: 'x' }, { name: 'x', version: 1 }, { name: 'x', version: '1', icons: 5 }]) {
    t.notOk('clientInfo' in await received(t, { [CLIENT_INFO]: wrong }), JSON.stringify(wrong))
  }
})

test('a log level that is none is refused with 400, -32602: LOG-06, META-09', async t => {
  for (const level of ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']) {
    t.equal((await received(t, { [LOG_LEVEL]: level })).logLevel, level)
  }
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const wrong of ['warn', 'DEBUG', '', 3, null, {}, 'toString']) {
    const response = await call(app, 'tools/list', {}, { meta: { [LOG_LEVEL]: wrong } })
    const { data } = refused(t, response, { status: 400, code: -32602, id: 1 }, JSON.stringify(wrong))
    t.match(data, { issues: [{ path: `params._meta["${LOG_LEVEL}"]` }] })
  }
  t.strictSame(ran, [])
})

test('a progress token is a string or an integer, and anything else is refused with 400, -32602: META-09, META-11', async t => {
  for (const progressToken of ['', 'a', 0, -1, 7]) t.equal((await received(t, { progressToken })).progressToken, progressToken)
  const app = await mount(t, { server: echo })
  for (const progressToken of [{}, [], null, true, 1.5, 2 ** 53]) {
    refused(t, await call(app, 'tools/list', {}, { meta: { progressToken } }), { status: 400, code: -32602, id: 1 }, JSON.stringify(progressToken))
  }
})

test('trace context is passed on as it came: META-11', async t => {
  const trace = { traceparent: PARENT, tracestate: 'rojo=00f067aa0ba902b7', baggage: 'userId=alice' }
  t.match(await received(t, trace), trace)
  t.strictSame((await received(t, trace)).extra, {})
})

test('trace context that is malformed or too long is left out, and the request is served: META-09', async t => {
  const malformed = [
    5, null, {}, '', 'x', PARENT.toUpperCase(), `${PARENT}-00`, PARENT.slice(1), `ff${PARENT.slice(2)}`, `00-${'0'.repeat(32)}${PARENT.slice(35)}`,
    `${PARENT.slice(0, 36)}${'0'.repeat(16)}-01`, `${PARENT}\n`
  ]
  for (const traceparent of malformed) t.notOk('traceparent' in await received(t, { traceparent }), JSON.stringify(traceparent))
  t.equal((await received(t, { tracestate: 'x'.repeat(512) })).tracestate?.length, 512)
  t.equal((await received(t, { baggage: 'x'.repeat(8192) })).baggage?.length, 8192)
  for (const wrong of [{ tracestate: 'x'.repeat(513) }, { tracestate: 5 }, { baggage: 'x'.repeat(8193) }, { baggage: [] }]) {
    const got = await received(t, wrong)
    t.notOk('tracestate' in got || 'baggage' in got)
  }
})

test('keys of _meta that the protocol does not know reach the handler untouched, and are not echoed: META-10, RPC-13', async t => {
  const extra = { 'com.example/trace': { a: [1, null] }, 'io.modelcontextprotocol/future': 5, plain: 'x', toString: 1 }
  t.strictSame((await received(t, extra)).extra, extra)
  const app = await mount(t, { server: echo })
  const response = await call(app, 'tools/call', { name: 'echo', arguments: {} }, { meta: { 'com.example/secret': 'token' } })
  t.equal(response.statusCode, 200)
  t.notMatch(response.body, /secret|token/)
})

test('capabilities of whatever name are taken, and those whose value is no object count as not declared: EXT-04, EXT-05, META-09', async t => {
  const declared = { elicitation: {}, sampling: { tools: {} }, extensions: { 'com.x/y': {} }, unknown: { a: 1 } }
  t.strictSame((await received(t, { [CAPABILITIES]: declared })).clientCapabilities, declared)
  const got = await received(t, { [CAPABILITIES]: { ...declared, elicitation: true, roots: null, sampling: [], extensions: 'all' } })
  t.strictSame(got.clientCapabilities, { unknown: { a: 1 } })
})

test('an extension that a request needs and its client did not declare is refused with 400, -32021: EXT-02, EXT-05', async t => {
  const required = { extensions: { 'com.example/maps': {} } }
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      channel.requireCapability(required)
      return result(toolResult.text('here'))
    })
  })
  const ask = async (extensions: unknown): Promise<Response> => await call(app, 'tools/call', { name: 'map' }, { meta: { [CAPABILITIES]: { extensions } } })
  t.equal((await ask({ 'com.example/maps': {}, 'com.x/y': {} })).statusCode, 200)
  for (const extensions of [
    undefined, {}, { 'com.x/y': {} }, { 'com.example/maps': true }, { 'com.example/maps': null }, { 'com.example/maps': [] }, true, []
  ]) {
    const { data } = refused(t, await ask(extensions), { status: 400, code: -32021, id: 1 }, JSON.stringify(extensions))
    t.strictSame(data, { requiredCapabilities: required })
  }
})

test('a message of an extension goes to clients that declared it, and to no others: EXT-02', async t => {
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      const status = channel.sendNotification({ extension: 'com.example/maps', method: 'notifications/com.example/moved' })
      return result(toolResult.text(status))
    })
  })
  const ask = async (extensions: object): Promise<Response> => await call(app, 'tools/call', { name: 'map' }, { meta: { [CAPABILITIES]: { extensions } } })
  const declared = await ask({ 'com.example/maps': {} })
  t.match(declared.headers['content-type'], 'text/event-stream')
  t.match(declared.body, 'notifications/com.example/moved')
  t.equal((await ask({ 'com.x/y': {} })).json().result.content[0].text, 'filtered')
})

test('what a request says of itself holds for that request alone: STL-01, STL-04', async t => {
  const app = await mount(t, {
    server: bareServer(({ meta: { clientCapabilities, logLevel = null, progressToken = null, clientInfo = null } }) =>
      result(toolResult.data({ clientCapabilities, logLevel, progressToken, clientInfo })))
  })
  const full = { [CAPABILITIES]: { roots: {} }, [LOG_LEVEL]: 'debug', progressToken: 1, [CLIENT_INFO]: { name: 'a', version: '1' } }
  const answers = await Promise.all([full, {}, full, {}].map(async over => {
    const response = await call(app, 'tools/call', { name: 'x' }, { meta: over })
    return response.json().result.structuredContent
  }))
  const told = { clientCapabilities: { roots: {} }, logLevel: 'debug', progressToken: 1, clientInfo: { name: 'a', version: '1' } }
  const silent = { clientCapabilities: {}, logLevel: null, progressToken: null, clientInfo: null }
  t.strictSame(answers, [told, silent, told, silent])
})

test('the _meta of a request is frozen, and so is what is extra', async t => {
  const got = await received(t, { 'com.example/x': 1 })
  t.ok(Object.isFrozen(got))
  t.ok(Object.isFrozen(got.extra))
})

test('the version of params is read, or the place where it should be is named', t => {
  t.equal(readVersion({ _meta: { [VERSION]: '' } }), '')
  for (const [params, path] of [[undefined, 'params'], [[], 'params'], [{}, 'params._meta'], [{ _meta: {} }, `params._meta["${VERSION}"]`]] as const) {
    t.throws(() => readVersion(params), { code: 'MCP_ERR_INVALID_PARAMS', statusCode: 400, reason: { issues: [{ path }] } })
  }
  t.end()
})

test('a _meta without capabilities is none', t => {
  t.throws(() => decodeMeta({}, '2026-07-28'), McpError)
  t.end()
})

test('a notification need not have a _meta, and what it has is read in the same way', t => {
  t.strictSame(decodeNotificationMeta(undefined), { extra: {} })
  t.strictSame(decodeNotificationMeta(5), { extra: {} })
  t.strictSame(decodeNotificationMeta({ [VERSION]: '2026-07-28', progressToken: 1, 'a/b': 2 }), { extra: { 'a/b': 2 }, progressToken: 1 })
  t.throws(() => decodeNotificationMeta({ progressToken: {} }), { code: 'MCP_ERR_INVALID_PARAMS', statusCode: 400 })
  t.end()
})
