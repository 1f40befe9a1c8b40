import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import * as protocol from '../../lib/protocol/index.js'
import {
  completeResult, discoverResult, getPromptResult, listPromptsResult, listResourcesResult, listResourceTemplatesResult, listToolsResult, readResourceResult,
  serverInfo, toolResult
} from '../../lib/protocol/index.js'

const bytes = new Uint8Array([0, 255, 254, 1])
const base64 = 'AP/+AQ=='
const text = (words: string) => ({ type: 'text', text: words })

function sent (t: Test, schema: TSchema, result: object, expected: object) {
  t.ok(Value.Check(schema, result), 'fits the schema')
  t.strictSame(JSON.parse(JSON.stringify(result)), expected)
}

t.test('toolResult.text makes a block of each text: RPC-05', async t => {
  sent(t, protocol.CallToolResult, toolResult.text('a', 'b'), { resultType: 'complete', content: [text('a'), text('b')] })
  sent(t, protocol.CallToolResult, toolResult.text(), { resultType: 'complete', content: [] })
})

t.test('toolResult.content sends bytes as padded Base64: TOOL-22', async t => {
  const result = toolResult.content(
    { type: 'text', text: 'see' },
    { type: 'image', data: bytes, mimeType: 'image/png', annotations: { priority: 1 } },
    { type: 'audio', data: Buffer.from(bytes), mimeType: 'audio/wav' },
    { type: 'image', data: base64, mimeType: 'image/png' },
    { type: 'resource_link', uri: 'x', name: 'x' },
    { type: 'resource', resource: { uri: 'x', blob: bytes } },
    { type: 'resource', resource: { uri: 'x', text: 'y' } }
  )
  sent(t, protocol.CallToolResult, result, {
    resultType: 'complete',
    content: [
      text('see'),
      { type: 'image', data: base64, mimeType: 'image/png', annotations: { priority: 1 } },
      { type: 'audio', data: base64, mimeType: 'audio/wav' },
      { type: 'image', data: base64, mimeType: 'image/png' },
      { type: 'resource_link', uri: 'x', name: 'x' },
      { type: 'resource', resource: { uri: 'x', blob: base64 } },
      { type: 'resource', resource: { uri: 'x', text: 'y' } }
    ]
  })
})

t.test('bytes are those of the view, not of the buffer behind it', async t => {
  const view = new Uint8Array([9, 9, ...bytes, 9]).subarray(2, 6)
  t.match(toolResult.content({ type: 'image', data: view, mimeType: 'image/png' }), { content: [{ data: base64 }] })
})

t.test('toolResult.data sends any JSON, and the same as text: TOOL-25, TOOL-28', async t => {
  for (const value of [{ sum: 5, parts: [1, { deep: null }] }, [1], 'x', '', 0, -1.5, false, true, null, [], {}]) {
    sent(t, protocol.CallToolResult, toolResult.data(value), {
      resultType: 'complete', content: [text(JSON.stringify(value))], structuredContent: value
    })
  }
})

t.test('toolResult.data says other words, or none', async t => {
  sent(t, protocol.CallToolResult, toolResult.data({ sum: 5 }, { text: 'five' }), {
    resultType: 'complete', content: [text('five')], structuredContent: { sum: 5 }
  })
  sent(t, protocol.CallToolResult, toolResult.data(0, { text: '' }), { resultType: 'complete', content: [text('')], structuredContent: 0 })
  sent(t, protocol.CallToolResult, toolResult.data(null, { text: false }), { resultType: 'complete', content: [], structuredContent: null })
})

t.test('toolResult.data takes objects that are plain without being of this realm: no prototype, or another Object', async t => {
  const bare = Object.assign(Object.create(null), { a: 1 })
  t.strictSame(JSON.parse(JSON.stringify(toolResult.data(bare).structuredContent)), { a: 1 })
  t.strictSame(JSON.parse(JSON.stringify(toolResult.data(runInNewContext('({ a: [1] })')).structuredContent)), { a: [1] })
})

