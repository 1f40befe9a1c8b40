import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import { z } from 'zod'
import { defineTool, toolResult, type JsonObject, type JsonSchema, type Schema, type StandardSchema } from 'fastify-gen-mcp'
import { Arguments, describe, type Read } from '../../lib/suite/arguments.js'
import { compileJsonSchema } from '../../lib/schema.js'
import { call as post } from '../helpers/mount.js'
import { failed, serveTools, textOf } from '../helpers/tools.js'

/** A tool that gives back what it was called with. */
const echoing = (input?: Schema<unknown>) =>
  defineTool({ name: 'echo', description: 'Echoes', ...input !== undefined && { input }, call: args => toolResult.text(JSON.stringify(args)) })

/** What does not fit a schema, a line each. */
function issuesOf (schema: JsonSchema, value: JsonObject): string[] {
  const read = new Arguments('A tool', schema).read(value) as Read
  return read.ok ? [] : read.issues.map(({ path, message }) => `${path} ${message}`)
}

/** A Standard Schema made by hand. */
function standard (validate: StandardSchema['~standard']['validate'], json: JsonSchema = { type: 'object', properties: {} }): StandardSchema {
  return { '~standard': { validate, jsonSchema: { input: () => json, output: () => json } } }
}

test('a tool without an input is listed as one that takes nothing, and takes nothing: TOOL-06, TOOL-07, case 064', async t => {
  const { call, list } = await serveTools(t, [echoing()])
  t.strictSame((await list())[0]?.inputSchema, { type: 'object', properties: {}, additionalProperties: false })
  t.equal(textOf(await call('echo')), '{}')
  const refusal = await call('echo', { a: 1 })
  t.ok(failed(refusal))
  t.match(textOf(refusal), '/a is not known')
})

test('absent arguments are none, and then the schema decides; what is no object is refused: TOOL-12, TOOL-13, case 037', async t => {
  const { app } = await serveTools(t, [echoing(), defineTool({ name: 'strict', description: 'x', input: Type.Object({ a: Type.String() }), call: () => toolResult.text('ran') })])
  for (const params of [{ name: 'echo' }, { name: 'echo', arguments: null }, { name: 'echo', arguments: {} }]) {
    const response = await post(app, 'tools/call', params)
    t.equal(response.json().result?.content[0].text, '{}', JSON.stringify(params))
  }
  t.match((await post(app, 'tools/call', { name: 'strict' })).json().result, { isError: true, content: [{ text: /\/a is required/ }] })
  for (const args of [[], ['a'], 'x', 5, true]) {
    const response = await post(app, 'tools/call', { name: 'echo', arguments: args })
    t.match(response.json(), { error: { code: -32602 } }, JSON.stringify(args))
  }
})

test('a schema that takes any object takes any object: SCH-05', async t => {
  for (const input of [{ type: 'object' }, {}]) {
    const { call, list } = await serveTools(t, [echoing(input)])
    t.equal(textOf(await call('echo', { a: 1 })), '{"a":1}', JSON.stringify(input))
    // Case 064: some clients refuse an object that has no properties at all.
    t.strictSame((await list())[0]?.inputSchema, { type: 'object', properties: {} })
  }
})

test('a schema is listed as it was given, with all its keywords: SCH-05, XPH-01', async t => {
  const input = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'address', type: 'object', properties: { street: { type: 'string' } } } },
    properties: {
      address: { $ref: '#/$defs/address' },
      other: { $ref: '#address' },
      contact: { type: 'string', enum: ['a', 'b'] },
      region: { type: 'string', 'x-mcp-header': 'Region' }
    },
    allOf: [{ anyOf: [{ required: ['address'] }, { required: ['other'] }] }, { not: { required: ['neither'] } }],
    oneOf: [{ properties: { contact: { const: 'a' } } }, { properties: { contact: { const: 'b' } }, required: ['contact'] }],
    if: { properties: { contact: { const: 'a' } }, required: ['contact'] },
    then: { required: ['address'] },
    else: { required: ['other'] },
    additionalProperties: false,
    'x-vendor': { anything: [1, null] }
  }
  const { list } = await serveTools(t, [echoing(input)])
  t.strictSame((await list())[0]?.inputSchema, input)
})

test('an input without a type is an object\'s, and keeps its other keywords: SCH-06', async t => {
  const { call, list } = await serveTools(t, [echoing({ properties: { a: { type: 'string' } }, required: ['a'] })])
  t.strictSame((await list())[0]?.inputSchema, { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] })
  t.ok(failed(await call('echo')))
  const union = { type: 'object', oneOf: [{ required: ['a'] }, { required: ['b'] }] }
  const { call: callUnion, list: listUnion } = await serveTools(t, [echoing(union)])
  t.strictSame((await listUnion())[0]?.inputSchema, union)
  t.equal(textOf(await callUnion('echo', { a: 1 })), '{"a":1}')
  t.ok(failed(await callUnion('echo', { a: 1, b: 1 })))
})

