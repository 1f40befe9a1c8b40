import Fastify from 'fastify'
import genMcp from 'fastify-gen-mcp'
import { test } from 'tap'
import { senderTo } from '../helpers/agent.js'
import { call, meta, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { echo } from '../helpers/servers.js'

const echoed = (args: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":${args},"_meta":${JSON.stringify(meta())}}}`

const nested = (depth: number): string => echoed('{"a":'.repeat(depth) + '1' + '}'.repeat(depth))

test('a body that is no JSON is refused with 400, -32700 and no id: NEG-05, RPC-08, case 034', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const body of ['', ' ', '{"a": ', '{"jsonrpc":', '{"id":1,}', "{'id':1}", 'undefined', '{"jsonrpc":"2.0","id":1} x']) {
    const { message } = refused(t, await call(app, 'tools/list', {}, { body }), { status: 400, code: -32700 }, JSON.stringify(body))
    t.equal(message, 'The body is not JSON')
  }
  t.strictSame(ran, [])
})

test('a POST with no body at all is refused in the same way, whatever it says of its type: NEG-05', async t => {
  const app = await mount(t, { server: echo })
  refused(t, await app.inject({ method: 'POST', url: '/mcp' }), { status: 400, code: -32700 })
  refused(t, await app.inject({ method: 'POST', url: '/mcp', headers: { 'content-type': 'application/json' } }), { status: 400, code: -32700 })
})

test('a body that is not as long as it says is refused: ERR-08', async t => {
  const app = await mount(t, { server: echo })
  refused(t, await call(app, 'tools/list', {}, { body: echoed('{}'), headers: { 'content-length': '5' } }), { status: 400, code: -32700 })
})

test('text is UTF-8, all of it, and what is not is refused: NEG-04', async t => {
  const app = await mount(t, { server: echo })
  const args = { text: 'größe 世界 😀 \u2028 \u0000 \ufeff' }
  const answered = await call(app, 'tools/call', { name: 'echo', arguments: args })
  t.strictSame(answered.json().result.structuredContent, args)

  const [before, after] = echoed('{"text":"?"}').split('?') as [string, string]
  for (const bytes of [[0xFF], [0xC3], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80]]) {
    const body = Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
    refused(t, await call(app, 'tools/call', { name: 'echo' }, { body }), { status: 400, code: -32700 }, body.toString('latin1'))
  }
  refused(t, await call(app, 'tools/call', { name: 'echo' }, { body: Buffer.from(echoed('{}'), 'utf16le') }), { status: 400, code: -32700 })
})

test('a content type that is not application/json is refused with 415: NEG-03, HTTP-24', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const type of [
    'text/plain', 'application/x-www-form-urlencoded', 'application/json-rpc', 'application/jsonp', 'multipart/form-data; boundary=x', 'nonsense', undefined
  ]) {
    const response = await call(app, 'tools/list', {}, { headers: { 'content-type': type } })
    const { message } = refused(t, response, { status: 415, code: -32600 }, String(type))
    t.match(message, /application\/json/)
  }
  t.strictSame(ran, [])
})

test('a content type is compared without case, and without its parameters: case 038', async t => {
  const app = await mount(t, { server: echo })
  for (const type of [
    'application/json', 'Application/JSON; charset=UTF-8', 'Application/JSON ; Charset=UTF-8', 'application/json;charset="utf-8"', 'APPLICATION/JSON'
  ]) {
    const { statusCode } = await call(app, 'tools/list', {}, { headers: { 'content-type': type } })
    t.equal(statusCode, 200, type)
  }
})

test('a parser that the app has for all types does not open the mount to them', async t => {
  const { server, ran } = createStreamer()
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.addContentTypeParser('*', (_request, _payload, done) => {
    done(null, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  })
  await app.register(genMcp, { prefix: '/mcp', server })
  refused(t, await call(app, 'tools/list', {}, { headers: { 'content-type': 'text/plain' } }), { status: 415, code: -32600 })
  t.strictSame(ran, [])
})

test('a compressed body is refused with 415, one that is not is not: NEG-07', async t => {
  const app = await mount(t, { server: echo })
  for (const encoding of ['gzip', 'br', 'deflate', 'GZIP', 'identity, gzip']) {
    refused(t, await call(app, 'tools/list', {}, { headers: { 'content-encoding': encoding } }), { status: 415, code: -32600 }, encoding)
  }
  for (const encoding of ['identity', 'Identity']) {
    const { statusCode } = await call(app, 'tools/list', {}, { headers: { 'content-encoding': encoding } })
    t.equal(statusCode, 200, encoding)
  }
})

test('a body may be as large as bodyLimit says, and one byte more is refused with 413: HTTP-23, HTTP-24', async t => {
  const body = echoed('{}')
  const app = await mount(t, { server: echo, bodyLimit: body.length })
  t.equal((await call(app, 'tools/call', { name: 'echo' }, { body })).statusCode, 200)
  refused(t, await call(app, 'tools/call', { name: 'echo' }, { body: `${body} ` }), { status: 413, code: -32600 })
  t.equal((await call(app, 'tools/call', { name: 'echo' }, { body })).statusCode, 200, 'the app goes on')
})

test('a header block that is too large is refused with 431 before it reaches the mount: HTTP-23', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  const send = await senderTo(t, app)
  const { status } = await send({ 'x-large': 'x'.repeat(20_000) }, '{}')
  t.equal(status, 431)
  t.strictSame(ran, [])
})

