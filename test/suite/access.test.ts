import { test, type Test } from 'tap'
import {
  createSuite, definePrompt, definePrompts, defineResources, defineTool, getPromptResult, readResourceResult, toolResult,
  type GenMcpOptions, type Guarded, type McpMethod, type ParamsOf, type RequestContext, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient, type TestAnswer, type TestClient } from 'fastify-gen-mcp/testing'
import { watchCaller } from '../../lib/suite/caller.js'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'

const principal: NonNullable<GenMcpOptions['principal']> = httpRequest => httpRequest.headers['x-user']?.toString()
const only = (user: string): Guarded => ({ access: ({ principal }) => principal === user })
const open = { scope: 'public', ttlMs: 5000 } as const

const tool = (name: string, guarded: Guarded = {}) => defineTool({ name, ...guarded, call: () => toolResult.text(name) })
const prompt = (name: string, guarded: Guarded = {}) => definePrompt({ name, ...guarded, get: () => getPromptResult([{ role: 'user', content: name }]), complete: { x: () => [name] } })
const resources = (prefix: string, guarded: Guarded = {}, text = prefix) => defineResources({
  template: { uriTemplate: `${prefix}{id}`, name: text },
  ...guarded,
  list: () => ({ items: [{ uri: `${prefix}1`, name: text }] }),
  complete: { id: () => [text] },
  read: ({ uri }) => readResourceResult({ uri, text }, { cache: open })
})

async function connect (t: Test, options: Omit<SuiteOptions, 'info'>): Promise<TestClient> {
  return createTestClient(await mount(t, { server: createSuite({ info, ...options }), principal }))
}

/** A request as one user. */
async function ask<M extends McpMethod> (client: TestClient, user: string, method: M, params: ParamsOf<M>): Promise<TestAnswer<M>> {
  return await client.request(method, params, { headers: { 'x-user': user } })
}

async function names (client: TestClient, user: string, method: McpMethod): Promise<readonly string[] | undefined> {
  const { result } = await ask(client, user, method, {} as ParamsOf<typeof method>)
  const { tools, prompts, resources, resourceTemplates } = result as unknown as Readonly<Record<string, readonly { readonly name: string }[] | undefined>>
  return (tools ?? prompts ?? resources ?? resourceTemplates)?.map(({ name }) => name)
}

/** An answer, with one name written as another: what is hidden is answered as what is not there. */
function renamed ({ statusCode, error, result }: TestAnswer<McpMethod>, name: string, as: string): unknown {
  return JSON.parse(JSON.stringify({ statusCode, error, result }).replaceAll(name, as))
}

test('one function decides what is listed and what is answered, as if the rest were not there: RES-14, CMP-08, case 089', async t => {
  const client = await connect(t, {
    tools: [tool('t-ada', only('ada')), tool('t-bob', only('bob')), tool('t-all')],
    prompts: [prompt('p-ada', only('ada')), prompt('p-bob', only('bob')), definePrompts({ prefix: 's-', ...only('bob'), list: () => ({ items: [{ name: 's-bob' }] }), get: () => getPromptResult([]) })],
    resources: [resources('ada://', only('ada')), resources('bob://', only('bob'))]
  })
  t.strictSame(await names(client, 'ada', 'tools/list'), ['t-ada', 't-all'])
  t.strictSame(await names(client, 'bob', 'tools/list'), ['t-bob', 't-all'])
  t.strictSame(await names(client, 'ada', 'prompts/list'), ['p-ada'])
  t.strictSame(await names(client, 'bob', 'prompts/list'), ['p-bob', 's-bob'])
  t.strictSame(await names(client, 'ada', 'resources/list'), ['ada://'])
  t.strictSame(await names(client, 'ada', 'resources/templates/list'), ['ada://'])

  const requests: readonly (readonly [hidden: string, unknown: string, send: (user: string, name: string) => Promise<TestAnswer<McpMethod>>])[] = [
    ['t-bob', 't-xyz', async (user, name) => await ask(client, user, 'tools/call', { name, arguments: {} })],
    ['p-bob', 'p-xyz', async (user, name) => await ask(client, user, 'prompts/get', { name, arguments: {} })],
    ['s-bob', 'x-xyz', async (user, name) => await ask(client, user, 'prompts/get', { name, arguments: {} })],
    ['bob://1', 'xyz://1', async (user, uri) => await ask(client, user, 'resources/read', { uri })],
    ['p-bob', 'p-xyz', async (user, name) => await ask(client, user, 'completion/complete', { ref: { type: 'ref/prompt', name }, argument: { name: 'x', value: '' }, context: { arguments: {} } })],
    ['bob://{id}', 'xyz://{id}', async (user, uri) => await ask(client, user, 'completion/complete', { ref: { type: 'ref/resource', uri }, argument: { name: 'id', value: '' }, context: { arguments: {} } })],
    ['bob://1', 'xyz://1', async (user, uri) => await ask(client, user, 'completion/complete', { ref: { type: 'ref/resource', uri }, argument: { name: 'id', value: '' }, context: { arguments: {} } })]
  ]
  for (const [hidden, unknown, send] of requests) {
    const answer = await send('ada', hidden)
    t.equal(answer.error?.code, -32602, hidden)
    t.strictSame(renamed(answer, hidden, unknown), renamed(await send('ada', unknown), unknown, unknown), hidden)
    t.equal((await send('bob', hidden)).error, undefined, hidden)
  }
})