test('an input that is no object is refused by name: SCH-06', async t => {
  for (const input of [{ type: 'string' }, { type: ['object', 'null'] }, { type: 'array', items: {} }]) {
    t.throws(() => echoing(input), { code: 'MCP_ERR_BAD_PROVIDER', message: /^The tool echo .*no object/ }, JSON.stringify(input))
  }
})

test('bad arguments are told in words that name each field, what was expected and what came, and the tool does not run: TOOL-16, TOOL-17, SCH-14, case 067', async t => {
  const ran: unknown[] = []
  const input = Type.Object({
    city: Type.String(),
    unit: Type.Union([Type.Literal('celsius'), Type.Literal('kelvin')]),
    day: Type.Object({ offset: Type.Integer({ maximum: 7 }) }),
    tags: Type.Array(Type.String())
  }, { additionalProperties: false })
  const { call } = await serveTools(t, [defineTool({
    name: 'weather', description: 'x', input, call: args => { ran.push(args); return toolResult.text('ran') }
  })])
  const answer = await call('weather', { unit: 'fahrenheit', day: { offset: '1' }, tags: ['a', 5, null], secret: 'hunter2' })
  t.equal(answer.statusCode, 200)
  t.match(answer.result, { resultType: 'complete', isError: true })
  const text = textOf(answer)
  for (const line of [
    '/city is required', '/secret is not known', '/unit must be "celsius", and is a string', '/unit must be "kelvin", and is a string',
    '/day/offset must be integer, and is a string', '/tags/1 must be string, and is a number', '/tags/2 must be string, and is null'
  ]) {
    t.ok(text.split('\n').includes(line), `${line}: ${text}`)
  }
  t.notMatch(text, 'hunter2', 'what was sent is not repeated')
  t.strictSame(ran, [])
})

test('each kind of problem is named with its field', async t => {
  const object = (properties: JsonSchema, rest: JsonSchema = {}): JsonSchema => ({ type: 'object', properties, ...rest })
  const cases: [JsonSchema, JsonObject, string[]][] = [
    [object({ a: { enum: ['x', 1, null] } }), { a: [] }, ['/a must be one of ["x",1,null], and is an array']],
    [object({ a: { const: { b: 1 } } }), { a: {} }, ['/a must be {"b":1}, and is an object']],
    [object({ a: { type: 'boolean' } }), { a: 'true' }, ['/a must be boolean, and is a string']],
    [object({ 'a/b': object({ 'c~d': { type: 'string' } }) }), { 'a/b': { 'c~d': false } }, ['/a~1b/c~0d must be string, and is a boolean']],
    [object({ a: {} }, { unevaluatedProperties: false }), { b: 1 }, ['/b is not known']],
    [object({}, { dependentRequired: { a: ['b'] } }), { a: 1 }, ['/b is required']],
    [object({}, { minProperties: 1 }), {}, ['/ must NOT have fewer than 1 properties, and is an object']]
  ]
  for (const [schema, value, issues] of cases) t.strictSame(issuesOf(schema, value), issues, JSON.stringify(schema))
})

test('what does not fit is told of twenty places at most, each once, and no name that was sent is repeated at length: SCH-14', async t => {
  const many = issuesOf({ type: 'object', properties: { a: { type: 'array', items: { type: 'string' } } } }, { a: Array.from({ length: 1000 }, (_, index) => index) })
  t.equal(many.length, 20)
  t.equal(new Set(many).size, 20)
  const same = issuesOf({ type: 'object', properties: { a: { anyOf: [{ type: 'string' }, { type: 'string' }] } } }, { a: 1 })
  t.strictSame(same, ['/a must be string, and is a number', '/a must match a schema in anyOf, and is a number'])
  const [long = ''] = issuesOf({ type: 'object', additionalProperties: false }, { ['x'.repeat(100_000)]: 1 })
  t.ok(long.length < 1000, `${long.length} characters`)
  t.match(long, /^\/xxx.* is not known$/)
  const choices = issuesOf({ type: 'object', properties: { a: { enum: Array.from({ length: 1000 }, (_, index) => `choice ${index}`) } } }, { a: 1 })
  t.ok((choices[0] ?? '').length < 1000)
})

test('a problem that the validator has no words for is told by its keyword', async t => {
  const validate = compileJsonSchema({ type: 'object', properties: { told: { type: 'string' } } })
  t.strictSame(describe(validate, {}), [], 'nothing was wrong')
  t.notOk(validate({ told: 1 }))
  for (const error of validate.errors ?? []) delete error.message
  t.strictSame(describe(validate, { told: 1 }), [{ path: '/told', message: 'does not fit type, and is a number' }])
})

