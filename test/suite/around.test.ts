import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import {
  busSubscriptions, createSuite, definePrompt, defineResources, defineTool, elicitForm, fail, getPromptResult, inputRequired, McpError, messageType,
  readResourceResult, stream, toolResult, type CallToolResult, type ExchangeEnd, type GenMcpOptions, type JsonObject, type McpResult, type Middleware,
  type SuiteOptions, type ToolProvider
} from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { createDeferred } from '../../lib/deferred.js'
import { call, mount } from '../helpers/mount.js'
import { messagesOf } from '../helpers/messages.js'
import { info } from '../helpers/servers.js'
import { take } from '../helpers/stream.js'

const MASKED = { isError: true, content: [{ type: 'text', text: 'The tool failed.' }] }
const echo = defineTool({ name: 'echo', input: Type.Object({ text: Type.String() }), call: ({ text }) => toolResult.text(text) })

interface Options extends Omit<Partial<GenMcpOptions>, 'server'> { readonly suite?: Partial<SuiteOptions> }

/** A client of a Suite with tools and middleware, what the log was told, and how exchanges ended. */
async function around (t: Test, middleware: readonly Middleware[], tools: readonly ToolProvider[], { suite = {}, ...options }: Options = {}) {
  const lines: JsonObject[] = []
  const ends: ExchangeEnd[] = []
  const ended = createDeferred<ExchangeEnd>()
  const app = await mount(t, {
    ...options,
    server: createSuite({ info, middleware, tools, ...suite }),
    onEnd: end => {
      ends.push(end)
      ended.resolve(end)
    }
  }, { logger: { level: 'error', stream: { write: (line: string) => { lines.push(JSON.parse(line) as JsonObject) } } } })
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  return { app, client, lines, ends, whenEnded: ended.promise, callTool: async (name: string, args: JsonObject = {}) => await client.request('tools/call', { name, arguments: args }) }
}

/** A tool that streams: its first message is its answer. */
function createStreaming<Answer extends CallToolResult> (answer: () => Answer | ReturnType<typeof fail> | ReturnType<typeof inputRequired>) {
  const closed: string[] = []
  const tool = defineTool({
    name: 'streaming',
    messages: messageType<'answer' | 'nothing'>(),
    call: (_args, channel) => {
      channel.ref.post('nothing')
      channel.ref.post('answer')
      return stream('live')
    },
    handleMessage: message => message === 'answer' ? answer() : stream('live'),
    handleClose: (_context, live, reason) => { closed.push(`${live} ${reason}`) }
  })
  return { tool, closed }
}

/** A tool that streams and never answers by itself. */
function createSilent () {
  const closed: string[] = []
  const tool = defineTool({
    name: 'silent',
    call: (_args, channel) => {
      channel.sendProgress(1)
      return stream('live')
    },
    handleClose: (_context, _live, reason) => { closed.push(reason) }
  })
  return { tool, closed }
}

// ---- order

test('the first middleware is outermost, and each sees the request, the channel and the result: case 091', async t => {
  const seen: unknown[] = []
  const record = (name: string): Middleware => async (request, channel, next) => {
    seen.push([`${name} in`, request.method, (request.params as { name?: string }).name, channel.principal, channel.signal.aborted])
    const value = await next()
    seen.push([`${name} out`, value])
    return value
  }
  const tool = defineTool({
    name: 'tool',
    call: () => {
      seen.push(['call'])
      return toolResult.text('done')
    }
  })
  const { callTool } = await around(t, [record('a'), record('b'), record('c')], [tool], { principal: () => 'ada' })
  t.match((await callTool('tool')).result, { content: [{ text: 'done' }] })
  const entered = ['tools/call', 'tool', 'ada', false]
  const out = toolResult.text('done')
  t.strictSame(seen, [['a in', ...entered], ['b in', ...entered], ['c in', ...entered], ['call'], ['c out', out], ['b out', out], ['a out', out]])
})