t.test('toolResult.data takes what appears twice without containing itself', async t => {
  const shared = { a: 1 }
  t.match(toolResult.data([shared, shared]), { structuredContent: [{ a: 1 }, { a: 1 }] })
})

t.test('toolResult.data throws where JSON.stringify would drop or change a part: TOOL-36', async t => {
  class Order { id = 7 }
  const cycle: Record<string, unknown> = {}
  cycle.list = [cycle]
  const rootless = Object.create(Object.create(Object.create(null)))

  const refused: [unknown, string][] = [
    [undefined, ' is undefined'],
    [{ a: [undefined] }, '.a[0] is undefined'],
    [[1, undefined], '[1] is undefined'],
    // eslint-disable-next-line no-sparse-arrays
    [[1, , 2], '[1] is undefined'],
    [{ a: () => 1 }, '.a is function'],
    [Symbol('s'), ' is symbol'],
    [{ a: [1n, NaN] }, '.a[1] is NaN'],
    [{ a: { b: NaN } }, '.a.b is NaN'],
    [[Infinity], '[0] is Infinity'],
    [-Infinity, ' is -Infinity'],
    [cycle, '.list[0] contains itself'],
    [{ at: new Date(0) }, '.at is an instance of Date'],
    [new Map([[1, 2]]), ' is an instance of Map'],
    [Promise.resolve(1), ' is an instance of Promise'],
    [new Order(), ' is an instance of Order'],
    [rootless, ' is an instance of undefined']
  ]
  for (const [value, flaw] of refused) {
    for (const options of [{}, { text: 'words' }, { text: false }] as const) {
      t.throws(() => toolResult.data(value, options), { name: 'TypeError', message: `structuredContent${flaw}, which is not JSON` })
    }
  }
})

t.test('toolResult.data sends a bigint as its decimal text: case 075', async t => {
  const big = 2n ** 63n
  t.match(toolResult.data({ a: [big, null, { b: -1n }], c: undefined, d: 1 }), {
    structuredContent: { a: ['9223372036854775808', null, { b: '-1' }], d: 1 }, content: [text('{"a":["9223372036854775808",null,{"b":"-1"}],"d":1}')]
  })
  const value = { a: 1 }
  t.equal(toolResult.data(value).structuredContent, value, 'what has none is sent as it is')
})

t.test('toolResult.error marks the failure that the model may read: TOOL-17', async t => {
  sent(t, protocol.CallToolResult, toolResult.error('no such order', { type: 'image', data: bytes, mimeType: 'image/png' }), {
    resultType: 'complete', content: [text('no such order'), { type: 'image', data: base64, mimeType: 'image/png' }], isError: true
  })
})

const lists = {
  listToolsResult: [listToolsResult, protocol.ListToolsResult, 'tools', { name: 'find', inputSchema: { type: 'object' } }],
  listResourcesResult: [listResourcesResult, protocol.ListResourcesResult, 'resources', { name: 'x', uri: 'x' }],
  listResourceTemplatesResult: [listResourceTemplatesResult, protocol.ListResourceTemplatesResult, 'resourceTemplates', { name: 'x', uriTemplate: 'x' }],
  listPromptsResult: [listPromptsResult, protocol.ListPromptsResult, 'prompts', { name: 'x' }]
} as const

for (const [name, [build, schema, member, item]] of Object.entries(lists)) {
  t.test(`${name} is private and not kept unless it is told otherwise: CACHE-01, CACHE-02, CACHE-03, PAG-02`, async t => {
    // Each builder takes its own kind of item, which the table above pairs.
    const list = build as (items: readonly object[], options?: Parameters<typeof build>[1]) => object
    sent(t, schema, list([item]), { resultType: 'complete', cacheScope: 'private', ttlMs: 0, [member]: [item] })
    sent(t, schema, list([], { cache: { scope: 'public', ttlMs: 5000 }, nextCursor: '' }), {
      resultType: 'complete', cacheScope: 'public', ttlMs: 5000, nextCursor: '', [member]: []
    })
  })
}

