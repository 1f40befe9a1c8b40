import { TypeCompiler } from '@sinclair/typebox/compiler'
import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { compile, isSchema, toJsonSchema } from '../json-schema.js'
import { PrimitiveSchemaDefinition, type JsonObject, type JsonSchema } from '../protocol/index.js'
import type { Schema } from '../../types/schema.js'

/** A form as the client is sent it, and the author's own schema, which may say more than a form can. */
export interface Form { readonly requestedSchema: JsonObject, readonly schema: JsonSchema }

const OWNER = 'elicitForm'
const LABELS = ['title', 'description', 'default']
/** What a field of a type may say beside its labels (2026-07-28, Elicitation, Requested Schema). */
const keywords: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'format', 'enum', 'enumNames', 'oneOf'],
  number: ['minimum', 'maximum'],
  integer: ['minimum', 'maximum'],
  boolean: [],
  array: ['minItems', 'maxItems', 'items']
}
/** What decides which kind of field it is: on a field of another kind it would be lost. */
const KINDS = ['enum', 'oneOf', 'items']
const FORMATS = new Set<unknown>(['email', 'uri', 'date', 'date-time', undefined])

const fieldCheck = TypeCompiler.Compile(PrimitiveSchemaDefinition)
const forms = new WeakMap<object, Form>()

/** The form of a schema, made of the few kinds of fields that a client can show. Anything else throws MCP_ERR_BAD_PROVIDER. */
export function readForm<Content> (given: Schema<Content>): Form {
  const known = forms.get(given)
  if (known !== undefined) return known
  const schema = toJsonSchema(given, 'input', OWNER)
  const requestedSchema = toForm(schema)
  compile(requestedSchema, OWNER, 'form')
  compile(schema, OWNER, 'form')
  const form = { requestedSchema, schema }
  forms.set(given, form)
  return form
}

function toForm ({ type, properties, required }: JsonSchema): JsonObject {
  if (type !== 'object') throw bad('takes a schema of an object')
  const fields = Object.entries(isSchema(properties) ? properties : {}).map(([name, field]): [string, JsonObject] => [name, toField(name, field)])
  return { type: 'object', properties: Object.fromEntries(fields), ...(Array.isArray(required) && required.length > 0 && { required: required as string[] }) }
}

function toField (name: string, schema: unknown): JsonObject {
  const unfit = (): Error => bad(`has the field "${name}", which is no string, number, boolean or choice`)
  if (!isSchema(schema)) throw unfit()
  // What a choice takes the place of is gone, and not undefined.
  const json = JSON.parse(JSON.stringify({ ...schema, ...asChoice(schema) })) as JsonSchema
  const allowed = keywords[String(json['type'])]
  if (allowed === undefined || KINDS.some(keyword => json[keyword] !== undefined && !allowed.includes(keyword))) throw unfit()
  const field: Record<string, unknown> = Object.fromEntries(Object.entries(json).filter(([keyword]) => keyword === 'type' || LABELS.includes(keyword) || allowed.includes(keyword)))
  if (!FORMATS.has(field['format'])) throw unfit()
  if (KINDS.some(keyword => Array.isArray(field[keyword]) && field[keyword].length === 0) || !fieldCheck.Check(field)) throw unfit()
  // The schema's type is an interface, which cannot say that it is JSON.
  return field as object as JsonObject
}

/** Libraries write a choice as a union of constants, the protocol as an enumeration. */
function asChoice ({ anyOf, oneOf, const: only, items }: JsonSchema): JsonSchema {
  if (typeof only === 'string') return { type: 'string', enum: [only] }
  // A constant that is no string is no choice, and without it the field would take more than the author meant.
  if (only !== undefined) return { type: 'const' }
  if (isSchema(items) && Array.isArray(items['anyOf']) && !isTitled(items['anyOf'])) return { items: { type: 'string', ...asChoice(items) } }
  const choices: unknown = anyOf ?? oneOf
  if (!Array.isArray(choices)) return {}
  if (!choices.every((choice: unknown) => isSchema(choice) && typeof choice['const'] === 'string')) return { type: 'union' }
  const constants = choices as readonly { readonly const: string, readonly title?: string }[]
  return isTitled(choices)
    ? { type: 'string', oneOf: constants.map(({ const: value, title }) => ({ const: value, title })) }
    : { type: 'string', enum: constants.map(({ const: value }) => value), oneOf: undefined }
}

function isTitled (choices: readonly unknown[]): boolean {
  return choices.every(choice => isSchema(choice) && typeof choice['title'] === 'string')
}

function bad (problem: string): Error {
  return new MCP_ERR_BAD_PROVIDER(OWNER, problem)
}
