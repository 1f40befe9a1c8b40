import { test } from 'tap'
import { type } from 'arktype'
import { z } from 'zod'
import { createSuite, definePrompt, defineTool, getPromptResult, toolResult, type Schema } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { toJsonSchema } from '../../lib/json-schema.js'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import { failed, serveTools, textOf } from '../helpers/tools.js'

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

/** A tool that gives back what it was called with. */
const echoing = (input: Schema<unknown>) => defineTool({ name: 'echo', description: 'Echoes', input, call: args => toolResult.text(JSON.stringify(args)) })
const advertised = (schema: Schema<unknown>, direction: 'input' | 'output' = 'input') => {
  const { $schema: _, ...json } = toJsonSchema(schema, direction, 'The tool x')
  return json
}

test('an ArkType schema is advertised as the JSON Schema that it gives: SCH-01, SCH-02', async t => {
  const { list } = await serveTools(t, [echoing(type({ name: '1 <= string <= 20', 'age?': 'number.integer > 0', tags: 'string[]', kind: "'a' | 'b'", mail: 'string.email' }))])
  t.match((await list())[0]?.inputSchema, {
    $schema: DIALECT,
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 20 },
      age: { type: 'integer', exclusiveMinimum: 0 },
      tags: { type: 'array', items: { type: 'string' } },
      kind: { enum: ['a', 'b'] },
      mail: { type: 'string', format: 'email' }
    },
    required: ['kind', 'mail', 'name', 'tags']
  })
})

test('arguments are held against the ArkType schema, and what does not fit is told with its place: TOOL-16, TOOL-17', async t => {
  const { call } = await serveTools(t, [echoing(type({ name: 'string', at: { line: 'number > 0' }, 'list?': type({ n: 'number' }).array() }))])
  t.equal(textOf(await call('echo', { name: 'x', at: { line: 1 } })), '{"name":"x","at":{"line":1}}')
  for (const [args, path] of [
    [{ name: 5, at: { line: 1 } }, '/name '], [{ name: 'x', at: { line: 0 } }, '/at/line '], [{ name: 'x', at: { line: 1 }, list: [{ n: 1 }, { n: 'x' }] }, '/list/1/n '],
    [{ name: 'x' }, '/at ']
  ] as const) {
    const answer = await call('echo', args)
    t.ok(failed(answer), JSON.stringify(args))
    t.match(textOf(answer), new RegExp(`^${path}`, 'm'))
  }
})

test('what an ArkType schema makes of the arguments is what the tool gets: defaults, parsing, members left out', async t => {
  const schema = type({ '+': 'delete', n: 'number = 7', when: 'string.date.iso.parse', count: 'string.numeric.parse', even: type('number').narrow(n => n % 2 === 0) })
  const seen: unknown[] = []
  const tool = defineTool({
    name: 'echo',
    description: 'Echoes',
    input: schema,
    call: args => {
      seen.push(args)
      return toolResult.text(args.when.toISOString())
    }
  })
  const { call } = await serveTools(t, [tool])
  t.equal(textOf(await call('echo', { when: '2026-12-01T00:00:00Z', count: '12', even: 2, more: 'of it' })), '2026-12-01T00:00:00.000Z')
  t.strictSame(seen, [{ n: 7, when: new Date('2026-12-01T00:00:00Z'), count: 12, even: 2 }])
  // What its JSON Schema cannot say it still holds.
  const answer = await call('echo', { when: '2026-12-01T00:00:00Z', count: '12', even: 3 })
  t.ok(failed(answer))
  t.match(textOf(answer), /^\/even /m)
})

test('a text is repaired by what the ArkType schema wants where that was asked for: case 068', async t => {
  const { call } = await serveTools(t, [defineTool({
    name: 'echo', description: 'Echoes', repairArguments: true, input: type({ n: 'number', list: 'string[]' }), call: args => toolResult.text(JSON.stringify(args))
  })])
  t.equal(textOf(await call('echo', { n: '5', list: '["a"]' })), '{"n":5,"list":["a"]}')
})

test('unions, records and types that hold themselves are read by their JSON Schema: SCH-13', async t => {
  const node = type.module({ node: { name: 'string', 'child?': 'node' } }).node
  for (const [schema, good, bad] of [
    [type({ type: "'a'", x: 'number' }).or({ type: "'b'", y: 'string' }), { type: 'b', y: 'x' }, { type: 'b', x: 1 }],
    [type({ '[string]': 'number' }), { any: 1 }, { any: 'x' }],
    [node, { name: 'a', child: { name: 'b' } }, { name: 'a', child: {} }]
  ] as const) {
    const { call, list } = await serveTools(t, [echoing(schema)])
    t.equal((await list())[0]?.inputSchema['type'], 'object')
    t.equal(textOf(await call('echo', good)), JSON.stringify(good))
    t.ok(failed(await call('echo', bad)), JSON.stringify(bad))
  }
})

