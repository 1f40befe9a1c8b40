import { Kind } from '@sinclair/typebox'
import { MCP_ERR_BAD_PROVIDER } from './errors.js'
import { compileJsonSchema, type Validate } from './schema.js'
import type { JsonSchema } from './protocol/index.js'
import type { Schema, StandardSchema } from '../types/schema.js'

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'
const DRAFT_7 = 'http://json-schema.org/draft-07/schema'

/** Keywords whose value is a schema, a list of schemas, or a map of names to schemas (2020-12 Core, 10; draft-07, 9). */
const ONE = ['additionalProperties', 'unevaluatedProperties', 'propertyNames', 'items', 'contains', 'unevaluatedItems', 'not', 'if', 'then', 'else', 'additionalItems']
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']

export function isStandard<T> (schema: Schema<T>): schema is StandardSchema<T> {
  // The types of some libraries are functions.
  return (typeof schema === 'object' || typeof schema === 'function') && schema !== null && '~standard' in schema
}

/** The JSON Schema 2020-12 of what an author gave, as it is advertised. A library's own marks are not in it; draft-07 is rewritten. */
export function toJsonSchema<T> (schema: Schema<T>, direction: 'input' | 'output', owner: string): JsonSchema {
  const json = isStandard(schema) ? askStandard(schema, direction, owner) : schema as JsonSchema
  if (hasForeign(json)) throw cannotGive(owner, direction)
  const text = stringify(json)
  if (text?.[0] !== '{') throw new MCP_ERR_BAD_PROVIDER(owner, `has an ${direction} that is no schema`)
  const plain = JSON.parse(text) as JsonSchema
  // TypeBox writes tuples as draft-07 does, and says nothing of it.
  if (Kind in (json as object)) return rewrite(plain)
  const { $schema } = plain
  if ($schema === undefined || $schema === DIALECT || $schema === `${DIALECT}#`) return plain
  if ($schema === DRAFT_7 || $schema === `${DRAFT_7}#`) return fromDraft7(plain)
  throw new MCP_ERR_BAD_PROVIDER(owner, `has an ${direction} in the dialect ${JSON.stringify($schema)}: use JSON Schema 2020-12 or draft-07`)
}

/** Compiles a schema for values that clients or tools send. Nothing is fetched: a reference that does not resolve in the schema is a mistake. */
export function compile (schema: JsonSchema, owner: string, what: string): Validate {
  try {
    return compileJsonSchema(schema)
  } catch (error) {
    throw Object.assign(new MCP_ERR_BAD_PROVIDER(owner, `has an ${what} that does not compile: ${(error as Error).message}`), { cause: error })
  }
}

/** Constructs that are right and that some clients refuse a tool for, with the place of each. */
export function * lint (schema: JsonSchema, path = ''): Generator<string> {
  if (Array.isArray(schema['type'])) yield `${path || '/'} has a list of types, which some clients refuse: use anyOf`
  if (schema['type'] === 'object' && path !== '' && schema['properties'] === undefined && schema['additionalProperties'] === undefined) {
    yield `${path} is an object without properties, which some clients refuse: name them, or allow additionalProperties`
  }
  for (const [key, child] of subschemas(schema)) yield * lint(child, `${path}/${key}`)
}

/** The schemas right below one, with the way to each. */
export function * subschemas (schema: JsonSchema): Generator<[path: string, schema: JsonSchema]> {
  for (const keyword of ONE) {
    const child = schema[keyword]
    if (isSchema(child)) yield [keyword, child]
  }
  for (const keyword of LISTS) {
    const children = schema[keyword]
    if (Array.isArray(children)) for (const [index, child] of children.entries()) if (isSchema(child)) yield [`${keyword}/${index}`, child]
  }
  for (const keyword of MAPS) {
    const children = schema[keyword]
    if (isSchema(children)) for (const [name, child] of Object.entries(children)) if (isSchema(child)) yield [`${keyword}/${name}`, child]
  }
}

