import { test, type Test } from 'tap'
import {
  createSuite, definePrompt, definePrompts, defineResources, defineTool, getPromptResult, readResourceResult, toolResult,
  type GenMcpOptions, type JsonValue, type McpMethod, type Page, type Resource, type SuiteOptions, type TokenSealer
} from 'fastify-gen-mcp'
import { createTestClient, type TestAnswer, type TestClient } from 'fastify-gen-mcp/testing'
import { call, mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import type { Message } from '../helpers/messages.js'

type ListMethod = Extract<McpMethod, `${string}/list`>
interface Listing { readonly names: readonly string[], readonly nextCursor: string | undefined, readonly scope: unknown }

const secrets = ['a secret of more than thirty-two characters']
const principal: NonNullable<GenMcpOptions['principal']> = httpRequest => httpRequest.headers['x-user']?.toString()
const badCursor = { statusCode: 200, error: { code: -32602, message: 'Invalid or expired cursor' } }

const tool = (name: string) => defineTool({ name, call: () => toolResult.text(name) })
const prompt = (name: string) => definePrompt({ name, get: () => getPromptResult([]) })
const read = ({ uri }: { readonly uri: string }) => readResourceResult({ uri, text: uri })
const template = (uriTemplate: string) => defineResources({ template: { uriTemplate, name: uriTemplate }, read })
const numbered = (count: number, prefix: string) => Array.from({ length: count }, (_, index) => `${prefix}${index}`)

/** Resources whose provider pages its own list; a page is named by its cursor. */
function pages (prefix: string, list: (cursor: JsonValue | undefined) => { readonly names: readonly string[], readonly nextCursor?: JsonValue }) {
  return defineResources({
    prefix,
    list (cursor): Page<Resource> {
      const { names, ...rest } = list(cursor)
      return { ...rest, items: names.map(name => ({ uri: `${prefix}${name}`, name })) }
    },
    read
  })
}

async function connect (t: Test, options: Omit<SuiteOptions, 'info'>, mountOptions: Omit<GenMcpOptions, 'server'> = {}): Promise<TestClient> {
  return createTestClient(await mount(t, { server: createSuite({ info, ...options }), secrets, principal, ...mountOptions }))
}

async function list (client: TestClient, method: ListMethod, cursor?: string, user?: string): Promise<TestAnswer<ListMethod>> {
  return await client.request(method, cursor === undefined ? {} : { cursor }, user === undefined ? {} : { headers: { 'x-user': user } })
}

/** One page, whatever it is a list of. */
async function page (client: TestClient, method: ListMethod, cursor?: string, user?: string): Promise<Listing> {
  const { result, error } = await list(client, method, cursor, user)
  if (result === undefined) throw new Error(error?.message)
  const { tools, prompts, resources, resourceTemplates, nextCursor, cacheScope } = result as unknown as Record<string, readonly { readonly name: string }[] | undefined>
  const items = tools ?? prompts ?? resources ?? resourceTemplates ?? []
  return { names: items.map(({ name }) => name), nextCursor: nextCursor as string | undefined, scope: cacheScope }
}

/** All pages of a list, at most 20. */
async function walk (client: TestClient, method: ListMethod, user?: string): Promise<readonly Listing[]> {
  const walked: Listing[] = []
  for (let cursor: string | undefined; walked.length < 20;) {
    const next = await page(client, method, cursor, user)
    walked.push(next)
    if (next.nextCursor === undefined) break
    cursor = next.nextCursor
  }
  return walked
}

const namesOf = (walked: readonly Listing[]) => walked.map(({ names }) => names)

// ---- pages

test('each of the four lists comes in pages without gaps or repeats, the last without a cursor: PAG-01, PAG-02, PAG-06, case 070', async t => {
  const client = await connect(t, {
    pageSize: 10,
    tools: numbered(25, 't').map(tool),
    prompts: numbered(25, 'p').map(prompt),
    resources: [pages('x://', () => ({ names: numbered(25, 'r') })), ...numbered(25, 'x').map(name => template(`${name}://{id}`))]
  })
  const expected: Readonly<Record<string, readonly string[]>> = {
    'tools/list': numbered(25, 't'), 'prompts/list': numbered(25, 'p'), 'resources/list': numbered(25, 'r'), 'resources/templates/list': numbered(25, 'x').map(name => `${name}://{id}`)
  }
  for (const [method, names] of Object.entries(expected)) {
    const walked = await walk(client, method as ListMethod)
    t.strictSame(walked.map(({ names }) => names.length), [10, 10, 5], method)
    t.strictSame(namesOf(walked).flat(), names, method)
  }
  const last = await list(client, 'tools/list', (await walk(client, 'tools/list'))[1]?.nextCursor)
  t.notOk('nextCursor' in (last.result ?? {}))
})

test('a list that ends with a page has no empty page after it', async t => {
  const client = await connect(t, { pageSize: 2, tools: numbered(4, 't').map(tool) })
  t.strictSame(namesOf(await walk(client, 'tools/list')), [['t0', 't1'], ['t2', 't3']])
})

test('without a page size all comes at once, and no cursor is taken: case 070', async t => {
  const client = await connect(t, { tools: numbered(25, 't').map(tool), prompts: [], resources: [] })
  t.strictSame(namesOf(await walk(client, 'tools/list')), [numbered(25, 't')])
  for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] as const) {
    for (const cursor of ['', 'bogus']) t.match(await list(client, method, cursor), badCursor, `${method} ${cursor}`)
  }
})

