import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import { z } from 'zod'
import { compile, isSchema, isStandard, lint, subschemas, toJsonSchema } from '../lib/json-schema.js'
import type { AddressInfo } from 'node:net'
import type { JsonSchema, Schema, StandardSchema } from 'fastify-gen-mcp'

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'
const refused = (message: RegExp) => ({ code: 'MCP_ERR_BAD_PROVIDER', message })
const read = (schema: unknown): JsonSchema => toJsonSchema(schema as Schema<unknown>, 'input', 'The tool x')
const fits = (schema: unknown, value: unknown): boolean => compile(read(schema), 'The tool x', 'input')(value)

/** The draft-07 schema that these keywords make, as it is advertised. */
const from7 = (keywords: JsonSchema): JsonSchema => read({ $schema: 'http://json-schema.org/draft-07/schema#', ...keywords })

test('JSON Schema 2020-12 is what a schema is held to, named or not: SCH-01, SCH-02', async t => {
  for (const rest of [{}, { $schema: DIALECT }, { $schema: `${DIALECT}#` }]) {
    t.notOk(fits({ ...rest, type: 'array', prefixItems: [{ type: 'string' }], items: false }, ['a', 'b']))
    t.notOk(fits({ ...rest, dependentRequired: { a: ['b'] } }, { a: 1 }))
    t.notOk(fits({ ...rest, properties: { a: {} }, unevaluatedProperties: false }, { b: 1 }))
    t.notOk(fits({ ...rest, $defs: { s: { $anchor: 's', type: 'string' } }, $ref: '#s' }, 1))
    t.strictSame(read({ ...rest, type: 'string' }), { ...rest, type: 'string' }, 'it is advertised as it was given')
  }
})

test('a dialect that is not spoken is refused by its name: SCH-02', async t => {
  for (const $schema of ['https://example.com/x', 'http://json-schema.org/draft-04/schema#', 'https://json-schema.org/draft/2019-09/schema', '', 5, null]) {
    t.throws(() => read({ $schema, type: 'object' }), refused(/^The tool x has an input in the dialect .*2020-12 or draft-07$/), JSON.stringify($schema))
  }
})

test('draft-07 becomes 2020-12, and nothing in what is advertised says draft-07: SCH-02, case 063', async t => {
  t.strictSame(read({ $schema: 'http://json-schema.org/draft-07/schema', type: 'object' }), { type: 'object' })
  const cases: [JsonSchema, JsonSchema][] = [
    [{ definitions: { a: { definitions: {}, items: [{}] } }, $ref: '#/definitions/a' }, { $defs: { a: { $defs: {}, prefixItems: [{}] } }, $ref: '#/$defs/a' }],
    [{ items: [{ $ref: '#/definitions/a' }, true], additionalItems: false, definitions: { a: {} } }, { prefixItems: [{ $ref: '#/$defs/a' }, true], items: false, $defs: { a: {} } }],
    [{ additionalItems: { items: [{}] }, items: [{}] }, { items: { prefixItems: [{}] }, prefixItems: [{}] }],
    [{ items: { items: [{}] }, additionalItems: false }, { items: { prefixItems: [{}] } }],
    [{ dependencies: { a: ['b'], c: { required: ['d'] }, e: true } }, { dependentRequired: { a: ['b'] }, dependentSchemas: { c: { required: ['d'] }, e: true } }],
    [{ dependencies: { a: ['b'] } }, { dependentRequired: { a: ['b'] } }],
    [{ dependencies: { c: {} } }, { dependentSchemas: { c: {} } }],
    [{ dependencies: [] }, {}],
    [{ definitions: 5, $ref: 5, properties: 5 }, { $defs: 5, $ref: 5, properties: 5 }],
    [
      { properties: { items: { items: [{}] }, definitions: { type: 'string' }, $ref: {} }, patternProperties: { x: { items: [{}] } } },
      { properties: { items: { prefixItems: [{}] }, definitions: { type: 'string' }, $ref: {} }, patternProperties: { x: { prefixItems: [{}] } } }
    ],
    [
      { allOf: [{ items: [{}] }], anyOf: [false], oneOf: [{}], not: { items: [{}] }, if: {}, then: {}, else: { items: [] }, contains: {}, additionalProperties: { items: [{}] } },
      { allOf: [{ prefixItems: [{}] }], anyOf: [false], oneOf: [{}], not: { prefixItems: [{}] }, if: {}, then: {}, else: { prefixItems: [] }, contains: {}, additionalProperties: { prefixItems: [{}] } }
    ],
    [{ default: { items: [1], definitions: 1 }, const: { $ref: '#/definitions/a' }, enum: [{ items: [1] }], examples: [{ dependencies: {} }], 'x-vendor': { items: [1] } }, {
      default: { items: [1], definitions: 1 }, const: { $ref: '#/definitions/a' }, enum: [{ items: [1] }], examples: [{ dependencies: {} }], 'x-vendor': { items: [1] }
    }]
  ]
  for (const [draft7, current] of cases) t.strictSame(from7(draft7), current, JSON.stringify(draft7))
})

