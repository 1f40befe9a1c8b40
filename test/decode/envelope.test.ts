import { test } from 'tap'
import { readEnvelope, readId } from '../../lib/decode/envelope.js'
import { call, meta, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { echo } from '../helpers/servers.js'

const params = { _meta: meta() }

test('JSON that is no JSON-RPC request or notification is refused with 400, -32600, and its id if that can be read: NEG-06, RPC-01, case 034', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const body of ['"x"', '5', 'null', 'true', '{}', '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0","params":{}}']) {
    refused(t, await call(app, 'tools/list', {}, { body }), { status: 400, code: -32600 }, body)
  }
  for (const wrong of [{ jsonrpc: undefined }, { jsonrpc: '1.0' }, { jsonrpc: 2 }, { method: 5 }, { method: null }, { method: undefined }]) {
    refused(t, await call(app, 'tools/list', {}, { id: 'mine', body: wrong }), { status: 400, code: -32600, id: 'mine' }, JSON.stringify(wrong))
  }
  t.strictSame(ran, [])
})

test('a batch is refused whole, and nothing of it runs: HTTP-02, case 036', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', ...params } }
  for (const batch of [[], [request], [request, { ...request, id: 2 }], [[request]]]) {
    const { message } = refused(t, await call(app, 'tools/call', { name: 'echo' }, { body: JSON.stringify(batch) }), { status: 400, code: -32600 })
    t.match(message, /not a JSON-RPC request or notification/)
  }
  t.strictSame(ran, [])
})

test('a JSON-RPC response is refused, since a client of this revision has nothing to answer: HTTP-02', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const response of [{ result: {} }, { error: { code: -32603, message: 'x' } }]) {
    refused(t, await call(app, 'tools/list', {}, { body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...response }) }), { status: 400, code: -32600, id: 1 })
  }
  t.strictSame(ran, [])
})

test('an id that is neither a string nor an integer is refused, and not sent back: RPC-02, RPC-08', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const id of [null, true, false, {}, [], [1], 1.5, 2 ** 53, -(2 ** 53)]) {
    refused(t, await call(app, 'tools/list', {}, { id }), { status: 400, code: -32600 }, JSON.stringify(id))
  }
  t.strictSame(ran, [])
})

test('an id comes back with its type and value, the falsy ones too: RPC-03, RPC-08', async t => {
  const app = await mount(t, { server: echo })
  for (const id of [0, '', '1', 1, -7, '0', 'null', 'ünï\n"', 2 ** 53 - 1, -(2 ** 53 - 1)]) {
    const answered = await call(app, 'tools/list', {}, { id })
    t.equal(answered.statusCode, 200)
    t.equal(answered.json().id, id)
    refused(t, await call(app, 'no/such', {}, { id }), { status: 404, code: -32601, id })
  }
})

test('what has no id is a notification, whose method may be anything: RPC-10', t => {
  t.strictSame(readEnvelope({ jsonrpc: '2.0', method: 'x' }), { kind: 'notification', method: 'x', params: undefined })
  t.strictSame(readEnvelope({ jsonrpc: '2.0', method: '', params: [1] }), { kind: 'notification', method: '', params: [1] })
  t.end()
})

test('params that are no object do no harm: RPC-12', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const wrong of [[], 5, 'x', null, true]) {
    refused(t, await call(app, 'tools/list', {}, { body: { params: wrong } }), { status: 400, code: -32602, id: 1 }, JSON.stringify(wrong))
  }
  t.strictSame(ran, [])
})

test('members of the body that JSON-RPC does not have are tolerated: RPC-13', async t => {
  const app = await mount(t, { server: echo })
  const { statusCode } = await call(app, 'tools/list', {}, { body: { extra: 1, result: {} } })
  t.equal(statusCode, 200)
})

test('the id of a body is read where there is one to read', t => {
  t.equal(readId({ id: 3 }), 3)
  t.equal(readId({ id: '' }), '')
  for (const body of [undefined, null, 5, [], [{ id: 1 }], {}, { id: null }, { id: 0.5 }]) t.equal(readId(body), undefined)
  t.end()
})
