import { setImmediate } from 'node:timers/promises'
import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { createSuite, defineTool, fail, inputRequired, McpError, messageType, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { ListToolsResult } from '../../lib/protocol/index.js'
import { call as post } from '../helpers/mount.js'
import { split } from '../helpers/messages.js'
import { info } from '../helpers/servers.js'
import { alarms, gate, stage } from '../helpers/sockets.js'
import { failed, serveTools, textOf } from '../helpers/tools.js'
import type { CallToolResult, JsonObject, RequestContext, StandardSchema, ToolProvider } from 'fastify-gen-mcp'

const description = 'For tests'

/** A tool without arguments. */
const simple = (name: string, call: () => unknown = () => toolResult.text(name)): ToolProvider => defineTool({ name, description, call: call as () => CallToolResult })

/** An input that takes until the gate opens to be checked. */
const slowInput = (until: Promise<unknown>, started: () => void): StandardSchema<JsonObject> => ({
  '~standard': {
    validate: async value => {
      started()
      await until
      return { value }
    },
    jsonSchema: { input: () => ({ type: 'object' }), output: () => ({}) }
  }
})

test('a tool is listed with what it says of itself, and nothing is filled in: TOOL-03, TOOL-06, TOOL-10, TOOL-11, ICON-01', async t => {
  const listed = {
    name: 'get.Weather_1-x',
    title: 'A title',
    description,
    icons: [{ src: 'https://example.com/icon.png', mimeType: 'image/png', sizes: ['48x48', 'any'], theme: 'dark' as const }],
    annotations: { title: 'Another title', readOnlyHint: true },
    _meta: { 'com.example/a': [1], b: null }
  }
  const input = { type: 'object', properties: { city: { type: 'string' } } }
  const { app } = await serveTools(t, [
    defineTool({ ...listed, input, output: { type: 'number' }, access: () => true, requires: {}, call: () => toolResult.data(1) }), simple('plain')
  ])
  const body = (await post(app, 'tools/list')).json()
  t.ok(Value.Check(ListToolsResult, body.result))
  t.match(body.result, { resultType: 'complete', ttlMs: 0, cacheScope: 'private' })
  t.strictSame(body.result.tools, [
    { ...listed, inputSchema: input, outputSchema: { type: 'number' } },
    { name: 'plain', description, inputSchema: { type: 'object', properties: {}, additionalProperties: false } }
  ])
})

test('a Suite has the capability if it was given tools, if only none, and lists them in their order: TOOL-01, TOOL-02, TOOL-04', async t => {
  const none = (await serveTools(t, [])).app
  t.strictSame((await post(none, 'server/discover')).json().result.capabilities.tools, {})
  t.strictSame((await post(none, 'tools/list')).json().result.tools, [])

  const without = (await stage(t, createSuite({ info, prompts: [] }), { listen: false })).app
  t.notOk('tools' in (await post(without, 'server/discover')).json().result.capabilities)
  const refusal = await post(without, 'tools/list')
  t.equal(refusal.statusCode, 404)
  t.match(refusal.json(), { error: { code: -32601 } })

  const names = ['b', 'a', '10', '9']
  for (let time = 0; time < 2; time++) {
    const { list } = await serveTools(t, names.map(name => simple(name)))
    t.strictSame((await list()).map(({ name }) => name), names)
  }
})

test('an unknown tool is -32602 and named, and so is one whose name every object has: TOOL-14, TOOL-15', async t => {
  const { call } = await serveTools(t, [simple('tool')])
  for (const name of ['nope', 'Tool', 'tool ', 'constructor', '__proto__', 'toString', '']) {
    const { statusCode, error, result } = await call(name)
    t.equal(statusCode, 200)
    t.match(error, { code: -32602, data: { tool: name } }, name)
    t.ok(error?.message.includes(name))
    t.equal(result, undefined)
  }
})

test('headers of arguments are checked once the tool is found and before its arguments are: XPH-14', async t => {
  const { app } = await serveTools(t, [defineTool({
    name: 'sql', description, input: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, n: { type: 'number' } } }, call: () => toolResult.text('ran')
  })])
  const args = { region: 'eu', n: 'bad' }
  t.match((await post(app, 'tools/call', { name: 'other', arguments: args })).json(), { error: { code: -32602 } })
  const mismatch = await post(app, 'tools/call', { name: 'sql', arguments: args }, { headers: { 'mcp-param-region': 'us' } })
  t.equal(mismatch.statusCode, 400)
  t.match(mismatch.json(), { error: { code: -32020 } })
  const checked = await post(app, 'tools/call', { name: 'sql', arguments: args }, { headers: { 'mcp-param-region': 'eu' } })
  t.match(checked.json().result, { isError: true })
})