test('a tuple of TypeBox, which writes it as draft-07 does, is one: SCH-02', async t => {
  const point = Type.Tuple([Type.Number(), Type.Object({ label: Type.Tuple([Type.String()]) })])
  t.match(read(Type.Object({ point })), { properties: { point: { prefixItems: [{ type: 'number' }, { properties: { label: { prefixItems: [{ type: 'string' }], items: false } } }], items: false } } })
  t.ok(fits(point, [1, { label: ['a'] }]))
  for (const value of [[1], [1, {}], ['a', { label: ['a'] }], [1, { label: ['a', 'b'] }]]) t.notOk(fits(point, value), JSON.stringify(value))
  t.ok(fits(Type.Module({ A: Type.Tuple([Type.String()]) }).Import('A'), ['a']), 'references stay as they are')
})

test('a draft-07 tuple is enforced: SCH-02', async t => {
  const tuple = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }, { type: 'number' }], additionalItems: false }
  t.ok(fits(tuple, ['a', 1]))
  for (const value of [[1, 1], ['a', 'b'], ['a', 1, 2]]) t.notOk(fits(tuple, value), JSON.stringify(value))
  const list = { $schema: 'http://json-schema.org/draft-07/schema#', $ref: '#/definitions/node', definitions: { node: { properties: { next: { $ref: '#/definitions/node' }, n: { type: 'number' } } } } }
  t.ok(fits(list, { next: { next: { n: 1 } } }))
  t.notOk(fits(list, { next: { next: { n: 'x' } } }))
})

test('a draft-07 reference into a tuple still leads there: SCH-02', async t => {
  const schema = { $schema: 'http://json-schema.org/draft-07/schema#', properties: { pair: { items: [{ type: 'string' }] }, other: { $ref: '#/properties/pair/items/0' } } }
  t.ok(fits(schema, { other: 'x' }))
  t.notOk(fits(schema, { other: 1 }))
})

test('a schema of TypeBox is advertised without its own marks', async t => {
  const schema = Type.Object({ a: Type.Optional(Type.String()), b: Type.Union([Type.Literal(1), Type.Null()]) })
  const json = read(schema)
  t.strictSame(json, { type: 'object', properties: { a: { type: 'string' }, b: { anyOf: [{ const: 1, type: 'number' }, { type: 'null' }] } }, required: ['b'] })
  t.strictSame(Object.getOwnPropertySymbols(json), [])
})