test('middleware is around every method but a listen: case 091', async t => {
  const seen: string[] = []
  const record: Middleware = async ({ method }, _channel, next) => {
    seen.push(method)
    return await next()
  }
  const notes = defineResources({ template: { uriTemplate: 'notes://{id}', name: 'note' }, read: ({ uri }) => readResourceResult({ uri, text: '' }), complete: { id: () => [] } })
  const prompt = definePrompt({ name: 'prompt', get: () => getPromptResult([]) })
  const { client } = await around(t, [record], [echo], { suite: { resources: [notes], prompts: [prompt], subscriptions: busSubscriptions() } })
  await client.request('tools/list', {})
  await client.request('tools/call', { name: 'echo', arguments: { text: '' } })
  await client.request('resources/list', {})
  await client.request('resources/templates/list', {})
  await client.request('resources/read', { uri: 'notes://1' })
  await client.request('prompts/list', {})
  await client.request('prompts/get', { name: 'prompt', arguments: {} })
  await client.request('completion/complete', { ref: { type: 'ref/prompt', name: 'prompt' }, argument: { name: 'x', value: '' }, context: { arguments: {} } })
  const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  await take(listen, 1)
  t.strictSame(seen, [
    'tools/list', 'tools/call', 'resources/list', 'resources/templates/list', 'resources/read', 'prompts/list', 'prompts/get', 'completion/complete'
  ])
})

test('what is not there, and what the headers contradict, does not reach middleware; bad arguments do', async t => {
  let calls = 0
  const count: Middleware = async (_request, _channel, next) => {
    calls++
    return await next()
  }
  const routed = defineTool({ name: 'routed', input: Type.Object({ region: Type.String({ 'x-mcp-header': 'Region' }) }), call: () => toolResult.text('') })
  const { callTool } = await around(t, [count], [echo, routed])
  t.match((await callTool('nothing')).error, { code: -32602 })
  t.match((await callTool('routed', { region: 'eu' })).error, { code: -32020 })
  t.equal(calls, 0)
  t.match((await callTool('echo', { text: 1 })).result, { isError: true, content: [{ text: /The arguments do not fit/ }] })
  t.equal(calls, 1)
})

// ---- what middleware makes of a result

test('middleware may answer itself, and what is inside does not run: case 091', async t => {
  let calls = 0
  const tool = defineTool({
    name: 'tool',
    call: () => {
      calls++
      return toolResult.text('the tool')
    }
  })
  const { callTool } = await around(t, [() => toolResult.text('cached'), () => { throw new Error('never asked') }], [tool])
  t.match((await callTool('tool')).result, { content: [{ text: 'cached' }] })
  t.equal(calls, 0)
})

test('middleware may answer something else', async t => {
  const upper: Middleware = async (_request, _channel, next) => ({ ...await next(), content: [{ type: 'text', text: 'REDACTED' }] }) as McpResult
  const { callTool } = await around(t, [upper], [echo])
  t.match((await callTool('echo', { text: 'secret' })).result, { content: [{ text: 'REDACTED' }], resultType: 'complete' })
})

test('next that is called twice is the same call', async t => {
  let calls = 0
  const tool = defineTool({ name: 'tool', call: () => toolResult.data(++calls) })
  const twice: Middleware = async (_request, _channel, next) => {
    const [first, second] = await Promise.all([next(), next()])
    t.equal(first, second)
    return await next()
  }
  const { callTool } = await around(t, [twice], [tool])
  t.match((await callTool('tool')).result, { structuredContent: 1 })
  t.equal(calls, 1)
})

test('middleware that does not wait for what it called answers for itself', async t => {
  const hasty: Middleware = (_request, _channel, next) => {
    next().catch(() => {})
    return toolResult.text('hasty')
  }
  const { tool: streaming, closed } = createStreaming(() => toolResult.text('late'))
  const { callTool, ends } = await around(t, [hasty], [echo, streaming])
  t.match((await callTool('echo', { text: '' })).result, { content: [{ text: 'hasty' }] })
  t.match((await callTool('streaming')).result, { content: [{ text: 'hasty' }] })
  t.strictSame(ends.map(({ cause }) => cause), ['result', 'result'])
  t.strictSame(closed, [])
})

test('what is no result is a crash, with a question to the client inside or without', async t => {
  const asking = defineTool({ name: 'asking', call: () => inputRequired({}) })
  for (const given of [undefined, null, 'text', fail('no result')]) {
    const forgetful: Middleware = async (_request, _channel, next) => {
      await next()
      return given as never
    }
    const { callTool, lines } = await around(t, [forgetful], [echo, asking])
    for (const name of ['echo', 'asking']) t.match(await callTool(name, { text: '' }), { statusCode: 500, error: { code: -32603, message: 'Internal error' } })
    t.match(lines, [{ err: { code: 'MCP_ERR_BAD_RETURN' } }, { err: { code: 'MCP_ERR_BAD_RETURN' } }])
  }
})

