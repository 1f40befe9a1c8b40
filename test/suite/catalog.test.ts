import { test, type Test } from 'tap'
import {
  createSuite, definePrompt, definePrompts, defineResources, defineTool, getPromptResult, readResourceResult, toolResult,
  type Guarded, type McpMethod, type RequestContext, type Suite, type SuiteExtension, type SuiteOptions, type ToolProvider
} from 'fastify-gen-mcp'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'

const tool = (name: string, text = name, guarded: Guarded = {}) => defineTool({ name, ...guarded, call: () => toolResult.text(text) })
const prompt = (name: string, text = name, guarded: Guarded = {}) => definePrompt({ name, ...guarded, get: () => getPromptResult([{ role: 'user', content: text }]) })
const resources = (prefix: string, text = prefix, guarded: Guarded = {}) => defineResources({
  prefix, ...guarded, list: () => ({ items: [{ uri: prefix, name: text }] }), read: ({ uri }) => readResourceResult({ uri, text })
})
const saying = (text: string) => ({ result: { content: [{ text }] } })

async function connect (t: Test, options: Omit<SuiteOptions, 'info'>): Promise<TestClient> {
  return createTestClient(await mount(t, { server: createSuite({ info, ...options }) }))
}

const callTool = async (client: TestClient, name: string) => await client.request('tools/call', { name, arguments: {} })

/** The names of what is listed. */
async function names (client: TestClient, method: Extract<McpMethod, 'tools/list' | 'prompts/list' | 'resources/list'>): Promise<readonly string[] | undefined> {
  const { result } = await client.request(method, {})
  const { tools, prompts, resources } = result as unknown as Readonly<Record<string, readonly { readonly name: string }[] | undefined>>
  return (tools ?? prompts ?? resources)?.map(({ name }) => name)
}

/** An extension of one tool, and how often it was asked. */
function counting (...tools: ToolProvider[]): SuiteExtension & { asked: number } {
  return { asked: 0, tools () { return this.asked++ < 0 ? [] : tools } }
}

test('what the Suite has comes first, then what each extension finds, in their order', async t => {
  const client = await connect(t, {
    tools: [tool('b'), tool('a')],
    prompts: [prompt('b')],
    resources: [resources('b://')],
    extensions: [{ tools: () => [tool('z')], prompts: async () => [prompt('z')] }, {}, { tools: async () => [tool('c'), tool('d')], resources: () => [resources('a://')] }]
  })
  t.strictSame(await names(client, 'tools/list'), ['b', 'a', 'z', 'c', 'd'])
  t.strictSame(await names(client, 'prompts/list'), ['b', 'z'])
  t.strictSame(await names(client, 'resources/list'), ['b://', 'a://'])
})

test('of two providers of one name the first is listed and asked', async t => {
  const client = await connect(t, {
    tools: [tool('a', 'own')],
    prompts: [prompt('a', 'own')],
    resources: [resources('a://', 'own')],
    extensions: [
      { tools: () => [tool('a', 'first'), tool('b', 'first'), tool('b', 'second')], prompts: () => [prompt('a', 'first')], resources: () => [resources('a://', 'first')] },
      { tools: () => [tool('b', 'third')] }
    ]
  })
  t.strictSame(await names(client, 'tools/list'), ['a', 'b'])
  t.strictSame(await names(client, 'prompts/list'), ['a'])
  t.strictSame(await names(client, 'resources/list'), ['own'])
  t.match(await callTool(client, 'a'), saying('own'))
  t.match(await callTool(client, 'b'), saying('first'))
  t.match(await client.request('prompts/get', { name: 'a', arguments: {} }), { result: { messages: [{ content: { text: 'own' } }] } })
  t.match(await client.request('resources/read', { uri: 'a://x' }), { result: { contents: [{ text: 'own' }] } })
})

test('extensions are asked one by one, as far as needed, and for a list all of them', async t => {
  const [first, second] = [counting(tool('b')), counting(tool('c'))]
  const client = await connect(t, { tools: [tool('a')], extensions: [first, second] })
  const asked = async (name: string) => {
    first.asked = second.asked = 0
    const answer = await callTool(client, name)
    return [answer.error === undefined, first.asked, second.asked]
  }
  t.strictSame(await asked('a'), [true, 0, 0])
  t.strictSame(await asked('b'), [true, 1, 0])
  t.strictSame(await asked('c'), [true, 1, 1])
  t.strictSame(await asked('d'), [false, 1, 1])
  first.asked = second.asked = 0
  t.strictSame(await names(client, 'tools/list'), ['a', 'b', 'c'])
  t.strictSame([first.asked, second.asked], [1, 1])
})

