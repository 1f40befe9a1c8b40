import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import {
  busSubscriptions, createSuite, definePrompt, definePrompts, defineResources, defineSubscriptions, defineTool, getPromptResult, readResourceResult, stream,
  toolResult, type JsonObject, type Suite, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import { take } from '../helpers/stream.js'

const toolOf = (name: string, text = name) => defineTool({ name, description: 'A tool.', call: () => toolResult.text(text) })
const notes = defineResources({ template: { uriTemplate: 'notes://{id}', name: 'note' }, read: ({ uri }) => readResourceResult({ uri, text: 'a note' }) })
const prompt = definePrompt({ name: 'prompt', get: () => getPromptResult([{ role: 'user', content: { type: 'text', text: 'asked' } }]) })
const store = definePrompts({ prefix: 'store/', list: () => ({ items: [{ name: 'store/1' }] }), get: () => getPromptResult([]) })

/** A Suite that is mounted, with a client. */
async function serve (t: Test, options: Partial<SuiteOptions> = {}) {
  const suite: Suite = createSuite({ info, tools: [], resources: [], prompts: [], ...options })
  const client = createTestClient(await mount(t, { server: suite }))
  t.teardown(async () => { await client.close() })
  return {
    suite,
    client,
    request: async (...args: Parameters<typeof client.request>): Promise<JsonObject> => {
      const { result, error } = await client.request(...args)
      return (result ?? error) as JsonObject
    },
    names: async (): Promise<string[]> => {
      const { result } = await client.request('tools/list', {})
      return (result as unknown as { tools: { name: string }[] }).tools.map(({ name }) => name)
    }
  }
}

test('a provider that is added while the Suite runs is listed after those of its kind, and found', async t => {
  const { suite, request, names } = await serve(t, { tools: [toolOf('first')] })
  t.strictSame(await names(), ['first'])
  suite.add(toolOf('second'))
  t.strictSame(await names(), ['first', 'second'])
  t.match(await request('tools/call', { name: 'second', arguments: {} }), { content: [{ text: 'second' }] })

  suite.add(notes)
  t.match(await request('resources/templates/list', {}), { resourceTemplates: [{ uriTemplate: 'notes://{id}' }] })
  t.match(await request('resources/read', { uri: 'notes://1' }), { contents: [{ text: 'a note' }] })

  suite.add(prompt)
  suite.add(store)
  t.match(await request('prompts/list', {}), { prompts: [{ name: 'prompt' }, { name: 'store/1' }] })
  t.match(await request('prompts/get', { name: 'prompt', arguments: {} }), { messages: [{ content: { text: 'asked' } }] })
})

test('a provider that is removed is listed no more, and unknown', async t => {
  const [first, second] = [toolOf('first'), toolOf('second')]
  const { suite, request, names } = await serve(t, { tools: [first, second], resources: [notes], prompts: [prompt] })
  t.strictSame(await names(), ['first', 'second'])
  t.equal(suite.remove(first), true)
  t.strictSame(await names(), ['second'])
  t.match(await request('tools/call', { name: 'first', arguments: {} }), { code: -32602, data: { tool: 'first' } })
  t.equal(suite.remove(notes), true)
  t.match(await request('resources/read', { uri: 'notes://1' }), { code: -32602, data: { uri: 'notes://1' } })
  t.equal(suite.remove(prompt), true)
  t.match(await request('prompts/get', { name: 'prompt', arguments: {} }), { code: -32602, data: { name: 'prompt' } })
})

test('what is not there cannot be removed, nor by its name alone', async t => {
  const tool = toolOf('tool')
  const { suite, names } = await serve(t, { tools: [tool] })
  t.equal(suite.remove(toolOf('tool')), false)
  t.equal(suite.remove(toolOf('other')), false)
  t.equal(suite.remove(prompt), false)
  t.strictSame(await names(), ['tool'])
  t.equal(suite.remove(tool), true)
  t.equal(suite.remove(tool), false)
  suite.add(tool)
  t.strictSame(await names(), ['tool'])

  const bare = createSuite({ info })
  for (const provider of [tool, notes, prompt]) t.equal(bare.remove(provider), false)
})

test('what cannot be added throws one coded error, and nothing changes', async t => {
  const { suite, names } = await serve(t, { tools: [toolOf('tool')] })
  const code = 'MCP_ERR_BAD_PROVIDER'
  t.throws(() => { suite.add(toolOf('tool', 'another')) }, { code, message: /The provider tool is there already/ })
  const strangers = [{ name: 'tool' }, undefined, defineSubscriptions({ kinds: [], subscribe: () => stream(undefined) })]
  for (const stranger of strangers) {
    t.throws(() => { suite.add(stranger as never) }, { code, message: /A provider was given that no define function made/ })
    t.throws(() => suite.remove(stranger as never), { code })
  }
  t.strictSame(await names(), ['tool'])

  const bare = createSuite({ info })
  for (const [provider, option] of [[toolOf('tool'), 'tools'], [notes, 'resources'], [prompt, 'prompts']] as const) {
    t.throws(() => { bare.add(provider) }, { code, message: `A provider cannot be added: give createSuite the option ${option}, if only an empty list` })
  }
})

test('a strict Suite refuses what is added as it refuses what it is made of', async t => {
  const lax = defineTool({ name: 'no.description', call: () => toolResult.text('') })
  const { suite, names } = await serve(t, { strict: true })
  t.throws(() => { suite.add(lax) }, { code: 'MCP_ERR_BAD_PROVIDER', message: /A strict Suite refuses: The tool no\.description has/ })
  suite.add(toolOf('described'))
  suite.add(notes)
  t.strictSame(await names(), ['described'])
  const { suite: other, names: ofOther } = await serve(t)
  other.add(lax)
  t.strictSame(await ofOther(), ['no.description'])
})

test('a list that was public is private from the moment that something in it depends on the caller', async t => {
  const cache = { scope: 'public', ttlMs: 1000 } as const
  const { suite, request } = await serve(t, { cache, tools: [toolOf('tool')] })
  t.match(await request('tools/list', {}), { cacheScope: 'public', ttlMs: 1000 })
  const own = defineTool({ name: 'own', input: Type.Object({}), access: () => true, call: () => toolResult.text('') })
  suite.add(own)
  t.match(await request('tools/list', {}), { cacheScope: 'private', ttlMs: 1000, tools: [{ name: 'tool' }, { name: 'own' }] })
  suite.remove(own)
  t.match(await request('tools/list', {}), { cacheScope: 'public', ttlMs: 1000 })
})

test('what comes and goes is announced, each kind by its own notification: case 077', async t => {
  const { suite, client } = await serve(t, { subscriptions: busSubscriptions() })
  const listened = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true } })
  await take(listened, 1)
  const tool = toolOf('tool')
  for (const change of ['add', 'remove'] as const) {
    for (const [provider, kind] of [[tool, 'tools'], [notes, 'resources'], [prompt, 'prompts']] as const) {
      suite[change](provider)
      t.match(await take(listened, 1), [{ method: `notifications/${kind}/list_changed` }])
    }
  }
  // What changes nothing is not announced.
  suite.remove(tool)
  suite.add(prompt)
  t.match(await take(listened, 1), [{ method: 'notifications/prompts/list_changed' }])
})

test('a provider comes and goes without a word where nobody can tell of it: DSC-07', async t => {
  const silent = defineSubscriptions({ kinds: ['resourceSubscriptions'], subscribe: () => stream(undefined) })
  for (const options of [{}, { subscriptions: silent }]) {
    const { suite, request, names } = await serve(t, options)
    const tool = toolOf('tool')
    suite.add(tool)
    t.strictSame(await names(), ['tool'])
    t.equal(suite.remove(tool), true)
    t.strictSame(await names(), [])
    const { capabilities } = await request('server/discover', {}) as { capabilities: { tools: object } }
    t.strictSame(capabilities.tools, {})
  }
})