test('a provider that pages its own list is asked page by page, with its cursor as it was', async t => {
  const cursors: (JsonValue | undefined)[] = []
  const own: readonly JsonValue[] = ['', 0, false, { at: [1, null] }, 'x']
  const provider = pages('x://', cursor => {
    cursors.push(cursor)
    const next = own[cursors.length - 1]
    return { names: [`${cursors.length}`], ...next !== undefined && { nextCursor: next } }
  })
  const client = await connect(t, { resources: [provider] })
  t.strictSame(namesOf(await walk(client, 'resources/list')), [['1'], ['2'], ['3'], ['4'], ['5'], ['6']])
  t.strictSame(cursors, [undefined, ...own])
})

test('a provider that says null for no next page has ended', async t => {
  const client = await connect(t, { resources: [pages('x://', () => ({ names: ['a'], nextCursor: null })), pages('y://', () => ({ names: ['b'], nextCursor: null }))] })
  t.strictSame(namesOf(await walk(client, 'resources/list')), [['a', 'b']])
})

test('pages of providers are cut and joined to the size of ours', async t => {
  const byTwo = (prefix: string, count: number) => pages(prefix, cursor => {
    const from = typeof cursor === 'number' ? cursor : 0
    return { names: numbered(count, '').slice(from, from + 2), ...from + 2 < count && { nextCursor: from + 2 } }
  })
  const sizes = [
    [1, [['0'], ['1'], ['2'], ['0'], ['1']]], [3, [['0', '1', '2'], ['0', '1']]], [4, [['0', '1', '2', '0'], ['1']]], [9, [['0', '1', '2', '0', '1']]]
  ] as const
  for (const [pageSize, expected] of sizes) {
    const client = await connect(t, { pageSize, resources: [byTwo('x://', 3), byTwo('y://', 2)] })
    t.strictSame(namesOf(await walk(client, 'resources/list')), expected, `${pageSize}`)
  }
})

test('providers whose page is empty do not end a list, and are not asked for ever at once', async t => {
  let asked = 0
  const sparse = pages('x://', cursor => {
    asked++
    const at = Number(cursor ?? 0)
    return { names: at === 150 ? ['found'] : [], ...at < 150 && { nextCursor: at + 1 } }
  })
  const client = await connect(t, { resources: [template('y://{id}'), sparse, pages('z://', () => ({ names: ['last'] }))] })
  const first = await page(client, 'resources/list')
  t.strictSame(first.names, [])
  t.equal(asked, 100)
  const second = await page(client, 'resources/list', first.nextCursor)
  t.strictSame(second, { ...second, names: ['found', 'last'], nextCursor: undefined })
})

test('what a provider lists twice on one page is listed once', async t => {
  for (const pageSize of [1, 2, 9]) {
    const client = await connect(t, { pageSize, resources: [pages('x://', () => ({ names: ['a', 'a', 'b', 'a', 'c'] }))] })
    t.strictSame(namesOf(await walk(client, 'resources/list')).flat(), ['a', 'b', 'c'], `${pageSize}`)
  }
})

