import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  busSubscriptions, createSuite, definePrompt, definePrompts, defineResources, defineSubscriptions, defineTool, elicitForm, fail, getPromptResult, inputRequired,
  MCP_ERR_BAD_PROVIDER, messageType, readResourceResult, stream, toolResult, type CloseReason, type JsonObject, type SubscriptionFilter, type Suite,
  type SuiteExtension, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { DiscoverResult } from '../../lib/protocol/index.js'
import { call, mount } from '../helpers/mount.js'
import { split } from '../helpers/messages.js'
import { info } from '../helpers/servers.js'
import { take } from '../helpers/stream.js'

const hello = defineTool({ name: 'hello', input: Type.Object({ name: Type.String() }), call: ({ name }) => toolResult.text(`Hello ${name}`) })
const notes = defineResources({
  template: { uriTemplate: 'notes://{id}', name: 'note' },
  list: () => ({ items: [{ uri: 'notes://1', name: 'one' }] }),
  read: ({ uri, vars: { id } }) => id === '1' ? readResourceResult({ uri, text: 'one' }) : null,
  complete: { id: value => ['1', '12'].filter(id => id.startsWith(value)) }
})
const greeting = definePrompt({
  name: 'greeting',
  arguments: Type.Object({ name: Type.String() }),
  get: ({ name }) => getPromptResult([{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }])
})

/** Options as JavaScript may give them. */
function create (options: Record<string, unknown>): Suite {
  return createSuite({ info, ...options } as unknown as SuiteOptions)
}

/** A client of a Suite that is mounted alone. */
async function client (t: Test, suite: Suite) {
  return createTestClient(await mount(t, { server: suite }))
}

function listener (kinds: readonly (keyof SubscriptionFilter)[]) {
  return defineSubscriptions({ kinds, subscribe: () => stream(undefined) })
}

// ---- what createSuite is given

test('what makes no sense to createSuite throws one coded error that names it', async t => {
  const tool = { name: 'hello', call: () => toolResult.text('') }
  const cases: readonly (readonly [options: Record<string, unknown>, message: RegExp])[] = [
    [{ tool: [] }, /createSuite was given the option tool, which is not known/],
    [{ info: undefined }, /createSuite: info does not fit/],
    [{ info: { name: 'no version' } }, /createSuite: info does not fit: \/version /],
    [{ info: { ...info, icons: [{ src: 'javascript:alert(1)' }] } }, /createSuite: info has the icon javascript:alert\(1\)/],
    [{ pageSize: 0 }, /createSuite was given a pageSize that is no whole number from 1/],
    [{ pageSize: 1.5 }, /a pageSize that is no whole number/],
    [{ pageSize: '10' }, /a pageSize that is no whole number/],
    [{ maxResultSize: -1 }, /createSuite was given a maxResultSize that is no whole number from 1/],
    [{ maxResultSize: Infinity }, /a maxResultSize that is no whole number/],
    [{ middleware: [{}] }, /createSuite was given a middleware that is no function/],
    [{ cache: { scope: 'shared', ttlMs: 0 } }, /createSuite was given a cache that is no \{ scope: 'public' \| 'private', ttlMs: whole number \}/],
    [{ cache: { scope: 'public', ttlMs: -1 } }, /a cache that is no/],
    [{ cache: { scope: 'private', ttlMs: 0.5 } }, /a cache that is no/],
    [{ cache: { scope: 'private' } }, /a cache that is no/],
    [{ capabilities: { extensions: { ticker: {} } } }, /createSuite was given the extension ticker, whose identifier has no prefix/],
    [{ tools: [tool] }, /createSuite was given in tools what no define function of that kind made/],
    [{ tools: [notes] }, /in tools what no define function of that kind made/],
    [{ tools: [undefined] }, /in tools what no define function of that kind made/],
    [{ resources: [hello] }, /in resources what no define function of that kind made/],
    [{ prompts: [hello] }, /in prompts what no define function of that kind made/],
    [{ subscriptions: hello }, /in subscriptions what no define function of that kind made/],
    [{ subscriptions: {} }, /in subscriptions what no define function of that kind made/],
    [{ tools: [hello, defineTool(tool)] }, /The provider hello is there already/],
    [{ resources: [notes, notes] }, /The provider notes:\/\/\{id\} is there already/],
    [{ prompts: [greeting, greeting] }, /The provider greeting is there already/],
    [{ cache: { scope: 'public', ttlMs: 1 }, tools: [defineTool({ ...tool, access: () => true })] }, /createSuite was given the cache scope 'public' together with access or extensions/],
    [{ cache: { scope: 'public', ttlMs: 1 }, extensions: [{}] }, /the cache scope 'public' together with access or extensions/],
    [{ strict: true, tools: [hello] }, /A strict Suite refuses: The tool hello has no description/]
  ]
  for (const [options, message] of cases) t.throws(() => create(options), { code: 'MCP_ERR_BAD_PROVIDER', message })
  t.throws(() => create({ pageSize: 0 }), MCP_ERR_BAD_PROVIDER)
})