test('a result is held against the ArkType schema of the output, which is what comes out of it: TOOL-26, TOOL-27', async t => {
  const output = type({ total: 'number = 1', at: 'string.numeric.parse' })
  const tool = (name: string, data: object) => defineTool({ name, description: 'x', output, call: () => toolResult.data(data as { total: number, at: number }) })
  const { call, list } = await serveTools(t, [tool('right', { total: 1, at: 2 }), tool('wrong', { total: 1, at: '2' }), tool('less', { at: 2 })])
  t.match((await list())[0]?.outputSchema, { properties: { total: { type: 'number' }, at: { type: 'number' } }, required: ['at', 'total'] })
  t.match((await call('right')).result, { structuredContent: { total: 1, at: 2 } })
  for (const name of ['wrong', 'less']) t.ok(failed(await call(name)), name)
})

test('the arguments of a prompt may be ArkType\'s: PRM-03, PRM-06', async t => {
  const prompt = definePrompt({
    name: 'greet',
    arguments: type({ who: type('string').describe('whom'), 'style?': "'short' | 'long'" }),
    get: ({ who }) => getPromptResult([{ role: 'user', content: `Greet ${who}` }])
  })
  const client = createTestClient(await mount(t, { server: createSuite({ info, prompts: [prompt] }) }))
  t.match((await client.request('prompts/list', {})).result, { prompts: [{ arguments: [{ name: 'who', description: 'whom', required: true }, { name: 'style' }] }] })
  t.match((await client.request('prompts/get', { name: 'greet', arguments: { who: 'Ada' } })).result, { messages: [{ content: { text: 'Greet Ada' } }] })
  t.match(await client.request('prompts/get', { name: 'greet', arguments: { who: 'Ada', style: 'loud' } }), { error: { code: -32602 } })
})

test('what JSON has no word for is a mistake at boot, in ArkType as in Zod: SCH-04', async t => {
  const types: readonly (readonly [Schema<unknown>, string])[] = [
    [type({ at: 'Date' }), 'Date'], [type({ n: 'bigint' }), 'bigint'], [type({ s: 'symbol' }), 'symbol'], [type({ u: 'string | undefined' }), 'undefined'],
    [type({ f: 'Function' }), 'Function'], [type({ m: type.instanceOf(Map) }), 'Map'], [type({ [Symbol('key')]: 'string' }), 'symbol as a key'],
    [type({ n: '1n | 2n' }), 'bigint'], [type({ a: type('string[]').and({ extra: 'string' }) }), 'array with other members'],
    [type({ '[symbol]': 'string' }), 'symbol as a key']
  ]
  for (const [schema, name] of types) {
    const message = `The tool echo has an input that has no JSON Schema: there is no ${name} in JSON`
    const error = t.throws(() => echoing(schema), { code: 'MCP_ERR_BAD_PROVIDER', message }) as unknown as Error | undefined
    t.ok(error?.cause instanceof Error)
    const promise = { name: 'x', output: schema, call: () => toolResult.text('') }
    t.throws(() => defineTool(promise), { code: 'MCP_ERR_BAD_PROVIDER', message: /an output that has no JSON Schema: / })
  }
  t.throws(() => echoing(z.object({ at: z.date() })), { code: 'MCP_ERR_BAD_PROVIDER', message: /has an input that has no JSON Schema: / })
})

test('what ArkType leaves out of its JSON Schema it checks itself, and is no mistake', async t => {
  t.strictSame(advertised(type({ a: type('string').narrow(text => text.length > 2) })), { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] })
  t.strictSame(advertised(type({ a: 'number = 1' })), { type: 'object', properties: { a: { type: 'number' } } })
  t.strictSame(advertised(type({ a: type('string').pipe(text => text.length) })), { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] })
  // Nobody knows what a function makes of it.
  t.strictSame(advertised(type({ a: type('string').pipe(text => text.length) }), 'output'), { type: 'object', properties: { a: {} }, required: ['a'] })
  t.strictSame(advertised(type({ a: 'unknown' })), { type: 'object', properties: { a: {} }, required: ['a'] })
})
