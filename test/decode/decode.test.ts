import { test } from 'tap'
import { decodeNotification, findMethod } from '../../lib/decode/decode.js'
import { result, toolResult, type McpRequest } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer, createListenServer, echo, info } from '../helpers/servers.js'
import type { Test } from 'tap'

/** A request as its handler gets it. */
async function received (t: Test, method: string, params: object): Promise<McpRequest> {
  let got: McpRequest | undefined
  const app = await mount(t, {
    server: bareServer(request => {
      got = request
      return result(toolResult.text('ok'))
    })
  })
  const response = await call(app, method, params)
  t.equal(response.statusCode, 200, response.body)
  if (got === undefined) throw new Error('The handler was not asked')
  return got
}

test('a method that does not exist is answered 404, -32601 and its name, in JSON: HTTP-10, HTTP-24, case 044', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  const { message, data } = refused(t, await call(app, 'no/such', {}, { id: 'me' }), { status: 404, code: -32601, id: 'me' })
  t.equal(message, 'Method not found')
  t.strictSame(data, { method: 'no/such' })
  t.strictSame(ran, [])
})

test('a method is found by its exact name and by no inherited one: RPC-17', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const method of ['Tools/List', 'tools/list/', 'tools', 'toString', '__proto__', 'constructor', 'hasOwnProperty', 'x'.repeat(10_000)]) {
    refused(t, await call(app, method), { status: 404, code: -32601, id: 1 }, method.slice(0, 20))
  }
  t.strictSame(ran, [])
})

test('methods of earlier revisions and of no declared extension do not exist in this one: RPC-15, VER-08', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const method of [
    'initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe', 'tasks/list', 'tasks/result',
    'roots/list', 'sampling/createMessage', 'elicitation/create', 'notifications/initialized'
  ]) {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' }, level: 'debug', uri: 'a:b' }
    refused(t, await call(app, method, params, { id: 9 }), { status: 404, code: -32601, id: 9 }, method)
  }
  t.strictSame(ran, [])
})

test('a notification with an id is no request: RPC-10, RPC-17', async t => {
  const app = await mount(t, { server: echo })
  refused(t, await call(app, 'notifications/cancelled', { requestId: 1 }), { status: 404, code: -32601, id: 1 })
})

test('a method whose capability is not declared is answered 404, -32601: RPC-16', async t => {
  const asks = {
    tools: [['tools/list', {}], ['tools/call', { name: 'x' }]],
    prompts: [['prompts/list', {}], ['prompts/get', { name: 'x' }]],
    resources: [['resources/list', {}], ['resources/templates/list', {}], ['resources/read', { uri: 'x' }]],
    completions: [['completion/complete', { ref: { type: 'ref/prompt', name: 'x' }, argument: { name: 'a', value: '' } }]]
  } as const
  for (const [declared, opened] of Object.entries(asks)) {
    const ran: string[] = []
    const app = await mount(t, {
      server: {
        info,
        capabilities: { [declared]: {} },
        handleRequest: (request: McpRequest) => {
          ran.push(request.method)
          return result(toolResult.text('ok'))
        }
      }
    })
    for (const [method, params] of Object.values(asks).flat()) {
      const response = await call(app, method, params)
      if (opened.some(([open]) => open === method)) t.equal(response.statusCode, 200, `${method} with ${declared}`)
      else refused(t, response, { status: 404, code: -32601, id: 1 }, `${method} with ${declared}`)
    }
    t.strictSame(ran, opened.map(([method]) => method))
  }
})

