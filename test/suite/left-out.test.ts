import { test, type Test } from 'tap'
import {
  createSuite, definePrompt, definePrompts, defineResources, getPromptResult,
  type ListPromptsResult, type ListResourcesResult, type Prompt, type Resource, type SuiteExtension, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { info } from '../helpers/servers.js'
import { alarms, stage } from '../helpers/sockets.js'

// What a store gives may be anything, since nobody has held it against the types.
const stored = (prefix: string, items: () => readonly unknown[]) =>
  defineResources({ prefix, list: () => ({ items: items() as readonly Resource[] }), read: () => null })
const storedPrompts = (prefix: string, items: () => readonly unknown[]) =>
  definePrompts({ prefix, list: () => ({ items: items() as readonly Prompt[] }), get: () => null })

async function serve (t: Test, options: Partial<SuiteOptions>) {
  const { app, lines } = await stage(t, createSuite({ info, ...options }), { listen: false })
  const client = createTestClient(app)
  const list = async (cursor?: string) => (await client.request('resources/list', cursor === undefined ? {} : { cursor })).result as ListResourcesResult
  return {
    lines,
    list,
    uris: async () => (await list()).resources.map(({ uri }) => uri),
    names: async () => ((await client.request('prompts/list', {})).result as ListPromptsResult).prompts.map(({ name }) => name)
  }
}

test('a resource that no client could take is left out of the list, and told of: RES-03, RES-16, ICON-02', async t => {
  const good = { uri: 'x://good', name: 'good' }
  const bad: readonly (readonly [unknown, name: string, flaw: RegExp])[] = [
    [{ uri: 'x://1' }, 'x://1', /name/], [{ name: 'named' }, 'named', /uri/],
    [{ uri: 'x://2', name: null }, 'x://2', /name/],
    [{ uri: 'x://3', name: 'x', description: null }, 'x://3', /description/],
    [{ uri: 'x://4', name: 'x', size: 1.5 }, 'x://4', /size/],
    [{ uri: 'x://5', name: 'x', annotations: { priority: 2 } }, 'x://5', /annotations/],
    [{ uri: 'no uri', name: 'x' }, 'no uri', /absolute/],
    [{ uri: 'x://6', name: 'x', icons: [{ src: 'javascript:alert(1)' }] }, 'x://6', /icon/],
    [{ uri: 'x://7', name: 'x', _meta: { 'io.modelcontextprotocol/a': 1 } }, 'x://7', /reserved/],
    [null, 'null', /fit/], ['text', 'text', /fit/], [{}, 'an entry without a name', /fit/]
  ]
  for (const [entry, name, flaw] of bad) {
    const { lines, uris } = await serve(t, { resources: [stored('x://', () => [entry, good])] })
    t.strictSame(await uris(), ['x://good'], name)
    t.match(alarms(lines), [{ msg: 'an entry of a list was left out', mcp: { list: 'The resources under x://', entry: name, flaw } }])
    t.equal(alarms(lines).length, 1)
  }
})

test('a prompt that no client could take is left out of the list, and told of: PRM-03', async t => {
  const own = definePrompt({ name: 'own', get: () => getPromptResult([]) })
  for (const [entry, name] of [
    [{ name: 5 }, 'an entry without a name'], [{ name: 'x.1', arguments: [{ title: 'X' }] }, 'x.1'],
    [{ name: 'x.2', arguments: [{ name: 'a', required: 'yes' }] }, 'x.2'], [{ name: 'x.3', title: null }, 'x.3']
  ] as const) {
    const { lines, names } = await serve(t, { prompts: [own, storedPrompts('x.', () => [{ name: 'x.good' }, entry])] })
    t.strictSame(await names(), ['own', 'x.good'])
    t.match(alarms(lines), [{ mcp: { list: 'The prompts under x.', entry: name } }])
  }
})

test('an entry that is left out is told of once a minute, whoever finds its provider, and few of many', async t => {
  const extension: SuiteExtension = { resources: () => [stored('y://', () => [{ uri: 'y://1' }])] }
  const { lines, uris } = await serve(t, { resources: [stored('x://', () => [{ uri: 'x://1' }, { uri: 'x://2', name: 'good' }])], extensions: [extension] })
  for (let i = 0; i < 3; i++) t.strictSame(await uris(), ['x://2'])
  t.strictSame(alarms(lines).map(({ mcp }) => (mcp as { entry?: string }).entry), ['x://1', 'y://1'])

  const many = await serve(t, { resources: [stored('x://', () => Array.from({ length: 500 }, (_, index) => ({ uri: `x://${index}` })))] })
  t.strictSame(await many.uris(), [])
  t.equal(alarms(many.lines).length, 100)
})

test('what is told of an entry is short, however long its name may be', async t => {
  const { lines, uris } = await serve(t, { resources: [stored('x://', () => [{ uri: `no uri ${'x'.repeat(10_000)}`, name: 'x' }])] })
  t.strictSame(await uris(), [])
  t.ok(JSON.stringify(alarms(lines)[0]).length < 1500)
})

test('pages have no gaps and no repeats where entries are left out: PAG-01', async t => {
  const items = Array.from({ length: 40 }, (_, index) => ({ uri: `x://${index}`, ...index % 4 !== 0 && { name: `${index}` } }))
  const { list } = await serve(t, { pageSize: 7, resources: [stored('x://', () => items)] })
  const found: string[] = []
  let cursor: string | undefined
  do {
    const { resources, nextCursor } = await list(cursor)
    found.push(...resources.map(({ uri }) => uri))
    cursor = nextCursor
  } while (cursor !== undefined && found.length < 100)
  t.strictSame(found, items.filter(item => 'name' in item).map(({ uri }) => uri))
})
