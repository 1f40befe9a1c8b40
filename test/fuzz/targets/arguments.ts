import fc from 'fast-check'
import { SCHEMAS, generatedSchemas } from '../schemas.js'
import { legacyHeaders, modern } from '../shot.js'
import { mutate, mutation, user, value, version } from './values.js'
import type { TSchema } from '@sinclair/typebox'
import type { Target } from '../target.js'
import type { JsonObject } from 'fastify-gen-mcp'

type Plain = TSchema & {
  readonly type?: string,
  readonly anyOf?: readonly TSchema[],
  readonly const?: unknown,
  readonly properties?: Readonly<Record<string, TSchema>>,
  readonly required?: readonly string[],
  readonly items?: TSchema,
  readonly patternProperties?: Readonly<Record<string, TSchema>>,
  readonly minimum?: number,
  readonly maximum?: number,
  readonly minLength?: number,
  readonly maxLength?: number,
  readonly maxItems?: number,
  readonly pattern?: string
}

/** Values that fit a schema, mostly. */
function fitting (schema: TSchema): fc.Arbitrary<unknown> {
  const { type, anyOf, const: constant, properties, required = [], items, patternProperties, pattern } = schema as Plain
  const { minimum, maximum, minLength, maxLength = 8, maxItems = 3 } = schema as Plain
  if (anyOf !== undefined) return fc.oneof(...anyOf.map(fitting))
  if (constant !== undefined) return fc.constant(constant)
  switch (type) {
    case 'string': return pattern === undefined ? fc.string({ ...(minLength !== undefined && { minLength }), maxLength }) : fc.stringMatching(/^[a-z]+$/)
    case 'integer': return fc.integer({ ...(minimum !== undefined && { min: minimum }), ...(maximum !== undefined && { max: maximum }) })
    case 'number': return fc.double({ noNaN: true, noDefaultInfinity: true, min: 1e-9 })
    case 'boolean': return fc.boolean()
    case 'null': return fc.constant(null)
    case 'array': return fc.array(fitting(items as TSchema), { maxLength: maxItems })
    case 'object': {
      const [value] = Object.values(patternProperties ?? {})
      if (value !== undefined) return fc.dictionary(fc.string({ maxLength: 4 }), fitting(value), { maxKeys: 3, noNullPrototype: true })
      const members: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(Object.entries(properties ?? {}).map(([name, member]) => [name,
        fitting(member)]))
      return fc.record(members, { requiredKeys: [...required], noNullPrototype: true })
    }
    default: return value
  }
}

/** Arguments of tools whose schemas are generated: what fits runs, what does not is told of. */
export function toolArguments (seed: number): Target {
  const schemas = generatedSchemas(seed)
  return {
    name: 'tool arguments against generated schemas',
    weight: 5,
    shot: fc.nat(SCHEMAS - 1).chain(index => fc.record({
      // There are as many as that.
      args: fitting(schemas[index] as TSchema),
      mutations: fc.array(mutation, { maxLength: 2 }),
      session: fc.option(fc.tuple(version, user), { nil: undefined })
    }).map(({ args, mutations, session }) => {
      const params = { name: `generated${index}`, arguments: mutations.reduce(mutate, args) as JsonObject }
      if (session === undefined) return modern('tools/call', params)
      return { verb: 'POST', headers: legacyHeaders(...session), payload: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }) }
    }))
  }
}
