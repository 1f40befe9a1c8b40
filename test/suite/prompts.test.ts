import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  busSubscriptions, createSuite, definePrompt, definePrompts, defineSubscriptions, elicitForm, fail, getPromptResult, inputRequired, result, stop, stream,
  type GetPromptResult, type ListPromptsResult as ListPromptsResultType, type Prompt, type PromptDefinition, type PromptsDefinition, type StandardSchema, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import { GetPromptResult as GetPromptResultSchema, ListPromptsResult } from '../../lib/protocol/index.js'
import { call, mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import type { Message } from '../helpers/messages.js'

const say = (text: string): GetPromptResult => getPromptResult([{ role: 'user', content: text }])
const saying = (text: string) => ({ result: { messages: [{ role: 'user', content: { type: 'text', text } }] } })

async function connect (t: Test, options: Omit<SuiteOptions, 'info'>): Promise<TestClient> {
  const client = createTestClient(await mount(t, { server: createSuite({ info, ...options }) }))
  t.teardown(async () => { await client.close() })
  return client
}

const greeting = definePrompt({
  name: 'greeting',
  arguments: Type.Object({ name: Type.String({ minLength: 1 }), tone: Type.Optional(Type.String()) }),
  get: ({ name, tone = 'kindly' }) => say(`Greet ${name} ${tone}`)
})

// ---- what is declared and listed

test('prompts are declared where there are some, with what the subscriptions can tell of them: PRM-01', async t => {
  const subscriptions = defineSubscriptions({ kinds: ['promptsListChanged'], subscribe: () => stream(undefined) })
  const cases: readonly (readonly [Omit<SuiteOptions, 'info'>, object])[] = [
    [{}, {}], [{ prompts: [] }, { prompts: {} }], [{ prompts: [greeting] }, { prompts: {} }], [{ prompts: [], subscriptions }, { prompts: { listChanged: true } }], [{ subscriptions }, {}]
  ]
  for (const [options, expected] of cases) {
    const { result } = await (await connect(t, options)).request('server/discover', {})
    t.strictSame(result, { ...result, capabilities: { logging: {}, ...expected } })
  }
  t.match(await (await connect(t, {})).request('prompts/list', {}), { statusCode: 404, error: { code: -32601 } })
})

test('a list of no prompts is empty: PRM-02', async t => {
  const { result } = await (await connect(t, { prompts: [] })).request('prompts/list', {})
  t.strictSame(result, { ...result, resultType: 'complete', prompts: [], ttlMs: 0, cacheScope: 'private' })
  t.notOk('nextCursor' in (result ?? {}))
})

test('prompts are listed as they were defined, their arguments by the schema: PRM-02, PRM-03', async t => {
  const client = await connect(t, {
    prompts: [
      definePrompt({
        name: 'review',
        title: 'Review',
        description: 'Reviews code',
        icons: [{ src: 'https://example.com/a.png' }],
        _meta: { 'example.com/kind': 'code' },
        arguments: Type.Object({ code: Type.String({ title: 'Code', description: 'What to review' }), style: Type.Optional(Type.String()) }),
        get: ({ code }) => say(code)
      }),
      definePrompt({ name: 'plain', get: () => say('plain') }),
      definePrompt({ name: 'none', arguments: Type.Object({}), get: () => say('none') }),
      definePrompts({ prefix: 'stored.', list: () => ({ items: [{ name: 'stored.a', arguments: [{ name: 'x' }] }] }), get: () => null })
    ]
  })
  const { result } = await client.request('prompts/list', {})
  t.ok(Value.Check(ListPromptsResult, result))
  t.strictSame(result, {
    ...result,
    prompts: [
      {
        name: 'review',
        title: 'Review',
        description: 'Reviews code',
        icons: [{ src: 'https://example.com/a.png' }],
        _meta: { 'example.com/kind': 'code' },
        arguments: [{ name: 'code', title: 'Code', description: 'What to review', required: true }, { name: 'style' }]
      },
      { name: 'plain' }, { name: 'none', arguments: [] }, { name: 'stored.a', arguments: [{ name: 'x' }] }
    ]
  })
})

test('an entry of a store that a client must refuse is not sent: PRM-03, ICON-02', async t => {
  for (const entry of [{}, { name: 5 }, { name: 'a', arguments: [{ title: 'X' }] }, { name: 'a', icons: [{ src: 'file:///a.png' }] }, { name: 'a', _meta: { progressToken: 1 } }]) {
    const client = await connect(t, { prompts: [greeting, definePrompts({ prefix: 'stored.', list: () => ({ items: [entry as Prompt, { name: 'stored.a' }] }), get: () => null })] })
    const { result } = await client.request('prompts/list', {})
    t.match(result, { prompts: [{ name: 'greeting' }, { name: 'stored.a' }] }, JSON.stringify(entry))
    t.equal((result as ListPromptsResultType).prompts.length, 2)
  }
})

// ---- getting one

test('a prompt is got with its arguments: PRM-07', async t => {
  const client = await connect(t, { prompts: [greeting] })
  const { result } = await client.request('prompts/get', { name: 'greeting', arguments: { name: 'Ada' } })
  t.ok(Value.Check(GetPromptResultSchema, result))
  t.match({ result }, saying('Greet Ada kindly'))
  t.match(await client.request('prompts/get', { name: 'greeting', arguments: { name: 'Ada', tone: 'loudly' } }), saying('Greet Ada loudly'))
})

test('arguments that do not fit are -32602, and the author is not asked: PRM-05, PRM-06, PRM-10', async t => {
  let got = 0
  const strict = definePrompt({
    name: 'strict',
    arguments: Type.Object({ uri: Type.String({ pattern: '^x://' }) }, { additionalProperties: false }),
    get: ({ uri }) => say(`${++got} ${uri}`)
  })
  const client = await connect(t, { prompts: [strict] })
  const bad: readonly (readonly [Readonly<Record<string, string>>, string])[] = [
    [{}, 'arguments/uri'], [{ uri: 'file:///etc/passwd' }, 'arguments/uri'], [{ uri: 'x://a', more: '' }, 'arguments/more']
  ]
  for (const [args, path] of bad) {
    t.match(await client.request('prompts/get', { name: 'strict', arguments: args }), { statusCode: 200, error: { code: -32602, data: { issues: [{ path }] } } }, path)
  }
  t.equal(got, 0)
  t.match(await client.request('prompts/get', { name: 'strict', arguments: { uri: 'x://a' } }), saying('1 x://a'))
})

test('unknown arguments are ignored unless the schema refuses them: PRM-06', async t => {
  const client = await connect(t, { prompts: [greeting] })
  t.match(await client.request('prompts/get', { name: 'greeting', arguments: { name: 'Ada', more: 'x' } }), saying('Greet Ada kindly'))
})

test('an argument that is no string is -32602: PRM-04', async t => {
  const app = await mount(t, { server: createSuite({ info, prompts: [greeting] }) })
  for (const name of [5, true, null, ['Ada'], { first: 'Ada' }]) {
    const response = await call(app, 'prompts/get', { name: 'greeting', arguments: { name } })
    t.match(response.json<Message>(), { error: { code: -32602 } }, JSON.stringify(name))
  }
  t.match((await call(app, 'prompts/get', { name: 'greeting' })).json<Message>(), { error: { code: -32602 } })
})

test('a Standard Schema parses the arguments, at once or later', async t => {
  const count = (later: boolean): StandardSchema<{ readonly count: number }> => ({
    '~standard': {
      validate: value => {
        const { count } = value as { readonly count?: string }
        const outcome = /^\d+$/.test(count ?? '') ? { value: { count: Number(count) } } : { issues: [{ message: 'is no number', path: ['count'] }] }
        return later ? Promise.resolve(outcome) : outcome
      },
      jsonSchema: { input: () => ({ type: 'object', properties: { count: { type: 'string' } }, required: ['count'] }), output: () => ({}) }
    }
  })
  for (const later of [false, true]) {
    const client = await connect(t, { prompts: [definePrompt({ name: 'count', arguments: count(later), get: ({ count }) => say(`${count + 1}`) })] })
    t.match(await client.request('prompts/get', { name: 'count', arguments: { count: '41' } }), saying('42'))
    t.match(await client.request('prompts/get', { name: 'count', arguments: { count: 'x' } }), { error: { code: -32602, data: { issues: [{ path: 'arguments/count', message: 'is no number' }] } } })
  }
})

test('a prompt without a schema gets what was sent', async t => {
  const client = await connect(t, { prompts: [definePrompt({ name: 'free', get: args => say(JSON.stringify(args)) })] })
  t.match(await client.request('prompts/get', { name: 'free', arguments: { a: 'b' } }), saying('{"a":"b"}'))
  t.match(await client.request('prompts/get', { name: 'free', arguments: {} }), saying('{}'))
})

test('an unknown prompt is -32602 with its name: PRM-05', async t => {
  const client = await connect(t, { prompts: [greeting, definePrompts({ prefix: 'stored.', list: () => ({ items: [] }), get: () => null })] })
  for (const name of ['other', 'constructor', '__proto__', 'Greeting', 'greeting2', 'stored', 'stored.a', '']) {
    t.match(await client.request('prompts/get', { name, arguments: { name: 'Ada' } }), {
      statusCode: 200, error: { code: -32602, message: `Prompt not found: ${JSON.stringify(name)}`, data: { name } }
    }, name)
  }
})

test('a prompt that throws is answered with a bare -32603: PRM-05', async t => {
  const client = await connect(t, { prompts: [definePrompt({ name: 'broken', get: () => { throw new Error('secret') } })] })
  const { statusCode, error } = await client.request('prompts/get', { name: 'broken', arguments: {} })
  t.equal(statusCode, 500)
  t.strictSame(error, { code: -32603, message: 'Internal error' })
})

test('bytes arrive as Base64, and a resource with all that it was given: PRM-08, PRM-09', async t => {
  const bytes = Uint8Array.from([0, 255, 128])
  const resource = { uri: 'x://a', mimeType: 'text/plain', text: 'A' }
  const client = await connect(t, {
    prompts: [definePrompt({
      name: 'media',
      get: () => getPromptResult([
        { role: 'user', content: { type: 'image', data: bytes, mimeType: 'image/png' } },
        { role: 'assistant', content: { type: 'audio', data: bytes, mimeType: 'audio/wav' } },
        { role: 'user', content: { type: 'resource', resource } }
      ], { description: 'All kinds' })
    })]
  })
  const { result } = await client.request('prompts/get', { name: 'media', arguments: {} })
  t.ok(Value.Check(GetPromptResultSchema, result))
  t.strictSame(result, {
    ...result,
    description: 'All kinds',
    messages: [
      { role: 'user', content: { type: 'image', data: 'AP+A', mimeType: 'image/png' } },
      { role: 'assistant', content: { type: 'audio', data: 'AP+A', mimeType: 'audio/wav' } },
      { role: 'user', content: { type: 'resource', resource } }
    ]
  })
})

test('a resource in a prompt has a media type, whether its author named one or not: PRM-09', async t => {
  const resources = [{ uri: 'x://a', text: 'A' }, { uri: 'x://b', blob: 'AA==' }, { uri: 'x://c', mimeType: 'text/markdown', text: 'C' }]
  const client = await connect(t, {
    prompts: [definePrompt({ name: 'files', get: () => getPromptResult([{ role: 'user', content: 'Read these' }, ...resources.map(resource => ({ role: 'user' as const, content: { type: 'resource' as const, resource } }))]) })]
  })
  t.match(await client.request('prompts/get', { name: 'files', arguments: {} }), {
    result: {
      messages: [
        { content: { type: 'text', text: 'Read these' } }, { content: { resource: { uri: 'x://a', mimeType: 'text/plain', text: 'A' } } },
        { content: { resource: { uri: 'x://b', mimeType: 'application/octet-stream', blob: 'AA==' } } }, { content: { resource: { uri: 'x://c', mimeType: 'text/markdown', text: 'C' } } }
      ]
    }
  })
  t.notOk(resources[0] !== undefined && 'mimeType' in resources[0], 'what the author keeps is left as it is')
})

test('what a prompt must not return never reaches a client: PRM-07, PRM-08, PRM-09, PRM-10', async t => {
  const text = { type: 'text', text: 'x' }
  const bad: readonly unknown[] = [
    undefined, 'text', {}, stop(), stream(1), { resultType: 'complete', messages: [{ role: 'user', content: [text] }] },
    { resultType: 'complete', messages: [{ role: 'system', content: text }] }, { resultType: 'complete', messages: [{ role: 'user', content: { type: 'resource', resource: { uri: 'x://a' } } }] },
    // PRM-08, PRM-09
    ...[
      { type: 'image', data: 'data:image/png;base64,AA==', mimeType: 'image/png' }, { type: 'image', data: 'AA==', mimeType: 'png' },
      { type: 'audio', data: 'AP8', mimeType: 'audio/wav' }, { type: 'resource', resource: { uri: 'not a uri', text: 'x' } },
      { type: 'resource', resource: { uri: 'x://a', mimeType: 'plain', text: 'x' } }, { type: 'resource', resource: { uri: 'x://a', blob: 'AP-_' } }
    ].map(content => ({ resultType: 'complete', messages: [{ role: 'user', content: text }, { role: 'user', content }] }))
  ]
  for (const value of bad) {
    const client = await connect(t, { prompts: [definePrompt({ name: 'bad', get: () => value as GetPromptResult })] })
    t.match(await client.request('prompts/get', { name: 'bad', arguments: {} }), { statusCode: 500, error: { code: -32603, message: 'Internal error' } })
  }
})

test('a prompt answers with outcomes as well', async t => {
  const client = await connect(t, {
    prompts: [
      definePrompt({ name: 'fails', get: () => fail({ kind: 'custom', rpcCode: 7, message: 'Seven' }) }),
      // What the types leave out may come from JavaScript.
      definePrompt({ name: 'result', get: () => result(say('by result')) as unknown as GetPromptResult }),
      definePrompt({ name: 'gone', get: () => null })
    ]
  })
  const get = async (name: string) => await client.request('prompts/get', { name, arguments: {} })
  t.match(await get('fails'), { error: { code: 7, message: 'Seven' } })
  t.match(await get('result'), saying('by result'))
  t.match(await get('gone'), { error: { code: -32602, data: { name: 'gone' } } })
})

test('a prompt may ask first: PRM-12', async t => {
  const questions = { name: elicitForm('Who?', Type.Object({ name: Type.String() })) }
  const client = await connect(t, {
    prompts: [definePrompt({
      name: 'ask',
      get (_args, channel) {
        const answers = channel.inputResponses(questions)
        if (answers === undefined) return inputRequired(questions)
        return say(answers.name.action === 'accept' ? answers.name.content.name : 'nobody')
      }
    })]
  })
  const options = { capabilities: { elicitation: { form: {} } } }
  t.match(await client.request('prompts/get', { name: 'ask', arguments: {} }, options), { result: { resultType: 'input_required', inputRequests: { name: {} } } })
  t.match(await client.request('prompts/get', { name: 'ask', arguments: {} }, { ...options, respond: () => ({ action: 'accept', content: { name: 'Ada' } }) }), saying('Ada'))
})

test('a store gets the name and the arguments as they were sent, and this of its definition', async t => {
  const store = {
    prefix: 'stored.',
    list: () => ({ items: [] }),
    get (name: string, args: object) { return say(`${this.prefix} ${name} ${JSON.stringify(args)}`) }
  }
  const client = await connect(t, { prompts: [definePrompts(store)] })
  t.match(await client.request('prompts/get', { name: 'stored.a', arguments: { b: 'c' } }), saying('stored. stored.a {"b":"c"}'))
})

test('the first prompt of a name is got, one by itself or one of a store', async t => {
  const store = (prefix: string, text: string) => definePrompts({ prefix, list: () => ({ items: [] }), get: () => say(text) })
  const client = await connect(t, {
    prompts: [definePrompt({ name: 'a.one', get: () => say('itself') }), store('a.', 'first'), store('', 'all'), definePrompt({ name: 'a.two', get: () => say('never') })]
  })
  for (const [name, text] of [['a.one', 'itself'], ['a.two', 'first'], ['b', 'all']] as const) t.match(await client.request('prompts/get', { name, arguments: {} }), saying(text), name)
})

test('a listen that asked for it is told that the list changed: PRM-11', async t => {
  const suite = createSuite({ info, prompts: [], subscriptions: busSubscriptions() })
  const client = createTestClient(await mount(t, { server: suite }))
  t.teardown(async () => { await client.close() })
  const listen = await client.open('subscriptions/listen', { notifications: { promptsListChanged: true } })
  const next = listen[Symbol.asyncIterator]()
  t.match(await next.next(), { value: { method: 'notifications/subscriptions/acknowledged', params: { notifications: { promptsListChanged: true } } } })
  suite.add(greeting)
  t.match(await next.next(), { value: { method: 'notifications/prompts/list_changed' } })
  t.match(await client.request('prompts/list', {}), { result: { prompts: [{ name: 'greeting' }] } })
})

// ---- mistakes of authors

test('prompts that make no sense are refused where they are defined', async t => {
  const get = () => null
  const one: readonly object[] = [
    { get }, { name: '', get }, { name: 'a b', get }, { name: 'x'.repeat(129), get }, { name: 'a' }, { name: 'a', get: 'get' }, { name: 'a', get, title: 5 },
    { name: 'a', get, icons: [{ src: 'file:///a.png' }] }, { name: 'a', get, _meta: { progressToken: 1 } },
    { name: 'a', get, arguments: Type.Object({ n: Type.Number() }) }, { name: 'a', get, arguments: { type: 'object', properties: { a: { type: ['string', 'null'] } } } },
    { name: 'a', get, arguments: 'x' }, { name: 'a', get, arguments: Type.String() }, { name: 'a', get, arguments: { type: 'object', properties: { a: { $ref: '#/nowhere' } } } },
    { name: 'a', get, arguments: Type.Object({ b: Type.String() }), complete: { c: () => [] } }
  ]
  for (const definition of one) t.throws(() => definePrompt(definition as PromptDefinition<unknown>), { code: 'MCP_ERR_BAD_PROVIDER' }, JSON.stringify(definition))
  const list = () => ({ items: [] })
  for (const definition of [{ list, get }, { prefix: 5, list, get }, { prefix: 'a', get }, { prefix: 'a', list }, { prefix: 'a', list: [], get }]) {
    t.throws(() => definePrompts(definition as unknown as PromptsDefinition), { code: 'MCP_ERR_BAD_PROVIDER' }, JSON.stringify(definition))
  }
})

test('a schema may allow arguments that it does not name', async t => {
  const client = await connect(t, {
    prompts: [definePrompt({ name: 'a', arguments: { type: 'object', additionalProperties: { type: 'string', minLength: 1 } }, get: args => say(JSON.stringify(args)) })]
  })
  t.match(await client.request('prompts/list', {}), { result: { prompts: [{ name: 'a', arguments: [] }] } })
  t.match(await client.request('prompts/get', { name: 'a', arguments: { any: 'x' } }), saying('{"any":"x"}'))
  t.match(await client.request('prompts/get', { name: 'a', arguments: { any: '' } }), { error: { code: -32602 } })
})

test('an argument whose schema names no type is a string all the same', async t => {
  const client = await connect(t, {
    prompts: [definePrompt({ name: 'a', arguments: { properties: { size: { enum: ['S', 'L'] }, any: true } }, get: args => say(JSON.stringify(args)) })]
  })
  t.match(await client.request('prompts/list', {}), { result: { prompts: [{ arguments: [{ name: 'size' }, { name: 'any' }] }] } })
  t.match(await client.request('prompts/get', { name: 'a', arguments: { size: 'S', any: 'x' } }), saying('{"size":"S","any":"x"}'))
  t.match(await client.request('prompts/get', { name: 'a', arguments: { size: 'M' } }), { error: { code: -32602 } })
})
