import { createServer } from 'node:http'
import { once } from 'node:events'
import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import {
  busSubscriptions, createSuite, definePrompt, defineResources, defineTool, elicitForm, elicitUrl, getPromptResult, inputRequired, messageType, readResourceResult,
  stream, toolResult, type GenMcpOptions, type JsonObject, type McpMethod, type ParamsOf, type RequestContext, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient, type TestAnswer, type TestRequestOptions } from 'fastify-gen-mcp/testing'
import { call, mount, type Overrides } from '../helpers/mount.js'
import { split, type Message } from '../helpers/messages.js'
import { info } from '../helpers/servers.js'
import { stage } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import type { AddressInfo } from 'node:net'

const description = 'For tests'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const users = new Map([['Bearer of-ada', 'ada'], ['Bearer of-bob', 'bob']])

/** A mount that knows its callers by their tokens, and no others. */
const authorized: Omit<GenMcpOptions, 'server'> = {
  secrets: ['a secret of more than thirty-two characters'],
  async onRequest ({ headers }) {
    if (!users.has(String(headers.authorization))) throw Object.assign(new Error('Who are you?'), { statusCode: 401 })
  },
  principal: ({ headers }) => users.get(String(headers.authorization))
}

const sure = { sure: elicitForm('Sure?', Type.Object({ sure: Type.Boolean() })) }

// ---- who asks

test('a cursor, a requestState or a handle of a tool lets nobody in, and is of use to nobody but the caller it was given to: SEC-01', async t => {
  const ran: string[] = []
  const open = defineTool({ name: 'a-open', description, call: (_args, { tokens }) => toolResult.text(tokens.seal('basket', { id: 1 })) })
  const look = defineTool({
    name: 'b-look',
    description,
    input: Type.Object({ basket: Type.String() }),
    call ({ basket }, { tokens }) {
      if (!tokens.open('basket', basket).ok) return toolResult.error('No such basket')
      ran.push('look')
      return toolResult.text('Apples')
    }
  })
  const remove = defineTool({
    name: 'c-remove',
    description,
    call (_args, channel) {
      if (channel.inputResponses(sure) === undefined) return inputRequired(sure)
      ran.push('remove')
      return toolResult.text('Gone')
    }
  })
  const app = await mount(t, { server: createSuite({ info, pageSize: 1, tools: [open, look, remove] }), ...authorized })
  const ask = async (authorization: string | undefined, method: string, params: object) =>
    await call(app, method, params, { headers: { authorization }, meta: { [CAPABILITIES]: { elicitation: {} } } })
  const resultOf = async (method: string, params: object) => (await split(await ask('Bearer of-ada', method, params))).answer.result as JsonObject

  const { nextCursor: cursor } = await resultOf('tools/list', {})
  const { requestState } = await resultOf('tools/call', { name: 'c-remove' })
  const [{ text: basket = '' } = {}] = (await resultOf('tools/call', { name: 'a-open' }))['content'] as unknown as readonly { readonly text?: string }[]
  const uses: readonly (readonly [method: string, params: object, refused: object, served: object])[] = [
    ['tools/list', { cursor }, { error: { code: -32602 } }, { result: { tools: [{ name: 'b-look' }] } }],
    ['tools/call', { name: 'c-remove', requestState, inputResponses: { sure: { action: 'accept', content: { sure: true } } } }, { error: { code: -32602 } }, { result: { content: [{ text: 'Gone' }] } }],
    ['tools/call', { name: 'b-look', arguments: { basket } }, { result: { isError: true, content: [{ text: 'No such basket' }] } }, { result: { content: [{ text: 'Apples' }] } }]
  ]
  for (const [method, params, refused] of uses) {
    for (const nobody of [undefined, `Bearer ${String(cursor)}`, `Bearer ${String(requestState)}`, `Bearer ${basket}`]) t.equal((await ask(nobody, method, params)).statusCode, 401)
    t.match((await ask('Bearer of-bob', method, params)).json<Message>(), refused, JSON.stringify(params).slice(0, 50))
  }
  t.strictSame(ran, [])
  for (const [method, params, , served] of uses) t.match((await ask('Bearer of-ada', method, params)).json<Message>(), served)
  t.strictSame(ran, ['remove', 'look'])
})