test('what makes sense to createSuite is taken', async t => {
  const described = defineTool({ name: 'described', description: 'What it does.', call: () => toolResult.text('') })
  t.doesNotThrow(() => create({}))
  t.doesNotThrow(() => create({ pageSize: 1, maxResultSize: 1, repairArguments: true, middleware: [], extensions: [], cache: { scope: 'private', ttlMs: 0 } }))
  t.doesNotThrow(() => create({ cache: { scope: 'public', ttlMs: 1000 }, tools: [hello], resources: [notes], prompts: [greeting] }))
  t.doesNotThrow(() => create({ strict: true, tools: [described] }))
})

test('what some clients would refuse is a warning at boot, and nothing more', async t => {
  const lines: string[] = []
  const suite = createSuite({ info, tools: [hello] })
  const app = await mount(t, { server: suite }, { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } } })
  t.match(lines.map(line => JSON.parse(line) as JsonObject), [{ level: 40, mcp: { lint: true }, msg: 'The tool hello has no description' }])
  t.match((await createTestClient(app).request('tools/call', { name: 'hello', arguments: { name: 'Ada' } })).result, { content: [{ text: 'Hello Ada' }] })
})

// ---- capabilities

test('capabilities are worked out from the providers: DSC-04, DSC-05, DSC-07, TOOL-01', async t => {
  const all = listener(['toolsListChanged', 'promptsListChanged', 'resourcesListChanged', 'resourceSubscriptions'])
  const store = definePrompts({ prefix: 'store/', list: () => ({ items: [] }), get: () => null })
  const plain = defineResources({ prefix: 'file:///', read: () => null })
  const completing = definePrompt({ name: 'completing', arguments: Type.Object({ a: Type.String() }), complete: { a: () => [] }, get: () => null })
  const cases: readonly (readonly [Omit<SuiteOptions, 'info'>, object])[] = [
    [{}, {}],
    [{ tools: [] }, { tools: {} }],
    [{ tools: [hello] }, { tools: {} }],
    [{ resources: [plain] }, { resources: {} }],
    [{ resources: [notes] }, { resources: {}, completions: {} }],
    [{ prompts: [greeting, store] }, { prompts: {} }],
    [{ prompts: [completing] }, { prompts: {}, completions: {} }],
    [{ extensions: [{}] }, {}],
    [{ extensions: [{}, { tools: () => [] }] }, { tools: {} }],
    [{ extensions: [{ resources: () => [] }] }, { resources: {}, completions: {} }],
    [{ extensions: [{ prompts: () => [] }] }, { prompts: {}, completions: {} }],
    [{ subscriptions: all }, {}],
    [{ tools: [], subscriptions: listener(['promptsListChanged']) }, { tools: {} }],
    [{ resources: [plain], subscriptions: listener(['resourceSubscriptions']) }, { resources: { subscribe: true } }],
    [{ resources: [plain], subscriptions: listener(['resourcesListChanged']) }, { resources: { listChanged: true } }],
    [
      { tools: [], resources: [], prompts: [], subscriptions: all },
      { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true } }
    ],
    [
      { capabilities: { extensions: { 'com.example/ticker': { every: 1 } }, experimental: { odd: {} } } },
      { extensions: { 'com.example/ticker': { every: 1 } }, experimental: { odd: {} } }
    ]
  ]
  for (const [options, expected] of cases) {
    const suite = createSuite({ info, ...options })
    const { result } = await (await client(t, suite)).request('server/discover', {})
    t.strictSame((result as DiscoverResult).capabilities, { logging: {}, ...expected })
    t.ok(Object.isFrozen(suite.capabilities))
  }
})