test('params that do not fit their method are answered 200, -32602, and name the place: TOOL-12, TOOL-18', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server: { ...server, capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} } } })
  const argument = { name: 'a', value: '' }
  const misfits: [method: string, params: object, path: string][] = [
    ['tools/list', { cursor: 5 }, '/cursor'],
    ['tools/call', {}, '/name'],
    ['tools/call', { name: 5 }, '/name'],
    ['tools/call', { name: null }, '/name'],
    ['tools/call', { name: 'x', arguments: [] }, '/arguments'],
    ['tools/call', { name: 'x', arguments: 'x' }, '/arguments'],
    ['tools/call', { name: 'x', arguments: 5 }, '/arguments'],
    ['tools/call', { name: 'x', requestState: 5 }, '/requestState'],
    ['tools/call', { name: 'x', inputResponses: [] }, '/inputResponses'],
    ['resources/list', { cursor: null }, '/cursor'],
    ['resources/templates/list', { cursor: {} }, '/cursor'],
    ['resources/read', {}, '/uri'],
    ['resources/read', { uri: ['x'] }, '/uri'],
    ['prompts/list', { cursor: 1 }, '/cursor'],
    ['prompts/get', { name: 1 }, '/name'],
    ['prompts/get', { name: 'x', arguments: { a: 1 } }, '/arguments/a'],
    ['completion/complete', { argument }, '/ref'],
    ['completion/complete', { ref: { type: 'ref/tool', name: 'x' }, argument }, '/ref'],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'x' } }, '/argument'],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'x' }, argument: { name: 'a' } }, '/argument/value'],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'x' }, argument, context: { arguments: { b: 1 } } }, '/context/arguments/b'],
    ['subscriptions/listen', {}, '/notifications'],
    ['subscriptions/listen', { notifications: true }, '/notifications'],
    ['subscriptions/listen', { notifications: { toolsListChanged: 'yes' } }, '/notifications/toolsListChanged'],
    ['subscriptions/listen', { notifications: { resourceSubscriptions: 'a:b' } }, '/notifications/resourceSubscriptions']
  ]
  for (const [method, params, path] of misfits) {
    const response = await call(app, method, params, { id: 'p' })
    const { message, data } = refused(t, response, { status: 200, code: -32602, id: 'p' }, `${method} ${JSON.stringify(params)}`)
    t.match(data, { issues: [{ path }] }, `${method} ${path}`)
    t.match(message, `Invalid params: ${path} `)
  }
  t.strictSame(ran, [])
})

test('what params are called by the client does not break the message that names them: RPC-07', async t => {
  const app = await mount(t, { server: bareServer(() => result(toolResult.text('ok'))) })
  for (const [about, key] of [['LF', 'a\nb'], ['CRLF', 'a\r\nb'], ['U+2028', 'a\u2028b'], ['long', 'k'.repeat(100_000)]] as const) {
    const response = await call(app, 'prompts/get', { name: 'x', arguments: { [key]: 5 } })
    const { message } = refused(t, response, { status: 200, code: -32602, id: 1 }, about)
    t.ok(message.length < 1_000, `${about}: the message stays short`)
  }
})

test('no arguments are empty arguments, absent or null: TOOL-13, case 037', async t => {
  for (const method of ['tools/call', 'prompts/get']) {
    t.strictSame((await received(t, method, { name: 'x' })).params, { name: 'x', arguments: {} })
    t.strictSame((await received(t, method, { name: 'x', arguments: {} })).params, { name: 'x', arguments: {} })
    const app = await mount(t, { server: bareServer(({ params }) => result(toolResult.data(params as { readonly arguments: object }))) })
    const response = await call(app, method, { name: 'x', arguments: null })
    t.strictSame(response.json().result?.structuredContent, { name: 'x', arguments: {} }, `null in ${method}`)
  }
})

