import { test } from 'tap'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { defineServer, elicitForm, fail, inputRequired, McpError, MCP_ERR_HEAD_SENT, messageType, result, stop, stream, toolResult, type Channel, type JsonObject } from 'fastify-gen-mcp'
import { alarms, bodyOf, eventsOf, gate, NOTHING_HELD, openWire, postCall, postListen, stage, until, within, type Post, type Stage } from '../helpers/sockets.js'
import type { FastifyInstance } from 'fastify'

const IN_PROCESS = { listen: false }
const JSON_ONLY = { headers: { accept: 'application/json' } }
const SSE_ONLY = { headers: { accept: 'text/event-stream' } }
/** A time limit for what would otherwise never be answered. */
const BOUND = { timeout: 20_000 }

/** A server of one tool, which calls this and answers 'done'. */
function tool (call: (channel: Channel, args: JsonObject) => unknown) {
  return defineServer({
    handleRequest: {
      async 'tools/call' ({ params }, channel) {
        await call(channel, params.arguments)
        return result(toolResult.text('done'))
      }
    }
  })
}

async function inject ({ app }: Stage, request: Post) {
  return await app.inject({ method: 'POST', url: '/mcp', ...request })
}

// ---- JSON or SSE

test('an answer with nothing before it is one JSON body', async t => {
  const subject = await stage(t, tool(() => {}), IN_PROCESS)
  const response = await inject(subject, postCall())
  t.equal(response.statusCode, 200)
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  t.equal(response.headers['cache-control'], 'no-store')
  t.match(response.json(), { jsonrpc: '2.0', id: 1, result: { content: [{ text: 'done' }] } })
  t.match(subject.ends, [{ cause: 'result', streamed: false, events: 1, bytes: Buffer.byteLength(response.body), statusCode: 200 }])
  t.same(subject.gauges(), NOTHING_HELD)
})

test('the first notification makes the answer a stream, with the headers that keep caches, compressors and proxies from holding it back: case 025', async t => {
  const subject = await stage(t, tool(channel => {
    t.equal(channel.streaming, false)
    t.equal(channel.sendProgress(1), 'sent')
    t.equal(channel.streaming, true)
  }), IN_PROCESS)
  const response = await inject(subject, postCall())
  t.equal(response.statusCode, 200)
  t.equal(response.headers['content-type'], 'text/event-stream')
  // HTTP-16, HTTP-17
  t.equal(response.headers['x-accel-buffering'], 'no')
  t.equal(response.headers['cache-control'], 'no-cache, no-transform')
  t.equal(response.headers['content-encoding'], undefined)
  t.match(eventsOf(response.body), [
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } },
    { jsonrpc: '2.0', id: 1, result: { content: [{ text: 'done' }] } }
  ])
  t.match(subject.ends, [{ cause: 'result', streamed: true, events: 2, bytes: Buffer.byteLength(response.body), statusCode: 200 }])
  t.same(subject.gauges(), NOTHING_HELD)
})

test('the head of a stream leaves before there is an event, and the stream is open then', async t => {
  const opened = gate()
  const subject = await stage(t, tool(async channel => {
    t.equal(channel.startStream(), true)
    t.equal(channel.startStream(), true, 'once more is no mistake')
    await opened.promise
  }))
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: {} })
  // HTTP-17
  t.match(await call.head, { statusCode: 200, headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' } })
  t.match(subject.gauges(), { exchanges: 1, streams: 1 })
  opened.open()
  t.match(await call.answer, { notifications: [], result: { content: [{ text: 'done' }] } })
})

