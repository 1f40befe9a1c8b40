import { test, type Test } from 'tap'
import { createSuite, definePrompt, defineResources, defineTool, getPromptResult, readResourceResult, toolResult, type SuiteOptions } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'

const LISTS = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] as const
const tools = ['a', 'b'].map(name => defineTool({ name, description: 'A tool.', call: () => toolResult.text('') }))
const prompts = ['a', 'b'].map(name => definePrompt({ name, get: () => getPromptResult([]) }))
const resources = ['x', 'y'].map(scheme => defineResources({
  template: { uriTemplate: `${scheme}://{id}`, name: scheme },
  list: () => ({ items: [{ uri: `${scheme}://1`, name: '1' }] }),
  read: ({ uri }) => readResourceResult({ uri, text: '' })
}))

async function serve (t: Test, options: Partial<SuiteOptions>) {
  const client = createTestClient(await mount(t, { server: createSuite({ info, tools, prompts, resources, ...options }) }))
  return async (method: typeof LISTS[number], cursor?: string) => {
    const { result } = await client.request(method, cursor === undefined ? {} : { cursor })
    // No list asks the client anything.
    if (result?.resultType !== 'complete') throw new Error(`${method} was not answered`)
    return { hint: [result.cacheScope, result.ttlMs], nextCursor: result.nextCursor }
  }
}

test('every list has the cache that the Suite was given, on its first page and on the next', async t => {
  for (const cache of [{ scope: 'public', ttlMs: 5000 }, { scope: 'private', ttlMs: 1 }] as const) {
    for (const pageSize of [1, 10]) {
      const list = await serve(t, { cache, pageSize })
      for (const method of LISTS) {
        const { hint, nextCursor } = await list(method)
        // Nobody knows whether the function of an author will look at who asks, on a page that comes later.
        const scope = method === 'resources/list' && pageSize === 1 ? 'private' : cache.scope
        t.strictSame(hint, [scope, cache.ttlMs], `${method} by ${pageSize}`)
        if (pageSize === 1) t.strictSame((await list(method, nextCursor)).hint, [scope, cache.ttlMs], `${method}, the next page`)
      }
    }
  }
})

test('server/discover has it too: CACHE-01', async t => {
  const discover = async (options: Partial<SuiteOptions>) => {
    const { result } = await createTestClient(await mount(t, { server: createSuite({ info, tools, ...options }) })).request('server/discover', {})
    if (result?.resultType !== 'complete') throw new Error('server/discover was not answered')
    return [result.cacheScope, result.ttlMs]
  }
  t.strictSame(await discover({ cache: { scope: 'public', ttlMs: 5000 } }), ['public', 5000])
  t.strictSame(await discover({}), ['private', 0])
})

test('without one every list is private and not kept', async t => {
  const list = await serve(t, {})
  for (const method of LISTS) t.strictSame((await list(method)).hint, ['private', 0], method)
})

test('what a caller decides on is kept for that caller alone, and as long', async t => {
  const own = defineResources({
    prefix: 'own://', list: (_cursor, { principal = 'nobody' }) => ({ items: [{ uri: `own://${principal}`, name: principal }] }), read: () => null
  })
  const list = await serve(t, { cache: { scope: 'public', ttlMs: 5000 }, resources: [...resources, own] })
  t.strictSame((await list('resources/list')).hint, ['private', 5000])
  t.strictSame((await list('resources/templates/list')).hint, ['public', 5000])
})