test('a Standard Schema is asked for the direction that it is used in: case 088', async t => {
  const asked: unknown[] = []
  const standard: StandardSchema = {
    '~standard': {
      validate: value => ({ value }),
      jsonSchema: {
        input: options => { asked.push('input', options); return { type: 'string' } },
        output: options => { asked.push('output', options); return { type: 'number' } }
      }
    }
  }
  t.strictSame(toJsonSchema(standard, 'input', 'x'), { type: 'string' })
  t.strictSame(toJsonSchema(standard, 'output', 'x'), { type: 'number' })
  t.strictSame(asked, ['input', { target: 'draft-2020-12' }, 'output', { target: 'draft-2020-12' }])
  t.match(read(z.object({ a: z.number() })), { type: 'object', properties: { a: { type: 'number' } } })
})

test('a type that is a function may be a Standard Schema, and other values are none', async t => {
  const type = Object.assign(() => {}, { '~standard': { validate: () => ({}), jsonSchema: { input: () => ({ type: 'object' }), output: () => ({}) } } })
  t.ok(isStandard(type as unknown as Schema<unknown>))
  t.strictSame(read(type), { type: 'object' })
  for (const value of [{}, null, undefined, 'x', () => {}]) t.notOk(isStandard(value as Schema<unknown>), String(value))
})

test('an object of a library that cannot give its JSON Schema is refused, with what to do: case 088', async t => {
  for (const standard of [
    { validate: () => ({}) }, { validate: () => ({}), jsonSchema: {} }, { validate: () => ({}), jsonSchema: { output: () => ({}) } }, { jsonSchema: { input: () => ({}) } }
  ]) {
    t.throws(() => read({ '~standard': standard }), refused(/^The tool x has an input of a library that cannot give its JSON Schema: give the JSON Schema itself$/))
  }
  t.throws(() => read({ '~standard': undefined }), refused(/cannot give its JSON Schema/))
  const cause = new Error('Dates have none')
  const throwing = { '~standard': { validate: () => ({}), jsonSchema: { input: () => { throw cause } } } }
  t.throws(() => read(throwing), { ...refused(/^The tool x has an input that has no JSON Schema: Dates have none$/), cause })
  t.throws(() => read(z.date()), refused(/that has no JSON Schema: /))
})

test('what is no schema is refused', async t => {
  for (const value of [null, undefined, true, 'x', 5, [], [{}], () => {}, new Date()]) t.throws(() => read(value), refused(/^The tool x has an input that is no schema$/), String(value))
})

test('a schema that is no JSON is refused: TOOL-36', async t => {
  const cycle: Record<string, unknown> = { type: 'object' }
  cycle['properties'] = { cycle }
  for (const value of [cycle, { type: 'number', maximum: 10n }]) t.throws(() => read(value), refused(/^The tool x has an input/))
})

test('a schema that is not valid in its dialect is refused: SCH-04, case 072', async t => {
  for (const schema of [{ type: 'object', properties: 5 }, { type: 'nothing' }, { required: 'a' }, { pattern: '(' }, { items: [{}] }, { allOf: [] }, { minimum: '1' }]) {
    const error = t.throws(() => fits(schema, 1), refused(/^The tool x has an input that does not compile: /), JSON.stringify(schema)) as unknown as Error
    t.ok(error.cause instanceof Error, 'and the cause is there')
  }
})

test('unknown keywords and formats are ignored, and common formats are checked: case 072', async t => {
  t.ok(fits({ type: 'string', 'x-vendor': 1, format: 'unheard-of', example: 'x', nullable: true, discriminator: { propertyName: 'a' } }, 'x'))
  t.notOk(fits({ type: 'string', format: 'email' }, 'x'))
})

test('a reference leads to its place in the schema: SCH-13', async t => {
  const schema = {
    $defs: {
      name: { type: 'string' },
      age: { $anchor: 'age', type: 'integer' },
      address: { $id: 'https://example.com/address', type: 'object', properties: { zip: { $ref: '#/$defs/zip' } }, $defs: { zip: { type: 'string', pattern: '^[0-9]+$' } } }
    },
    properties: { name: { $ref: '#/$defs/name' }, age: { $ref: '#age' }, address: { $ref: 'https://example.com/address' }, self: { $ref: '#' } }
  }
  t.ok(fits(schema, { name: 'x', age: 1, address: { zip: '1' }, self: { age: 2 } }))
  for (const value of [{ name: 1 }, { age: 'x' }, { address: { zip: 'x' } }, { self: { self: { age: 'x' } } }]) t.notOk(fits(schema, value), JSON.stringify(value))
})