test('every message is one event of one data line, whatever the text in it', async t => {
  const text = 'a\nb\r\nc\rd\u2028e\u2029f\u0085g\u0000h\ud83d\ude80 "quoted" data: x\n\nevent: evil\n\nid: 7'
  const server = defineServer({
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.sendProgress(1, 2, text)
        return result(toolResult.text(text))
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const { body, rawPayload } = await inject(subject, postCall())
  // HTTP-20
  t.match(body, /^(?:data: [^\n\r]+\n\n){2}$/)
  t.equal(rawPayload.toString('utf8'), body, 'it is UTF-8')
  t.match(eventsOf(body), [{ params: { message: text } }, { result: { content: [{ text }] } }])
  // HTTP-19
  t.notMatch(body, /^(?:id|event|retry):/m)
})

test('nothing follows the answer on a stream (HTTP-15), and what is sent after it is closed', async t => {
  const late: unknown[] = []
  const server = defineServer({
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.sendProgress(1)
        channel.defer(() => {
          late.push(channel.sendProgress(2), channel.sendLog('emergency', 'x'), channel.startStream(), channel.close(), channel.acknowledge(), channel.closed)
        })
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const { body } = await inject(subject, postCall())
  t.match(eventsOf(body), [{ method: 'notifications/progress' }, { result: {} }])
  t.equal(eventsOf(body).length, 2)
  await subject.ended()
  t.same(late, ['closed', 'closed', false, false, 'closed', true])
})

test('a client that takes JSON only gets one JSON body, and notifications are filtered', async t => {
  const subject = await stage(t, tool(channel => {
    t.equal(channel.sendProgress(1), 'filtered')
    t.equal(channel.sendLog('emergency', 'x'), 'filtered')
    t.equal(channel.sendNotification({ extension: 'com.example/x', method: 'notifications/com.example/x' }), 'filtered')
    t.equal(channel.startStream(), false)
    t.equal(channel.streaming, false)
  }), IN_PROCESS)
  const meta = { 'io.modelcontextprotocol/logLevel': 'debug', 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'com.example/x': {} } } }
  const response = await inject(subject, postCall({}, { ...JSON_ONLY, meta }))
  t.match(response.headers['content-type'], /^application\/json/)
  t.match(response.json(), { id: 1, result: { content: [{ text: 'done' }] } })
})

test('a client that takes JSON only gets the answer that comes after messages, as JSON', async t => {
  const server = defineServer({
    messages: messageType<number>(),
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.ref.post(1)
        channel.ref.post(2)
        return stream(0)
      }
    },
    handleMessage: (message, channel, sum) => {
      t.equal(channel.sendProgress(message), 'filtered')
      return message === 2 ? result(toolResult.text(String(sum + message))) : stream(sum + message)
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const response = await inject(subject, postCall({}, JSON_ONLY))
  t.match(response.headers['content-type'], /^application\/json/)
  t.match(response.json(), { id: 1, result: { content: [{ text: '3' }] } })
})

for (const ending of ['stop', 'close'] as const) {
  test(`a client that takes JSON only is told that the server closed its request: ${ending}`, BOUND, async t => {
    const server = defineServer({
      messages: messageType<string>(),
      handleRequest: {
        'tools/call' (_request, channel) {
          channel.ref.post('end')
          return stream({})
        }
      },
      handleMessage: (_message, channel, live) => {
        if (ending === 'stop') return stop('enough')
        channel.close()
        return stream(live)
      }
    })
    const subject = await stage(t, server, IN_PROCESS)
    const response = await inject(subject, postCall({}, JSON_ONLY))
    t.equal(response.statusCode, 200)
    t.match(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Request closed by the server' } })
    t.match(await subject.ended(), [{ cause: ending === 'stop' ? 'stop' : 'closed', streamed: false }])
  })

  test(`on a stream nothing more is sent when the server closes its request: ${ending}`, async t => {
    const server = defineServer({
      messages: messageType<string>(),
      handleRequest: {
        'tools/call' (_request, channel) {
          channel.ref.post('end')
          return stream({})
        }
      },
      handleMessage: (_message, channel, live) => {
        channel.sendProgress(1)
        if (ending === 'stop') return stop('enough')
        channel.close()
        return stream(live)
      }
    })
    const subject = await stage(t, server, IN_PROCESS)
    const { body } = await inject(subject, postCall())
    t.match(eventsOf(body), [{ method: 'notifications/progress' }])
    t.equal(eventsOf(body).length, 1)
  })
}

test('close() before any output is answered -32603, also to a client that takes both', async t => {
  const subject = await stage(t, tool(channel => {
    t.equal(channel.close(), true)
    t.equal(channel.close(), false)
  }), IN_PROCESS)
  const response = await inject(subject, postCall())
  t.equal(response.statusCode, 200)
  t.match(response.json(), { id: 1, error: { code: -32603, message: 'Request closed by the server' } })
})

test('a listen is nothing for a client that takes JSON only: 406', async t => {
  const server = defineServer({ handleRequest: { 'subscriptions/listen': () => t.fail('the server was asked') as never } })
  const subject = await stage(t, server, IN_PROCESS)
  const response = await inject(subject, postListen({ toolsListChanged: true }, JSON_ONLY))
  t.equal(response.statusCode, 406)
  t.match(response.json(), { id: 1, error: { code: -32600 } })
})

test('a client that takes SSE only gets the answer as one event, be it a result or an error with 200', async t => {
  const server = defineServer({
    handleRequest: {
      'tools/call': ({ params }) => params.arguments['fail'] === true ? fail('no luck') : result(toolResult.text('done'))
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  for (const [args, expected] of [[{}, { result: {} }], [{ fail: true }, { error: { code: -32603, message: 'no luck' } }]] as const) {
    const response = await inject(subject, postCall(args, SSE_ONLY))
    t.equal(response.statusCode, 200)
    t.equal(response.headers['content-type'], 'text/event-stream')
    t.match(eventsOf(response.body), [{ id: 1, ...expected }])
    t.equal(eventsOf(response.body).length, 1)
  }
})

test('a status other than 200 is a JSON body also for a client that takes SSE only (HTTP-11)', async t => {
  const server = defineServer({
    handleRequest: {
      'tools/call' ({ params }) {
        if (params.arguments['crash'] === true) throw new Error('secret')
        return fail({ kind: 'missingClientCapability', required: { sampling: {} } })
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const refused = await inject(subject, postCall({}, SSE_ONLY))
  t.equal(refused.statusCode, 400)
  t.match(refused.headers['content-type'], /^application\/json/)
  t.match(refused.json(), { id: 1, error: { code: -32021 } })

  const crashed = await inject(subject, postCall({ crash: true }, SSE_ONLY))
  t.equal(crashed.statusCode, 500)
  t.same(crashed.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
})

test('on an open stream every failure is the last event, and the status stays 200', async t => {
  const server = defineServer({
    handleRequest: {
      'tools/call' ({ params }, channel) {
        channel.startStream()
        if (params.arguments['crash'] === true) throw new Error('secret')
        throw new McpError({ kind: 'missingClientCapability', required: { sampling: {} } })
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  for (const [args, code] of [[{}, -32021], [{ crash: true }, -32603]] as const) {
    const response = await inject(subject, postCall(args))
    t.equal(response.statusCode, 200)
    t.match(eventsOf(response.body), [{ id: 1, error: { code } }])
    t.notMatch(response.body, /secret/)
  }
})

test('a result that is no JSON is a crash, on a stream too, and nothing half of it is written', async t => {
  const server = defineServer({
    handleRequest: {
      'tools/call' ({ params }, channel) {
        if (params.arguments['stream'] === true) channel.startStream()
        // A result that its author got past the compiler.
        return result({ content: [], structuredContent: 1n } as unknown as ReturnType<typeof toolResult.text>)
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const response = await inject(subject, postCall())
  t.equal(response.statusCode, 500)
  t.same(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  const streamed = await inject(subject, postCall({ stream: true }))
  t.same(eventsOf(streamed.body), [{ jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } }])
  t.match(subject.ends, [{ cause: 'crash' }, { cause: 'crash' }])
})

test('a notification that is no JSON is logged and filtered, and the request goes on', async t => {
  const server = defineServer({
    handleRequest: {
      'tools/call' (_request, channel) {
        // Params that their author got past the compiler.
        const params = { n: 1n } as unknown as JsonObject
        t.equal(channel.sendNotification({ extension: 'com.example/x', method: 'notifications/com.example/x', params }), 'filtered')
        return result(toolResult.text('done'))
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const response = await inject(subject, postCall({}, { meta: { 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'com.example/x': {} } } } }))
  // What came to nothing does not make the answer a stream.
  t.match(response.json(), { id: 1, result: { content: [{ text: 'done' }] } })
  t.equal(alarms(subject.lines).length, 1)
  t.match(JSON.stringify(alarms(subject.lines)), /BigInt/)
})

test('an accepted notification is 202 with no body', async t => {
  const subject = await stage(t, tool(() => {}), IN_PROCESS)
  const response = await subject.app.inject({
    method: 'POST',
    url: '/mcp',
    headers: { 'content-type': 'application/json' },
    payload: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  })
  t.equal(response.statusCode, 202)
  t.equal(response.body, '')
})

test('a stream holds what concerns its own request, and no change of the server\'s or progress of another one', async t => {
  const both = gate()
  let running = 0
  const server = defineServer({
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
    info: { name: 'server', version: '1' },
    handleRequest: {
      async 'tools/call' ({ id }, channel) {
        if (++running === 2) both.open()
        await both.promise
        for (let n = 1; n <= 3; n++) {
          channel.sendProgress(n)
          t.equal(channel.sendNotification({ method: 'notifications/tools/list_changed' }), 'notSubscribed')
          t.equal(channel.sendNotification({ method: 'notifications/resources/updated', params: { uri: 'x:y' } }), 'notSubscribed')
          await new Promise(resolve => setImmediate(resolve))
        }
        return result(toolResult.text(String(id)))
      }
    }
  })
  const subject = await stage(t, server, IN_PROCESS)
  const responses = await Promise.all(['a', 'b'].map(async id => await inject(subject, postCall({}, { id, meta: { progressToken: `of ${id}` } }))))
  for (const [index, id] of ['a', 'b'].entries()) {
    const events = eventsOf(responses[index]?.body ?? '')
    // HTTP-13
    t.same(events.map(({ method, params }) => [method, (params as JsonObject | undefined)?.['progressToken']]), [
      ...Array.from({ length: 3 }, () => ['notifications/progress', `of ${id}`]), [undefined, undefined]
    ])
    t.match(events.at(-1), { id, result: { content: [{ text: id }] } })
  }
})

test('a server that asks its client on an open stream does so in its answer, and sends no request (HTTP-14, RPC-09)', async t => {
  const server = defineServer({
    handleRequest: {
      'tools/call' (_request, channel) {
        channel.sendProgress(1)
        return inputRequired({ sure: elicitForm('Sure?', { type: 'object', properties: { sure: { type: 'boolean' } } }) })
      }
    }
  })
  const subject = await stage(t, server, { ...IN_PROCESS, secrets: ['x'.repeat(32)] })
  const { body } = await inject(subject, postCall({}, { meta: { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } } }))
  const events = eventsOf(body)
  t.match(events.at(-1), { id: 1, result: { resultType: 'input_required', inputRequests: { sure: { method: 'elicitation/create' } } } })
  t.same(events.filter(message => 'method' in message && 'id' in message), [])
})

// ---- headers of an author

test('a header of the author is on the response until its head has left; then it is refused: case 081', async t => {
  const subject = await stage(t, tool((channel, args) => {
    channel.header('x-cost', '1')
    t.throws(() => { channel.header('x cost', '1') }, TypeError)
    t.throws(() => { channel.header('x-cost', '1\r\nx-evil: 1') }, TypeError)
    if (args['stream'] !== true) return
    channel.sendProgress(1)
    t.throws(() => { channel.header('x-late', '1') }, new MCP_ERR_HEAD_SENT('x-late'))
  }), IN_PROCESS)
  for (const args of [{}, { stream: true }]) {
    const { headers, statusCode } = await inject(subject, postCall(args))
    t.equal(statusCode, 200)
    t.match(headers, { 'x-cost': '1' })
    t.notOk('x-late' in headers || 'x-evil' in headers)
  }
})

// ---- silence

test('a call that is silent for longer than streamAfter becomes a stream, and its errors are events then', async t => {
  const silence = gate()
  const subject = await stage(t, tool(async () => {
    await silence.promise
    throw new McpError({ kind: 'missingClientCapability', required: { sampling: {} } })
  }), { streamAfter: 30 })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const call = await client.open('tools/call', { name: 'tool', arguments: {} })
  // Nothing but the timer makes the head come.
  t.match(await call.head, { statusCode: 200, headers: { 'content-type': 'text/event-stream' } })
  silence.open()
  t.match(await call.answer, { statusCode: 200, error: { code: -32021 } })
})

test('with streamAfter 0, and for a client that takes JSON only, a silent call stays JSON', async t => {
  for (const [options, request] of [[{ streamAfter: 0 }, {}], [{ streamAfter: 10 }, JSON_ONLY]] as const) {
    const subject = await stage(t, tool(async channel => {
      await new Promise(resolve => setTimeout(resolve, 100))
      t.equal(channel.streaming, false)
    }), { ...IN_PROCESS, ...options })
    const pending = inject(subject, postCall({}, request))
    t.match((await pending).headers['content-type'], /^application\/json/)
  }
})

test('a silent call that is answered in time leaves no timer behind', async t => {
  const silence = gate()
  const subject = await stage(t, tool(async () => { await silence.promise }), IN_PROCESS)
  const pending = inject(subject, postCall())
  await until(() => subject.gauges().timers === 1)
  silence.open()
  await pending
  t.same(subject.gauges(), NOTHING_HELD)
})

test('a quiet stream is kept alive by comments, which are no events and stop with the stream: cases 019, 023', async t => {
  const server = defineServer({
    messages: messageType<'end'>(),
    handleRequest: { 'subscriptions/listen': (_request, channel) => { channel.defer(() => { deferred.open() }); return stream(channel) } },
    handleMessage: () => stop()
  })
  const deferred = gate()
  const subject = await stage(t, server, { keepAlive: 20 })
  const client = createTestClient(subject.app)
  t.teardown(async () => await client.close())
  const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  // HTTP-18, SUB-15
  await until(() => listen.comments >= 4)
  t.match(subject.gauges(), { streams: 1, listens: 1, timers: 1 })
  await subject.app.close()
  const { notifications, result: ending } = await listen.answer
  t.equal(notifications.length, 1, 'the acknowledgement and no other event')
  t.match(ending, { resultType: 'complete' })
  await deferred.promise
  t.same(subject.gauges(), NOTHING_HELD)
  t.same(alarms(subject.lines), [])
})

test('a comment on the wire is a colon and a blank line', async t => {
  const server = defineServer({ handleRequest: { 'subscriptions/listen': () => stream({}) } })
  const subject = await stage(t, server, { keepAlive: 20 })
  const wire = await openWire(t, subject.port)
  wire.send(postListen())
  const text = await wire.received('\r\n:\n\n\r\n')
  t.match(text, /\n\n\r\n3\r\n:\n\n\r\n/, 'a chunk of its own')
})

test('with keepAlive 0 a stream has no timer', async t => {
  const subject = await stage(t, tool(channel => {
    channel.startStream()
    t.match(subject.gauges(), { streams: 0, timers: 0 })
  }), { ...IN_PROCESS, keepAlive: 0 })
  const { body } = await inject(subject, postCall())
  t.equal(eventsOf(body).length, 1)
  t.notMatch(body, /^:/m)
})

test('events put the next comment off', async t => {
  const subject = await stage(t, tool(async channel => {
    for (let beat = 1; beat <= 30; beat++) {
      channel.sendProgress(beat)
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  }), { ...IN_PROCESS, keepAlive: 1000 })
  const { body } = await inject(subject, postCall())
  t.equal(eventsOf(body).length, 31)
  t.notMatch(body, /^:/m)
})

// ---- writes

test('events that are sent in one tick leave in one write', async t => {
  const writes: string[] = []
  const subject = await stage(t, tool(async channel => {
    for (let n = 1; n <= 100; n++) channel.sendProgress(n)
    await new Promise(resolve => setImmediate(resolve))
    channel.sendProgress(101)
    channel.sendProgress(102)
    await new Promise(resolve => setImmediate(resolve))
  }), {
    ...IN_PROCESS,
    before (app) {
      app.addHook('onRequest', async (_request, { raw }) => {
        const write = raw.write.bind(raw) as (chunk: string) => boolean
        raw.write = (chunk: string) => {
          writes.push(chunk)
          return write(chunk)
        }
      })
    }
  })
  const { body } = await inject(subject, postCall())
  t.same(writes.slice(0, 2).map(chunk => eventsOf(chunk).length), [100, 2], 'the last one is the answer')
  t.equal(eventsOf(body).length, 103)
})

test('events that are sent while a hook still works on the head wait for it, in order', async t => {
  const head = gate()
  const subject = await stage(t, tool(async channel => {
    channel.sendProgress(1)
    t.equal(channel.streaming, true)
    channel.sendProgress(2)
    await new Promise(resolve => setImmediate(resolve))
    channel.sendProgress(3)
    head.open()
  }), {
    ...IN_PROCESS,
    before (app) {
      app.addHook('onSend', async (_request, reply) => {
        await head.promise
        reply.header('x-late', 'still in time')
      })
    }
  })
  const { body, headers } = await inject(subject, postCall())
  t.equal(headers['x-late'], 'still in time')
  t.match(eventsOf(body), [{ params: { progress: 1 } }, { params: { progress: 2 } }, { params: { progress: 3 } }, { result: {} }])
})

test('a stream whose answer was there before its head has left is whole', async t => {
  const subject = await stage(t, tool(channel => { channel.sendProgress(1) }), {
    ...IN_PROCESS,
    before (app) { app.addHook('onSend', async () => { await new Promise(resolve => setImmediate(resolve)) }) }
  })
  const { body } = await inject(subject, postCall())
  t.match(eventsOf(body), [{ params: { progress: 1 } }, { result: {} }])
  t.match(await subject.ended(), [{ cause: 'result', streamed: true, events: 2, bytes: Buffer.byteLength(body) }])
})

test('nobody waits for drained() where nothing is unsent: before a stream, for JSON only, on a stream with little on it, after the end', async t => {
  let after: Promise<void> | undefined
  const subject = await stage(t, tool(async channel => {
    await channel.drained()
    channel.sendProgress(1)
    await channel.drained()
    channel.defer(() => { after = channel.drained() })
  }), IN_PROCESS)
  t.equal((await inject(subject, postCall())).statusCode, 200)
  await after
  t.equal((await inject(subject, postCall({}, JSON_ONLY))).statusCode, 200)
})

/** Sends more than a socket holds back at a time, and waits for it each time. */
const diligent = tool(async channel => {
  for (let n = 1; n <= 20; n++) {
    channel.sendProgress(n, undefined, 'x'.repeat(20_000))
    await channel.drained()
  }
})

test('nobody waits for drained() in vain where there is no socket', BOUND, async t => {
  const subject = await stage(t, diligent, { ...IN_PROCESS, limits: { drain: 100 } })
  const { body } = await within(inject(subject, postCall()), 'the response')
  t.equal(eventsOf(body).length, 21)
})

test('nobody waits for drained() in vain where the system takes all at once', BOUND, async t => {
  const subject = await stage(t, diligent, { limits: { drain: 100 } })
  // HTTP/1.0 has no chunks, and Node writes what it is given in the same turn.
  const wire = await openWire(t, subject.port)
  const { headers, payload } = postCall()
  const lines = Object.entries({ ...headers, 'content-length': String(payload.length) }).map(([name, value]) => `${name}: ${value}\r\n`)
  wire.socket.write(`POST /mcp HTTP/1.0\r\n${lines.join('')}\r\n${payload}`)
  await within(wire.closed, 'the end of the response')
  t.equal(eventsOf(bodyOf(wire.text)).length, 21)
})

// ---- hooks that fail a stream

/** Fails the first time: the answer that tells of the failure must get through. */
const failingHooks: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
  rejects (app) {
    let runs = 0
    app.addHook('onSend', async () => {
      if (runs++ === 0) throw brokenHook()
    })
  },
  'calls back with an error later' (app) {
    let runs = 0
    app.addHook('onSend', (_request, _reply, _payload, done) => { setImmediate(() => { runs++ === 0 ? done(brokenHook()) : done() }) })
  },
  'calls back with an error at once' (app) {
    let runs = 0
    app.addHook('onSend', (_request, _reply, _payload, done) => { runs++ === 0 ? done(brokenHook()) : done() })
  }
}

function brokenHook (): Error {
  return Object.assign(new Error('the hook broke'), { statusCode: 503 })
}

for (const [how, before] of Object.entries(failingHooks)) {
  test(`an onSend hook that ${how} makes the stream a JSON error and its exchange a crash, which is logged once`, BOUND, async t => {
    const closes: unknown[] = []
    const server = defineServer({
      messages: messageType<never>(),
      handleRequest: {
        'tools/call' (_request, channel) {
          channel.sendProgress(1)
          // Whatever has become of the stream, a send does not throw.
          channel.sendLog('emergency', 'x')
          return stream('live')
        }
      },
      handleClose: (_context, live, reason) => { closes.push([live, reason]) }
    })
    const subject = await stage(t, server, { before, limits: { drain: 100 } })
    const wire = await openWire(t, subject.port)
    wire.send(postCall({}, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }))
    const text = await wire.received('"error"')
    t.match(text, /^HTTP\/1\.1 503 /)
    t.match(text, /\r\ncontent-type: application\/json/)
    t.equal(text.slice(text.indexOf('\r\n\r\n') + 4), '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}')
    t.match(await subject.ended(), [{ cause: 'crash', reason: { message: 'the hook broke' }, streamed: false }])
    t.same(closes, [['live', 'crash']])
    t.same(subject.gauges(), NOTHING_HELD)
    t.match(alarms(subject.lines), [{ err: { message: 'the hook broke' } }])
    t.equal(alarms(subject.lines).length, 1)
  })
}

test('an onSend hook that fails after the answer leaves the exchange answered, and tells the client of a failure', BOUND, async t => {
  let failures = 0
  const subject = await stage(t, tool(channel => { channel.sendProgress(1) }), {
    ...IN_PROCESS,
    before (app) {
      app.addHook('onSend', async (_request, _reply, payload) => {
        if (failures++ > 0) return payload
        await new Promise(resolve => setImmediate(resolve))
        throw new Error('the hook broke')
      })
    }
  })
  const response = await inject(subject, postCall())
  t.equal(response.statusCode, 500)
  t.same(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.match(await subject.ended(), [{ cause: 'result' }])
  t.equal(alarms(subject.lines).length, 1)
})
