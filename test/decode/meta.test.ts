import { test } from 'tap'
import { decodeMeta, decodeNotificationMeta, readVersion } from '../../lib/decode/meta.js'
import { McpError } from '../../lib/errors.js'
import { result, toolResult, type JsonObject, type RequestMeta } from 'fastify-gen-mcp'
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

// ---- trace context

const TRACE = { traceparent: PARENT, tracestate: 'rojo=00f067aa0ba902b7', baggage: 'userId=alice' }
const OTHER = { traceparent: '00-11111111111111111111111111111111-2222222222222222-00', tracestate: 'congo=t61rcWkgMzE', baggage: 'userId=bob' }
/** Values that are no trace context, by their names; those that are not strings only JSON can say. */
const MALFORMED = {
  traceparent: [
    5, null, {}, [PARENT], '', 'x', 'garbage', PARENT.toUpperCase(), `${PARENT}-00`, PARENT.slice(1), `ff${PARENT.slice(2)}`, `00-${'0'.repeat(32)}${PARENT.slice(35)}`,
    `${PARENT.slice(0, 36)}${'0'.repeat(16)}-01`, `${PARENT}\n`, `${PARENT}, ${PARENT}`
  ],
  tracestate: [5, null, {}, [], '', 'x', 'é=1', 'a=1\r\nb: 2', 'a=\u007f', `a=${'x'.repeat(511)}`],
  baggage: [5, null, {}, [], '', 'x', 'name=Zoë', 'a=1\nb=2', 'a=\0', `a=${'x'.repeat(8191)}`, `a=${'x'.repeat(1_000_000)}`]
}

/** What is said of traces, by a request with this in its `_meta` and these headers, and by a notification with the same. */
async function traced (t: Test, over: Readonly<Record<string, unknown>>, headers: Readonly<Record<string, string>>): Promise<object> {
  const got: Partial<RequestMeta>[] = []
  const app = await mount(t, {
    server: bareServer(request => {
      got.push(request.meta)
      return result(toolResult.text('ok'))
    }, { handleNotification: notification => { got.push(notification.meta) } })
  })
  t.equal((await call(app, 'tools/call', { name: 'x' }, { meta: over, headers })).statusCode, 200)
  const notification = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, _meta: over } }
  t.equal((await call(app, 'notifications/cancelled', {}, { body: JSON.stringify(notification), headers })).statusCode, 202)
  const [ofRequest, ofNotification] = got.map(({ traceparent, tracestate, baggage }) => JSON.stringify({ traceparent, tracestate, baggage }))
  t.equal(got.length, 2)
  t.equal(ofNotification, ofRequest, 'a notification is read like a request')
  for (const { extra } of got) t.strictSame(extra, {}, 'and none of it is left over')
  return JSON.parse(ofRequest ?? '') as object
}

test('trace context of _meta, else of the headers of the same names, reaches handlers as it came: OTEL-01, OTEL-04, META-11, case 092', async t => {
  t.strictSame(await traced(t, {}, {}), {})
  t.strictSame(await traced(t, TRACE, {}), TRACE)
  t.strictSame(await traced(t, {}, TRACE), TRACE)
  t.strictSame(await traced(t, TRACE, OTHER), TRACE, 'the parent that _meta names goes first')
  t.strictSame(await traced(t, TRACE, { ...OTHER, traceparent: 'garbage' }), TRACE)
})

test('what belongs to one parent is not mixed with what belongs to another: OTEL-04, case 092', async t => {
  const { traceparent, tracestate, baggage } = TRACE
  t.strictSame(await traced(t, { traceparent }, OTHER), { traceparent }, 'headers add nothing to the parent of _meta')
  t.strictSame(await traced(t, { traceparent, tracestate: '' }, OTHER), { traceparent })
  t.strictSame(await traced(t, { tracestate }, OTHER), OTHER, 'nor a state of _meta to the parent of the headers')
  t.strictSame(await traced(t, { tracestate }, { traceparent: OTHER.traceparent }), { traceparent: OTHER.traceparent })
  t.strictSame(await traced(t, { baggage }, OTHER), { ...OTHER, baggage }, 'a baggage needs no parent, and the nearer one goes first')
  t.strictSame(await traced(t, { tracestate, baggage }, {}), { tracestate, baggage })
  t.strictSame(await traced(t, {}, { tracestate, baggage }), {}, 'headers count where they have a parent')
})

