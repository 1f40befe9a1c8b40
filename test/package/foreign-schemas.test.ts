import { runInNewContext } from 'node:vm'
import { test } from 'tap'
import { toJsonSchema } from '../../lib/json-schema.js'
import type { JsonSchema } from 'fastify-gen-mcp'

/** As libraries make them that came before the standard: members of their own, methods on a prototype. */
class Foreign {
  readonly _def = { typeName: 'string' }
  parse (value: unknown): unknown { return value }
}

test('an object of a library without the standard is refused, wherever in a schema it is: case 088', async t => {
  const schemas = { itself: new Foreign(), 'a shape': { who: new Foreign() }, 'a property': { type: 'object', properties: { who: new Foreign() } }, 'in a list': { anyOf: [new Foreign()] } }
  for (const [where, schema] of Object.entries(schemas)) {
    t.throws(() => toJsonSchema(schema as unknown as JsonSchema, 'input', 'The tool x'), { code: 'MCP_ERR_BAD_PROVIDER', message: /of a library that cannot give its JSON Schema: give the JSON Schema itself$/ }, where)
  }
})

test('a schema is plain whatever realm it is of, without a prototype, and where its values become JSON by themselves: case 088', async t => {
  const json = { type: 'object', properties: { who: { type: 'string', default: '1970-01-01T00:00:00.000Z' } } }
  const own = { type: 'object', properties: { who: { type: 'string', default: new Date(0) } } }
  const schemas = { own, 'another realm': runInNewContext(`(${JSON.stringify(json)})`), 'no prototype': Object.assign(Object.create(null), json) } as Record<string, JsonSchema>
  for (const [where, schema] of Object.entries(schemas)) t.strictSame(toJsonSchema(schema, 'input', 'The tool x'), json, where)
})
