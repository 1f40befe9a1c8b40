import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import genMcp, {
  createSuite, defineTool, elicitForm, fail, inputRequired, McpError, messageType, stream, toolResult, type CallToolResult, type GenMcpOptions,
  type Middleware, type Suite, type SuiteOptions, type ToolProvider
} from 'fastify-gen-mcp'
import { createDeferred } from '../../lib/deferred.js'
import { ResultSink } from '../../lib/suite/in-process.js'
import { info } from '../helpers/servers.js'

const hello = defineTool({ name: 'hello', input: Type.Object({ name: Type.String() }), call: ({ name }) => toolResult.text(`Hello ${name}`) })

interface Options { readonly signal?: AbortSignal, readonly suite?: Partial<SuiteOptions>, readonly user?: string, readonly mounts?: readonly Partial<GenMcpOptions>[] }

/** Serves a request of the app's own API, and gives what is done while it is served. */
async function serve<T> (t: Test, app: FastifyInstance, work: (httpRequest: FastifyRequest) => Promise<T>, user?: string): Promise<T> {
  let done: Promise<T> | undefined
  t.teardown(async () => { await app.close() })
  app.get('/', async httpRequest => {
    done = work(httpRequest)
    await done.catch(() => {})
    return {}
  })
  await app.inject({ url: '/', headers: user === undefined ? {} : { 'x-user': user } })
  if (done === undefined) throw new Error('The request was not served')
  return await done
}

/** Calls a tool of a Suite while the app serves a request. */
async function callIn (t: Test, suite: Suite, name: string, args: unknown, { signal, user, mounts = [{}] }: Options = {}): Promise<CallToolResult> {
  const app = Fastify()
  for (const [index, options] of mounts.entries()) await app.register(genMcp, { prefix: `/mcp${index}`, ...options, server: suite })
  return await serve(t, app, async httpRequest => await suite.callTool(name, args, { httpRequest, ...signal && { signal } }), user)
}

async function callTool (t: Test, tools: readonly ToolProvider[], name: string, args: unknown = {}, options: Options = {}): Promise<CallToolResult> {
  return await callIn(t, createSuite({ info, tools, ...options.suite }), name, args, options)
}

const userOf = ({ headers }: FastifyRequest): string | undefined => headers['x-user'] as string | undefined

// ---- what it gives

test('a tool that is called in this process gives the result that a client would get', async t => {
  t.match(await callTool(t, [hello], 'hello', { name: 'Ada' }), { content: [{ type: 'text', text: 'Hello Ada' }], resultType: 'complete' })
})

test('a tool of a Suite that is not mounted can be called too', async t => {
  t.match(await callTool(t, [hello], 'hello', { name: 'Ada' }, { mounts: [] }), { content: [{ text: 'Hello Ada' }] })
})

test('arguments and results are held against their schemas in this process too', async t => {
  const promising = defineTool({ name: 'promising', output: Type.Object({ n: Type.Number() }), call: () => toolResult.data({ n: 'many' } as never) })
  t.match(await callTool(t, [hello], 'hello', { name: 1 }), { isError: true, content: [{ text: /The arguments do not fit/ }] })
  t.match(await callTool(t, [promising], 'promising'), { isError: true })
  for (const args of [undefined, null, 'text', [], 1]) {
    await t.rejects(callIn(t, createSuite({ info, tools: [hello] }), 'hello', args), { code: 'MCP_ERR_INVALID_PARAMS', data: { issues: [{ path: 'arguments', message: 'must be an object' }] } })
  }
})

test('what a client is answered with an error rejects with that McpError', async t => {
  const failing = defineTool({ name: 'failing', call: () => fail('no') })
  const bad = defineTool({ name: 'bad', call: () => 'text' as never })
  await t.rejects(callTool(t, [failing], 'failing'), { code: 'MCP_ERR_INTERNAL', message: 'no' })
  await t.rejects(callTool(t, [failing], 'nothing'), { code: 'MCP_ERR_UNKNOWN_TOOL', data: { tool: 'nothing' } })
  await t.rejects(callTool(t, [bad], 'bad'), { code: 'MCP_ERR_CRASH', rpcCode: -32603 })
  await t.rejects(callIn(t, createSuite({ info }), 'hello', {}), { code: 'MCP_ERR_UNSUPPORTED_METHOD' })
  await t.rejects(callTool(t, [failing], 'failing'), McpError)
})