test('what a tool throws is a failure that says nothing of it, and the log says all: TOOL-19, TOOL-32', async t => {
  const { call, lines } = await serveTools(t, [
    simple('throws', () => { throw new Error('password hunter2') }), simple('rejects', async () => { throw new Error('password hunter2') })
  ])
  for (const name of ['throws', 'rejects']) {
    const answer = await call(name)
    t.ok(failed(answer))
    t.equal(textOf(answer), 'The tool failed.')
    t.notMatch(JSON.stringify(answer), 'hunter2')
    t.match(alarms(lines).at(-1), { err: { message: 'password hunter2' }, mcp: { tool: name } })
  }
  t.equal(alarms(lines).length, 2)
})

test('an error that a tool means for the client stays one, thrown or returned: TOOL-19', async t => {
  const error = new McpError({ kind: 'custom', rpcCode: 7, message: 'Seven', data: [7], statusCode: 418 })
  const { call, lines } = await serveTools(t, [simple('throws', () => { throw error }), simple('fails', () => fail(error))])
  for (const name of ['throws', 'fails']) {
    const answer = await call(name)
    t.equal(answer.statusCode, 418)
    t.strictSame(answer.error, { code: 7, message: 'Seven', data: [7] })
  }
  t.strictSame(alarms(lines), [])
})

test('a business failure is a result that the model may read: TOOL-17', async t => {
  const { call } = await serveTools(t, [simple('order', () => toolResult.error('Sold out'))])
  const answer = await call('order')
  t.ok(failed(answer))
  t.equal(textOf(answer), 'Sold out')
})

test('a result or its outcome is sent as it is, with content of every kind: TOOL-20, TOOL-21', async t => {
  const content = [
    { type: 'text', text: 'x', annotations: { audience: ['user'], priority: 1 }, _meta: { 'com.example/a': 1 } },
    { type: 'image', data: 'AA==', mimeType: 'image/png' }, { type: 'audio', data: 'AA==', mimeType: 'audio/wav' },
    { type: 'resource_link', uri: 'file:///x', name: 'x' },
    { type: 'resource', resource: { uri: 'file:///x', text: 'x' } }, { type: 'resource', resource: { uri: 'file:///x', blob: 'AA==' } }
  ]
  const answer = { resultType: 'complete', content }
  const { call } = await serveTools(t, [simple('plain', () => answer), simple('outcome', () => result(answer as CallToolResult)), simple('empty', () => toolResult.content())])
  for (const name of ['plain', 'outcome']) t.strictSame(((await call(name)).result as CallToolResult).content, content)
  t.strictSame(((await call('empty')).result as CallToolResult).content, [])
})

test('what is no result is a crash, and is not sent: TOOL-18, TOOL-20, TOOL-21', async t => {
  const bad: Readonly<Record<string, unknown>> = {
    nothing: undefined,
    text: 'secret',
    noContent: { resultType: 'complete', structuredContent: { secret: 1 } },
    badBlock: { resultType: 'complete', content: [{ type: 'text', secret: 1 }] },
    badType: { resultType: 'complete', content: [{ type: 'video', data: 'secret' }] },
    flag: { resultType: 'complete', content: [], isError: 'secret' },
    stopped: stop('secret')
  }
  const { call, lines } = await serveTools(t, Object.entries(bad).map(([name, value]) => simple(name, () => value)))
  for (const name of Object.keys(bad)) {
    const answer = await call(name)
    t.equal(answer.statusCode, 500, name)
    t.match(answer.error, { code: -32603 })
    t.notMatch(JSON.stringify(answer), 'secret')
    t.match(alarms(lines).at(-1), { err: { code: 'MCP_ERR_BAD_RETURN', message: new RegExp(`^The tool ${name}: its callback returned `) } })
  }
  t.equal(alarms(lines).length, Object.keys(bad).length, 'each is logged once')
})

