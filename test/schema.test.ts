import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import { messageType } from 'fastify-gen-mcp'
import { compileTypeBox, firstProblem, fitsJsonSchema } from '../lib/schema.js'
import type { JsonSchema } from 'fastify-gen-mcp'

/** A schema that counts how often somebody looks into it. */
function counted (schema: JsonSchema): { readonly schema: JsonSchema, readonly looks: () => number } {
  let looks = 0
  return {
    schema: new Proxy(schema, {
      ownKeys (target) {
        looks++
        return Reflect.ownKeys(target)
      }
    }),
    looks: () => looks
  }
}

test('a value is held against JSON Schema 2020-12', async t => {
  const tuple = { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], items: false }
  t.ok(fitsJsonSchema(tuple, ['a', 1]))
  t.notOk(fitsJsonSchema(tuple, ['a', 1, 2]))

  const closed = { allOf: [{ properties: { a: { type: 'string' } } }], unevaluatedProperties: false }
  t.ok(fitsJsonSchema(closed, { a: 'x' }))
  t.notOk(fitsJsonSchema(closed, { a: 'x', b: 1 }))

  const local = { $defs: { name: { type: 'string', minLength: 1 } }, properties: { name: { $ref: '#/$defs/name' } } }
  t.ok(fitsJsonSchema(local, { name: 'x' }))
  t.notOk(fitsJsonSchema(local, { name: '' }))
})

test('formats are checked, and so is length in characters', async t => {
  const fits = (schema: JsonSchema, value: unknown) => fitsJsonSchema({ type: 'string', ...schema }, value)
  t.ok(fits({ format: 'email' }, 'a@example.com'))
  t.notOk(fits({ format: 'email' }, 'a'))
  t.ok(fits({ format: 'uri' }, 'https://example.com'))
  t.notOk(fits({ format: 'uri' }, 'example'))
  t.ok(fits({ format: 'date' }, '2026-02-28'))
  t.notOk(fits({ format: 'date' }, '2026-02-30'))
  t.ok(fits({ format: 'date-time' }, '2026-02-28T12:00:00Z'))
  t.notOk(fits({ format: 'date-time' }, '2026-02-28'))
  t.ok(fits({ maxLength: 1 }, '🎉'))
})

test('a keyword that nobody knows is no reason to refuse', async t => {
  t.ok(fitsJsonSchema({ type: 'string', 'x-mine': true, example: 'x' }, 'x'))
})

test('a schema is compiled once', async t => {
  const { schema, looks } = counted({ type: 'object', required: ['once'] })
  t.ok(fitsJsonSchema(schema, { once: 1 }))
  const first = looks()
  t.ok(first > 0)
  t.notOk(fitsJsonSchema(schema, {}))
  t.equal(looks(), first, 'nobody looks into it again')
})

test('schemas that are written anew for each request keep their meaning, however many there are', async t => {
  const schemas = Array.from({ length: 520 }, (_, index) => ({ const: `number ${index}` }))
  for (const [index, schema] of schemas.entries()) t.ok(fitsJsonSchema(schema, `number ${index}`))
  for (const index of [0, 1, 519]) {
    t.ok(fitsJsonSchema({ const: `number ${index}` }, `number ${index}`), 'as a new object')
    t.notOk(fitsJsonSchema({ const: `number ${index}` }, 'another'))
    t.notOk(fitsJsonSchema(schemas[index] as JsonSchema, 'another'), 'as the same object')
  }
})

test('schemas with the same $id do not get into each other\'s way', async t => {
  t.ok(fitsJsonSchema({ $id: 'https://example.com/a', type: 'string' }, 'x'))
  t.ok(fitsJsonSchema({ $id: 'https://example.com/a', type: 'number' }, 1))
  t.notOk(fitsJsonSchema({ $id: 'https://example.com/a', type: 'number' }, 'x'))
})

test('what is no schema throws, each time', async t => {
  for (let round = 0; round < 2; round++) t.throws(() => fitsJsonSchema({ type: 'no such type' }, 1), /type/)
  t.throws(() => fitsJsonSchema({ $ref: 'https://example.com/elsewhere' }, 1), /elsewhere/, 'nothing is fetched')
})

test('a schema that calls itself asynchronous lets nothing through that does not fit', async t => {
  let fits: unknown
  try {
    fits = fitsJsonSchema({ $async: true, type: 'string' }, 5)
  } catch {
    fits = false
  }
  // A promise of the check must not become an unhandled rejection here.
  await Promise.resolve(fits).catch(() => {})
  t.equal(fits, false)
})

test('a TypeBox schema is compiled once, and by any copy of TypeBox', async t => {
  const schema = Type.Object({ name: Type.String() })
  t.equal(compileTypeBox(schema), compileTypeBox(schema))
  t.ok(compileTypeBox(schema).Check({ name: 'x' }))
  t.notOk(compileTypeBox(schema).Check({ name: 1 }))

  // Another copy makes the same members with symbols of its own registration.
  const kind = Symbol.for('TypeBox.Kind')
  const foreign = { [kind]: 'Object', type: 'object', required: ['n'], properties: { n: { [kind]: 'Number', type: 'number' } } }
  t.ok(compileTypeBox(foreign as unknown as typeof schema).Check({ n: 1 }))
  t.notOk(compileTypeBox(foreign as unknown as typeof schema).Check({ n: 'x' }))
})

test('what no TypeBox made throws', async t => {
  t.throws(() => compileTypeBox({ type: 'object' } as unknown as ReturnType<typeof Type.String>))
})

test('a message type alone checks nothing', async t => {
  const check = compileTypeBox(messageType<{ readonly a: string }>())
  for (const value of [undefined, null, 1, 'x', { a: 1 }]) t.ok(check.Check(value))
})

test('the first problem is told with its place', async t => {
  const check = compileTypeBox(Type.Object({ list: Type.Array(Type.Number()) }))
  t.match(firstProblem(check, { list: [1, 'x'] }), { path: '/list/1', message: /number/ })
  t.match(firstProblem(check, 5), { path: '/', message: /object/ })
  t.strictSame(firstProblem(check, { list: [] }), { path: '/', message: 'is not valid' }, 'for a value that fits after all')
})