test('what middleware answers is held to what the method answers: TOOL-03, TOOL-20, PRM-07, RES-05', async t => {
  const notes = defineResources({ prefix: 'notes://', read: ({ uri }) => readResourceResult({ uri, text: 'note' }) })
  const prompt = definePrompt({ name: 'prompt', get: () => getPromptResult([{ role: 'user', content: 'Hi' }]) })
  const bad = [
    {}, { resultType: 'complete' }, { content: 'text', tools: {}, contents: {}, messages: 'x', resources: 5, prompts: 5 },
    // RES-09, PRM-08, TOOL-22
    { content: [{ type: 'image', data: 'AP-_', mimeType: 'image/png' }], contents: [], messages: [{ role: 'user', content: { type: 'image', data: 'AP-_', mimeType: 'image/png' } }] }
  ]
  for (const given of bad) {
    const { client, lines } = await around(t, [() => given as unknown as McpResult], [echo], { suite: { resources: [notes], prompts: [prompt] } })
    const answers = [
      await client.request('tools/list', {}), await client.request('tools/call', { name: 'echo', arguments: { text: '' } }), await client.request('resources/list', {}),
      await client.request('resources/templates/list', {}), await client.request('resources/read', { uri: 'notes://1' }), await client.request('prompts/list', {}),
      await client.request('prompts/get', { name: 'prompt', arguments: {} })
    ]
    for (const answer of answers) t.match(answer, { statusCode: 500, error: { code: -32603, message: 'Internal error' } }, JSON.stringify(given))
    t.match(lines, answers.map(() => ({ err: { code: 'MCP_ERR_BAD_RETURN', message: /^A middleware returned / } })))
  }
  const changed: Middleware = async (_request, _channel, next) => Object.assign(await next(), { content: 'text' })
  t.match(await (await around(t, [changed], [echo])).callTool('echo', { text: '' }), { statusCode: 500, error: { code: -32603 } }, 'in its place too')
  // What the builders would add may be left out.
  const plain = { content: [], tools: [], contents: [{ uri: 'notes://1', text: '' }] }
  const { client } = await around(t, [() => plain as unknown as McpResult], [echo], { suite: { resources: [notes] } })
  t.match(await client.request('tools/call', { name: 'echo', arguments: { text: '' } }), { result: { content: [], resultType: 'complete' } })
  t.match(await client.request('tools/list', {}), { result: { tools: [], cacheScope: 'private', ttlMs: 0 } })
  t.match(await client.request('resources/read', { uri: 'notes://1' }), { result: { contents: [{ text: '' }], cacheScope: 'private', ttlMs: 0 } })
})

test('what middleware makes of a tool\'s result keeps the promise of its output: TOOL-26, TOOL-27', async t => {
  const sum = defineTool({ name: 'sum', output: Type.Object({ sum: Type.Number() }), call: () => toolResult.data({ sum: 3 }) })
  const answers: readonly (readonly [McpResult, boolean])[] = [
    [toolResult.data({ sum: 4 }), false], [toolResult.error('Sold out'), false], [toolResult.data({ sum: 'secret' }), true], [toolResult.text('secret'), true]
  ]
  for (const [given, broken] of answers) {
    const { callTool, lines } = await around(t, [() => given], [sum])
    const { statusCode, result } = await callTool('sum')
    t.equal(statusCode, 200)
    if (broken) t.match(result, { isError: true, content: [{ text: 'The tool failed: its result is not what it promises.' }] })
    else t.match(result, given)
    t.equal(lines.length, broken ? 1 : 0)
    t.notMatch(JSON.stringify(result), 'secret')
  }
})

test('a result of an extension goes to a client that declared what the Suite declares, and to no other: EXT-03', async t => {
  const TASKS = 'io.modelcontextprotocol/tasks'
  const task = { resultType: 'task', task: { taskId: 'secret' } } as unknown as McpResult
  const send = async (extensions: Readonly<Record<string, JsonObject>>, capabilities: JsonObject) => {
    const { client } = await around(t, [() => task], [echo], { suite: { capabilities: { extensions } } })
    return await client.request('tools/call', { name: 'echo', arguments: { text: '' } }, { capabilities })
  }
  const declared = { extensions: { [TASKS]: {} } }
  const others = [{}, { sampling: {} }, { extensions: {} }, { extensions: { 'com.example/other': {} } }, { extensions: { [TASKS]: true } }]
  for (const [extensions, capabilities] of [...others.map(other => [{ [TASKS]: {} }, other] as const), [{}, declared], [{ 'com.example/other': {} }, declared]] as const) {
    const answer = await send(extensions, capabilities)
    t.match(answer, { statusCode: 500, error: { code: -32603, message: 'Internal error' } }, JSON.stringify([extensions, capabilities]))
    t.notMatch(JSON.stringify(answer), 'secret')
  }
  t.match((await send({ [TASKS]: {} }, declared)).result, task)
})