test('bytes that are no Base64, and a media type or an icon that a client must refuse, are a crash, and are not sent: TOOL-21, TOOL-22, ICON-02', async t => {
  const image = { type: 'image', data: 'AP+/', mimeType: 'image/png' }
  const bad: Readonly<Record<string, object>> = {
    dataUrl: { ...image, data: 'data:image/png;base64,AP+/' },
    base64url: { ...image, data: 'AP-_' },
    unpadded: { ...image, data: 'AP8' },
    overpadded: { ...image, data: 'A===' },
    brokenLines: { ...image, type: 'audio', data: 'AP+/\nAP+/' },
    noMediaType: { ...image, mimeType: 'png' },
    emptyMediaType: { ...image, type: 'audio', mimeType: '' },
    blob: { type: 'resource', resource: { uri: 'x://a', blob: '***' } },
    icon: { type: 'resource_link', uri: 'x://a', name: 'a', icons: [{ src: 'javascript:alert(1)' }] }
  }
  const good = [
    image, { ...image, data: '' }, { ...image, data: 'AA==' }, { ...image, type: 'audio', mimeType: 'audio/ogg; codecs=opus' }, { ...image, mimeType: 'image/svg+xml' },
    { type: 'resource', resource: { uri: 'x://a', blob: 'AAA=' } }, { type: 'resource_link', uri: 'x://a', name: 'a', icons: [{ src: 'https://example.com/a.png' }] }
  ]
  const answer = (content: readonly object[]) => () => ({ resultType: 'complete', content })
  const { call, lines } = await serveTools(t, [...Object.entries(bad).map(([name, block]) => simple(name, answer([image, block]))), simple('good', answer(good))])
  for (const name of Object.keys(bad)) {
    const { statusCode, error, result } = await call(name)
    t.equal(statusCode, 500, name)
    t.match(error, { code: -32603, message: 'Internal error' })
    t.equal(result, undefined)
    t.match(alarms(lines).at(-1), { err: { code: 'MCP_ERR_BAD_RETURN', message: new RegExp(`^The tool ${name}: its callback returned content\\[1\\]`) } })
  }
  t.strictSame(((await call('good')).result as CallToolResult).content, good)
})

test('structured content that JSON would change on its way is an internal error: TOOL-36', async t => {
  const bad: Readonly<Record<string, unknown>> = {
    nan: { n: NaN }, bigint: { n: 1n }, infinite: [Infinity], hole: [undefined], function: { f: [() => {}] }, map: { m: new Map([[1, 2]]) }, promise: { p: Promise.resolve(1) }
  }
  const answer = (structuredContent: unknown) => () => ({ resultType: 'complete', content: [], structuredContent })
  const { call, lines } = await serveTools(t, [
    ...Object.entries(bad).map(([name, value]) => simple(name, answer(value))), simple('good', answer({ a: undefined, b: [null, { c: -0.5 }] }))
  ])
  for (const name of Object.keys(bad)) {
    t.match(await call(name), { statusCode: 500, error: { code: -32603, message: 'Internal error' } }, name)
    t.match(alarms(lines).at(-1), { err: { code: 'MCP_ERR_BAD_RETURN', message: new RegExp(`^The tool ${name}: its callback returned structuredContent.* is `) } })
  }
  t.strictSame(((await call('good')).result as CallToolResult).structuredContent, { b: [null, { c: -0.5 }] })
})