test('arguments reach the tool as they were sent: nothing is coerced, and no default is filled in: SCH-15', async t => {
  const { call } = await serveTools(t, [echoing({ type: 'object', properties: { n: { type: 'integer' }, d: { type: 'string', default: 'x' } } })])
  t.equal(textOf(await call('echo', { n: 5, extra: [] })), '{"n":5,"extra":[]}')
  t.ok(failed(await call('echo', { n: '5' })))
})

test('a Standard Schema gives the tool what it made of the arguments: case 088', async t => {
  const input = z.object({ count: z.number().default(3), at: z.string().transform(text => text.length), inner: z.object({ tags: z.array(z.string()) }) })
  const { call, list } = await serveTools(t, [defineTool({
    name: 'parse', description: 'x', input, call: ({ count, at, inner }) => toolResult.text(JSON.stringify({ count, at, inner }))
  })])
  t.match((await list())[0]?.inputSchema, {
    type: 'object', properties: { count: { type: 'number', default: 3 }, at: { type: 'string' }, inner: { type: 'object' } }, required: ['at', 'inner']
  }, 'it is listed as clients send it')
  t.equal(textOf(await call('parse', { at: 'four', inner: { tags: [] } })), '{"count":3,"at":4,"inner":{"tags":[]}}')
  const refusal = await call('parse', { at: 'four', inner: { tags: ['a', 5] } })
  t.ok(failed(refusal))
  t.match(textOf(refusal), /^\/inner\/tags\/1 .*string/m)
})

test('a Standard Schema may take its time, in a promise of whatever make: case 088', async t => {
  const later = standard(async value => ({ value: { parsed: value } }))
  t.equal(textOf(await (await serveTools(t, [echoing(later)])).call('echo', { a: 1 })), '{"parsed":{"a":1}}')
  const issue = { issues: [{ message: 'is too early' }] }
  // No Promise, but what await takes for one.
  const foreign: PromiseLike<typeof issue> = { then: (...handlers) => Promise.resolve(issue).then(...handlers) }
  const { call } = await serveTools(t, [echoing(standard(() => foreign as Promise<typeof issue>))])
  const refusal = await call('echo', { a: 1 })
  t.ok(failed(refusal))
  t.match(textOf(refusal), '/ is too early')
})

test('the path of a Standard Schema\'s issue may be keys, or objects that have one', async t => {
  const issues = [
    { message: 'one', path: ['a', 0] }, { message: 'two', path: [{ key: 'b' }, null] }, { message: 'three' },
    ...Array.from({ length: 40 }, () => ({ message: 'more' }))
  ]
  const read = new Arguments('A tool', standard(() => ({ issues }))).read({}) as Extract<Read, { ok: false }>
  t.strictSame(read.issues.slice(0, 3), [{ path: '/a/0', message: 'one' }, { path: '/b/null', message: 'two' }, { path: '/', message: 'three' }])
  t.equal(read.issues.length, 20)
})

test('a schema that does not compile, or of a library that cannot give it, is refused with the name of the tool: SCH-04, case 072, case 088', async t => {
  for (const input of [{ type: 'object', properties: 5 }, { type: 'nothing' }, { type: 'object', properties: { a: { pattern: '(' } } }, { type: 'object', $async: true }]) {
    t.throws(() => echoing(input), { code: 'MCP_ERR_BAD_PROVIDER', message: /^The tool echo has an input/ }, JSON.stringify(input))
  }
  const old = { '~standard': { validate: () => ({}) } } as unknown as StandardSchema
  t.throws(() => echoing(old), { code: 'MCP_ERR_BAD_PROVIDER', message: /^The tool echo .*cannot give its JSON Schema/ })
})

test('a schema is asked for and compiled when the tool is defined, and at no call: case 009', async t => {
  let asked = 0
  const json = { type: 'object', properties: { n: { type: 'number' } } }
  const input: StandardSchema = { '~standard': { validate: value => ({ value }), jsonSchema: { input: () => { asked++; return json }, output: () => json } } }
  const tool = echoing(input)
  const plain = { type: 'object', properties: { n: { type: 'number' } } }
  const other = defineTool({ name: 'plain', description: 'x', input: plain, call: args => toolResult.text(JSON.stringify(args)) })
  t.equal(asked, 1)
  // What the author does to it afterwards is too late.
  Object.assign(plain.properties.n, { type: 'string' })
  for (const repairArguments of [false, true]) {
    const { call, list } = await serveTools(t, [tool, other], { repairArguments })
    await call('echo', { n: 1 })
    t.equal(textOf(await call('plain', { n: 1 })), '{"n":1}')
    t.strictSame((await list())[1]?.inputSchema, json)
  }
  t.equal(asked, 1)
})