test('a handler gets the params of its method, and none that the method does not have: RPC-13, DSC-03', async t => {
  const argument = { name: 'a', value: 'v' }
  const ref = { type: 'ref/resource', uri: 'a:{b}' }
  const cases: [method: string, sent: object, got: object][] = [
    ['server/discover', {}, {}],
    ['tools/list', {}, {}],
    ['tools/list', { cursor: '' }, { cursor: '' }],
    ['resources/list', { cursor: 'c' }, { cursor: 'c' }],
    ['resources/templates/list', { cursor: 'c' }, { cursor: 'c' }],
    ['prompts/list', { cursor: 'c' }, { cursor: 'c' }],
    ['tools/call', { name: '', arguments: { a: [1] } }, { name: '', arguments: { a: [1] } }],
    ['prompts/get', { name: 'p', arguments: { a: '1' } }, { name: 'p', arguments: { a: '1' } }],
    ['resources/read', { uri: 'not a uri' }, { uri: 'not a uri' }],
    ['completion/complete', { ref, argument }, { ref, argument, context: { arguments: {} } }],
    ['completion/complete', { ref, argument, context: {} }, { ref, argument, context: { arguments: {} } }],
    ['completion/complete', { ref, argument, context: { arguments: { b: 'c' } } }, { ref, argument, context: { arguments: { b: 'c' } } }]
  ]
  for (const [method, sent, got] of cases) {
    const request = await received(t, method, { ...sent, extra: { a: 1 }, inputResponses: {} })
    t.strictSame(request.params, got, method)
    t.equal(request.method, method)
    t.equal(request.id, 1)
    t.strictSame(Object.keys(request), ['method', 'id', 'params', 'meta'])
  }
})

test('a handler cannot change the request that it was given', async t => {
  for (const [method, params] of [['tools/call', { name: 'x' }], ['tools/list', {}], ['tools/list', { cursor: 'c' }], ['server/discover', {}]] as const) {
    const request = await received(t, method, params)
    t.ok(Object.isFrozen(request) && Object.isFrozen(request.params) && Object.isFrozen(request.meta), method)
  }
})

test('a listen gets its filter', async t => {
  const { server } = createListenServer()
  let notifications: unknown
  const app = await mount(t, {
    server: {
      ...server,
      handleRequest: (request, channel) => {
        if (request.method === 'subscriptions/listen') ({ notifications } = request.params)
        queueMicrotask(() => { channel.close() })
        return server.handleRequest(request, channel, undefined)
      }
    }
  })
  await call(app, 'subscriptions/listen', { notifications: { toolsListChanged: true, resourceSubscriptions: ['a:b'] }, extra: 1 })
  t.strictSame(notifications, { toolsListChanged: true, resourceSubscriptions: ['a:b'] })
})

test('a cancelled notification is read, with its reason if it has one', t => {
  const read = (params: unknown) => decodeNotification({ kind: 'notification', method: 'notifications/cancelled', params })
  t.strictSame(read({ requestId: 0 }), { method: 'notifications/cancelled', params: { requestId: 0 }, meta: { extra: {} } })
  t.strictSame(read({ requestId: 'a', reason: 'late', extra: 1, _meta: { progressToken: 5 } }),
    { method: 'notifications/cancelled', params: { requestId: 'a', reason: 'late' }, meta: { extra: {}, progressToken: 5 } })
  const notification = read({ requestId: 1 })
  t.ok(Object.isFrozen(notification) && Object.isFrozen(notification?.params))
  for (const wrong of [undefined, {}, [], 5, { requestId: null }, { requestId: 1.5 }, { requestId: 1, reason: 5 }]) {
    t.throws(() => read(wrong), { code: 'MCP_ERR_INVALID_PARAMS', statusCode: 400, rpcCode: -32602 }, JSON.stringify(wrong))
  }
  t.end()
})

test('a notification that the revision does not define for clients is nothing to handle: RPC-11', t => {
  for (const method of ['notifications/unknown', 'notifications/initialized', 'notifications/progress', 'tools/call', 'toString', '']) {
    t.equal(decodeNotification({ kind: 'notification', method, params: 5 }), undefined, method)
  }
  t.end()
})

test('a method is known with what is to be known of it', t => {
  t.match(findMethod('resources/read'), { method: 'resources/read', kind: 'request', name: 'uri' })
  t.throws(() => findMethod('notifications/cancelled'), { code: 'MCP_ERR_UNSUPPORTED_METHOD' })
  t.end()
})
