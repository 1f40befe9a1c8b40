import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { elicitForm, type JsonObject, type JsonSchema, type StandardSchema } from 'fastify-gen-mcp'
import { ElicitRequest } from '../../lib/protocol/index.js'

/** The form that is sent for a schema. */
function formOf (schema: Parameters<typeof elicitForm>[1]): JsonObject {
  return elicitForm('Please', schema).params['requestedSchema'] as JsonObject
}

/** The field that is sent for a field. */
function fieldOf (field: JsonSchema): unknown {
  return (formOf({ type: 'object', properties: { field } })['properties'] as JsonObject)['field']
}

function refuses (t: Test, schema: unknown, name: string): void {
  t.throws(() => elicitForm('Please', schema as JsonSchema), { code: 'MCP_ERR_BAD_PROVIDER' }, name)
}

test('a form is a flat object of fields, with nothing else about it: ELI-04', async t => {
  const form = formOf(Type.Object({ name: Type.String(), age: Type.Optional(Type.Integer()) }, { title: 'Who', additionalProperties: false, $id: 'who' }))
  t.strictSame(form, { type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer' } }, required: ['name'] })
  t.strictSame(formOf(Type.Object({ a: Type.Optional(Type.Boolean()) })), { type: 'object', properties: { a: { type: 'boolean' } } }, 'nothing is required')
  t.strictSame(formOf({ type: 'object' }), { type: 'object', properties: {} }, 'nothing is asked but consent')
})

test('each kind of field goes out with the members that it may have: ELI-05', async t => {
  const about = { title: 'A title', description: 'What it is for' }
  const fields: JsonObject[] = [
    { type: 'string', ...about, minLength: 1, maxLength: 9, default: 'x' },
    ...['email', 'uri', 'date', 'date-time'].map(format => ({ type: 'string', format })),
    { type: 'number', ...about, minimum: 0.5, maximum: 9.5, default: 1.5 },
    { type: 'integer', ...about, minimum: 0, maximum: 9, default: 1 },
    { type: 'boolean', ...about, default: true },
    { type: 'string', ...about, enum: ['a', 'b'], default: 'a' },
    { type: 'string', ...about, oneOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }], default: 'a' },
    { type: 'array', ...about, minItems: 1, maxItems: 2, items: { type: 'string', enum: ['a', 'b'] }, default: ['a'] },
    { type: 'array', ...about, items: { anyOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }] }, default: [] },
    { type: 'string', ...about, enum: ['a', 'b'], enumNames: ['A', 'B'], default: 'b' }
  ]
  for (const field of fields) {
    t.strictSame(fieldOf(field), field)
    const question = elicitForm('Please', { type: 'object', properties: { field } })
    t.ok(Value.Check(ElicitRequest, question), 'and the question is the protocol\'s')
  }
})

test('choices are recognised as TypeBox writes them: ELI-05', async t => {
  const { properties } = formOf(Type.Object({
    one: Type.Union([Type.Literal('a'), Type.Literal('b')], { description: 'Which' }),
    only: Type.Literal('a'),
    many: Type.Array(Type.Union([Type.Literal('a'), Type.Literal('b')]), { minItems: 1 }),
    titled: Type.Union([Type.Literal('a', { title: 'A' }), Type.Literal('b', { title: 'B' })]),
    named: Type.Enum({ A: 'a', B: 'b' })
  }))
  t.strictSame(properties, {
    one: { type: 'string', enum: ['a', 'b'], description: 'Which' },
    only: { type: 'string', enum: ['a'] },
    many: { type: 'array', minItems: 1, items: { type: 'string', enum: ['a', 'b'] } },
    titled: { type: 'string', oneOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }] },
    named: { type: 'string', enum: ['a', 'b'] }
  })
})

test('several choices with titles keep them', async t => {
  const field = fieldOf(Type.Array(Type.Union([Type.Literal('a', { title: 'A' }), Type.Literal('b', { title: 'B' })])))
  t.match(field, { type: 'array', items: { anyOf: [{ const: 'a', title: 'A' }, { const: 'b', title: 'B' }] } })
  t.notMatch(field, { items: { enum: Array } })
})

test('choices of which some have no title go out without titles, and in one way: ELI-05', async t => {
  t.strictSame(fieldOf({ oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] }), { type: 'string', enum: ['a', 'b'] })
})