// ---- errors

test('middleware that throws at a tool is masked like the tool, and what is outside still sees the end: case 091', async t => {
  const seen: unknown[] = []
  const outer: Middleware = async (_request, _channel, next) => {
    try {
      return await next()
    } catch (error) {
      seen.push((error as Error).message)
      throw error
    }
  }
  const { callTool, lines } = await around(t, [outer, () => { throw new Error('secret') }], [echo])
  const answer = await callTool('echo', { text: '' })
  t.match(answer.result, MASKED)
  t.notMatch(JSON.stringify(answer), /secret/)
  t.strictSame(seen, ['secret'])
  t.match(lines, [{ err: { message: 'secret' }, mcp: { middleware: true }, msg: 'a middleware threw' }])
  t.equal(lines.length, 1)
})

test('middleware that throws at another method is a crash', async t => {
  const { app, lines } = await around(t, [() => { throw new Error('secret') }], [echo])
  const response = await call(app, 'tools/list')
  t.equal(response.statusCode, 500)
  t.match(response.json(), { error: { code: -32603, message: 'Internal error' } })
  t.match(lines, [{ err: { message: 'secret' } }])
})

test('an McpError of middleware is the answer', async t => {
  const quota: Middleware = () => { throw new McpError({ kind: 'custom', rpcCode: 429, message: 'Slow down', statusCode: 429 }) }
  const { callTool } = await around(t, [quota], [echo])
  t.match(await callTool('echo', { text: '' }), { statusCode: 429, error: { code: 429, message: 'Slow down' } })
})

test('next rejects with the McpError of what is inside, which middleware may turn into a result', async t => {
  const seen: unknown[] = []
  const gentle: Middleware = async ({ params }, _channel, next) => {
    try {
      return await next()
    } catch (error) {
      if (!(error instanceof McpError)) throw error
      seen.push(error.code)
      if ((params as { name: string }).name === 'throwing') return toolResult.error('gently')
      throw error
    }
  }
  const failing = defineTool({ name: 'failing', call: () => fail('no') })
  const throwing = defineTool({ name: 'throwing', call: () => { throw new McpError({ kind: 'internal', message: 'no' }) } })
  const { callTool } = await around(t, [gentle], [failing, throwing])
  t.match((await callTool('failing')).error, { code: -32603, message: 'no' })
  t.match((await callTool('throwing')).result, { isError: true, content: [{ text: 'gently' }] })
  t.strictSame(seen, ['MCP_ERR_INTERNAL', 'MCP_ERR_INTERNAL'])
})

test('a tool that returns what it must not is a crash, with middleware as without', async t => {
  const passing: Middleware = async (_request, _channel, next) => await next()
  const bad = defineTool({ name: 'bad', call: () => 'text' as never })
  for (const middleware of [[], [passing]]) {
    const { callTool, lines } = await around(t, middleware, [bad])
    t.match(await callTool('bad'), { statusCode: 500, error: { code: -32603, message: 'Internal error' } })
    t.match(lines, [{ err: { code: 'MCP_ERR_BAD_RETURN' } }])
  }
})

// ---- questions to the client

test('middleware sees a question to the client as a result, which goes out as it was asked', async t => {
  const seen: unknown[] = []
  const watch: Middleware = async (_request, _channel, next) => {
    const value = await next()
    seen.push(value.resultType)
    return value
  }
  const questions = { name: elicitForm('Your name?', Type.Object({ name: Type.String() })) }
  const asking = defineTool({
    name: 'asking',
    call: (_args, channel) => {
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions, 'state')
      return toolResult.text(`${answers.name.action} ${channel.requestState(Type.String())}`)
    }
  })
  const { client } = await around(t, [watch, watch], [asking])
  const options = { capabilities: { elicitation: {} }, respond: () => ({ action: 'accept', content: { name: 'Ada' } }) }
  t.match((await client.request('tools/call', { name: 'asking', arguments: {} }, options)).result, { content: [{ text: 'accept state' }] })
  t.strictSame(seen, ['input_required', 'input_required', 'complete', 'complete'])
})