test('only true opens, now or later, and each request asks anew', async t => {
  let answer: unknown
  // What the types leave out may come from JavaScript: a forgotten return, a truthy value.
  const client = await connect(t, { tools: [tool('a', { access: () => answer as boolean })] })
  for (const value of [undefined, null, 0, 1, 'yes', {}, false, Promise.resolve(false), Promise.resolve('yes')]) {
    answer = value
    t.strictSame(await names(client, 'ada', 'tools/list'), [])
    t.match(await ask(client, 'ada', 'tools/call', { name: 'a', arguments: {} }), { error: { code: -32602 } })
  }
  for (const value of [true, Promise.resolve(true)]) {
    answer = value
    t.strictSame(await names(client, 'ada', 'tools/list'), ['a'])
    t.match(await ask(client, 'ada', 'tools/call', { name: 'a', arguments: {} }), { result: { content: [{ text: 'a' }] } })
  }
})

test('an access that throws opens nothing: the request crashes', async t => {
  const client = await connect(t, { tools: [tool('a', { access: () => { throw new Error('secret') } }), tool('b')] })
  t.match(await ask(client, 'ada', 'tools/list', {}), { statusCode: 500, error: { code: -32603, message: 'Internal error' } })
  t.match(await ask(client, 'ada', 'tools/call', { name: 'a', arguments: {} }), { statusCode: 500, error: { code: -32603, message: 'Internal error' } })
  t.match(await ask(client, 'ada', 'tools/call', { name: 'b', arguments: {} }), { result: {} })
})

test('behind a provider that is hidden the next one of its name or prefix is found', async t => {
  const client = await connect(t, {
    tools: [tool('a', only('ada'))],
    prompts: [prompt('a', only('ada'))],
    resources: [resources('x://', only('ada'), 'hidden'), defineResources({ prefix: 'x://', read: ({ uri }) => readResourceResult({ uri, text: 'shown' }, { cache: open }) })],
    extensions: [{ tools: () => [defineTool({ name: 'a', call: () => toolResult.text('found') })], prompts: () => [prompt('a')] }]
  })
  t.match(await ask(client, 'ada', 'tools/call', { name: 'a', arguments: {} }), { result: { content: [{ text: 'a' }] } })
  t.match(await ask(client, 'bob', 'tools/call', { name: 'a', arguments: {} }), { result: { content: [{ text: 'found' }] } })
  t.strictSame(await names(client, 'bob', 'tools/list'), ['a'])
  t.strictSame(await names(client, 'ada', 'prompts/list'), ['a'])
  t.match(await ask(client, 'ada', 'resources/read', { uri: 'x://1' }), { result: { contents: [{ text: 'hidden' }] } })
  // CACHE-06: what is read under this URI depends on who asks, whoever answers.
  t.match(await ask(client, 'bob', 'resources/read', { uri: 'x://1' }), { result: { contents: [{ text: 'shown' }], cacheScope: 'private' } })
})

test('pages are of what the caller may see, and say nothing of the rest: PAG-07, case 089', async t => {
  const client = await connect(t, { pageSize: 1, tools: [tool('a', only('bob')), tool('b'), tool('c', only('bob')), tool('d', only('bob')), tool('e')] })
  const first = await ask(client, 'ada', 'tools/list', {})
  t.match(first, { result: { tools: [{ name: 'b' }] } })
  const { nextCursor = '' } = first.result as { readonly nextCursor?: string }
  const last = await ask(client, 'ada', 'tools/list', { cursor: nextCursor })
  t.strictSame(last.result, { ...last.result, tools: [{ name: 'e', inputSchema: { type: 'object', properties: {}, additionalProperties: false } }] })
  t.notOk('nextCursor' in (last.result ?? {}))
})

test('who asks is asked for each page, not when the list began: PAG-07', async t => {
  const granted = new Set(['ada'])
  const client = await connect(t, { pageSize: 1, tools: [tool('a'), tool('b'), tool('c', { access: ({ principal = '' }) => granted.has(principal) })] })
  const { nextCursor = '' } = (await ask(client, 'ada', 'tools/list', {})).result as { readonly nextCursor?: string }
  granted.clear()
  const { result } = await ask(client, 'ada', 'tools/list', { cursor: nextCursor })
  t.match(result, { tools: [{ name: 'b' }] })
  t.notOk('nextCursor' in (result ?? {}))
})

