import { test } from 'tap'
import { readAccept } from '../../lib/transport/accept.js'
import { call, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { createListenServer, echo } from '../helpers/servers.js'

const BOTH = { json: true, sse: true }
const JSON_ONLY = { json: true, sse: false }
const SSE_ONLY = { json: false, sse: true }
const NEITHER = { json: false, sse: false }

test('an Accept header is read with its ranges, weights and parameters, in any order and case: NEG-02', t => {
  const headers = [
    [undefined, BOTH], ['', BOTH], [',', BOTH], ['nonsense', BOTH], ['*/*', BOTH], ['*/*;q=0.1', BOTH], ['*/*, text/html', BOTH],
    ['application/json, text/event-stream', BOTH], ['text/event-stream,application/json', BOTH], ['application/json;q=0.9, text/*', BOTH],
    ['TEXT/EVENT-STREAM;q=0.5, application/*', BOTH], ['application/json; charset=utf-8 , text/event-stream ; level=1', BOTH],
    ['application/json', JSON_ONLY], ['application/*', JSON_ONLY], ['text/event-stream;q=0, */*', JSON_ONLY], ['text/*;q=0,*/*;q=0.5', JSON_ONLY],
    ['application/json, text/event-stream; q=0.000', JSON_ONLY], ['application/json, text/html', JSON_ONLY],
    ['text/event-stream', SSE_ONLY], ['Text/*', SSE_ONLY], ['application/json;Q=0, */*', SSE_ONLY], ['application/*;q=0.0, text/event-stream', SSE_ONLY],
    ['text/html', NEITHER], ['*/*;q=0', NEITHER], ['application/xml, image/*', NEITHER], ['application/json;q=0', NEITHER],
    ['application/json-seq, text/event-streams', NEITHER]
  ] as const
  for (const [header, accepted] of headers) t.strictSame(readAccept(header), accepted, String(header))
  t.end()
})

test('the more exact range wins, whatever the order', t => {
  t.strictSame(readAccept('*/*;q=0, application/json'), JSON_ONLY)
  t.strictSame(readAccept('text/*, text/event-stream;q=0, */*'), JSON_ONLY)
  t.strictSame(readAccept('application/*;q=0, */*, application/json'), BOTH)
  t.end()
})

test('headers that nobody has sent before are read rightly, however many they are', t => {
  for (let n = 0; n < 300; n++) {
    t.strictSame(readAccept(`application/json;n=${n}`), JSON_ONLY)
    t.strictSame(readAccept(`application/json;n=${n}`), JSON_ONLY, 'and again')
  }
  t.end()
})

test('a client that takes JSON is answered in JSON, whatever else it takes: NEG-01, NEG-02, HTTP-03, case 039', async t => {
  const app = await mount(t, { server: echo })
  for (const accept of [
    undefined, '*/*', 'application/json', 'application/json, text/event-stream', 'TEXT/EVENT-STREAM;q=0.5, application/*', 'application/json;q=0.9, text/*'
  ]) {
    const response = await call(app, 'tools/list', {}, { headers: { accept }, id: 4 })
    t.equal(response.statusCode, 200, accept ?? 'none')
    t.match(response.headers['content-type'], /^application\/json/, accept ?? 'none')
    t.match(response.json(), { jsonrpc: '2.0', id: 4, result: { tools: [{ name: 'echo' }] } })
  }
})

test('a client that takes events alone gets one: NEG-02, HTTP-03, case 039', async t => {
  const app = await mount(t, { server: echo })
  for (const accept of ['text/event-stream', 'text/*', 'application/json;q=0, */*']) {
    const response = await call(app, 'tools/list', {}, { headers: { accept } })
    t.equal(response.statusCode, 200, accept)
    t.equal(response.headers['content-type'], 'text/event-stream', accept)
    t.match(response.body, /^data: \{"jsonrpc":"2\.0","id":1,"result":\{.*\}\n\n$/)
  }
})

test('a client that takes neither is refused with 406 in JSON, and nothing runs: NEG-02, HTTP-24, case 039', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const accept of ['text/html', 'image/*', '*/*;q=0', 'application/json;q=0, text/html']) {
    refused(t, await call(app, 'tools/list', {}, { headers: { accept }, id: 'a' }), { status: 406, code: -32600, id: 'a' }, accept)
  }
  t.strictSame(ran, [])
})

test('a listen is a stream, so that a client which takes JSON alone is refused with 406: NEG-02', async t => {
  const app = await mount(t, { server: createListenServer().server })
  for (const accept of ['application/json', 'application/*, text/html', 'text/event-stream;q=0, */*']) {
    refused(t, await call(app, 'subscriptions/listen', { notifications: {} }, { headers: { accept } }), { status: 406, code: -32600, id: 1 }, accept)
  }
})

test('a notification is accepted whatever its sender takes: NEG-02, HTTP-04', async t => {
  const app = await mount(t, { server: echo })
  const response = await call(app, 'notifications/cancelled', { requestId: 1 }, { id: undefined, headers: { accept: 'text/html' } })
  t.equal(response.statusCode, 202)
  t.equal(response.body, '')
})