export function isSchema (value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether some of it is an object that a library has made for itself, as those of Zod 3 are: its members are no keywords. */
function hasForeign (json: unknown): boolean {
  let found = false
  try {
    JSON.stringify(json, (_key, value: unknown) => {
      found ||= typeof value === 'object' && value !== null && !Array.isArray(value) && !isPlain(value)
      return value
    })
  } catch {
    // What has no JSON is refused as that.
  }
  return found
}

/** Of this realm or another one. */
function isPlain (value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function cannotGive (owner: string, direction: string): Error {
  return new MCP_ERR_BAD_PROVIDER(owner, `has an ${direction} of a library that cannot give its JSON Schema: give the JSON Schema itself`)
}

/** The JSON of what may be anything; undefined if it has none. */
function stringify (value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    // A cycle, or a BigInt.
    return undefined
  }
}

function askStandard<T> (schema: StandardSchema<T>, direction: 'input' | 'output', owner: string): JsonSchema {
  const { jsonSchema, validate, vendor } = (schema['~standard'] ?? {}) as Partial<StandardSchema['~standard']> & { readonly vendor?: unknown }
  if (typeof jsonSchema?.[direction] !== 'function' || typeof validate !== 'function') {
    throw cannotGive(owner, direction)
  }
  const options = { target: 'draft-2020-12' as const, ...vendor === 'arktype' && { libraryOptions: { fallback: notInJson } } }
  try {
    return jsonSchema[direction](options)
  } catch (cause) {
    throw Object.assign(new MCP_ERR_BAD_PROVIDER(owner, `has an ${direction} that has no JSON Schema: ${(cause as Error).message}`), { cause })
  }
}

/** ArkType would advertise these as anything, where no JSON would ever fit them; other libraries throw. What it leaves out beside them it checks itself. */
const notInJson = {
  arrayObject: () => refuse('array with other members'),
  date: () => refuse('Date'),
  domain: ({ domain }: { readonly domain: string }) => refuse(domain),
  proto: ({ proto }: { readonly proto: { readonly name: string } }) => refuse(proto.name),
  symbolKey: () => refuse('symbol as a key'),
  unit: ({ unit }: { readonly unit: unknown }) => refuse(typeof unit === 'bigint' ? 'bigint' : String(unit))
}

function refuse (what: string): never {
  throw new TypeError(`there is no ${what} in JSON`)
}

/** Keywords of draft-07 with a schema in them that have another name now. */
const renamed = new Map([['definitions', '$defs'], ['additionalItems', 'items'], ['dependencies', 'dependentSchemas']])

/** Rewrites the keywords that 2020-12 has another name for. */
function fromDraft7 ({ $schema: _, ...schema }: JsonSchema): JsonSchema {
  return rewrite(schema)
}

function rewrite (schema: JsonSchema): JsonSchema {
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    switch (keyword) {
      case 'definitions': result['$defs'] = mapSchemas(value); break
      case '$ref': result['$ref'] = typeof value === 'string' && value.startsWith('#/') ? rewritePointer(value) : value; break
      case 'items':
        if (Array.isArray(value)) result['prefixItems'] = value.map(rewriteAny)
        else result['items'] = rewriteAny(value)
        break
      case 'additionalItems': if (Array.isArray(schema['items'])) result['items'] = rewriteAny(value); break
      case 'dependencies': splitDependencies(value, result); break
      default:
        if (MAPS.includes(keyword)) result[keyword] = mapSchemas(value)
        else if (LISTS.includes(keyword) && Array.isArray(value)) result[keyword] = value.map(rewriteAny)
        else result[keyword] = ONE.includes(keyword) ? rewriteAny(value) : value
    }
  }
  return result
}

/** The way to a part of the schema, by the keywords that it has now. */
function rewritePointer (pointer: string): string {
  const steps = pointer.split('/')
  let isName = false
  return steps.map((step, index) => {
    // What follows a map is a name of the author's, whatever it looks like.
    if (isName) {
      isName = false
      return step
    }
    isName = MAPS.includes(step)
    if (step === 'items' && /^\d+$/.test(String(steps[index + 1]))) return 'prefixItems'
    return renamed.get(step) ?? step
  }).join('/')
}

function splitDependencies (value: unknown, result: Record<string, unknown>): void {
  if (!isSchema(value)) return
  const entries = Object.entries(value)
  const required = entries.filter(([, dependency]) => Array.isArray(dependency))
  const schemas = entries.filter(([, dependency]) => !Array.isArray(dependency))
  if (required.length > 0) result['dependentRequired'] = Object.fromEntries(required)
  if (schemas.length > 0) result['dependentSchemas'] = mapSchemas(Object.fromEntries(schemas))
}

function mapSchemas (value: unknown): unknown {
  return isSchema(value) ? Object.fromEntries(Object.entries(value).map(([name, schema]) => [name, rewriteAny(schema)])) : value
}

function rewriteAny (value: unknown): unknown {
  return isSchema(value) ? rewrite(value) : value
}