test('nesting has an end, which is neither a crash nor a long wait: NEG-08, ERR-08', async t => {
  const app = await mount(t, { server: echo, bodyLimit: 4_000_000 })
  // The body, the params and the arguments are three levels themselves, of which nested() repeats the last.
  t.equal((await call(app, 'tools/call', { name: 'echo' }, { body: nested(254) })).statusCode, 200)
  refused(t, await call(app, 'tools/call', { name: 'echo' }, { body: nested(255) }), { status: 400, code: -32600 })
  for (const [open, close] of [['[', ']'], ['{"a":', '}']] as const) {
    const deep = `${open.repeat(500_000)}1${close.repeat(500_000)}`
    refused(t, await call(app, 'tools/call', { name: 'echo' }, { body: echoed(`{"deep":${deep}}`) }), { status: 400, code: -32600 })
  }
})

test('brackets within strings are no nesting: NEG-08', async t => {
  const app = await mount(t, { server: echo })
  for (const value of ['['.repeat(2_000), '"['.repeat(1_000), '\\"{'.repeat(1_000), '\\'.repeat(999) + '[{'.repeat(300)]) {
    const response = await call(app, 'tools/call', { name: 'echo', arguments: { value } })
    t.strictSame(response.json().result.structuredContent, { value })
  }
})

test('wide arrays are no nesting: NEG-08', async t => {
  const app = await mount(t, { server: echo })
  const items = Array.from({ length: 1_000 }, () => [{}])
  const response = await call(app, 'tools/call', { name: 'echo', arguments: { items } })
  t.strictSame(response.json().result.structuredContent, { items })
})

test('keys that would change a prototype are left out, however they are written, and no prototype is changed: NEG-08', async t => {
  const app = await mount(t, { server: echo })
  for (const args of [
    '{"__proto__":{"polluted":1},"kept":1}',
    '{"\\u005f\\u005fproto\\u005f\\u005f":{"polluted":1},"kept":1}',
    '{"_\\u005Fproto__":{"polluted":1},"kept":1}',
    '{"constructor":{"prototype":{"polluted":1}},"kept":1}',
    '{"__proto__":null,"kept":1}'
  ]) {
    const response = await call(app, 'tools/call', { name: 'echo' }, { body: echoed(args) })
    t.equal(response.body.includes('polluted'), false, args)
    t.strictSame(response.json().result.structuredContent, { kept: 1 })
  }
  const key = '"__proto__":{"polluted":1}'
  for (const body of [`{${key},${echoed('{}').slice(1)}`, echoed('{}').replace('"name"', `${key},"name"`)]) {
    t.equal((await call(app, 'tools/call', { name: 'echo' }, { body })).statusCode, 200)
  }
  t.equal(({} as { polluted?: number }).polluted, undefined)
})

test('arguments may be called what they like where that is harmless: NEG-08', async t => {
  const app = await mount(t, { server: echo })
  const args = { constructor: 'mine', prototype: { a: 1 }, toString: 5, hasOwnProperty: null }
  const response = await call(app, 'tools/call', { name: 'echo', arguments: args })
  t.strictSame(JSON.parse(JSON.stringify(response.json().result.structuredContent)), args)
})

test('of a key that comes twice the last counts, for the checks and the server alike: NEG-08', async t => {
  const app = await mount(t, { server: echo })
  const body = echoed('{"a":1,"a":2}').replace('"name":"echo"', '"name":"other","name":"echo"').replace('"id":1', '"id":7,"id":1')
  const response = await call(app, 'tools/call', { name: 'echo' }, { body })
  t.strictSame(response.json().result.structuredContent, { a: 2 })
  t.equal(response.json().id, 1)
  refused(t, await call(app, 'tools/call', { name: 'other' }, { body }), { status: 400, code: -32020, id: 1 })
})

test('the app keeps its own errors on its own routes: case 034', async t => {
  const app = Fastify()
  t.teardown(async () => { await app.close() })
  app.post('/own', async () => ({ fine: true }))
  await app.register(genMcp, { prefix: '/mcp', server: echo })
  const response = await app.inject({ method: 'POST', url: '/own', headers: { 'content-type': 'application/json' }, payload: '{"a": ' })
  t.equal(response.statusCode, 400)
  t.match(response.json(), { statusCode: 400, code: 'FST_ERR_CTP_INVALID_JSON_BODY', error: 'Bad Request' })
  t.notOk('jsonrpc' in response.json())
})