test('discover is whole as the very first request, and a version that is not spoken is answered with those that are: case 046', async t => {
  const suite = createSuite({ info, instructions: 'Ask for notes.', tools: [hello] })
  const app = await mount(t, { server: suite })
  const { answer } = await split(await call(app, 'server/discover'))
  t.ok(Value.Check(DiscoverResult, answer.result))
  t.match(answer.result, {
    resultType: 'complete',
    ttlMs: 0,
    cacheScope: 'private',
    instructions: 'Ask for notes.',
    capabilities: { tools: {}, logging: {} },
    _meta: { 'io.modelcontextprotocol/serverInfo': info }
  })

  const future = await call(app, 'server/discover', {}, {
    meta: { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' }, headers: { 'mcp-protocol-version': '2099-01-01' }
  })
  t.equal(future.statusCode, 400)
  const { error } = future.json<{ error: { code: number, data: { supported: string[] } } }>()
  t.equal(error.code, -32022)
  t.ok(error.data.supported.includes('2026-07-28'))
  t.strictSame((answer.result as unknown as { supportedVersions: string[] }).supportedVersions, error.data.supported)
})

test('a method whose capability is not declared is answered 404, -32601, and no provider is asked: RPC-16', async t => {
  const methods: readonly (readonly [method: string, params: object])[] = [
    ['tools/list', {}], ['tools/call', { name: 'hello', arguments: {} }], ['resources/list', {}], ['resources/templates/list', {}],
    ['resources/read', { uri: 'notes://1' }], ['prompts/list', {}], ['prompts/get', { name: 'greeting' }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'greeting' }, argument: { name: 'name', value: '' } }]
  ]
  const app = await mount(t, { server: createSuite({ info }) })
  for (const [method, params] of methods) {
    const response = await call(app, method, params)
    t.equal(response.statusCode, 404, method)
    t.match(response.json(), { error: { code: -32601, data: { method } } })
  }
})

test('discover and listens are for a mount to answer: a Suite that is asked without one refuses them', async t => {
  const suite = createSuite({ info })
  for (const request of [
    { method: 'server/discover', id: 1, params: {} }, { method: 'subscriptions/listen', id: 1, params: { notifications: {} } }
  ]) {
    await t.rejects(async () => await suite.handleRequest(request as never, {} as never, undefined), { code: 'MCP_ERR_UNSUPPORTED_METHOD', rpcCode: -32601 })
  }
})

// ---- each method

test('every method reaches its provider', async t => {
  const files = defineResources({ prefix: 'file:///', read: () => null })
  const suite = createSuite({ info, tools: [hello], resources: [files, notes], prompts: [greeting] })
  const { request } = await clientOf(t, suite)
  t.match(await request('tools/list', {}), { tools: [{ name: 'hello', inputSchema: { type: 'object', required: ['name'] } }], resultType: 'complete' })
  t.match(await request('tools/call', { name: 'hello', arguments: { name: 'Ada' } }), { content: [{ type: 'text', text: 'Hello Ada' }] })
  t.match(await request('resources/list', {}), { resources: [{ uri: 'notes://1', name: 'one' }] })
  t.match(await request('resources/templates/list', {}), { resourceTemplates: [{ uriTemplate: 'notes://{id}', name: 'note' }] })
  t.match(await request('resources/read', { uri: 'notes://1' }), { contents: [{ uri: 'notes://1', text: 'one' }] })
  t.match(await request('prompts/list', {}), { prompts: [{ name: 'greeting', arguments: [{ name: 'name', required: true }] }] })
  t.match(await request('prompts/get', { name: 'greeting', arguments: { name: 'Ada' } }), { messages: [{ content: { text: 'Greet Ada' } }] })
  t.match(await request('completion/complete', {
    ref: { type: 'ref/resource', uri: 'notes://{id}' }, argument: { name: 'id', value: '1' }, context: { arguments: {} }
  }), { completion: { values: ['1', '12'] } })
})