test('a reference that leads out of the schema is refused, and nobody is called: SCH-08, SCH-09, SCH-11', async t => {
  let connections = 0
  const server = createServer().on('connection', () => { connections++ }).listen(0, '127.0.0.1')
  t.teardown(() => { server.close() })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  for (const $ref of [`http://127.0.0.1:${port}/s.json`, 'file:///etc/passwd', 'other.json', '#/$defs/none', '#none']) {
    t.throws(() => fits({ properties: { a: { $ref } } }, {}), refused(/^The tool x has an input that does not compile: /), $ref)
  }
  // Whoever had been called would have been before this.
  await (await fetch(`http://127.0.0.1:${port}`, { signal: AbortSignal.timeout(100) }).catch(() => undefined))?.text()
  t.equal(connections, 1, 'only this test has')
})

test('what one schema defines is unknown to the next: SCH-11, SCH-13', async t => {
  t.ok(fits({ properties: { a: { $id: 'https://example.com/node', type: 'number' } } }, { a: 1 }))
  t.throws(() => fits({ properties: { a: { type: 'string' }, b: { $ref: 'https://example.com/node' } } }, {}), refused(/does not compile/))
  const tree = { $id: 'https://example.com/node', type: 'object', properties: { a: { type: 'string' }, child: { $ref: 'https://example.com/node' } } }
  t.ok(fits(tree, { child: { child: { a: 'x' } } }))
  t.notOk(fits(tree, { child: 'x' }))
  for (const type of ['number', 'string']) t.ok(fits({ $id: 'https://example.com/same', type }, type === 'number' ? 1 : 'x'), 'two may have one name')
})

test('subschemas are found where the dialect has them, with the way to each', async t => {
  const leaf = (title: string) => ({ title })
  const schema = {
    additionalProperties: leaf('1'),
    unevaluatedProperties: true,
    items: leaf('2'),
    not: leaf('3'),
    allOf: [leaf('4'), false],
    prefixItems: [leaf('5')],
    properties: { a: leaf('6'), b: true },
    $defs: { c: leaf('7') },
    dependentSchemas: 5,
    const: leaf('no'),
    default: { properties: { no: {} } }
  }
  t.strictSame([...subschemas(schema)].map(([path, { title }]) => [path, title]).sort((a, b) => Number(a[1]) - Number(b[1])), [
    ['additionalProperties', '1'], ['items', '2'], ['not', '3'], ['allOf/0', '4'], ['prefixItems/0', '5'], ['properties/a', '6'], ['$defs/c', '7']
  ])
  t.strictSame([...subschemas({ items: [leaf('1')] })], [['items/0', leaf('1')]])
  for (const value of [null, [], 'x', undefined, true]) t.notOk(isSchema(value))
  t.ok(isSchema({}))
})

test('what some clients refuse is found with its place: case 064', async t => {
  t.strictSame([...lint({ type: 'object', properties: { a: { type: 'object', properties: {} }, b: { type: 'object', additionalProperties: true }, c: { anyOf: [{ type: 'string' }, { type: 'null' }] } } })], [])
  t.strictSame([...lint({ type: 'object' })], [], 'the root is none of its business')
  t.strictSame([...lint({ type: ['object', 'null'], properties: { a: { items: { type: 'object' } } }, allOf: [{ type: ['string', 'null'] }] })], [
    '/ has a list of types, which some clients refuse: use anyOf',
    '/allOf/0 has a list of types, which some clients refuse: use anyOf',
    '/properties/a/items is an object without properties, which some clients refuse: name them, or allow additionalProperties'
  ])
})