test('a result that is no JSON is an internal error, with a limit or an output too: TOOL-36', async t => {
  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  const answer = (structuredContent: unknown) => () => ({ resultType: 'complete', content: [], structuredContent }) as never
  for (const rest of [{}, { maxResultSize: 1000 }, { output: {} }]) {
    const { call } = await serveTools(t, [
      defineTool({ name: 'cycle', description, ...rest, call: answer(cycle) }), defineTool({ name: 'big', description, ...rest, call: answer({ n: 1n }) })
    ])
    for (const name of ['cycle', 'big']) {
      const { statusCode, error } = await call(name)
      t.equal(statusCode, 500, `${name} ${JSON.stringify(rest)}`)
      t.match(error, { code: -32603 })
    }
  }
})

test('structured content may be any JSON, and comes as text too: TOOL-25, TOOL-28', async t => {
  for (const value of [[1], 'x', 0, false, null, { a: null }]) {
    const { call } = await serveTools(t, [simple('data', () => toolResult.data(value))])
    const answer = await call('data')
    t.ok('structuredContent' in (answer.result ?? {}), JSON.stringify(value))
    t.strictSame((answer.result as CallToolResult).structuredContent, value)
    t.equal(textOf(answer), JSON.stringify(value))
  }
})

test('what a caller may not see is neither listed nor callable, and is asked for each time: TOOL-05, TOOL-30', async t => {
  const ran: string[] = []
  const access = ({ httpRequest }: RequestContext) => httpRequest.headers['authorization'] === 'admin'
  const guarded = (name: string, allows: (context: RequestContext) => unknown) => defineTool({
    name, description, access: allows as (context: RequestContext) => boolean, call: () => { ran.push(name); return toolResult.text('ran') }
  })
  const { app } = await serveTools(t, [
    guarded('sync', access), guarded('async', async context => access(context)), guarded('forgot', () => undefined), guarded('truthy', () => 'yes'), simple('open')
  ])
  const names = async (headers: Record<string, string>) => {
    const { result } = (await post(app, 'tools/list', {}, { headers })).json()
    t.equal(result.cacheScope, 'private')
    return result.tools.map(({ name }: { name: string }) => name)
  }
  t.strictSame(await names({ authorization: 'admin' }), ['sync', 'async', 'open'])
  t.strictSame(await names({}), ['open'])
  for (const name of ['sync', 'async', 'forgot', 'truthy']) {
    t.match((await post(app, 'tools/call', { name })).json(), { error: { code: -32602, message: new RegExp(name) } })
  }
  t.strictSame(ran, [])
  for (const name of ['sync', 'async']) await post(app, 'tools/call', { name }, { headers: { authorization: 'admin' } })
  t.strictSame(ran, ['sync', 'async'])
})

test('a client that lacks what a tool requires is told so before its arguments are read', async t => {
  const { call } = await serveTools(t, [defineTool({
    name: 'ask', description, requires: { sampling: {} }, input: Type.Object({ a: Type.String() }), call: () => toolResult.text('ran')
  })])
  const refusal = await call('ask')
  t.equal(refusal.statusCode, 400)
  t.match(refusal.error, { code: -32021, data: { requiredCapabilities: { sampling: {} } } })
  t.ok(failed(await call('ask', {}, { capabilities: { sampling: {} } })))
  t.equal(textOf(await call('ask', { a: 'x' }, { capabilities: { sampling: {} } })), 'ran')
})

test('a tool may ask the client, and is called again with the answer: TOOL-34', async t => {
  const { app } = await serveTools(t, [defineTool({
    name: 'twice', description, call: (_args, channel) => channel.requestState(Type.String()) === undefined ? inputRequired({}, 'again') : toolResult.text('done')
  })])
  const answer = await createTestClient(app).request('tools/call', { name: 'twice', arguments: {} }, { respond: () => null })
  t.equal(textOf(answer), 'done')
})