test('what is not there is an error of the protocol that names it', async t => {
  const app = await mount(t, { server: createSuite({ info, tools: [hello], resources: [notes], prompts: [greeting] }) })
  const cases: readonly (readonly [method: string, params: object, data: object])[] = [
    ['tools/call', { name: 'nothing', arguments: {} }, { tool: 'nothing' }],
    ['resources/read', { uri: 'notes://2' }, { uri: 'notes://2' }],
    ['resources/read', { uri: 'other://1' }, { uri: 'other://1' }],
    ['prompts/get', { name: 'nothing' }, { name: 'nothing' }]
  ]
  for (const [method, params, data] of cases) {
    const response = await call(app, method, params)
    t.equal(response.statusCode, 200)
    t.match(response.json(), { error: { code: -32602, data } })
  }
})

test('the cache hint of the Suite goes on its lists, and the list of tools is made once', async t => {
  const cache = { scope: 'public', ttlMs: 60_000 } as const
  const { request } = await clientOf(t, createSuite({ info, cache, tools: [hello], resources: [notes], prompts: [greeting] }))
  const hint = { cacheScope: 'public', ttlMs: 60_000 }
  t.match(await request('tools/list', {}), hint)
  t.strictSame(await request('tools/list', {}), await request('tools/list', {}))
  t.match(await request('resources/list', {}), hint)
  t.match(await request('prompts/list', {}), hint)

  const personal = defineResources({ prefix: 'own://', list: (_cursor, { principal }) => ({ items: [{ uri: `own://${principal ?? ''}`, name: 'own' }] }), read: () => null })
  const { request: of } = await clientOf(t, createSuite({ info, cache, resources: [personal] }))
  t.match(await of('resources/list', {}), { cacheScope: 'private', ttlMs: 60_000 })

  const { request: without } = await clientOf(t, createSuite({ info, tools: [hello] }))
  t.match(await without('tools/list', {}), { cacheScope: 'private', ttlMs: 0 })
})

test('lists are cut into pages of the size that was asked for', async t => {
  const tools = ['a', 'b', 'c'].map(name => defineTool({ name, call: () => toolResult.text(name) }))
  const { request } = await clientOf(t, createSuite({ info, tools, pageSize: 2 }))
  const first = await request('tools/list', {}) as { tools: readonly { name: string }[], nextCursor?: string }
  t.strictSame(first.tools.map(({ name }) => name), ['a', 'b'])
  const { nextCursor: cursor } = first
  if (cursor === undefined) throw new Error('There is no second page')
  const second = await request('tools/list', { cursor }) as typeof first
  t.strictSame(second.tools.map(({ name }) => name), ['c'])
  t.notOk('nextCursor' in second)
})

// ---- extensions

test('what an extension finds is asked for after the providers of the Suite, and its mistakes are crashes', async t => {
  const own = defineTool({ name: 'hello', call: () => toolResult.text('from the extension') })
  const other = defineTool({ name: 'other', call: () => toolResult.text('other') })
  const asked: string[] = []
  const extension: SuiteExtension = {
    tools: () => {
      asked.push('tools')
      return [own, other]
    }
  }
  const { request } = await clientOf(t, createSuite({ info, tools: [hello], extensions: [extension] }))
  t.match(await request('tools/call', { name: 'hello', arguments: { name: 'Ada' } }), { content: [{ text: 'Hello Ada' }] })
  t.strictSame(asked, [])
  t.match(await request('tools/call', { name: 'other', arguments: {} }), { content: [{ text: 'other' }] })
  t.match(await request('tools/list', {}), { tools: [{ name: 'hello', inputSchema: { required: ['name'] } }, { name: 'other' }] })
  t.strictSame(asked, ['tools', 'tools'])

  const app = await mount(t, { server: create({ extensions: [{ tools: () => [{ name: 'no provider' }] }, { tools: undefined }] }) })
  const response = await call(app, 'tools/list')
  t.equal(response.statusCode, 500)
  t.match(response.json(), { error: { code: -32603 } })
})