test('middleware may answer instead of a question to the client', async t => {
  const asking = defineTool({ name: 'asking', call: () => inputRequired({ name: elicitForm('Your name?', Type.Object({ name: Type.String() })) }) })
  const instead: Middleware = async (_request, _channel, next) => {
    const { resultType } = await next()
    return toolResult.text(`not ${resultType}`)
  }
  const { callTool } = await around(t, [instead], [asking])
  t.match((await callTool('asking')).result, { content: [{ text: 'not input_required' }] })
})

// ---- streams

test('next resolves with the final result of a tool that streams', async t => {
  const seen: unknown[] = []
  const watch: Middleware = async (_request, _channel, next) => {
    const value = await next() as CallToolResult
    seen.push(value.structuredContent)
    return toolResult.data({ wrapped: value.structuredContent })
  }
  const { tool, closed } = createStreaming(() => toolResult.data(7))
  const { callTool, ends } = await around(t, [watch], [tool])
  t.match((await callTool('streaming')).result, { structuredContent: { wrapped: 7 } })
  t.strictSame(seen, [7])
  t.strictSame(closed, [])
  t.strictSame(ends.map(({ cause }) => cause), ['result'])
})

test('next rejects with the error of a tool that streams, and middleware may throw after it', async t => {
  const seen: unknown[] = []
  const watch: Middleware = async (_request, _channel, next) => await next().catch((error: unknown) => {
    seen.push((error as McpError).code)
    throw error
  })
  const { tool } = createStreaming(() => fail('no'))
  const { callTool } = await around(t, [watch], [tool])
  t.match((await callTool('streaming')).error, { code: -32603, message: 'no' })
  t.strictSame(seen, ['MCP_ERR_INTERNAL'])

  const late: Middleware = async (_request, _channel, next) => {
    await next()
    throw new Error('secret')
  }
  const { tool: fine } = createStreaming(() => toolResult.text('fine'))
  const { callTool: again, lines } = await around(t, [late], [fine])
  t.match((await again('streaming')).result, MASKED)
  t.match(lines, [{ err: { message: 'secret' }, mcp: { middleware: true } }])
})

test('a question to the client that ends a stream passes through middleware', async t => {
  const passing: Middleware = async (_request, _channel, next) => await next()
  const { tool } = createStreaming(() => inputRequired({}, 'state'))
  const { callTool } = await around(t, [passing], [tool])
  t.match((await callTool('streaming')).result, { resultType: 'input_required' })
})

test('a tool that streams and returns what it must not is a crash, with middleware around it too', async t => {
  const passing: Middleware = async (_request, _channel, next) => await next()
  const { tool } = createStreaming(() => 'text' as never)
  const { callTool, lines } = await around(t, [passing], [tool])
  t.match((await callTool('streaming')).error, { code: -32603, message: 'Internal error' })
  t.match(lines, [{ err: { code: 'MCP_ERR_BAD_RETURN' } }])
})

test('messages that come after the answer of a tool are dropped while middleware has its say', async t => {
  const handled: number[] = []
  const go = createDeferred<undefined>()
  const slow: Middleware = async (_request, channel, next) => {
    const value = await next()
    for (const message of [3, 4]) channel.ref.post(message as never)
    await go.promise
    return value
  }
  const tool = defineTool({
    name: 'tool',
    messages: messageType<number>(),
    call: (_args, channel) => {
      for (const message of [1, 2]) channel.ref.post(message)
      return stream(undefined)
    },
    handleMessage: message => {
      handled.push(message)
      setImmediate(() => { go.resolve(undefined) })
      return toolResult.text('done')
    }
  })
  const { callTool } = await around(t, [slow], [tool])
  t.match((await callTool('tool')).result, { content: [{ text: 'done' }] })
  t.strictSame(handled, [1])
})