test('a generator\'s progress and logs are sent one by one, each before the next is asked for, and then its result', async t => {
  const { app } = await serveTools(t, [defineTool({
    name: 'count',
    description,
    async * call (_args, channel) {
      yield { progress: 1, total: 2, message: 'one' }
      t.ok(channel.streaming, 'the first has been sent when the second is asked for')
      yield { level: 'warning', data: { n: 1 }, logger: 'counter' }
      yield { progress: 2 }
      return toolResult.text('done')
    }
  })])
  const response = await post(app, 'tools/call', { name: 'count' }, { meta: { progressToken: 'p', 'io.modelcontextprotocol/logLevel': 'info' } })
  const { notifications, answer } = await split(response)
  t.strictSame(notifications.map(({ method, params }) => [method, params]), [
    ['notifications/progress', { progressToken: 'p', progress: 1, total: 2, message: 'one' }],
    ['notifications/message', { level: 'warning', data: { n: 1 }, logger: 'counter' }],
    ['notifications/progress', { progressToken: 'p', progress: 2 }]
  ])
  t.match(answer.result, { content: [{ text: 'done' }] })
})

test('a generator may end in an error, a question or a throw, as any tool', async t => {
  const generator = (name: string, end: () => unknown) => defineTool({
    name, description, async * call () { yield { progress: 1 }; return end() as CallToolResult }
  })
  const { call, lines } = await serveTools(t, [
    generator('fails', () => fail('No')), generator('asks', () => inputRequired({}, 1)), generator('throws', () => { throw new Error('secret') }), generator('stops', () => stop())
  ])
  t.match((await call('fails')).error, { code: -32603, message: 'No' })
  t.match((await call('asks')).result, { resultType: 'input_required' })
  t.ok(failed(await call('throws')))
  t.match((await call('stops')).error, { code: -32603 })
  t.equal(alarms(lines).length, 2)
})

test('a generator that yields what it must not is a failure of the tool, and its own end still runs', async t => {
  for (const value of ['text', 5, null, undefined]) {
    const cleaned = gate()
    const { call, lines } = await serveTools(t, [defineTool({
      name: 'bad',
      description,
      async * call () {
        try {
          yield value as never
          return toolResult.text('done')
        } finally {
          cleaned.open()
        }
      }
    })])
    t.ok(failed(await call('bad')), String(value))
    await cleaned.promise
    t.equal(alarms(lines).length, 1)
  }
})

test('a client that leaves ends the generator where it waits, and nothing of it runs on', async t => {
  const waiting = gate()
  const go = gate()
  const trace: string[] = []
  const suite = createSuite({
    info,
    tools: [defineTool({
      name: 'long',
      description,
      async * call () {
        try {
          yield { progress: 1 }
          waiting.open()
          await go.promise
          trace.push('woke')
          yield { progress: 2 }
          trace.push('ran on')
          return toolResult.text('done')
        } finally {
          trace.push('cleaned')
        }
      }
    })]
  })
  const exchange = testExchange(suite, 'tools/call', { name: 'long', arguments: {} }, { progressToken: 'p' })
  await waiting.promise
  exchange.disconnect()
  go.open()
  t.equal((await exchange.ended).cause, 'disconnect')
  t.strictSame(trace, ['woke', 'cleaned'])
  t.equal(exchange.notifications.length, 1)
})

test('a client that has left before the generator begins ends it before it begins', async t => {
  const started = gate()
  const go = gate()
  const trace: string[] = []
  const suite = createSuite({
    info,
    tools: [defineTool({
      name: 'late',
      description,
      input: slowInput(go.promise, () => { started.open() }),
      async * call () {
        trace.push('began')
        yield { progress: 1 }
        return toolResult.text('done')
      }
    })]
  })
  const exchange = testExchange(suite, 'tools/call', { name: 'late', arguments: {} })
  await started.promise
  exchange.disconnect()
  go.open()
  t.equal((await exchange.ended).cause, 'disconnect')
  t.strictSame(trace, [])
})

test('what a generator throws on the way out is logged, for nobody else would learn of it', async t => {
  const waiting = gate()
  const go = gate()
  const tidy = () => { throw new Error('could not clean up') }
  const { app, lines, ended } = await stage(t, createSuite({
    info,
    tools: [defineTool({
      name: 'messy',
      description,
      async * call (_args, { signal }) {
        signal.addEventListener('abort', () => { go.open() })
        try {
          yield { progress: 1 }
          waiting.open()
          await go.promise
          yield { progress: 2 }
          return toolResult.text('done')
        } finally {
          tidy()
        }
      }
    })]
  }))
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const open = await client.open('tools/call', { name: 'messy', arguments: {} }, { progressToken: 'p' })
  await waiting.promise
  open.vanish()
  await ended()
  t.match(alarms(lines), [{ err: { message: 'could not clean up' }, mcp: { tool: 'messy' } }])
})