test('a list that access or an extension decides on is never for everybody: CACHE-06, case 089', async t => {
  const guarded: readonly Omit<SuiteOptions, 'info'>[] = [
    { tools: [tool('a', only('ada'))] }, { prompts: [prompt('a', only('ada'))] }, { resources: [resources('x://', only('ada'))] }, { extensions: [{ tools: () => [] }] }
  ]
  for (const options of guarded) {
    t.throws(() => createSuite({ info, ...options, cache: open }), { code: 'MCP_ERR_BAD_PROVIDER' })
    t.ok(createSuite({ info, ...options, cache: { scope: 'private', ttlMs: 5000 } }))
  }
  const suite = createSuite({ info, tools: [tool('a')], prompts: [prompt('a')], cache: open })
  const client = createTestClient(await mount(t, { server: suite, principal }))
  const scopes = async () => await Promise.all((['tools/list', 'prompts/list'] as const).map(async method => (await ask(client, 'ada', method, {})).result))
  t.match(await scopes(), [{ cacheScope: 'public' }, { cacheScope: 'public' }])
  suite.add(tool('b', only('bob')))
  t.match(await scopes(), [{ cacheScope: 'private', ttlMs: 5000 }, { cacheScope: 'public' }])
})

test('a list or a read whose author looked at who asks is for that caller alone: CACHE-06', async t => {
  const looks: readonly ((context: RequestContext) => unknown)[] = [({ principal }) => principal, ({ httpRequest }) => httpRequest.headers['x-user'], ({ tokens }) => tokens]
  for (const look of [...looks, () => 'nobody']) {
    const scope = looks.includes(look) ? 'private' : 'public'
    const client = await connect(t, {
      resources: [defineResources({
        prefix: 'x://',
        list (_cursor, context) {
          context.log.trace({ looked: look(context) }, 'listed')
          return { items: [] }
        },
        read ({ uri }, channel) {
          channel.sendLog('info', typeof look(channel))
          return readResourceResult({ uri, text: '' }, { cache: open })
        }
      })],
      prompts: [definePrompts({ prefix: '', list: (_cursor, context) => ({ items: [{ name: typeof look(context) }] }), get: () => null })],
      cache: open
    })
    t.match(await ask(client, 'ada', 'resources/list', {}), { result: { cacheScope: scope, ttlMs: 5000 } })
    t.match(await ask(client, 'ada', 'prompts/list', {}), { result: { cacheScope: scope, ttlMs: 5000 } })
    t.match(await ask(client, 'ada', 'resources/read', { uri: 'x://a' }), { result: { cacheScope: scope, ttlMs: 5000 } })
  }
})

test('what is read behind access, or from what an extension found, is for that caller alone: CACHE-06', async t => {
  const client = await connect(t, {
    resources: [
      resources('all://'), resources('ada://', only('ada')),
      defineResources({ prefix: 'kept://', ...only('ada'), read: ({ uri }) => readResourceResult({ uri, text: '' }, { cache: { scope: 'private', ttlMs: 5000 } }) })
    ],
    extensions: [{ resources: ({ principal }) => principal === 'ada' ? [resources('found://')] : [] }]
  })
  for (const [uri, cacheScope] of [['all://1', 'public'], ['ada://1', 'private'], ['kept://1', 'private'], ['found://1', 'private']] as const) {
    t.match(await ask(client, 'ada', 'resources/read', { uri }), { result: { cacheScope, ttlMs: 5000, contents: [{ uri }] } }, uri)
  }
})

test('what was listed for everybody is held against access all the same: CACHE-07', async t => {
  const suite = createSuite({ info, tools: [tool('a')], cache: open })
  const client = createTestClient(await mount(t, { server: suite, principal }))
  t.match(await ask(client, 'ada', 'tools/list', {}), { result: { tools: [{ name: 'a' }], cacheScope: 'public' } })
  suite.add(tool('b', only('bob')))
  t.match(await ask(client, 'ada', 'tools/call', { name: 'b', arguments: {} }), { error: { code: -32602 } })
  t.match(await ask(client, 'bob', 'tools/call', { name: 'b', arguments: {} }), { result: {} })
})

test('a watched context is the one that it watches, with its methods, and notices a look at who asks', async t => {
  class Context {
    readonly #name = 'ada'
    get principal (): string { return this.#name }
    get log (): string { return `log of ${this.#name}` }
    greet (): string { return `Hello ${this.#name}` }
  }
  // A context has more members, none of which matters here.
  const { context, looked } = watchCaller(new Context() as unknown as RequestContext & Context)
  t.equal(context.greet(), 'Hello ada')
  t.equal(context.log, 'log of ada')
  t.equal(looked(), false)
  t.equal(context.principal, 'ada')
  t.equal(looked(), true)
})