test('what a client says of itself decides nothing: SEC-10', async t => {
  const seen: unknown[] = []
  const only = { access: ({ principal }: RequestContext) => principal === 'ada' }
  const who = defineTool({
    name: 'who',
    description,
    annotations: { readOnlyHint: true },
    call (_args, { principal = 'nobody' }) {
      seen.push(principal)
      return toolResult.text(principal)
    }
  })
  const hidden = defineTool({ name: 'hidden', description, ...only, call: () => toolResult.text(`${seen.push('hidden')}`) })
  const notes = defineResources({ prefix: 'notes://', ...only, list: () => ({ items: [{ uri: 'notes://1', name: 'one' }] }), read: ({ uri }) => readResourceResult({ uri, text: `${seen.push('read')}` }) })
  const app = await mount(t, { server: createSuite({ info, tools: [who, hidden], resources: [notes] }), principal: ({ headers }) => users.get(String(headers.authorization)) })

  const claims: Overrides = {
    meta: {
      'io.modelcontextprotocol/clientInfo': { name: 'ada', version: '1', title: 'Administrator', websiteUrl: 'https://ada.example' },
      'com.example/principal': 'ada',
      'example.com/authorization': 'Bearer of-ada',
      principal: 'ada',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'user=ada',
      baggage: 'user=ada,authorization=Bearer%20of-ada',
      constructor: { prototype: { principal: 'ada' } }
    },
    headers: { 'mcp-session-id': 'of-ada', 'mcp-param-principal': 'ada', 'mcp-principal': 'ada', baggage: 'authorization=Bearer%20of-ada', 'x-authorization': 'Bearer of-ada' }
  }
  const requests: readonly (readonly [method: string, params: object])[] = [
    ['server/discover', {}], ['tools/list', {}], ['tools/call', { name: 'who' }], ['tools/call', { name: 'hidden' }], ['resources/list', {}], ['resources/read', { uri: 'notes://1' }]
  ]
  for (const [method, params] of requests) {
    const [claimed, plain] = [await call(app, method, params, claims), await call(app, method, params)]
    t.equal(claimed.statusCode, plain.statusCode)
    t.strictSame(claimed.json(), plain.json(), `${method} ${JSON.stringify(params)}`)
  }
  t.strictSame(seen, ['nobody', 'nobody'])
  t.notOk('principal' in {})

  // Headers that repeat the body are no second word: where the two differ neither counts.
  for (const [method, params, headers] of [['tools/call', { name: 'who' }, { 'mcp-name': 'hidden' }], ['tools/list', {}, { 'mcp-method': 'tools/call' }]] as const) {
    t.match((await call(app, method, params, { headers })).json<Message>(), { error: { code: -32020 } })
  }
  t.equal(seen.length, 2)
  const known = { headers: { authorization: 'Bearer of-ada' } }
  for (const [method, params] of requests.slice(2)) t.match((await call(app, method, params, known)).json<Message>(), { result: {} })
  t.strictSame(seen.slice(2), ['ada', 'hidden', 'read'], 'whom the mount knows has it all')
})

// ---- what is fetched