test('an extension is asked once in a request, whatever the request looks for', async t => {
  let asked = 0
  const extension: SuiteExtension = {
    resources: async () => {
      asked++
      return [notes]
    }
  }
  const suite = createSuite({ info, resources: [], extensions: [extension], subscriptions: busSubscriptions() })
  const app = await mount(t, { server: suite })
  const test = createTestClient(app)
  t.teardown(async () => { await test.close() })

  const complete = { argument: { name: 'id', value: '1' }, context: { arguments: {} } }
  t.match((await test.request('completion/complete', { ref: { type: 'ref/resource', uri: 'notes://7' }, ...complete })).result, { completion: { values: ['1', '12'] } })
  t.equal(asked, 1)

  const listen = await test.open('subscriptions/listen', { notifications: { resourceSubscriptions: ['notes://1', 'notes://2', 'other://3'] } })
  const [acknowledged] = await take(listen, 1)
  t.match(acknowledged, { params: { notifications: { resourceSubscriptions: ['notes://1', 'notes://2'] } } })
  t.equal(asked, 2)
})

// ---- tools that keep a stream

type Step = { readonly progress: number } | 'done' | 'fail' | 'throw' | 'bad'

/** A tool that streams: progress twice, and then what it was asked for. */
function createStreaming () {
  const closed: { readonly live: unknown, readonly reason: CloseReason }[] = []
  const tool = defineTool({
    name: 'streaming',
    input: Type.Object({ end: Type.Unsafe<Step>({}) }),
    messages: messageType<Step>(),
    call: ({ end }, channel) => {
      for (const message of [{ progress: 1 }, { progress: 2 }, end]) channel.ref.post(message)
      return stream({ seen: 0 })
    },
    handleMessage: (message, channel, live) => {
      if (message === 'fail') return fail('The stream failed.')
      if (message === 'throw') throw new Error('secret')
      if (message === 'bad') return undefined as never
      if (message === 'done') return toolResult.text(`seen ${live.seen}`)
      channel.sendProgress(message.progress)
      return stream({ seen: live.seen + 1 })
    },
    handleClose: (_context, live, reason) => { closed.push({ live, reason }) }
  })
  return { tool, closed }
}

test('a tool that streams is told its messages with the state it gave, and answers when it likes', async t => {
  const { tool, closed } = createStreaming()
  const test = await client(t, createSuite({ info, tools: [tool] }))
  const answer = await test.request('tools/call', { name: 'streaming', arguments: { end: 'done' } }, { progressToken: 'p' })
  t.match(answer.notifications, [{ params: { progress: 1 } }, { params: { progress: 2 } }])
  t.match(answer.result, { content: [{ text: 'seen 2' }] })
  t.match((await test.request('tools/call', { name: 'streaming', arguments: { end: 'fail' } }, { progressToken: 'p' })).error, { code: -32603, message: 'The stream failed.' })
  const { result } = await test.request('tools/call', { name: 'streaming', arguments: { end: 'throw' } }, { progressToken: 'p' })
  t.match(result, { isError: true, content: [{ text: 'The tool failed.' }] })
  t.notMatch(JSON.stringify(result), /secret/)
  t.match((await test.request('tools/call', { name: 'streaming', arguments: { end: 'bad' } }, { progressToken: 'p' })).error, { code: -32603 })
  // A crash closes it, an answer does not.
  t.strictSame(closed, [{ live: { seen: 2 }, reason: 'crash' }])
})

test('a tool whose client leaves its stream is told so once, with its state', async t => {
  const { tool, closed } = createStreaming()
  const ends: unknown[] = []
  let ended = (): void => {}
  const whenEnded = new Promise<void>(resolve => { ended = resolve })
  const app = await mount(t, {
    server: createSuite({ info, tools: [tool] }),
    onEnd: ({ cause }) => {
      ends.push(cause)
      ended()
    }
  })
  const test = createTestClient(app)
  const call = await test.open('tools/call', { name: 'streaming', arguments: { end: { progress: 3 } } }, { progressToken: 'p' })
  await take(call, 3)
  call.vanish()
  await whenEnded
  t.strictSame(ends, ['disconnect'])
  t.strictSame(closed, [{ live: { seen: 3 }, reason: 'disconnect' }])
})