t.test('a lifetime that is no whole number from 0 up throws: CACHE-02', async t => {
  for (const ttlMs of [-1, 1.5, NaN, Infinity, '5', undefined]) {
    // @ts-expect-error two of them are not numbers
    t.throws(() => listToolsResult([], { cache: { scope: 'private', ttlMs } }), { name: 'RangeError', message: /^cache\.ttlMs must be a whole number .* got / })
  }
})

t.test('a scope other than public and private throws: CACHE-03', async t => {
  // @ts-expect-error the types refuse it too
  t.throws(() => readResourceResult([], { cache: { scope: 'shared', ttlMs: 0 } }), { name: 'TypeError', message: "cache.scope must be 'public' or 'private', got shared" })
})

t.test('readResourceResult takes one or several contents, text or bytes: RES-05, RES-06, RES-13', async t => {
  sent(t, protocol.ReadResourceResult, readResourceResult({ uri: 'x', text: '' }), {
    resultType: 'complete', cacheScope: 'private', ttlMs: 0, contents: [{ uri: 'x', text: '' }]
  })
  sent(t, protocol.ReadResourceResult, readResourceResult([{ uri: 'x', blob: bytes, mimeType: 'image/png' }, { uri: 'y', blob: base64 }], { cache: { scope: 'public', ttlMs: 1 } }), {
    resultType: 'complete', cacheScope: 'public', ttlMs: 1, contents: [{ uri: 'x', blob: base64, mimeType: 'image/png' }, { uri: 'y', blob: base64 }]
  })
})

t.test('a member that is undefined is one that is not there', async t => {
  t.match(toolResult.data({ a: 1, b: undefined }), { content: [{ type: 'text', text: '{"a":1}' }] })
})

t.test('getPromptResult takes a string for a text block: PRM-07', async t => {
  sent(t, protocol.GetPromptResult, getPromptResult([
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: { type: 'image', data: bytes, mimeType: 'image/png' } }
  ], { description: 'A greeting' }), {
    resultType: 'complete',
    description: 'A greeting',
    messages: [{ role: 'user', content: text('Hello') }, { role: 'assistant', content: { type: 'image', data: base64, mimeType: 'image/png' } }]
  })
  sent(t, protocol.GetPromptResult, getPromptResult([]), { resultType: 'complete', messages: [] })
})

t.test('completeResult sends at most 100 values and then says that there are more: CMP-03, CMP-09', async t => {
  const values = Array.from({ length: 250 }, (_, index) => `v${index}`)
  sent(t, protocol.CompleteResult, completeResult(values, { total: 250, hasMore: false }), {
    resultType: 'complete', completion: { values: values.slice(0, 100), total: 250, hasMore: true }
  })
  sent(t, protocol.CompleteResult, completeResult(values.slice(0, 100)), { resultType: 'complete', completion: { values: values.slice(0, 100) } })
  sent(t, protocol.CompleteResult, completeResult(['a'], { hasMore: false }), { resultType: 'complete', completion: { values: ['a'], hasMore: false } })
  sent(t, protocol.CompleteResult, completeResult([], { total: 0 }), { resultType: 'complete', completion: { values: [], total: 0 } })
})

t.test('discoverResult names the revision and what it is given: DSC-02', async t => {
  sent(t, protocol.DiscoverResult, discoverResult({ tools: {} }), {
    resultType: 'complete', cacheScope: 'private', ttlMs: 0, supportedVersions: ['2026-07-28'], capabilities: { tools: {} }
  })
  sent(t, protocol.DiscoverResult, discoverResult({}, { instructions: 'Find first.', cache: { scope: 'public', ttlMs: 60_000 } }), {
    resultType: 'complete', cacheScope: 'public', ttlMs: 60_000, supportedVersions: ['2026-07-28'], capabilities: {}, instructions: 'Find first.'
  })
})

t.test('serverInfo is the _meta that names the server: META-05', async t => {
  const info = { name: 'orders', version: '1.4.0' }
  const result: protocol.ListToolsResult = { ...listToolsResult([]), _meta: serverInfo(info) }
  t.ok(Value.Check(protocol.ListToolsResult, result))
  t.strictSame(result._meta, { 'io.modelcontextprotocol/serverInfo': info })
})
