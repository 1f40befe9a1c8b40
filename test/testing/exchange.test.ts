import { Type } from '@sinclair/typebox'
import { defineServer, elicitForm, inputRequired, MCP_ERR_HEAD_SENT, messageType, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { testExchange } from 'fastify-gen-mcp/testing'
import { test } from 'tap'
import { bareServer, createListenServer, echo, info, toolServer } from '../helpers/servers.js'

const params = { name: 'any', arguments: {} }

test('a request is answered with what a client would read', async t => {
  const { answer, notifications, ended } = testExchange(echo, 'tools/call', { name: 'echo', arguments: { a: 1 } })
  t.strictSame(await answer, {
    result: {
      resultType: 'complete',
      content: [{ type: 'text', text: '{"a":1}' }],
      structuredContent: { a: 1 },
      _meta: { 'io.modelcontextprotocol/serverInfo': info }
    }
  })
  t.strictSame(notifications, [])
  t.match(await ended, { cause: 'result', method: 'tools/call', name: 'echo', requestId: 1, statusCode: 200, streamed: false, events: 1, bytes: Number })
})

test('notifications are there as soon as they are sent', async t => {
  const exchange = testExchange(toolServer((_request, channel) => {
    t.equal(channel.streaming, false)
    channel.sendProgress(1)
    channel.sendLog('info', 'there')
    t.equal(channel.streaming, true)
    return result(toolResult.text('done'))
  }), 'tools/call', params, { progressToken: 'p', logLevel: 'debug' })
  t.match(exchange.notifications, [
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } },
    { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'there' } }
  ])
  t.match(await exchange.ended, { streamed: true, events: 3 })
})

test('a refusal is the error, and its status is known of the end', async t => {
  const { answer, ended } = testExchange(echo, 'prompts/list', {})
  t.match(await answer, { error: { code: -32601, data: { method: 'prompts/list' } }, result: undefined })
  t.match(await ended, { cause: 'error', statusCode: 404 })
})

test('an error on an open stream has no status', async t => {
  const { answer, ended } = testExchange(toolServer((_request, channel) => {
    channel.startStream()
    channel.requireCapability({ roots: {} })
    return result(toolResult.text('never'))
  }), 'tools/call', params)
  t.match(await answer, { error: { code: -32021 } })
  t.match(await ended, { cause: 'error', statusCode: 200, streamed: true })
})

test('a crash is bare to the client, and the reason of the end', async t => {
  const crash = new Error('secret')
  const { answer, ended } = testExchange(toolServer(() => { throw crash }), 'tools/call', params)
  t.strictSame(await answer, { error: { code: -32603, message: 'Internal error' } })
  t.match(await ended, { cause: 'crash', reason: crash, statusCode: 500 })
})

test('what is no JSON is a crash as well', async t => {
  const { answer } = testExchange(toolServer(() => result({ resultType: 'complete', content: [], structuredContent: 1n })), 'tools/call', params)
  t.match(await answer, { error: { code: -32603 } })
  const cyclic: { self?: unknown } = {}
  cyclic.self = cyclic
  const sent: string[] = []
  const { notifications, answer: done } = testExchange(toolServer((_request, channel) => {
    sent.push(channel.sendNotification({ extension: 'x/y', method: 'notifications/x', params: cyclic as never }))
    return result(toolResult.text('done'))
  }), 'tools/call', params, { capabilities: { extensions: { 'x/y': {} } } })
  t.match(await done, { result: { resultType: 'complete' } })
  t.strictSame(sent, ['filtered'])
  t.strictSame(notifications, [])
})

test('messages reach the server by the ref', async t => {
  const server = toolServer<number, string>((_request, channel) => {
    channel.sendProgress(0)
    return stream(0)
  }, { handleMessage: (word, _channel, count) => word === 'stop' ? result(toolResult.data(count)) : stream(count + 1) })
  const { ref, answer } = testExchange(server, 'tools/call', params)
  for (const word of ['a', 'b', 'stop']) t.equal(ref.post(word), 'queued')
  t.match(await answer, { result: { structuredContent: 2 } })
  t.equal(ref.post('late'), 'closed')
})

test('a listen is acknowledged, told of changes, and completed by a close', async t => {
  const { server, notify } = createListenServer()
  const { ref, notifications } = testExchange(server, 'subscriptions/listen', { notifications: { toolsListChanged: true } })
  notify({ method: 'notifications/tools/list_changed' })
  await new Promise(setImmediate)
  t.match(notifications, [{ method: 'notifications/subscriptions/acknowledged' }, { method: 'notifications/tools/list_changed' }])
  t.type(ref.id, 'string')

  const closing = defineServer({
    info,
    capabilities: { tools: { listChanged: true } },
    messages: messageType<'close'>(),
    handleRequest: { 'subscriptions/listen': () => stream(undefined) },
    handleMessage: (_message, channel) => {
      channel.close()
      return stream(undefined)
    }
  })
  const closed = testExchange(closing, 'subscriptions/listen', { notifications: { toolsListChanged: true } })
  closed.ref.post('close')
  t.match(await closed.answer, { result: { resultType: 'complete', _meta: { 'io.modelcontextprotocol/subscriptionId': 1 } } })
  t.match(await closed.ended, { cause: 'closed' })
})

