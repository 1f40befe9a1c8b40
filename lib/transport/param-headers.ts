import { isObject } from '../decode/envelope.js'
import { MCP_ERR_BAD_PROVIDER, McpError } from '../errors.js'
import { REVISION } from '../protocol/index.js'
import { decodeHeaderValue } from './header-value.js'
import type { FastifyRequest } from 'fastify'
import type { JsonObject, JsonSchema } from '../protocol/index.js'
import type { CallToolRequest } from '../../types/request.js'

/** A property whose value a client repeats in a header, and the way to it from the root of the arguments. */
interface Annotated { readonly header: unknown, readonly path: readonly string[], readonly schema: JsonSchema }

const ANNOTATION = 'x-mcp-header'
/** RFC 9110, 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const TYPES = new Set<unknown>(['string', 'integer', 'boolean'])
const annotatedOf = new WeakMap<JsonSchema, readonly Annotated[]>()

/**
 * Throws McpError 'header' where `Mcp-Param-*` headers and arguments that `inputSchema` marks `x-mcp-header` disagree (2026-07-28, Streamable HTTP, Server
 * Behavior for Custom Headers). Headers that the schema does not know are ignored.
 */
export function checkParamHeaders (inputSchema: JsonSchema, request: CallToolRequest, httpRequest: FastifyRequest): void {
  // No older revision has them.
  if (request.meta.protocolVersion !== REVISION) return
  for (const { header, path } of readAnnotations(inputSchema)) {
    const name = `Mcp-Param-${header as string}`
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

/**
 * Throws MCP_ERR_BAD_PROVIDER for annotations that make clients drop the tool: a name that is no header's, or the same twice, a type that no header can
 * hold, a place that not every call has (2026-07-28, Tools, x-mcp-header).
 */
export function checkParamAnnotations (inputSchema: JsonSchema, owner: string): void {
  const reachable = new Set<JsonSchema>()
  const names = new Set<string>()
  for (const { header, schema } of walk(inputSchema, [])) {
    reachable.add(schema)
    if (typeof header !== 'string' || !TOKEN.test(header)) throw new MCP_ERR_BAD_PROVIDER(owner, `has the ${ANNOTATION} ${JSON.stringify(header)}, which is no header name`)
    if (names.has(header.toLowerCase())) throw new MCP_ERR_BAD_PROVIDER(owner, `has the ${ANNOTATION} ${header} twice`)
    names.add(header.toLowerCase())
    if (!TYPES.has(schema['type'])) throw new MCP_ERR_BAD_PROVIDER(owner, `has the ${ANNOTATION} ${header} on what is no string, integer or boolean`)
  }
  if (hasOther(inputSchema, reachable)) throw new MCP_ERR_BAD_PROVIDER(owner, `has an ${ANNOTATION} where a chain of properties does not lead`)
}

/** The annotated properties of a schema, which a chain of `properties` alone leads to; read once for each schema. */
function readAnnotations (schema: JsonSchema): readonly Annotated[] {
  const known = annotatedOf.get(schema)
  if (known !== undefined) return known
  // Of a server that did not have its schemas checked; a header has a name.
  const annotated = [...walk(schema, [])].filter(({ header }) => typeof header === 'string')
  annotatedOf.set(schema, annotated)
  return annotated
}

function * walk ({ properties }: JsonSchema, path: readonly string[]): Generator<Annotated> {
  if (!isObject(properties)) return
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property)) continue
    const here = [...path, name]
    if (property[ANNOTATION] !== undefined) yield { header: property[ANNOTATION], path: here, schema: property }
    yield * walk(property, here)
  }
}

/** Whether any part of a schema but these is annotated, or one of these with what is no name. */
function hasOther (value: unknown, reachable: ReadonlySet<JsonSchema>): boolean {
  if (Array.isArray(value)) return value.some(item => hasOther(item, reachable))
  if (!isObject(value)) return false
  if (value[ANNOTATION] !== undefined && !isObject(value[ANNOTATION]) && !reachable.has(value)) return true
  return Object.values(value).some(member => hasOther(member, reachable))
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

function problem (header: string, problem: 'missing' | 'mismatch' | 'malformed'): McpError {
  return new McpError({ kind: 'header', header, problem })
}