test('a store of prompts is listed among prompts, with this of its definition', async t => {
  const store = {
    prefix: 's.',
    list (cursor: JsonValue | undefined) { return cursor === undefined ? { items: [{ name: `${this.prefix}a` }], nextCursor: 1 } : { items: [{ name: 's.b' }] } },
    get: () => null
  }
  const client = await connect(t, { prompts: [prompt('a'), definePrompts(store), prompt('z')] })
  t.strictSame(namesOf(await walk(client, 'prompts/list')), [['a', 's.a'], ['s.b', 'z']])
})

test('a list that its provider cannot give is a crash', async t => {
  const client = await connect(t, { resources: [pages('x://', () => { throw new Error('secret') })] })
  const { statusCode, error } = await list(client, 'resources/list')
  t.equal(statusCode, 500)
  t.strictSame(error, { code: -32603, message: 'Internal error' })
})

// ---- cursors

test('a cursor that was not given out is -32602, the empty one too: PAG-03, PAG-05, case 070', async t => {
  const client = await connect(t, { pageSize: 1, tools: numbered(3, 't').map(tool) })
  const { nextCursor = '' } = await page(client, 'tools/list')
  const flipped = `${nextCursor.slice(0, 20)}${nextCursor[20] === 'A' ? 'B' : 'A'}${nextCursor.slice(21)}`
  for (const cursor of ['', 'bogus', ' ', `${nextCursor}A`, nextCursor.slice(0, -1), flipped]) t.match(await list(client, 'tools/list', cursor), badCursor, cursor)
  t.strictSame((await page(client, 'tools/list', nextCursor)).names, ['t1'])
})

test('a cursor that is no string is refused: PAG-03', async t => {
  const app = await mount(t, { server: createSuite({ info, pageSize: 1, tools: numbered(3, 't').map(tool) }) })
  for (const cursor of [1, null, {}, ['a'], true]) t.match((await call(app, 'tools/list', { cursor })).json<Message>(), { error: { code: -32602 } }, JSON.stringify(cursor))
})

test('an expired cursor is -32602: PAG-03', async t => {
  const sealed: string[] = []
  const tokens: TokenSealer = { seal: (_purpose, value) => `${sealed.push(JSON.stringify(value))}`, open: () => ({ ok: false, reason: 'expired' }) }
  const client = createTestClient(await mount(t, { server: createSuite({ info, pageSize: 1, tools: numbered(3, 't').map(tool) }), tokens }))
  t.equal((await page(client, 'tools/list')).nextCursor, '1')
  t.match(await list(client, 'tools/list', '1'), badCursor)
})

test('a cursor goes on at another instance: PAG-04', async t => {
  const options = { pageSize: 2, tools: numbered(3, 't').map(tool) }
  const [one, other] = [await connect(t, options), await connect(t, options)]
  t.strictSame((await page(other, 'tools/list', (await page(one, 'tools/list')).nextCursor)).names, ['t2'])
  const stranger = await connect(t, options, { secrets: ['another secret of more than thirty-two characters'] })
  t.match(await list(stranger, 'tools/list', (await page(one, 'tools/list')).nextCursor), badCursor)
})

test('a cursor is of one list and of one caller: PAG-07, case 071', async t => {
  const client = await connect(t, { pageSize: 1, tools: [tool('a'), tool('b')], prompts: [prompt('a'), prompt('b')] })
  const { nextCursor } = await page(client, 'tools/list', undefined, 'ada')
  t.match(await list(client, 'prompts/list', nextCursor, 'ada'), badCursor)
  t.match(await list(client, 'tools/list', nextCursor, 'bob'), badCursor)
  t.match(await list(client, 'tools/list', nextCursor), badCursor)
  t.strictSame((await page(client, 'tools/list', nextCursor, 'ada')).names, ['b'])
})

test('what comes or goes between two pages makes no gap and no repeat: PAG-04, case 071', async t => {
  const tools = numbered(6, 't').map(tool)
  const suite = createSuite({ info, pageSize: 2, tools })
  const client = createTestClient(await mount(t, { server: suite }))
  const first = await page(client, 'tools/list')
  if (tools[0] !== undefined) suite.remove(tools[0])
  suite.add(tool('late'))
  const second = await page(client, 'tools/list', first.nextCursor)
  t.strictSame(second.names, ['t2', 't3'])
  t.strictSame((await page(client, 'tools/list', second.nextCursor)).names, ['t4', 't5'])
  // The entry that the cursor names is gone: the client begins again.
  if (tools[2] !== undefined) suite.remove(tools[2])
  t.match(await list(client, 'tools/list', first.nextCursor), badCursor)
})