test('what middleware says in the end is not lost in a full mailbox', async t => {
  for (const onOverflow of ['dropNewest', 'dropOldest'] as const) {
    const early: Middleware = async (_request, channel, next) => {
      // The stream is open, and the mailbox is full when this answers.
      const answer = new Promise<McpResult>(resolve => {
        setImmediate(() => {
          channel.ref.post('flood' as never)
          resolve(toolResult.text('early'))
          queueMicrotask(() => { for (let i = 0; i < 5; i++) channel.ref.post('flood' as never) })
        })
      })
      next().catch(() => {})
      return await answer
    }
    const blocked = createDeferred<undefined>()
    const tool = defineTool({
      name: 'tool',
      messages: messageType<'flood'>(),
      call: (_args, channel) => {
        channel.ref.post('flood')
        setImmediate(() => { setImmediate(() => { blocked.resolve(undefined) }) })
        return stream('live')
      },
      handleMessage: async (_message, _channel, live) => {
        await blocked.promise
        return stream(live)
      }
    })
    const { callTool } = await around(t, [early], [tool], { limits: { mailbox: 1, onOverflow, maxDuration: 5000 } })
    t.match((await callTool('tool')).result, { content: [{ text: 'early' }] }, onOverflow)
  }
})

// ---- closes

test('a tool that is closed while middleware waits: next rejects with the reason of the signal, and then the tool is told', async t => {
  const order: unknown[] = []
  const letters: unknown[] = []
  const listen = (letter: unknown): void => { letters.push(letter) }
  subscribe('fastify-gen-mcp:deadletter', listen)
  t.teardown(() => { unsubscribe('fastify-gen-mcp:deadletter', listen) })

  const watch: Middleware = async (_request, channel, next) => {
    try {
      return await next()
    } catch (error) {
      order.push(error === channel.signal.reason)
      throw error
    } finally {
      order.push('middleware')
    }
  }
  const { tool, closed } = createSilent()
  const { client, lines, whenEnded } = await around(t, [watch], [tool])
  const stream = await client.open('tools/call', { name: 'silent', arguments: {} }, { progressToken: 'p' })
  await take(stream, 1)
  stream.vanish()
  t.equal((await whenEnded).cause, 'disconnect')
  t.strictSame(order, [true, 'middleware'])
  t.strictSame(closed, ['disconnect'])
  // A client that left is no error, and what middleware says then is nobody's letter.
  t.strictSame(lines, [])
  t.strictSame(letters, [])
})

test('middleware that is at work after the answer of a tool when the client leaves says it to nobody', async t => {
  const reached = createDeferred<undefined>()
  const go = createDeferred<undefined>()
  const slow: Middleware = async (_request, channel, next) => {
    const value = await next()
    channel.signal.addEventListener('abort', () => { go.resolve(undefined) })
    reached.resolve(undefined)
    await go.promise
    return value
  }
  const { tool, closed } = createStreaming(() => toolResult.text('done'))
  const { client, ends, whenEnded } = await around(t, [slow], [tool], { streamAfter: 1 })
  const call = await client.open('tools/call', { name: 'streaming', arguments: {} })
  await reached.promise
  call.vanish()
  await whenEnded
  t.strictSame(ends.map(({ cause }) => cause), ['disconnect'])
  t.strictSame(closed, ['live disconnect'])
})

test('middleware that swallows a close says it to nobody', async t => {
  const swallow: Middleware = async (_request, _channel, next) => await next().catch(() => toolResult.text('never mind'))
  const { tool, closed } = createSilent()
  const { client, whenEnded } = await around(t, [swallow], [tool])
  const stream = await client.open('tools/call', { name: 'silent', arguments: {} }, { progressToken: 'p' })
  await take(stream, 1)
  stream.vanish()
  t.equal((await whenEnded).cause, 'disconnect')
  t.strictSame(closed, ['disconnect'])
})

test('middleware that throws after the client has gone is not logged', async t => {
  const entered = createDeferred<undefined>()
  const waiting: Middleware = async (_request, channel) => {
    entered.resolve(undefined)
    await new Promise(resolve => { channel.signal.addEventListener('abort', resolve) })
    throw new Error('gone')
  }
  const { client, lines, whenEnded } = await around(t, [waiting], [echo])
  const call = await client.open('tools/call', { name: 'echo', arguments: { text: '' } })
  await entered.promise
  call.vanish()
  t.equal((await whenEnded).cause, 'disconnect')
  t.strictSame(lines, [])
})

test('middleware sends through the channel, before the tool does', async t => {
  const announce: Middleware = async (_request, channel, next) => {
    channel.sendProgress(1)
    return await next()
  }
  const { app } = await around(t, [announce], [echo])
  const messages = await messagesOf(await call(app, 'tools/call', { name: 'echo', arguments: { text: 'x' } }, { meta: { progressToken: 'p' } }))
  t.match(messages, [{ params: { progress: 1 } }, { result: { content: [{ text: 'x' }] } }])
})
