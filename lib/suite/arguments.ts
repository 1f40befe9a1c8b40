import { compile, isStandard, toJsonSchema } from '../json-schema.js'
import { repair } from './repair.js'
import type { Validate } from '../schema.js'
import type { JsonObject, JsonSchema } from '../protocol/index.js'
import type { Schema, StandardSchema } from '../../types/schema.js'

export interface Issue { readonly path: string, readonly message: string }
export type Read = { readonly ok: true, readonly value: unknown } | { readonly ok: false, readonly issues: readonly Issue[] }

const NOTHING: JsonSchema = { type: 'object', properties: {}, additionalProperties: false }

/** What a tool or prompt takes: the schema as it is listed, and how arguments are read. */
export class Arguments {
  readonly schema: JsonSchema
  readonly #validate: Validate
  readonly #standard: StandardSchema['~standard'] | undefined
  readonly #repairs: boolean

  /** Throws MCP_ERR_BAD_PROVIDER. Without a schema nothing is taken. */
  constructor (owner: string, given: Schema<unknown> | undefined, repairs = false) {
    this.schema = given === undefined ? NOTHING : asObject(toJsonSchema(given, 'input', owner))
    this.#validate = compile(this.schema, owner, 'input')
    this.#standard = given !== undefined && isStandard(given) ? given['~standard'] : undefined
    this.#repairs = repairs
  }

  /** Synchronous, but for a Standard Schema that is not. What was sent is never changed. */
  read (sent: JsonObject): Read | Promise<Read> {
    const value = this.#repairs ? repair(this.schema, sent) : sent
    if (this.#standard === undefined) return this.#validate(value) ? { ok: true, value } : { ok: false, issues: describe(this.#validate, value) }
    const outcome = this.#standard.validate(value)
    return outcome instanceof Promise ? outcome.then(toRead) : toRead(outcome)
  }
}

/** What did not fit, in words that whoever sent it can act on: the place, what was expected, what was there. */
export function describe (validate: Validate, value: unknown): Issue[] {
  const issues = (validate.errors ?? []).map(({ instancePath, keyword, params, message }) => {
    const { missingProperty, additionalProperty, allowedValues } = params as { missingProperty?: string, additionalProperty?: string, allowedValues?: unknown[] }
    if (missingProperty !== undefined) return { path: `${instancePath}/${missingProperty}`, message: 'is required' }
    if (additionalProperty !== undefined) return { path: `${instancePath}/${additionalProperty}`, message: 'is not known' }
    const expected = allowedValues === undefined ? message ?? `does not fit ${keyword}` : `must be one of ${JSON.stringify(allowedValues).slice(0, 500)}`
    return { path: instancePath === '' ? '/' : instancePath, message: `${expected}, and is ${nameType(at(value, instancePath))}` }
  })
  // Of one place and problem once: the branches of a union say the same.
  return [...new Map(issues.map(issue => [`${issue.path} ${issue.message}`, issue])).values()].slice(0, 20)
}

function toRead (outcome: Awaited<ReturnType<StandardSchema['~standard']['validate']>>): Read {
  if (outcome.issues === undefined) return { ok: true, value: outcome.value }
  return { ok: false, issues: outcome.issues.slice(0, 20).map(issue => ({ path: toPointer((issue as { path?: unknown }).path), message: issue.message })) }
}

/** Standard Schema: a path is a list of keys, or of objects that have one. */
function toPointer (path: unknown): string {
  const keys = Array.isArray(path) ? path : []
  return `/${keys.map((key: unknown) => String(typeof key === 'object' && key !== null && 'key' in key ? key.key : key)).join('/')}`
}

function asObject (schema: JsonSchema): JsonSchema {
  if (schema['type'] === 'object' && schema['properties'] === undefined && Object.keys(schema).length === 1) return NOTHING
  if (Object.keys(schema).length === 0) return NOTHING
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
