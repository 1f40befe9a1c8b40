import { compile, isStandard, toJsonSchema } from '../json-schema.js'
import { repair } from './repair.js'
import type { ErrorObject } from 'ajv'
import type { Validate } from '../schema.js'
import type { JsonObject, JsonSchema } from '../protocol/index.js'
import type { Schema, StandardSchema } from '../../types/schema.js'

export interface Issue { readonly path: string, readonly message: string }
export type Read = { readonly ok: true, readonly value: unknown } | { readonly ok: false, readonly issues: readonly Issue[] }

const NOTHING: JsonSchema = { type: 'object', properties: {}, additionalProperties: false }
/** An object, of which nothing is said: some clients refuse one without `properties`. */
const ANYTHING: JsonSchema = { type: 'object', properties: {} }
/** Problems that are told of at a time. */
const MAX_ISSUES = 20

/** What a tool or prompt takes: the schema as it is listed, and how arguments are read. */
export class Arguments {
  readonly schema: JsonSchema
  readonly #validate: Validate
  readonly #standard: StandardSchema['~standard'] | undefined

  /** Throws MCP_ERR_BAD_PROVIDER. Without a schema nothing is taken. */
  constructor (owner: string, given: Schema<unknown> | undefined) {
    this.schema = given === undefined ? NOTHING : asObject(toJsonSchema(given, 'input', owner))
    this.#validate = compile(this.schema, owner, 'input')
    this.#standard = given !== undefined && isStandard(given) ? given['~standard'] : undefined
  }

  /** Synchronous, but for a Standard Schema that is not. What was sent is never changed. */
  read (sent: JsonObject, repairs = false): Read | Promise<Read> {
    const value = repairs ? repair(this.schema, sent) : sent
    if (this.#standard === undefined) return this.#validate(value) ? { ok: true, value } : { ok: false, issues: describe(this.#validate, value) }
    const outcome = this.#standard.validate(value)
    // Not every library's promise is a Promise, and one that is taken for the outcome would let anything pass.
    return 'then' in outcome ? Promise.resolve(outcome).then(toRead) : toRead(outcome)
  }
}

/** What did not fit, in words that whoever sent it can act on: the place, what was expected, what was there. */
export function describe (validate: Validate, value: unknown): Issue[] {
  const issues = new Map<string, Issue>()
  for (const error of validate.errors ?? []) {
    const issue = toIssue(error, value)
    // Of one place and problem once: the branches of a union say the same.
    issues.set(`${issue.path} ${issue.message}`, issue)
    if (issues.size === MAX_ISSUES) break
  }
  return [...issues.values()]
}

function toIssue ({ instancePath, keyword, params, message }: ErrorObject, value: unknown): Issue {
  const { missingProperty, additionalProperty, unevaluatedProperty } = params as Readonly<Record<string, string | undefined>>
  const unknown = additionalProperty ?? unevaluatedProperty
  if (missingProperty !== undefined) return { path: shorten(`${instancePath}/${missingProperty}`), message: 'is required' }
  if (unknown !== undefined) return { path: shorten(`${instancePath}/${unknown}`), message: 'is not known' }
  return { path: instancePath === '' ? '/' : shorten(instancePath), message: `${expected(keyword, params, message)}, and is ${nameType(at(value, instancePath))}` }
}

function expected (keyword: string, params: Readonly<Record<string, unknown>>, message = `does not fit ${keyword}`): string {
  switch (keyword) {
    case 'enum': return `must be one of ${JSON.stringify(params['allowedValues']).slice(0, 500)}`
    case 'const': return `must be ${JSON.stringify(params['allowedValue']).slice(0, 500)}`
    default: return message
  }
}

/** What a client or a store has chosen may be of any length. */
export function shorten (text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}...` : text
}

function toRead (outcome: Awaited<ReturnType<StandardSchema['~standard']['validate']>>): Read {
  if (outcome.issues === undefined) return { ok: true, value: outcome.value }
  return { ok: false, issues: outcome.issues.slice(0, MAX_ISSUES).map(issue => ({ path: toPointer((issue as { path?: unknown }).path), message: issue.message })) }
}

/** Standard Schema: a path is a list of keys, or of objects that have one. */
function toPointer (path: unknown): string {
  const keys = Array.isArray(path) ? path : []
  return `/${keys.map((key: unknown) => String(typeof key === 'object' && key !== null && 'key' in key ? key.key : key)).join('/')}`
}

function asObject (schema: JsonSchema): JsonSchema {
  const rest = Object.keys(schema).filter(keyword => keyword !== 'type')
  if (rest.length === 0 && (schema['type'] ?? 'object') === 'object') return ANYTHING
  return schema['type'] === undefined ? { type: 'object', ...schema } : schema
}

function at (value: unknown, pointer: string): unknown {
  let found = value
  for (const step of pointer.split('/').slice(1)) found = (found as Record<string, unknown> | undefined)?.[step.replaceAll('~1', '/').replaceAll('~0', '~')]
  return found
}

/** What a value is, without repeating it: it may be long, or secret. */
function nameType (value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