test('a stream that is stopped has neither result nor error', async t => {
  const { ref, answer, ended } = testExchange(toolServer<undefined, string>(() => stream(undefined), { handleMessage: () => stop('enough') }), 'tools/call', params)
  ref.post('go')
  t.strictSame(await answer, {})
  t.match(await ended, { cause: 'stop', reason: 'enough' })
})

test('disconnect closes the exchange as a client that left', async t => {
  const closed: unknown[] = []
  const server = toolServer<string, never>((_request, channel) => {
    channel.startStream()
    return stream('live')
  }, { handleClose: (_context, live, reason) => { closed.push(live, reason) } })
  const exchange = testExchange(server, 'tools/call', params)
  exchange.disconnect()
  exchange.disconnect()
  t.match(await exchange.ended, { cause: 'disconnect' })
  t.strictSame(closed, ['live', 'disconnect'])
  await t.rejects(exchange.answer, { message: 'The client has left' })
})

test('disconnect after the answer changes nothing', async t => {
  const exchange = testExchange(echo, 'tools/list', {})
  exchange.disconnect()
  t.match(await exchange.answer, { result: { tools: [{ name: 'echo' }] } })
  t.match(await exchange.ended, { cause: 'result' })
})

test('respond plays the rounds, and leaves the last of them', async t => {
  const questions = { confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }
  const server = toolServer((_request, channel) => {
    channel.sendProgress(1)
    const answers = channel.inputResponses(questions)
    return answers === undefined ? inputRequired(questions) : result(toolResult.data(answers.confirm))
  })
  const options = { capabilities: { elicitation: {} }, progressToken: 1 }
  const { answer, notifications, ended } = testExchange(server, 'tools/call', params, { ...options, respond: () => ({ action: 'decline' }) })
  t.match(await answer, { result: { resultType: 'complete', structuredContent: { action: 'decline' } } })
  t.equal(notifications.length, 2)
  t.match(await ended, { cause: 'result', requestId: 2 })

  const { answer: asked } = testExchange(server, 'tools/call', params, options)
  t.match(await asked, { result: { resultType: 'input_required', inputRequests: { confirm: { method: 'elicitation/create' } } } })
})

test('init gets the arg', async t => {
  const server = defineServer({
    arg: Type.Object({ word: Type.String() }),
    init: arg => arg,
    handleRequest: { 'tools/call': (_request, _channel, { word }) => result(toolResult.text(word)) }
  })
  t.match(await testExchange(server, 'tools/call', params, { arg: { word: 'hi' } }).answer, { result: { content: [{ text: 'hi' }] } })
  t.throws(() => testExchange(server, 'tools/call', params), { code: 'MCP_ERR_BAD_OPTION' })
})

test('what a mount would refuse before any callback is thrown', async t => {
  let called = false
  const server = bareServer(() => { called = true; return result(toolResult.text('never')) })
  t.throws(() => testExchange(server, 'tools/call', { name: 1, arguments: {} } as never), { code: 'MCP_ERR_INVALID_PARAMS' })
  t.throws(() => testExchange(server, 'no/such' as never, {} as never), { code: 'MCP_ERR_UNSUPPORTED_METHOD' })
  t.throws(() => testExchange({} as never, 'tools/list', {}), { code: 'MCP_ERR_BAD_OPTION' })
  t.equal(called, false)
})

test('trace context of the headers reaches the handler: OTEL-04', async t => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  let seen: string | undefined
  await testExchange(toolServer(({ meta }) => {
    seen = meta.traceparent
    return result(toolResult.text('done'))
  }), 'tools/call', { name: 'any', arguments: {} }, { headers: { traceparent } }).answer
  t.equal(seen, traceparent)
})

test('a handler gets headers, a log that is silent, a sealer, and params of its own', async t => {
  const given = { list: [1] }
  const { answer } = testExchange(bareServer((request, { httpRequest, log, tokens, principal }) => {
    log.child({ a: 1 }).error('nobody hears')
    t.equal(log.level, 'silent')
    t.equal(httpRequest.log, log)
    t.match(httpRequest.headers, { 'mcp-method': 'tools/call', 'mcp-name': 'any', 'x-a': 'b' })
    t.strictSame(tokens.open('purpose', tokens.seal('purpose', 1)), { ok: true, value: 1 })
    t.equal(principal, undefined)
    t.not((request.params as { arguments?: unknown }).arguments, given)
    return result(toolResult.text('done'))
  }), 'tools/call', { name: 'any', arguments: given }, { headers: { 'X-A': 'b' } })
  t.match(await answer, { result: { content: [{ text: 'done' }] } })
})

test('a header is taken until the stream opens, if it is one', async t => {
  const { answer } = testExchange(bareServer(async (_request, channel) => {
    channel.header('x-a', 'b')
    t.throws(() => channel.header('x a', 'b'), { code: 'ERR_INVALID_HTTP_TOKEN' })
    t.throws(() => channel.header('x-a', 'a\nb'), { code: 'ERR_INVALID_CHAR' })
    channel.startStream()
    t.throws(() => channel.header('x-a', 'b'), MCP_ERR_HEAD_SENT)
    await channel.drained()
    return result(toolResult.text('done'))
  }), 'tools/call', params)
  t.match(await answer, { result: { content: [{ text: 'done' }] } })
})
