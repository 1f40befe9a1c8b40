import { McpError } from '../errors.js'
import { decodeHeaderValue } from './header-value.js'
import type { FastifyRequest } from 'fastify'
import type { JsonObject, JsonSchema } from '../protocol/index.js'
import type { CallToolRequest } from '../../types/request.js'

/** A property whose value a client repeats in a header, and the way to it from the root of the arguments. */
interface Annotated { readonly header: string, readonly path: readonly string[] }

const ANNOTATION = 'x-mcp-header'
const annotatedOf = new WeakMap<JsonSchema, readonly Annotated[]>()

/**
 * Throws McpError 'header' where `Mcp-Param-*` headers and arguments that `inputSchema` marks `x-mcp-header` disagree (2026-07-28, Streamable HTTP, Server
 * Behavior for Custom Headers). Headers that the schema does not know are ignored.
 */
export function checkParamHeaders (inputSchema: JsonSchema, request: CallToolRequest, httpRequest: FastifyRequest): void {
  for (const { header, path } of readAnnotations(inputSchema)) {
    const name = `Mcp-Param-${header}`
    // Node joins what is sent twice into one string.
    const sent = httpRequest.headers[name.toLowerCase()] as string | undefined
    const value = valueAt(request.params.arguments, path)
    if (value === undefined || value === null) {
      // A router would act on a value that the body does not have.
      if (sent !== undefined) throw problem(name, 'mismatch')
      continue
    }
    if (sent === undefined) throw problem(name, 'missing')
    const decoded = decodeHeaderValue(sent)
    if (decoded === undefined) throw problem(name, 'malformed')
    if (!says(decoded, value)) throw problem(name, 'mismatch')
  }
}

/** The annotated properties of a schema, which a chain of `properties` alone leads to; read once for each schema. */
function readAnnotations (schema: JsonSchema): readonly Annotated[] {
  const known = annotatedOf.get(schema)
  if (known !== undefined) return known
  const annotated = [...walk(schema, [])]
  annotatedOf.set(schema, annotated)
  return annotated
}

function * walk ({ properties }: JsonSchema, path: readonly string[]): Generator<Annotated> {
  if (!isObject(properties)) return
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property)) continue
    const here = [...path, name]
    if (typeof property[ANNOTATION] === 'string') yield { header: property[ANNOTATION], path: here }
    yield * walk(property, here)
  }
}

/** The own member that a path leads to; a step that meets no object finds nothing. */
function valueAt (root: JsonObject, path: readonly string[]): unknown {
  let value: unknown = root
  for (const step of path) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined
    value = value[step]
  }
  return value
}

/** Whether a header says the same as a value of the body. */
function says (header: string, value: unknown): boolean {
  if (typeof value === 'string') return header === value
  if (typeof value === 'boolean') return header === String(value)
  // Beyond the safe integers two different numbers compare as equal.
  return Number.isSafeInteger(value) && /^-?\d+(?:\.0+)?$/.test(header) && Number(header) === value
}

function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function problem (header: string, problem: 'missing' | 'mismatch' | 'malformed'): McpError {
  return new McpError({ kind: 'header', header, problem })
}