test('whatever URL stands in a definition, a request or an answer, nothing is fetched: SEC-04', async t => {
  const fetched: (string | undefined)[] = []
  const server = createServer((request, response) => {
    fetched.push(request.url)
    response.end('{}')
  })
  t.teardown(() => { server.close() })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const icons = [{ src: `${url}/icon.png` }]
  const input = { $id: `${url}/input.json`, $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', properties: { a: {} } }
  t.throws(() => defineTool({ name: 'far', description, input: { type: 'object', properties: { a: { $ref: `${url}/a.json` } } }, call: () => toolResult.text('') }), { code: 'MCP_ERR_BAD_PROVIDER' })
  const link = { type: 'resource_link' as const, uri: `${url}/link`, name: 'link', icons }
  const visit = { page: elicitUrl('Go', `${url}/page`) }
  const suite = createSuite({
    info: { ...info, websiteUrl: `${url}/site`, icons },
    tools: [
      defineTool({ name: 'link', description, icons, input, call: () => toolResult.content(link, { type: 'resource', resource: { uri: `${url}/embedded`, text: '' } }) }),
      defineTool({ name: 'ask', description, call: (_args, channel) => channel.inputResponses(visit) === undefined ? inputRequired(visit) : toolResult.text('done') })
    ],
    resources: [defineResources({
      template: { uriTemplate: `${url}/{+path}`, name: 'web', icons },
      list: () => ({ items: [{ uri: `${url}/listed`, name: 'listed', icons }] }),
      read: ({ uri }) => readResourceResult({ uri, text: 'not fetched' }),
      complete: { path: () => [`${url}/completed`] }
    })],
    prompts: [definePrompt({ name: 'prompt', icons, get: () => getPromptResult([{ role: 'user', content: link }]) })],
    subscriptions: busSubscriptions()
  })
  const { app } = await stage(t, suite, { allowedOrigins: [url] })
  const client = createTestClient(app, { headers: { origin: url }, capabilities: { elicitation: { url: {} } } })
  t.teardown(async () => { await client.close() })
  const ask = async <M extends McpMethod>(method: M, params: ParamsOf<M>, options: TestRequestOptions = {}): Promise<void> => {
    t.match(await client.request(method, params, options), { statusCode: 200, result: {} }, method)
  }
  for (const method of ['server/discover', 'tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'] as const) await ask(method, {})
  await ask('tools/call', { name: 'link', arguments: { a: { $ref: `${url}/argument`, $schema: `${url}/schema` } } })
  await ask('tools/call', { name: 'ask', arguments: {} })
  await ask('tools/call', { name: 'ask', arguments: {} }, { respond: () => ({ action: 'accept', url: `${url}/answer` }) })
  await ask('resources/read', { uri: `${url}/read` })
  await ask('prompts/get', { name: 'prompt', arguments: {} })
  for (const uri of [`${url}/{+path}`, `${url}/some`]) {
    await ask('completion/complete', { ref: { type: 'ref/resource', uri }, argument: { name: 'path', value: `${url}/value` }, context: { arguments: { path: `${url}/other` } } })
  }
  const listen = await client.open('subscriptions/listen', { notifications: { resourceSubscriptions: [`${url}/watched`] } })
  t.match(await take(listen, 1), [{ params: { notifications: { resourceSubscriptions: [`${url}/watched`] } } }])
  const clientInfo = { name: 'x', version: '1', websiteUrl: `${url}/client`, icons: [{ src: `${url}/client.png` }] }
  t.equal((await call(app, 'tools/list', {}, { meta: { 'io.modelcontextprotocol/clientInfo': clientInfo, 'com.example/a': url } })).statusCode, 200)

  await (await fetch(`${url}/control`)).text()
  t.strictSame(fetched, ['/control'], 'the server would have seen it')
})

// ---- what is told

test('nothing that goes wrong inside is told in the log of a client, at any level: LOG-08', async t => {
  const secret = 'password hunter2'
  const boom = (): never => { throw new Error(secret) }
  const tools: SuiteOptions['tools'] = [
    defineTool({ name: 'throws', description, call: boom }),
    defineTool({ name: 'generator', description, async * call () { yield { progress: 1 }; return boom() } }),
    defineTool({ name: 'output', description, output: Type.Object({ n: Type.Number() }), call: () => toolResult.data({ n: secret } as never) }),
    defineTool({ name: 'nothing', description, call: () => undefined as never }),
    defineTool({
      name: 'messages',
      description,
      messages: Type.Number(),
      call (_args, { ref }) {
        ref.post(secret as never)
        ref.post(1)
        return stream(undefined)
      },
      handleMessage: boom
    }),
    defineTool({
      name: 'streams',
      description,
      messages: messageType<'go'>(),
      call (_args, { ref }) {
        ref.post('go')
        return stream(undefined)
      },
      handleMessage: () => ({ secret }) as never
    })
  ]
  const { app, lines } = await stage(t, createSuite({
    info,
    tools,
    resources: [defineResources({ prefix: 'x://', list: boom, read: boom })],
    prompts: [definePrompt({ name: 'prompt', get: boom, complete: { a: boom } })],
    middleware: [async ({ method }, _channel, next) => method === 'tools/list' ? boom() : await next()]
  }), { listen: false })
  const client = createTestClient(app, { logLevel: 'debug', progressToken: 'p' })
  const answers: TestAnswer<McpMethod>[] = [
    await client.request('tools/list', {}), await client.request('resources/list', {}), await client.request('resources/read', { uri: 'x://a' }),
    await client.request('prompts/get', { name: 'prompt', arguments: {} }),
    await client.request('completion/complete', { ref: { type: 'ref/prompt', name: 'prompt' }, argument: { name: 'a', value: '' }, context: { arguments: {} } })
  ]
  for (const name of ['throws', 'generator', 'output', 'nothing', 'messages', 'streams']) answers.push(await client.request('tools/call', { name, arguments: {} }))
  for (const answer of answers) {
    t.strictSame(answer.notifications.filter(({ method }) => method !== 'notifications/progress'), [])
    t.notMatch(JSON.stringify(answer), /hunter2|\.[jt]s:\d/)
  }
  t.ok(lines.filter(({ level }) => level >= 40).length >= answers.length, 'our own log has it all')
})

test('an error that an author logs for the client is its text, without the way to where it was thrown: LOG-08', async t => {
  const cause = new Error('no route to db-7.internal')
  const app = await mount(t, {
    server: createSuite({
      info,
      tools: [defineTool({
        name: 'tool',
        description,
        call (_args, channel) {
          for (const data of [new Error('Not now', { cause }), { error: new Error('Not now', { cause }) }]) channel.sendLog('error', data)
          return toolResult.text('done')
        }
      })]
    })
  })
  const { notifications } = await split(await call(app, 'tools/call', { name: 'tool' }, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }))
  t.strictSame(notifications.map(({ params }) => params), [{ level: 'error', data: 'Error: Not now' }, { level: 'error', data: { error: {} } }])
})
