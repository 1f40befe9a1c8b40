import { TypeCompiler } from '@sinclair/typebox/compiler'
import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { PrimitiveSchemaDefinition, type JsonObject, type JsonSchema } from '../protocol/index.js'
import type { Schema, StandardSchema } from '../../types/schema.js'

/** The keywords that a field of a form may have (2026-07-28, Elicitation, Requested Schema). */
const FIELD_KEYWORDS = [
  'type', 'title', 'description', 'default', 'minLength', 'maxLength', 'format', 'minimum', 'maximum', 'enum', 'enumNames', 'oneOf', 'minItems', 'maxItems', 'items'
]
const FORMATS = new Set<unknown>(['email', 'uri', 'date', 'date-time', undefined])

const fieldCheck = TypeCompiler.Compile(PrimitiveSchemaDefinition)
const forms = new WeakMap<object, JsonObject>()

/** The JSON Schema of a form, of the few kinds of fields that a client can show. Anything else throws MCP_ERR_BAD_PROVIDER. */
export function readForm<Content> (schema: Schema<Content>): JsonObject {
  const known = forms.get(schema)
  if (known !== undefined) return known
  const form = toForm(toJsonSchema(schema))
  forms.set(schema, form)
  return form
}

function toJsonSchema<T> (schema: Schema<T>): JsonSchema {
  if (!isStandard(schema)) return schema as JsonSchema
  return schema['~standard'].jsonSchema.input({ target: 'draft-2020-12' })
}

function isStandard<T> (schema: Schema<T>): schema is StandardSchema<T> {
  return '~standard' in schema
}

function toForm (schema: JsonSchema): JsonObject {
  const { type, properties, required } = schema as { type?: unknown, properties?: Record<string, JsonSchema>, required?: string[] }
  if (type !== 'object') throw new MCP_ERR_BAD_PROVIDER('elicitForm', 'takes a schema of an object')
  const fields = Object.entries(properties ?? {}).map(([name, field]): [string, JsonObject] => [name, toField(name, field)])
  return { type: 'object', properties: Object.fromEntries(fields), ...(required !== undefined && required.length > 0 && { required: [...required] }) }
}

function toField (name: string, schema: JsonSchema): JsonObject {
  // The JSON of a schema is without what its library hangs onto it.
  const json = JSON.parse(JSON.stringify({ ...schema, ...asChoice(schema) })) as JsonSchema
  const field = Object.fromEntries(Object.entries(json).filter(([keyword]) => FIELD_KEYWORDS.includes(keyword)))
  if (!FORMATS.has(field['format']) || !fieldCheck.Check(field)) {
    throw new MCP_ERR_BAD_PROVIDER('elicitForm', `has the field "${name}", which is no string, number, boolean or choice`)
  }
  // The schema's type is an interface, which cannot say that it is JSON.
  return field as object as JsonObject
}

/** Libraries write a choice as a union of constants, the protocol as an enumeration. */
function asChoice ({ anyOf, oneOf, const: only, items }: JsonSchema): JsonSchema {
  const choices = (anyOf ?? oneOf) as readonly { const?: unknown, title?: string }[] | undefined
  if (typeof only === 'string') return { type: 'string', enum: [only] }
  if (typeof items === 'object' && items !== null && 'anyOf' in items && !isTitled(items.anyOf)) return { items: { type: 'string', ...asChoice(items as JsonSchema) } }
  if (!Array.isArray(choices) || !choices.every(choice => typeof choice.const === 'string')) return {}
  return isTitled(choices)
    ? { type: 'string', oneOf: choices.map(choice => ({ const: choice.const, title: choice.title })) }
    : { type: 'string', enum: choices.map(choice => choice.const) }
}

function isTitled (choices: unknown): boolean {
  return Array.isArray(choices) && choices.every((choice: { title?: unknown }) => typeof choice.title === 'string')
}