test('a Standard Schema gives the form it would take', async t => {
  const asked: unknown[] = []
  const schema: StandardSchema<{ readonly name: string }> = {
    '~standard': {
      validate: value => ({ value }),
      jsonSchema: {
        input: options => {
          asked.push(options)
          const properties = { name: { type: 'string', pattern: '^.*$' } }
          return { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', properties, required: ['name'] }
        },
        output: () => { throw new Error('The output is nobody\'s to fill in') }
      }
    }
  }
  t.strictSame(formOf(schema), { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] })
  t.equal(formOf(schema), formOf(schema), 'it is worked out once')
  t.strictSame(asked, [{ target: 'draft-2020-12' }])
})

test('a Standard Schema without a JSON Schema is refused', async t => {
  refuses(t, { '~standard': { version: 1, vendor: 'somebody', validate: (value: unknown) => ({ value }) } }, 'there is no form to show')
})

test('what is no object is no form: ELI-04', async t => {
  for (const schema of [{}, { type: 'string' }, { type: ['object'] }, { type: 'array', items: { type: 'object' } }, Type.String(), Type.Array(Type.Object({}))]) {
    refuses(t, schema, JSON.stringify(schema))
  }
})

test('a field that a client cannot show is refused: ELI-04', async t => {
  const fields: { readonly [name: string]: unknown } = {
    'a nested object': Type.Object({ a: Type.String() }),
    'a list of objects': { type: 'array', items: { type: 'object' } },
    'a list of text': Type.Array(Type.String()),
    'a list of numbers': { type: 'array', items: { type: 'number', enum: [1] } },
    'a list without items': { type: 'array' },
    nothing: Type.Null(),
    'text or null': Type.Union([Type.String(), Type.Null()]),
    'several types': { type: ['string', 'null'] },
    'any value': {},
    'any value, as a boolean': true,
    'numbers to choose from': Type.Union([Type.Literal(1), Type.Literal(2)]),
    'text and number to choose from': Type.Union([Type.Literal('a'), Type.Literal(2)]),
    'a reference': { $ref: '#/$defs/a' },
    'another format': Type.String({ format: 'uuid' }),
    'a default of another type': { type: 'string', default: 5 },
    'a default of another type in choices': { type: 'array', items: { type: 'string', enum: ['a'] }, default: 'a' },
    'a length that is no number': { type: 'string', minLength: '1' }
  }
  for (const [name, field] of Object.entries(fields)) refuses(t, { type: 'object', properties: { field } }, name)
})

test('a keyword is refused where the protocol does not have it: ELI-05', async t => {
  refuses(t, { type: 'object', properties: { field: { type: 'number', enum: [1, 2] } } }, 'choices of numbers')
  refuses(t, { type: 'object', properties: { field: { type: 'boolean', enum: [true] } } }, 'choices of yes and no')
  refuses(t, { type: 'object', properties: { field: { type: 'number', items: { type: 'object' } } } }, 'items of a number')
})

test('a constant that a form cannot hold the user to is refused', async t => {
  // Otherwise a refused consent would come back typed as a given one.
  refuses(t, Type.Object({ consent: Type.Literal(true) }), 'a box that must be ticked')
  refuses(t, Type.Object({ version: Type.Literal(2) }), 'a number')
})

test('a field that nobody can fill in is refused when it is written, not when it is answered', async t => {
  refuses(t, { type: 'object', properties: { field: { type: 'string', enum: [] } } }, 'no choices')
  refuses(t, { type: 'object', properties: { field: { type: 'string', oneOf: [] } } }, 'no titled choices')
  refuses(t, { type: 'object', properties: { field: { type: 'string', minLength: -1 } } }, 'less than no length')
})

test('the error names the field', async t => {
  t.throws(() => elicitForm('Please', Type.Object({ address: Type.Object({}) })), { code: 'MCP_ERR_BAD_PROVIDER', message: /elicitForm.*"address"/ })
})

test('fields named like members of every object are fields', async t => {
  const fields = { constructor: { type: 'string' }, toString: { type: 'boolean' } }
  const { properties, required } = formOf({ type: 'object', properties: fields, required: ['constructor'] })
  t.strictSame(Object.entries(properties as JsonObject), [['constructor', { type: 'string' }], ['toString', { type: 'boolean' }]])
  t.strictSame(required, ['constructor'])
})

test('a form does not change with the schema it was made of', async t => {
  const schema = { type: 'object', properties: { a: { type: 'string', enum: ['x'] } }, required: ['a'] }
  const form = formOf(schema)
  schema.properties.a.enum.push('y')
  schema.required.pop()
  t.strictSame(form, { type: 'object', properties: { a: { type: 'string', enum: ['x'] } }, required: ['a'] })
})
