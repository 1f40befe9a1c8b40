import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import ajvFormats from 'ajv-formats'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import type { TSchema } from '@sinclair/typebox'
import type { JsonSchema } from './protocol/index.js'
import type { TypeBoxSchema } from '../types/schema.js'

export type Validate = ValidateFunction

/** How many compiled schemas are kept by their text: those that are written anew for each request. */
const KEPT = 500

const ajv = new Ajv2020({ strict: false, allErrors: true, logger: false })
// The package is CommonJS, and its function the whole module, which its types do not say.
const addFormats = ajvFormats as unknown as typeof ajvFormats.default
addFormats(ajv)

const typeBoxChecks = new WeakMap<object, TypeCheck<TSchema>>()
const byIdentity = new WeakMap<JsonSchema, ValidateFunction>()
const byText = new Map<string, ValidateFunction>()

/** Whether a value fits a JSON Schema 2020-12, compiled once for each schema. Throws what Ajv throws for one that is none. */
export function fitsJsonSchema (schema: JsonSchema, value: unknown): boolean {
  return compileJsonSchema(schema)(value)
}

/** The check of a TypeBox schema, from any copy of TypeBox; compiled once for each schema. */
export function compileTypeBox<T> (schema: TypeBoxSchema<T>): TypeCheck<TSchema> {
  const known = typeBoxChecks.get(schema)
  if (known !== undefined) return known
  // A TypeBoxSchema is known by members that only TypeBox makes.
  const check = TypeCompiler.Compile(schema as unknown as TSchema)
  typeBoxChecks.set(schema, check)
  return check
}

/** Where a value does not fit, and what is wrong there. */
export function firstProblem (check: TypeCheck<TSchema>, value: unknown): { readonly path: string, readonly message: string } {
  const problem = check.Errors(value).First()
  return { path: problem?.path || '/', message: problem?.message ?? 'is not valid' }
}

/** The check of a JSON Schema 2020-12, whose `errors` say what did not fit. Unknown keywords and formats are ignored, and nothing is fetched. */
export function compileJsonSchema (schema: JsonSchema): Validate {
  const known = byIdentity.get(schema)
  if (known !== undefined) return known

  const text = JSON.stringify(schema)
  const validate = byText.get(text) ?? compileText(text)
  byIdentity.set(schema, validate)
  return validate
}

function compileText (text: string): ValidateFunction {
  const schema = JSON.parse(text) as JsonSchema
  // Its check would be a promise, which is true whatever comes of it.
  if (schema['$async'] !== undefined) throw new Error('$async is not supported')
  let validate
  try {
    validate = ajv.compile(schema)
  } finally {
    // Ajv keeps every schema it has seen, and the names in it; ours are kept here, not for ever, and none knows another.
    ajv.removeSchema()
  }
  byText.set(text, validate)
  const [oldest] = byText.keys()
  if (byText.size > KEPT && oldest !== undefined) byText.delete(oldest)
  return validate
}
