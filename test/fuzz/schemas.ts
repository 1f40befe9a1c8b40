import { Kind, Type, type TObject, type TSchema } from '@sinclair/typebox'
import fc from 'fast-check'

/** Schemas of tools' arguments, the same for the same seed. */
export function generatedSchemas (seed: number): TObject[] {
  return fc.sample(object(2), { seed, numRuns: SCHEMAS })
}

export const SCHEMAS = 24
const NAMES = ['a', 'b', 'c', 'd', 'constructor', 'toString', 'a/b', 'a~b', '']

const leaf: fc.Arbitrary<TSchema> = fc.oneof(
  fc.record({ minLength: fc.nat(2), more: fc.nat(8) }).map(({ minLength, more }) => Type.String({ minLength, maxLength: minLength + more })),
  fc.record({ minimum: fc.integer({ min: -5, max: 5 }), more: fc.nat(10) }).map(({ minimum, more }) => Type.Integer({ minimum, maximum: minimum + more })),
  fc.constantFrom<TSchema[]>(
    Type.String(), Type.Number(), Type.Boolean(), Type.Null(), Type.Unknown(), Type.String({ pattern: '^[a-z]+$' }), Type.Number({ exclusiveMinimum: 0 })
  ),
  fc.uniqueArray(fc.constantFrom('x', 'y', 'z'), { minLength: 1 }).map(names => Type.Union(names.map(name => Type.Literal(name))))
)

function schema (depth: number): fc.Arbitrary<TSchema> {
  if (depth === 0) return leaf
  const inner = schema(depth - 1)
  return fc.oneof(
    { arbitrary: leaf, weight: 4 },
    { arbitrary: object(depth - 1), weight: 1 },
    { arbitrary: fc.record({ items: inner, maxItems: fc.nat(3) }).map(({ items, maxItems }) => Type.Array(items, { maxItems })), weight: 1 },
    { arbitrary: fc.array(inner, { minLength: 2, maxLength: 3 }).map(toUnion), weight: 1 },
    { arbitrary: inner.map(value => Type.Record(Type.String(), value)), weight: 1 }
  )
}

/** With anything among its branches it is anything, which TypeBox must be told: to it a member that is missing would fit, required or not. */
function toUnion (branches: readonly TSchema[]): TSchema {
  return branches.some(branch => branch[Kind] === 'Unknown') ? Type.Unknown() : Type.Union([...branches])
}

function object (depth: number): fc.Arbitrary<TObject> {
  return fc.record({
    members: fc.dictionary(fc.constantFrom(...NAMES), fc.record({ type: schema(depth), required: fc.boolean() }), { maxKeys: 4, noNullPrototype: true }),
    closed: fc.boolean()
  }).map(({ members, closed }) => Type.Object(
    Object.fromEntries(Object.entries(members).map(([name, { type, required }]) => [name, required ? type : Type.Optional(type)])),
    closed ? { additionalProperties: false } : {}
  ))
}