// ---- questions to the client

const confirm = { confirm: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }
const sure = () => ({ action: 'accept', content: { sure: true } })

test('a tool may ask the client and is called again with the answer: TOOL-34', async t => {
  const runs: unknown[] = []
  const tool = defineTool({
    name: 'remove',
    input: Type.Object({ path: Type.String() }),
    call: ({ path }, channel) => {
      const answers = channel.inputResponses(confirm)
      runs.push([answers?.confirm.action, channel.requestState(Type.Object({ round: Type.Number() }))?.round])
      if (answers === undefined) return inputRequired(confirm, { round: 1 })
      return toolResult.text(answers.confirm.action === 'accept' && answers.confirm.content.sure ? `${path} is gone` : 'kept')
    }
  })
  const test = await client(t, createSuite({ info, tools: [tool] }))
  const capabilities = { elicitation: { form: {} } }
  const asked = await test.request('tools/call', { name: 'remove', arguments: { path: 'a' } }, { capabilities })
  t.match(asked.result, { resultType: 'input_required', inputRequests: { confirm: { method: 'elicitation/create' } } })
  t.match((await test.request('tools/call', { name: 'remove', arguments: { path: 'a' } }, { capabilities, respond: sure })).result, { content: [{ text: 'a is gone' }] })
  t.strictSame(runs, [[undefined, undefined], [undefined, undefined], ['accept', 1]])
  t.match(await test.request('tools/call', { name: 'remove', arguments: { path: 'a' } }), { statusCode: 400, error: { code: -32021 } })
})

test('a resource may ask the client before it is read: RES-22', async t => {
  const secret = defineResources({
    prefix: 'secret://',
    read: ({ uri }, channel) => {
      const answers = channel.inputResponses(confirm)
      return answers === undefined ? inputRequired(confirm) : readResourceResult({ uri, text: answers.confirm.action }, { cache: { scope: 'public', ttlMs: 60_000 } })
    }
  })
  const test = await client(t, createSuite({ info, resources: [secret] }))
  const capabilities = { elicitation: { form: {} } }
  t.match((await test.request('resources/read', { uri: 'secret://1' }, { capabilities })).result, { resultType: 'input_required' })
  const { result } = await test.request('resources/read', { uri: 'secret://1' }, { capabilities, respond: sure })
  t.match(result, { contents: [{ text: 'accept' }], cacheScope: 'private', ttlMs: 0 })
})

test('a prompt may ask the client before it is given: PRM-12', async t => {
  const get = (_args: unknown, channel: { inputResponses: (questions: typeof confirm) => { confirm: { action: string } } | undefined }) => {
    const answers = channel.inputResponses(confirm)
    if (answers === undefined) return inputRequired(confirm)
    return getPromptResult([{ role: 'user', content: { type: 'text', text: answers.confirm.action } }])
  }
  const one = definePrompt({ name: 'one', get })
  const store = definePrompts({ prefix: 'store/', list: () => ({ items: [] }), get: (_name, args, channel) => get(args, channel) })
  const test = await client(t, createSuite({ info, prompts: [one, store] }))
  const capabilities = { elicitation: { form: {} } }
  for (const name of ['one', 'store/1']) {
    t.match((await test.request('prompts/get', { name, arguments: {} }, { capabilities })).result, { resultType: 'input_required' })
    t.match((await test.request('prompts/get', { name, arguments: {} }, { capabilities, respond: sure })).result, { messages: [{ content: { text: 'accept' } }] })
  }
})

async function clientOf (t: Test, suite: Suite) {
  const test = await client(t, suite)
  const request: (...args: Parameters<typeof test.request>) => Promise<unknown> = async (...args) => {
    const { result, error } = await test.request(...args)
    return result ?? error
  }
  return { request }
}