test('a tool that throws is masked in this process too', async t => {
  const throwing = defineTool({ name: 'throwing', call: () => { throw new Error('secret') } })
  const result = await callTool(t, [throwing], 'throwing')
  t.match(result, { isError: true, content: [{ text: 'The tool failed.' }] })
  t.notMatch(JSON.stringify(result), /secret/)
})

test('middleware is around a call in this process, and what it makes of the result is given', async t => {
  const wrap: Middleware = async ({ id, method }, _channel, next) => ({ ...await next(), _meta: { 'com.example/seen': `${method} ${id}` } })
  t.match(await callTool(t, [hello], 'hello', { name: 'Ada' }, { suite: { middleware: [wrap] } }), {
    content: [{ text: 'Hello Ada' }], _meta: { 'com.example/seen': 'tools/call 0' }
  })
  const bare: Middleware = () => ({ content: [] }) as unknown as CallToolResult
  t.match(await callTool(t, [hello], 'hello', { name: 'Ada' }, { suite: { middleware: [bare] } }), { content: [] })
})

// ---- who calls

test('access goes with a call in this process, and the caller is who the first mount says', async t => {
  const own = defineTool({ name: 'own', access: ({ principal }) => principal === 'ada', call: (_args, { principal }) => toolResult.text(principal ?? 'nobody') })
  const mounts = [{ principal: userOf }, { principal: () => 'mallory' }]
  t.match(await callTool(t, [own], 'own', {}, { user: 'ada', mounts }), { content: [{ text: 'ada' }] })
  await t.rejects(callTool(t, [own], 'own', {}, { user: 'bob', mounts }), { code: 'MCP_ERR_UNKNOWN_TOOL' })
  await t.rejects(callTool(t, [own], 'own', {}, { user: 'ada', mounts: [] }), { code: 'MCP_ERR_UNKNOWN_TOOL' })
})

test('the tool sees the request that is served, and a client that declares nothing', async t => {
  const seen: unknown[] = []
  const tool = defineTool({
    name: 'tool',
    call: (_args, { request, httpRequest }) => {
      seen.push(request, httpRequest.url)
      return toolResult.text('')
    }
  })
  await callTool(t, [tool], 'tool')
  t.match(seen, [{ method: 'tools/call', params: { name: 'tool', arguments: {} }, meta: { protocolVersion: '2026-07-28', clientCapabilities: {} } }, '/'])
})

test('arguments that a client repeats in headers are not looked for in those of the request that is served', async t => {
  const routed = defineTool({
    name: 'routed', input: Type.Object({ region: Type.String({ 'x-mcp-header': 'Region' }) }), call: ({ region }) => toolResult.text(region)
  })
  t.match(await callTool(t, [routed], 'routed', { region: 'eu' }), { content: [{ text: 'eu' }] })
})

// ---- nobody to ask or to tell

test('a tool that asks rejects with missingClientCapability: there is nobody to ask', async t => {
  const asking = defineTool({ name: 'asking', call: () => inputRequired({ name: elicitForm('Your name?', Type.Object({ name: Type.String() })) }) })
  const polling = defineTool({ name: 'polling', call: () => inputRequired({}, 'state') })
  const picky = defineTool({ name: 'picky', requires: { sampling: {} }, call: () => toolResult.text('') })
  for (const tool of [asking, polling, picky]) {
    const name = tool === asking ? 'asking' : tool === polling ? 'polling' : 'picky'
    await t.rejects(callTool(t, [tool], name), { code: 'MCP_ERR_MISSING_CLIENT_CAPABILITY', rpcCode: -32021 })
  }
})

test('what a tool sends on the way goes nowhere', async t => {
  const statuses: unknown[] = []
  const talkative = defineTool({
    name: 'talkative',
    async call (_args, channel) {
      statuses.push(channel.sendProgress(1), channel.sendLog('error', 'x'), channel.sendNotification({ method: 'notifications/tools/list_changed' }))
      statuses.push(channel.sendNotification({ extension: 'com.example/x', method: 'notifications/com.example/x' }))
      statuses.push(channel.startStream(), channel.streaming, channel.header('x-a', 'b'))
      await channel.drained()
      return toolResult.text('done')
    }
  })
  const generating = defineTool({
    name: 'generating',
    async * call () {
      yield { progress: 1 }
      yield { level: 'info' as const, data: 'x' }
      return toolResult.text('generated')
    }
  })
  t.match(await callTool(t, [talkative], 'talkative'), { content: [{ text: 'done' }] })
  t.strictSame(statuses, ['noProgressToken', 'filtered', 'notSubscribed', 'filtered', false, false, undefined])
  t.match(await callTool(t, [generating], 'generating'), { content: [{ text: 'generated' }] })
})