test('trace context that is malformed or too long is left out, and the request is served: OTEL-02, OTEL-03, OTEL-05, META-09', async t => {
  for (const [name, values] of Object.entries(MALFORMED)) {
    for (const value of values) {
      const parent = name === 'traceparent' ? {} : { traceparent: PARENT }
      t.strictSame(await traced(t, { ...parent, [name]: value }, {}), parent, `${name} ${JSON.stringify(value).slice(0, 50)}`)
    }
  }
})

test('trace context of the headers is held to the same: OTEL-02, OTEL-03, OTEL-05', t => {
  for (const [name, values] of Object.entries(MALFORMED)) {
    for (const value of values) {
      const parent = name === 'traceparent' ? {} : { traceparent: PARENT }
      // A header that came twice is a list, and Node gives some of them as one.
      const headers = { ...parent, [name]: value } as Record<string, string>
      t.strictSame(decodeNotificationMeta({}, headers), { extra: {}, ...parent }, `${name} ${JSON.stringify(value).slice(0, 50)}`)
      t.strictSame(decodeMeta(meta() as JsonObject, '2026-07-28', headers).traceparent, parent.traceparent)
    }
  }
  t.end()
})

test('a malformed parent of _meta is none: that of the headers holds', async t => {
  for (const traceparent of MALFORMED.traceparent) t.strictSame(await traced(t, { ...TRACE, traceparent }, OTHER), { ...OTHER, baggage: TRACE.baggage })
})

test('trace context is taken up to its bounds: OTEL-05', async t => {
  const longest = { traceparent: PARENT, tracestate: `a=${'x'.repeat(510)}`, baggage: `a=${'x'.repeat(8190)}` }
  t.strictSame(await traced(t, longest, {}), longest)
  t.strictSame(await traced(t, {}, longest), longest)
  const lists = { traceparent: PARENT, tracestate: 'a=1, b@c=2 ,,d= e', baggage: 'a = 1;secret;ttl=5 , b=%C3%A9' }
  t.strictSame(await traced(t, lists, {}), lists)
})

test('a parent of the headers stays within reach of the handler where _meta has another: OTEL-04, case 092', async t => {
  const app = await mount(t, {
    server: bareServer(({ meta: { traceparent = null } }, { httpRequest: { headers } }) =>
      result(toolResult.data({ traceparent, linked: headers['traceparent'] ?? null, state: headers['tracestate'] ?? null })))
  })
  const response = await call(app, 'tools/call', { name: 'x' }, { meta: TRACE, headers: OTHER })
  t.strictSame(response.json().result.structuredContent, { traceparent: PARENT, linked: OTHER.traceparent, state: OTHER.tracestate })
})

test('the context of one request is not that of the next: OTEL-05, STL-04', async t => {
  const app = await mount(t, { server: bareServer(({ meta: { traceparent = null, baggage = null } }) => result(toolResult.data({ traceparent, baggage }))) })
  const answers = await Promise.all([TRACE, {}, OTHER, {}].map(async over =>
    (await call(app, 'tools/call', { name: 'x' }, { meta: over })).json().result.structuredContent as object))
  const silent = { traceparent: null, baggage: null }
  t.strictSame(answers, [
    { traceparent: PARENT, baggage: TRACE.baggage }, silent, { traceparent: OTHER.traceparent, baggage: OTHER.baggage }, silent
  ])
})

test('trace context is not echoed, in a result, an error or a notification, unless the author says so: OTEL-01, OTEL-06', async t => {
  const own = { ...toolResult.text('traced'), _meta: { traceparent: OTHER.traceparent } }
  const app = await mount(t, {
    server: toolServer(({ params: { name } }, channel) => {
      channel.sendProgress(1)
      if (name === 'fail') throw new McpError({ kind: 'internal', message: 'no' })
      return result(name === 'traced' ? own : toolResult.text('ok'))
    })
  })
  for (const name of ['ok', 'fail']) {
    for (const more of [{}, { progressToken: 1 }]) {
      const response = await call(app, 'tools/call', { name }, { meta: { ...TRACE, ...more }, headers: OTHER })
      t.equal(response.statusCode, 200)
      t.notMatch(response.body + JSON.stringify(response.headers), /traceparent|tracestate|baggage|0af7651916cd43dd|1111111111|alice|bob/)
    }
  }
  t.match((await call(app, 'tools/call', { name: 'traced' }, { meta: TRACE })).json().result, { _meta: { traceparent: OTHER.traceparent } })
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
