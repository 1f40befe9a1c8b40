import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  busSubscriptions, createSuite, defineResources, defineSubscriptions, elicitForm, fail, inputRequired, McpError, readResourceResult, result, stop, stream,
  type Channel, type ReadResourceResult, type Resource, type ResourcesDefinition, type SubscriptionFilter, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import { ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult as ReadResourceResultSchema } from '../../lib/protocol/index.js'
import { call, mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import { alarms, stage } from '../helpers/sockets.js'
import type { Message } from '../helpers/messages.js'

const text = (uri: string, text = uri): ReadResourceResult => readResourceResult({ uri, text })

async function connect (t: Test, options: Omit<SuiteOptions, 'info'>): Promise<TestClient> {
  const client = createTestClient(await mount(t, { server: createSuite({ info, ...options }) }))
  t.teardown(async () => { await client.close() })
  return client
}

/** A client of the resources under `x://` that are read by one function. */
async function connectTo (t: Test, read: ResourcesDefinition<''>['read']): Promise<TestClient> {
  return await connect(t, { resources: [defineResources({ prefix: 'x://', read })] })
}

const notFound = (uri: string) => ({ statusCode: 200, error: { code: -32602, message: `Resource not found: ${JSON.stringify(uri)}`, data: { uri } } })

// ---- what a server says it has

test('resources are declared with what the subscriptions can tell of them, each by itself: RES-01', async t => {
  const kinds: readonly (readonly [readonly (keyof SubscriptionFilter)[], object])[] = [
    [[], {}], [['resourcesListChanged'], { listChanged: true }], [['resourceSubscriptions'], { subscribe: true }],
    [['resourceSubscriptions', 'resourcesListChanged'], { listChanged: true, subscribe: true }], [['toolsListChanged'], {}]
  ]
  for (const [told, expected] of kinds) {
    const client = await connect(t, { resources: [], subscriptions: defineSubscriptions({ kinds: told, subscribe: () => stream(undefined) }) })
    const { result } = await client.request('server/discover', {})
    t.strictSame(result, { ...result, capabilities: { logging: {}, resources: expected } }, told.join())
  }
  const client = await connect(t, {})
  t.match(await client.request('resources/list', {}), { statusCode: 404, error: { code: -32601 } })
})

// ---- lists

test('what is listed is what the provider gives, as the schema has it: RES-03, RES-04', async t => {
  const resource = {
    uri: 'x://a',
    name: 'a',
    title: 'A',
    description: 'The first',
    mimeType: 'text/plain',
    size: 5,
    annotations: { audience: ['user' as const], priority: 0.5 },
    icons: [{ src: 'https://example.com/a.png' }],
    _meta: { 'example.com/kind': 'letter' }
  }
  const template = { uriTemplate: 'x://{id}', name: 'letters', title: 'Letters', description: 'All', mimeType: 'text/plain', annotations: { priority: 1 } }
  const client = await connect(t, { resources: [defineResources({ template, list: () => ({ items: [resource] }), read: ({ uri }) => text(uri) })] })

  const listed = await client.request('resources/list', {})
  t.ok(Value.Check(ListResourcesResult, listed.result))
  t.match(listed, { statusCode: 200, result: { resultType: 'complete', resources: [resource] } })
  const templates = await client.request('resources/templates/list', {})
  t.ok(Value.Check(ListResourceTemplatesResult, templates.result))
  t.match(templates, { statusCode: 200, result: { resultType: 'complete', resourceTemplates: [template] } })
})

test('a list of which there is nothing is empty: RES-02, RES-04', async t => {
  const templated = await connect(t, { resources: [defineResources({ template: { uriTemplate: 'x://{id}', name: 'x' }, read: () => null })] })
  const listed = await templated.request('resources/list', {})
  t.strictSame(listed.result, { ...listed.result, resources: [] })

  const plain = await connect(t, { resources: [defineResources({ prefix: 'x://', list: () => ({ items: [{ uri: 'x://a', name: 'a' }] }), read: () => null })] })
  const templates = await plain.request('resources/templates/list', {})
  t.strictSame(templates.result, { ...templates.result, resourceTemplates: [] })
})

test('an entry that a client must refuse is not sent, and the log says why: RES-03, RES-16, ICON-02', async t => {
  const good = { uri: 'x://a', name: 'a', icons: [{ src: 'https://example.com/a.png' }] }
  const bad: readonly (readonly [object, RegExp])[] = [
    [{ uri: 'x://b' }, /does not fit: \/name/], [{ name: 'b' }, /does not fit: \/uri/], [{ ...good, uri: 'my scheme://b' }, /my scheme:\/\/b/], [{ ...good, uri: 'b.txt' }, /b\.txt/],
    [{ ...good, icons: [{ src: 'javascript:alert(1)' }] }, /has the icon javascript/], [{ ...good, icons: [...good.icons, { src: 'file:///b.png' }] }, /has the icon file/],
    [{ ...good, _meta: { 'io.modelcontextprotocol/a': 1 } }, /reserved/], [{ ...good, _meta: { 'example.com/a': 1n } }, /no JSON/]
  ]
  for (const [entry, flaw] of bad) {
    const { app, lines } = await stage(t, createSuite({
      info, resources: [defineResources({ prefix: 'x://', list: () => ({ items: [entry as Resource, good] }), read: () => null })]
    }), { listen: false })
    const { result } = await createTestClient(app).request('resources/list', {})
    t.strictSame(result, { ...result, resources: [good] })
    t.match(alarms(lines), [{ mcp: { flaw } }])
  }
})

test('lists do not depend on the connection or on what was asked before: RES-23', async t => {
  const provider = defineResources({ prefix: 'x://', list: () => ({ items: [{ uri: 'x://b', name: 'b' }, { uri: 'x://a', name: 'a' }] }), read: ({ uri }) => text(uri) })
  const [one, other] = [await connect(t, { resources: [provider] }), await connect(t, { resources: [provider] })]
  const before = await one.request('resources/list', {})
  await one.request('resources/read', { uri: 'x://a' })
  t.strictSame((await one.request('resources/list', {})).result, before.result)
  t.strictSame((await other.request('resources/list', {})).result, before.result)
})

// ---- reading

test('a read answers with the text of a resource: RES-05', async t => {
  const client = await connectTo(t, ({ uri }) => readResourceResult({ uri, mimeType: 'text/plain', text: 'Hello' }))
  const { result } = await client.request('resources/read', { uri: 'x://a' })
  t.ok(Value.Check(ReadResourceResultSchema, result))
  t.match(result, { resultType: 'complete', contents: [{ uri: 'x://a', mimeType: 'text/plain', text: 'Hello' }], ttlMs: 0, cacheScope: 'private' })
})

test('a read without a uri that is a string is refused: RES-05', async t => {
  const app = await mount(t, { server: createSuite({ info, resources: [defineResources({ prefix: 'x://', read: ({ uri }) => text(uri) })] }) })
  for (const params of [{ uri: 5 }, { uri: null }, { uri: ['x://a'] }, {}]) {
    const response = await call(app, 'resources/read', params, { headers: { 'mcp-name': 'x://a' } })
    t.match(response.json<Message>(), { error: { code: -32602 } }, JSON.stringify(params))
  }
})

test('bytes arrive as they are: RES-13', async t => {
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
  const client = await connectTo(t, ({ uri }) => readResourceResult({ uri, mimeType: 'image/png', blob: png }))
  const { result } = await client.request('resources/read', { uri: 'x://a.png' })
  t.match(result, { contents: [{ mimeType: 'image/png', blob: png.toString('base64') }] })
})

test('one read may give several contents: RES-06', async t => {
  const contents = [{ uri: 'x://dir/a', text: 'A' }, { uri: 'x://dir/b', text: 'B' }]
  const client = await connectTo(t, () => readResourceResult(contents))
  t.match(await client.request('resources/read', { uri: 'x://dir/' }), { result: { contents } })
})

test('a resource that is there and empty has one content without text: RES-09', async t => {
  const client = await connectTo(t, ({ uri }) => text(uri, ''))
  const { result } = await client.request('resources/read', { uri: 'x://empty' })
  t.strictSame(result, { ...result, contents: [{ uri: 'x://empty', text: '' }] })
})

test('what is not there is -32602 with its URI, whoever says so: RES-07, RES-08, RES-09', async t => {
  const client = await connectTo(t, () => null)
  for (const uri of ['x://a', 'y://a', 'constructor:']) t.match(await client.request('resources/read', { uri }), notFound(uri), uri)
  t.equal((await client.request('resources/read', { uri: 'x://a' })).result, undefined)
})

test('a URI that is none is not found, and nobody is asked for it: RES-11, case 073', async t => {
  const asked: string[] = []
  const client = await connectTo(t, ({ uri }) => {
    asked.push(uri)
    return text(uri)
  })
  for (const uri of ['', 'not a uri', 'x://a b', 'x://a\nb', 'x://a\u0000', 'x://%E0%A4%A', `x://${'a'.repeat(9000)}`]) {
    t.match(await client.request('resources/read', { uri }), { statusCode: 200, error: { code: -32602 } }, JSON.stringify(uri).slice(0, 50))
  }
  t.strictSame(asked, [])
})

test('a file URI that leads out of where it begins is not found: RES-12', async t => {
  const asked: string[] = []
  const client = await connect(t, {
    resources: [defineResources({
      template: { uriTemplate: 'file:///data/{+path}', name: 'file' },
      read: ({ vars: { path } }) => {
        asked.push(path)
        return text(`file:///data/${path}`)
      }
    })]
  })
  for (const path of ['../etc/passwd', '%2e%2e%2fetc/passwd', 'a/..%5c..%5cetc', '..', 'a%00.txt', '..?x']) {
    const uri = `file:///data/${path}`
    t.match(await client.request('resources/read', { uri }), notFound(uri), uri)
  }
  t.match(await client.request('resources/read', { uri: 'file:///data/a/b%20c..txt' }), { result: { contents: [{}] } })
  t.strictSame(asked, ['a/b c..txt'])
})

test('a reader that throws is answered with a bare -32603: RES-10', async t => {
  const client = await connectTo(t, () => { throw new Error('secret') })
  const { statusCode, error } = await client.request('resources/read', { uri: 'x://a' })
  t.equal(statusCode, 500)
  t.strictSame(error, { code: -32603, message: 'Internal error' })
})

test('a reader answers with outcomes as well, and its McpError is answered as it is', async t => {
  const answers: readonly (readonly [() => unknown, object])[] = [
    [() => fail({ kind: 'custom', rpcCode: 7, message: 'Seven' }), { error: { code: 7, message: 'Seven' } }],
    [() => { throw new McpError({ kind: 'resourceNotFound', uri: 'x://b' }) }, { error: { code: -32602, data: { uri: 'x://b' } } }],
    [() => result(text('x://a', 'by result')), { result: { contents: [{ text: 'by result' }] } }]
  ]
  for (const [read, expected] of answers) {
    // What the types leave out may come from JavaScript.
    const client = await connectTo(t, async () => await read() as ReadResourceResult)
    t.match(await client.request('resources/read', { uri: 'x://a' }), expected)
  }
})

test('what a reader must not return is a crash', async t => {
  const bytes = (blob: string) => ({ ...text('x://a'), contents: [{ uri: 'x://a', blob }] })
  for (const bad of [
    undefined, 'text', {}, { contents: [{ uri: 'x://a' }] }, stop(), stream(1), { ...text('x://a'), cacheScope: 'everybody' },
    // RES-09: null says that there is nothing, and what is empty has one content.
    { ...text('x://a'), contents: [] },
    // RES-13
    bytes('data:image/png;base64,AA=='), bytes('AP-_'), bytes('AP8')
  ]) {
    const client = await connectTo(t, () => bad as ReadResourceResult)
    t.match(await client.request('resources/read', { uri: 'x://a' }), { statusCode: 500, error: { code: -32603, message: 'Internal error' } })
  }
})

test('a read may ask first, and what it answers then is kept by nobody: RES-22, CACHE-04, CACHE-08', async t => {
  const questions = { name: elicitForm('Who?', Type.Object({ name: Type.String() })) }
  const client = await connectTo(t, ({ uri }, channel: Channel) => {
    const answers = channel.inputResponses(questions)
    if (answers === undefined) return inputRequired(questions)
    const said = answers.name.action === 'accept' ? answers.name.content.name : 'nobody'
    return readResourceResult({ uri, text: said }, { cache: { scope: 'public', ttlMs: 1000 } })
  })
  const options = { capabilities: { elicitation: { form: {} } } }
  const first = await client.request('resources/read', { uri: 'x://a' }, options)
  t.match(first, { statusCode: 200, result: { resultType: 'input_required', inputRequests: { name: { method: 'elicitation/create' } } } })
  t.notOk('ttlMs' in (first.result ?? {}) || 'cacheScope' in (first.result ?? {}))
  const last = await client.request('resources/read', { uri: 'x://a' }, { ...options, respond: () => ({ action: 'accept', content: { name: 'Ada' } }) })
  t.match(last, { result: { contents: [{ text: 'Ada' }], ttlMs: 0, cacheScope: 'private' } })
})

// ---- which provider is read

test('the variables of a template reach its reader, decoded once: RES-21, case 073', async t => {
  const client = await connect(t, {
    resources: [
      defineResources({ template: { uriTemplate: 'x://café/{id}', name: 'a' }, read: ({ uri, vars: { id } }) => text(uri, id) }),
      defineResources({ template: { uriTemplate: 'test://template/{id}/data', name: 'b' }, read: ({ uri, vars: { id } }) => text(uri, id) })
    ]
  })
  const read: readonly (readonly [string, string])[] = [
    ['x://caf%C3%A9/%C2%A7%20141', '§ 141'], ['x://café/%2520', '%20'], ['test://template/123/data', '123'], ['test://template/a%2Fb/data', 'a/b']
  ]
  for (const [uri, id] of read) {
    const { result } = await client.request('resources/read', { uri })
    t.strictSame(result, { ...result, contents: [{ uri, text: id }] }, uri)
  }
  for (const uri of ['test://template/a/b/data', 'x://cafe/1']) t.match(await client.request('resources/read', { uri }), notFound(uri), uri)
})

test('the first provider whose prefix and template fit is read, and those that share a prefix are asked in turn: RES-21', async t => {
  const provider = <T extends string>(uriTemplate: T, name: string) => defineResources({ template: { uriTemplate, name }, read: ({ uri }) => text(uri, name) })
  const client = await connect(t, {
    resources: [
      defineResources({ prefix: 'x://fixed', read: ({ uri }) => text(uri, 'fixed') }),
      provider('x://{id}', 'one'), provider('x://{+path}', 'many'), provider('x://{id}/late', 'never'),
      defineResources({ prefix: 'y://narrow/', template: { uriTemplate: 'y://{+path}', name: 'narrow' }, read: ({ uri, vars }) => text(uri, vars.path) })
    ]
  })
  const read: readonly (readonly [string, string])[] = [['x://fixed/a', 'fixed'], ['x://a', 'one'], ['x://a/b', 'many'], ['x://a/late', 'many'], ['y://narrow/a', 'narrow/a']]
  for (const [uri, by] of read) t.match(await client.request('resources/read', { uri }), { result: { contents: [{ uri, text: by }] } }, uri)
  t.match(await client.request('resources/read', { uri: 'y://wide/a' }), notFound('y://wide/a'))
})

// ---- changes

test('a listen is told of the resources that it named and of what lies below them, and of no other: RES-20', async t => {
  const changes = busSubscriptions()
  const client = await connect(t, { resources: [defineResources({ prefix: 'x://', read: ({ uri }) => text(uri) })], subscriptions: changes })
  const listen = await client.open('subscriptions/listen', { notifications: { resourceSubscriptions: ['x://a'] } })
  const next = listen[Symbol.asyncIterator]()
  t.match(await next.next(), { value: { method: 'notifications/subscriptions/acknowledged', params: { notifications: { resourceSubscriptions: ['x://a'] } } } })
  changes.resourceUpdated('x://b')
  changes.resourceUpdated('x://a')
  changes.resourceUpdated('x://a/b')
  t.match(await next.next(), { value: { method: 'notifications/resources/updated', params: { uri: 'x://a' } } })
  t.match(await next.next(), { value: { method: 'notifications/resources/updated', params: { uri: 'x://a/b' } } })
})

test('a listen may name what lies above the resources of a provider, and not what lies elsewhere: RES-20', async t => {
  const changes = busSubscriptions()
  const client = await connect(t, { resources: [defineResources({ prefix: 'x://a/', read: ({ uri }) => text(uri) })], subscriptions: changes })
  const listen = await client.open('subscriptions/listen', { notifications: { resourceSubscriptions: ['x://', 'y://a/', 'no uri'] } })
  const next = listen[Symbol.asyncIterator]()
  const acknowledged = await next.next()
  t.strictSame(acknowledged.value?.['params'], { ...acknowledged.value?.['params'] as object, notifications: { resourceSubscriptions: ['x://'] } })
  changes.resourceUpdated('y://a/b')
  changes.resourceUpdated('x://a/b')
  t.match(await next.next(), { value: { method: 'notifications/resources/updated', params: { uri: 'x://a/b' } } })
})

test('a listen that asked for it is told that the list changed: RES-19', async t => {
  const suite = createSuite({ info, resources: [], subscriptions: busSubscriptions() })
  const client = createTestClient(await mount(t, { server: suite }))
  t.teardown(async () => { await client.close() })
  const listen = await client.open('subscriptions/listen', { notifications: { resourcesListChanged: true } })
  const next = listen[Symbol.asyncIterator]()
  t.match(await next.next(), { value: { method: 'notifications/subscriptions/acknowledged' } })
  suite.add(defineResources({ prefix: 'x://', read: ({ uri }) => text(uri) }))
  t.match(await next.next(), { value: { method: 'notifications/resources/list_changed' } })
})

// ---- mistakes of authors

test('resources that make no sense are refused where they are defined: RES-16, RES-18', async t => {
  const read = () => null
  const template = (uriTemplate: string, more: object = {}) => ({ template: { uriTemplate, name: 'x', ...more }, read })
  const mistakes: readonly object[] = [
    { read }, { prefix: '', read }, { prefix: 5, read }, template('{+all}'), { prefix: 'x://' }, { prefix: 'x://', read: 'read' },
    { prefix: 'my scheme://x', read }, { prefix: 'data', read }, { prefix: 'x://%', read }, template('my scheme://{id}'), template('x://{'), template('x://{a}{a}'),
    template('x://{id}', { name: undefined }), template('x://{id}', { annotations: { priority: 2 } }), template('x://{id}', { annotations: { audience: ['nobody'] } }),
    template('x://{id}', { icons: [{ src: 'javascript:x' }] }), template('x://{id}', { _meta: { 'io.modelcontextprotocol/x': 1 } }),
    { ...template('x://{id}'), complete: { other: () => [] } }, { prefix: 'x://', read, complete: { id: () => [] } },
    { ...template('x://{id}'), prefix: 'y://' }, { ...template('x://a/{id}'), prefix: 'x://b/' }
  ]
  for (const definition of mistakes) {
    t.throws(() => defineResources(definition as ResourcesDefinition<''>), { code: 'MCP_ERR_BAD_PROVIDER' }, JSON.stringify(definition))
  }
})