test('inside the page of a provider a cursor holds on to the entry before it: case 071', async t => {
  let names = ['a', 'b', 'c', 'd']
  const client = await connect(t, { pageSize: 2, resources: [pages('x://', () => ({ names }))] })
  const { nextCursor } = await page(client, 'resources/list')
  names = ['new', 'b', 'c', 'd']
  t.strictSame((await page(client, 'resources/list', nextCursor)).names, ['c', 'd'])
  names = ['a', 'c', 'd']
  t.match(await list(client, 'resources/list', nextCursor), badCursor)
})

// ---- how long, and by whom, a list may be kept

const six = [['server/discover', {}], ['tools/list', {}], ['prompts/list', {}], ['resources/list', {}], ['resources/templates/list', {}], ['resources/read', { uri: 'x://a' }]] as const

test('six results say how long they may be kept, by default not at all: CACHE-01, CACHE-02, CACHE-03', async t => {
  const app = await mount(t, { server: createSuite({ info, tools: [tool('a')], prompts: [prompt('a')], resources: [pages('x://', () => ({ names: ['a'] }))] }) })
  for (const [method, params] of six) {
    const response = await call(app, method, params)
    t.match(response.json<Message>().result, { ttlMs: 0, cacheScope: 'private' }, method)
    // CACHE-11
    t.match(response.headers['cache-control'], /no-store|no-cache/, method)
  }
})

test('the other results say nothing of it: CACHE-09, CMP-09', async t => {
  const completing = definePrompt({ name: 'a', get: () => getPromptResult([]), complete: { x: () => [] } })
  const app = await mount(t, { server: createSuite({ info, tools: [tool('a')], prompts: [completing], cache: { scope: 'public', ttlMs: 5 } }) })
  const others = [['tools/call', { name: 'a' }], ['prompts/get', { name: 'a' }], ['completion/complete', { ref: { type: 'ref/prompt', name: 'a' }, argument: { name: 'x', value: '' } }]] as const
  for (const [method, params] of others) {
    const { result = {} } = (await call(app, method, params)).json<Message>()
    t.equal(result['resultType'], 'complete', method)
    t.notOk('ttlMs' in result || 'cacheScope' in result, method)
  }
})

test('lists are kept as the Suite was told, with or without changes to be told of: CACHE-10', async t => {
  const client = await connect(t, { tools: [tool('a')], prompts: [prompt('a')], resources: [pages('x://', () => ({ names: ['a'] })), template('y://{id}')], cache: { scope: 'public', ttlMs: 5000 } })
  for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] as const) {
    t.match(await list(client, method), { result: { ttlMs: 5000, cacheScope: 'public' } }, method)
  }
})

test('a cache that makes no sense is refused: CACHE-02, CACHE-03', async t => {
  for (const cache of [{ scope: 'public', ttlMs: -1 }, { scope: 'public', ttlMs: 1.5 }, { scope: 'public' }, { ttlMs: 1 }, { scope: 'everybody', ttlMs: 1 }, { scope: 'private', ttlMs: Infinity }]) {
    t.throws(() => createSuite({ info, cache: cache as NonNullable<SuiteOptions['cache']> }), { code: 'MCP_ERR_BAD_PROVIDER' }, JSON.stringify(cache))
  }
})

test('all pages of a list may be kept by the same: CACHE-05', async t => {
  const cache = { scope: 'public', ttlMs: 5000 } as const
  const still = await connect(t, { pageSize: 2, tools: numbered(5, 't').map(tool), prompts: numbered(5, 'p').map(prompt), cache })
  for (const method of ['tools/list', 'prompts/list'] as const) t.strictSame((await walk(still, method)).map(({ scope }) => scope), ['public', 'public', 'public'], method)

  // The second provider looks at who asks, which nobody knows when the first page goes out.
  const personal = defineResources({ prefix: 'y://', list: (_cursor, { principal = 'nobody' }) => ({ items: [{ uri: `y://${principal}`, name: principal }] }), read })
  const client = await connect(t, { pageSize: 1, resources: [pages('x://', () => ({ names: ['a'] })), personal], cache })
  t.strictSame((await walk(client, 'resources/list', 'ada')).map(({ names, scope }) => [...names, scope]), [['a', 'private'], ['ada', 'private']])
})