test('a hand-written iterator is a generator too, with or without a return', async t => {
  for (const rest of [{}, { return: async () => ({ done: true as const, value: undefined }) }]) {
    let turn = 0
    const iterator = {
      next: async () => ++turn === 1 ? { done: false, value: { progress: 1 } } : { done: true, value: toolResult.text('done') },
      ...rest,
      [Symbol.asyncIterator] () { return this }
    }
    const { call } = await serveTools(t, [simple('iterate', () => iterator)])
    t.equal(textOf(await call('iterate')), 'done')
  }
})

test('a tool may stream: its messages come in order with its state, and its answer is held to the same rules', async t => {
  const seen: unknown[] = []
  const { call, lines } = await serveTools(t, [defineTool({
    name: 'sum',
    description,
    input: Type.Object({ until: Type.Integer() }),
    output: Type.Object({ sum: Type.Integer() }),
    messages: Type.Integer(),
    call (_args, channel) {
      for (const n of [1, 2, 3]) channel.ref.post(n)
      channel.ref.post('no number' as never)
      channel.ref.post(0)
      return stream({ sum: 0 })
    },
    handleMessage (n, channel, { sum }) {
      seen.push(n)
      channel.sendProgress(seen.length)
      return n === 0 ? toolResult.data({ sum }) : stream({ sum: sum + n })
    }
  })])
  const answer = await call('sum', { until: 3 }, { progressToken: 'p' })
  t.match(answer.result, { structuredContent: { sum: 6 } })
  t.strictSame(seen, [1, 2, 3, 0], 'what does not fit is skipped')
  t.equal(answer.notifications.length, 4)
  t.match(lines.filter(({ level }) => level === 40), [{ mcp: { tool: 'sum' }, msg: /does not fit/ }])
})

test('a stream\'s bad result, throw and bad return are what they are without one', async t => {
  const streaming = (name: string, handleMessage: () => unknown) => defineTool({
    name,
    description,
    output: { type: 'number' },
    messages: messageType<'go'>(),
    call (_args, channel) {
      channel.ref.post('go')
      return stream<undefined>(undefined)
    },
    handleMessage: handleMessage as () => CallToolResult<never>
  })
  const { call, lines } = await serveTools(t, [
    streaming('bad', () => toolResult.data('x')), streaming('throws', () => { throw new Error('secret') }),
    streaming('refuses', async () => { throw new McpError({ kind: 'internal', message: 'No' }) }), streaming('nothing', () => undefined)
  ])
  t.ok(failed(await call('bad')))
  t.equal(textOf(await call('throws')), 'The tool failed.')
  t.match((await call('refuses')).error, { message: 'No' })
  t.match((await call('nothing')).error, { code: -32603 })
  t.equal(alarms(lines).length, 3)
})

test('callbacks of a tool are methods of its definition', async t => {
  class Counter {
    readonly name = 'counter'
    readonly description = description
    readonly messages = messageType<'go'>()
    #calls = 0
    call (_args: JsonObject, { ref }: { ref: { post (message: 'go'): unknown } }) {
      this.#calls++
      ref.post('go')
      return stream<undefined>(undefined)
    }

    handleMessage () { return toolResult.text(`${this.#calls} calls`) }
  }
  const { call } = await serveTools(t, [defineTool(new Counter())])
  t.equal(textOf(await call('counter')), '1 calls')
})