test('an extension finds by the request, each time anew, and with this of its own', async t => {
  const extension = {
    suffix: '!',
    tools ({ httpRequest }: RequestContext) { return [tool('who', `${httpRequest.headers['x-user']?.toString()}${this.suffix}`)] }
  }
  const client = await connect(t, { extensions: [extension] })
  for (const user of ['ada', 'bob']) t.match(await client.request('tools/call', { name: 'who', arguments: {} }, { headers: { 'x-user': user } }), saying(`${user}!`))
})

test('an extension that throws, or finds what is none, makes the request crash', async t => {
  // What the types leave out may come from JavaScript.
  for (const found of [() => { throw new Error('secret') }, () => [{ name: 'a' }], () => [prompt('a')]]) {
    const client = await connect(t, { tools: [tool('a')], extensions: [{ tools: found as unknown as () => readonly ToolProvider[] }] })
    const { statusCode, error } = await client.request('tools/list', {})
    t.equal(statusCode, 500)
    t.strictSame(error, { code: -32603, message: 'Internal error' })
    t.match(await callTool(client, 'a'), saying('a'), 'what is found without it is not disturbed')
  }
})

test('an extension that finds nothing adds nothing', async t => {
  const client = await connect(t, { extensions: [{ tools: () => [] }] })
  t.strictSame(await names(client, 'tools/list'), [])
  t.match(await callTool(client, 'a'), { error: { code: -32602, data: { tool: 'a' } } })
})

test('two providers of one name in one Suite are a mistake, and two of one prefix are not', async t => {
  const read = () => null
  const template = (uriTemplate: string) => defineResources({ template: { uriTemplate, name: 'x' }, read })
  const store = (prefix: string) => definePrompts({ prefix, list: () => ({ items: [] }), get: read })
  const doubles: readonly Omit<SuiteOptions, 'info'>[] = [
    { tools: [tool('a'), tool('a')] }, { prompts: [prompt('a'), prompt('a')] }, { prompts: [store('a'), store('a')] },
    { resources: [resources('x://'), resources('x://')] }, { resources: [template('x://{a}'), template('x://{a}')] }
  ]
  for (const options of doubles) t.throws(() => createSuite({ info, ...options }), { code: 'MCP_ERR_BAD_PROVIDER' })
  t.ok(createSuite({ info, tools: [tool('a')], prompts: [prompt('a'), store('a'), store('a.')], resources: [template('x://{a}'), template('x://{b}'), resources('x://')] }))
})

test('a provider that is added is listed and asked from then on, and one that is removed is not', async t => {
  const suite = createSuite({ info, tools: [tool('a')], prompts: [], resources: [] })
  const client = createTestClient(await mount(t, { server: suite }))
  const [late, prompted, found] = [tool('late'), prompt('p'), resources('x://')]
  t.strictSame(await names(client, 'tools/list'), ['a'])
  t.match(await callTool(client, 'late'), { error: { code: -32602 } })

  for (const provider of [late, prompted, found]) suite.add(provider)
  t.strictSame(await names(client, 'tools/list'), ['a', 'late'])
  t.strictSame(await names(client, 'prompts/list'), ['p'])
  t.strictSame(await names(client, 'resources/list'), ['x://'])
  t.match(await callTool(client, 'late'), saying('late'))

  for (const provider of [late, prompted, found]) t.equal(suite.remove(provider), true)
  for (const provider of [late, prompted, found]) t.equal(suite.remove(provider), false)
  t.strictSame(await names(client, 'tools/list'), ['a'])
  t.strictSame(await names(client, 'prompts/list'), [])
  t.match(await callTool(client, 'late'), { error: { code: -32602 } })
})

test('adding one of a name that is there is a mistake, and another of that name removes nothing', async t => {
  const suite: Suite = createSuite({ info, tools: [tool('a', 'own')] })
  const client = createTestClient(await mount(t, { server: suite }))
  t.throws(() => { suite.add(tool('a')) }, { code: 'MCP_ERR_BAD_PROVIDER' })
  t.equal(suite.remove(tool('a')), false)
  t.match(await callTool(client, 'a'), saying('own'))
})

test('one that takes the place of another is what is listed then', async t => {
  const old = defineTool({ name: 'a', title: 'Old', call: () => toolResult.text('old') })
  const suite = createSuite({ info, tools: [old] })
  const client = createTestClient(await mount(t, { server: suite }))
  t.match(await client.request('tools/list', {}), { result: { tools: [{ title: 'Old' }] } })
  suite.remove(old)
  suite.add(defineTool({ name: 'a', title: 'New', call: () => toolResult.text('new') }))
  t.match(await client.request('tools/list', {}), { result: { tools: [{ title: 'New' }] } })
})