test('a tool that streams gives its final result', async t => {
  const streaming = defineTool({
    name: 'streaming',
    messages: messageType<number>(),
    call: (_args, channel) => {
      for (const n of [1, 2, 3]) channel.ref.post(n)
      return stream({ sum: 0 })
    },
    handleMessage: (n, _channel, { sum }) => n === 3 ? toolResult.data(sum + n) : stream({ sum: sum + n })
  })
  t.match(await callTool(t, [streaming], 'streaming'), { structuredContent: 6 })
})

test('a tool that closes its channel rejects', async t => {
  const closing = defineTool({
    name: 'closing',
    call: (_args, channel) => {
      t.equal(channel.close(), true)
      return toolResult.text('too late')
    }
  })
  await t.rejects(callTool(t, [closing], 'closing'), { code: 'MCP_ERR_CLOSED' })
})

// ---- signal and shutdown

test('a signal that aborts ends the call as a client that leaves does, and the call rejects with its reason', async t => {
  const controller = new AbortController()
  const closed = createDeferred<unknown>()
  const waiting = defineTool({
    name: 'waiting',
    call: (_args, channel) => {
      channel.signal.addEventListener('abort', () => { t.equal(channel.closed, true) })
      setImmediate(() => { controller.abort(new Error('enough')) })
      return stream('live')
    },
    handleClose: (_context, live, reason) => { closed.resolve([live, reason]) }
  })
  await t.rejects(callTool(t, [waiting], 'waiting', {}, { signal: controller.signal }), { message: 'enough' })
  t.strictSame(await closed.promise, ['live', 'disconnect'])
})

test('a signal that has aborted before calls nothing, and one that aborts later does nothing', async t => {
  let calls = 0
  const tool = defineTool({
    name: 'tool',
    call: () => {
      calls++
      return toolResult.text('done')
    }
  })
  await t.rejects(callTool(t, [tool], 'tool', {}, { signal: AbortSignal.abort(new Error('before')) }), { message: 'before' })
  t.equal(calls, 0)
  const controller = new AbortController()
  t.match(await callTool(t, [tool], 'tool', {}, { signal: controller.signal }), { content: [{ text: 'done' }] })
  controller.abort()
  t.equal(calls, 1)
})

test('a call in this process counts among those of the mount, and a shutdown ends one that only waits', async t => {
  const suite = createSuite({ info, tools: [defineTool({ name: 'waiting', call: () => stream(undefined) })] })
  const app = Fastify()
  await app.register(genMcp, { prefix: '/mcp', server: suite })
  await t.rejects(serve(t, app, async httpRequest => {
    const called = suite.callTool('waiting', {}, { httpRequest })
    t.equal(app.mcp.mounts[0]?.gauges().exchanges, 1)
    setImmediate(() => { app.close().catch(() => {}) })
    return await called
  }), { code: 'MCP_ERR_SHUTDOWN' })
  t.equal(app.mcp.mounts[0]?.gauges().exchanges, 0)
})

test('a call in this process ends when it takes longer than a request may', async t => {
  const waiting = defineTool({ name: 'waiting', call: () => stream(undefined) })
  await t.rejects(callTool(t, [waiting], 'waiting', {}, { mounts: [{ limits: { maxDuration: 10 } }] }), { code: 'MCP_ERR_TIMEOUT' })
})

test('a shutdown waits no longer for a call in this process than for any other', async t => {
  const stuck = createDeferred<CallToolResult>()
  const suite = createSuite({ info, tools: [defineTool({ name: 'stuck', call: async () => await stuck.promise })] })
  const app = Fastify()
  await app.register(genMcp, { prefix: '/mcp', server: suite, limits: { drain: 10 } })
  await t.rejects(serve(t, app, async httpRequest => {
    const called = suite.callTool('stuck', {}, { httpRequest })
    setImmediate(() => { app.close().catch(() => {}) })
    return await called
  }), { code: 'MCP_ERR_SHUTDOWN' })
  stuck.resolve(toolResult.text('too late'))
})

test('the sink of a call in this process takes the answer, and nothing else', async t => {
  const sink = new ResultSink()
  t.equal(sink.open(), false)
  t.equal(sink.notify(), false)
  t.equal(sink.header(), true)
  t.equal(sink.progress(), undefined)
  t.equal(sink.abort(), undefined)
  await sink.drained()
  await sink.whenFlushed()
  sink.end({ type: 'silent' })
  sink.end({ type: 'result', result: toolResult.text('x') })
  t.match(await sink.result, { content: [{ text: 'x' }] })
})