test('a tool that hears no messages streams until it is closed, and handleClose gets its state', async t => {
  const closed: unknown[] = []
  const hold = (name: string, rest: object) => defineTool({ name, description, call: () => stream({ held: name }), ...rest })
  const suite = createSuite({
    info, tools: [hold('told', { handleClose: (_context: RequestContext, live: unknown, reason: unknown) => { closed.push(live, reason) } }), hold('silent', {})]
  })
  for (const name of ['told', 'silent']) {
    const exchange = testExchange(suite, 'tools/call', { name, arguments: {} })
    exchange.ref.post('nobody hears this')
    await setImmediate()
    t.equal(exchange.ref.post('nor this'), 'queued', 'it is still open')
    exchange.disconnect()
    t.equal((await exchange.ended).cause, 'disconnect')
  }
  t.strictSame(closed, [{ held: 'told' }, 'disconnect'])
})

test('a throw of a tool whose client has left is nobody\'s alarm', async t => {
  const started = gate()
  const { app, lines, ended } = await stage(t, createSuite({
    info,
    tools: [defineTool({
      name: 'fetch',
      description,
      call: async (_args, { signal }) => {
        started.open()
        await new Promise((_resolve, reject) => { signal.addEventListener('abort', () => { reject(signal.reason) }) })
        return toolResult.text('never')
      }
    })]
  }))
  const client = createTestClient(app)
  t.teardown(async () => { await client.close() })
  const open = await client.open('tools/call', { name: 'fetch', arguments: {} })
  await started.promise
  open.vanish()
  t.match(await ended(), [{ cause: 'disconnect' }])
  t.strictSame(alarms(lines), [])
})

test('a result larger than the limit is a failure that names it, and the tool\'s own limit goes first: case 014', async t => {
  const sized = (name: string, length: number, rest: object) => defineTool({ name, description, ...rest, call: () => toolResult.text('ä'.repeat(length)) })
  const overhead = Buffer.byteLength(JSON.stringify(toolResult.text('')))
  const { call } = await serveTools(t, [
    sized('fits', 10, { maxResultSize: overhead + 20 }), sized('over', 10, { maxResultSize: overhead + 19 }),
    sized('suite', 1000, {}), sized('wider', 1000, { maxResultSize: 10_000 })
  ], { maxResultSize: 500 })
  t.equal(textOf(await call('fits')), 'ä'.repeat(10))
  t.equal(textOf(await call('wider')), 'ä'.repeat(1000))
  for (const [name, limit] of [['over', overhead + 19], ['suite', 500]] as const) {
    const answer = await call(name)
    t.ok(failed(answer))
    t.match(textOf(answer), ` ${limit} bytes`)
    t.notMatch(textOf(answer), 'ä')
  }
  const { call: free } = await serveTools(t, [sized('large', 100_000, {})])
  t.equal(textOf(await free('large')).length, 100_000, 'by default there is no limit')
})

test('what some clients refuse is a warning at boot, and with strict an error: TOOL-08, TOOL-09, case 064, case 069', async t => {
  const tools = [
    defineTool({
      name: 'dots.in.it', input: { type: 'object', properties: { a: { type: ['string', 'null'] } } }, output: { type: 'array', items: { type: 'object' } }, call: () => toolResult.data([])
    }),
    simple('x'.repeat(65)), simple('fine')
  ]
  const { lines } = await serveTools(t, tools)
  t.strictSame(lines.filter(({ level }) => level === 40).map(({ msg, mcp }) => [msg, mcp]), [
    ['The tool dots.in.it has a name with a dot or of more than 64 characters, which some clients refuse', { lint: true }],
    ['The tool dots.in.it has no description', { lint: true }],
    ['The tool dots.in.it has an input that /properties/a has a list of types, which some clients refuse: use anyOf', { lint: true }],
    ['The tool dots.in.it has an output that /items is an object without properties, which some clients refuse: name them, or allow additionalProperties', { lint: true }],
    [`The tool ${'x'.repeat(65)} has a name with a dot or of more than 64 characters, which some clients refuse`, { lint: true }]
  ])
  t.throws(() => createSuite({ info, tools, strict: true }), { code: 'MCP_ERR_BAD_PROVIDER', message: /^A strict Suite refuses: .*dots\.in\.it has a name .*no description/ })
  t.doesNotThrow(() => createSuite({ info, tools: [simple('fine')], strict: true }))
})
