import createError, { type FastifyErrorConstructor } from '@fastify/error'
import {
  HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, PARSE_ERROR, REVISION,
  UNSUPPORTED_PROTOCOL_VERSION, type JsonValue
} from './protocol/index.js'
import type { ErrorReason } from '../types/errors.js'

// ---- for whoever mounts and writes callbacks

/** An option that makes no sense: `ready()` rejects. */
export const MCP_ERR_BAD_OPTION: FastifyErrorConstructor<{ code: 'MCP_ERR_BAD_OPTION' }, [path: string, problem: string]> =
  createError('MCP_ERR_BAD_OPTION', 'Option %s %s')
/** A definition that makes no sense: the function that was given it throws. */
export const MCP_ERR_BAD_PROVIDER: FastifyErrorConstructor<{ code: 'MCP_ERR_BAD_PROVIDER' }, [provider: string, problem: string]> =
  createError('MCP_ERR_BAD_PROVIDER', '%s %s')
/** A callback returned something outside its union: a crash, never the client's fault. */
export const MCP_ERR_BAD_RETURN: FastifyErrorConstructor<{ code: 'MCP_ERR_BAD_RETURN' }, [callback: string, problem: string]> =
  createError('MCP_ERR_BAD_RETURN', '%s returned %s')
/** Nothing comes back from a message bus that a mount cannot do without: `ready()` rejects. What the bus said, if it did, is the `cause`. */
export const MCP_ERR_BUS_DOWN: FastifyErrorConstructor<{ code: 'MCP_ERR_BUS_DOWN' }, [bus: string, ms: string]> = createError(
  'MCP_ERR_BUS_DOWN',
  'Nothing came back from the message bus %s within %s ms: look at whether its address is right, its broker is reached and what is emitted comes to the process itself'
)
/** A header was set after the head of the response had left. */
export const MCP_ERR_HEAD_SENT: FastifyErrorConstructor<{ code: 'MCP_ERR_HEAD_SENT' }, [header: string]> =
  createError('MCP_ERR_HEAD_SENT', 'The head of the response has been sent; header "%s" comes too late')

// ---- what a client is answered

/** What one reason becomes: on the wire, and as an HTTP status while no stream is open. */
interface Answer {
  readonly rpcCode: number
  readonly statusCode: number
  readonly message: string
  readonly data?: JsonValue | undefined
}
type Kind = ErrorReason['kind']
/** The reason of a kind, which may share its members with other kinds. */
type ReasonOf<K extends Kind, R extends ErrorReason = ErrorReason> = R extends ErrorReason ? K extends R['kind'] ? R : never : never
type ReasonTable = { readonly [K in Kind]: (reason: ReasonOf<K>) => Answer }

/** What every fault of ours looks like from outside. */
const BARE = 'Internal error'

/** A client that was refused for this one is told which versions there are (2026-07-28, Versioning). */
const VERSION_HEADER = 'MCP-Protocol-Version'

const headerProblems = {
  missing: (header: string) => `Header ${header} is missing`,
  mismatch: (header: string) => `Header ${header} does not match the body`,
  malformed: (header: string) => `Header ${header} is malformed`
}

const reasons = {
  parse: () => ({ rpcCode: PARSE_ERROR, statusCode: 400, message: 'The body is not JSON' }),
  invalidRequest: () => ({ rpcCode: INVALID_REQUEST, statusCode: 400, message: 'The body is not a JSON-RPC request or notification' }),
  originForbidden: () => ({ rpcCode: INVALID_REQUEST, statusCode: 403, message: 'Origin not allowed' }),
  hostForbidden: () => ({ rpcCode: INVALID_REQUEST, statusCode: 403, message: 'Host not allowed' }),
  mediaType: () => ({ rpcCode: INVALID_REQUEST, statusCode: 415, message: 'Content-Type must be application/json, without a Content-Encoding' }),
  bodyTooLarge: () => ({ rpcCode: INVALID_REQUEST, statusCode: 413, message: 'The body is too large' }),
  notAcceptable: () => ({ rpcCode: INVALID_REQUEST, statusCode: 406, message: 'Accept excludes the type of this answer' }),
  unsupportedVersion: ({ requested, supported }) =>
    ({ rpcCode: UNSUPPORTED_PROTOCOL_VERSION, statusCode: 400, message: `Unsupported protocol version, use ${supported.join(', ')}`, data: { requested, supported } }),
  header: ({ header, problem }) => ({
    rpcCode: HEADER_MISMATCH,
    statusCode: 400,
    message: `${headerProblems[problem](header)}${header === VERSION_HEADER ? `, use ${REVISION}` : ''}`,
    data: header === VERSION_HEADER ? { header, supported: [REVISION] } : { header }
  }),
  unsupportedMethod: ({ method }) => ({ rpcCode: METHOD_NOT_FOUND, statusCode: 404, message: 'Method not found', data: { method } }),
  invalidParams: ({ message, issues }) => ({
    rpcCode: INVALID_PARAMS,
    statusCode: 200,
    message: message ?? describeIssues(issues),
    data: issues === undefined ? undefined : { issues: issues.map(({ path, message }) => ({ path: shorten(path), message })) }
  }),
  unknownTool: ({ name }) => ({ rpcCode: INVALID_PARAMS, statusCode: 200, message: `Unknown tool: ${quote(name)}`, data: { tool: name } }),
  promptNotFound: ({ name }) => ({ rpcCode: INVALID_PARAMS, statusCode: 200, message: `Prompt not found: ${quote(name)}`, data: { name } }),
  resourceNotFound: ({ uri }) => ({ rpcCode: INVALID_PARAMS, statusCode: 200, message: `Resource not found: ${quote(uri)}`, data: { uri } }),
  cursor: () => ({ rpcCode: INVALID_PARAMS, statusCode: 200, message: 'Invalid or expired cursor' }),
  requestState: () => ({ rpcCode: INVALID_PARAMS, statusCode: 200, message: 'Invalid or expired requestState' }),
  missingClientCapability: ({ required }) => ({
    rpcCode: MISSING_REQUIRED_CLIENT_CAPABILITY,
    statusCode: 400,
    message: 'The client does not declare a capability that this request needs',
    // Capabilities are JSON, which an interface cannot say of itself.
    data: { requiredCapabilities: required as JsonValue }
  }),
  internal: ({ message }) => ({ rpcCode: INTERNAL_ERROR, statusCode: 200, message }),
  custom: ({ rpcCode, message, data, statusCode }) => ({ rpcCode, statusCode: statusCode ?? 200, message, data: data as JsonValue | undefined }),
  crash: () => ({ rpcCode: INTERNAL_ERROR, statusCode: 500, message: BARE }),
  closed: () => ({ rpcCode: INTERNAL_ERROR, statusCode: 200, message: 'Request closed by the server' }),
  timeout: () => ({ rpcCode: INTERNAL_ERROR, statusCode: 200, message: 'The request took too long' }),
  overflow: () => ({ rpcCode: INTERNAL_ERROR, statusCode: 200, message: 'The request was overrun by its own messages' }),
  overloaded: () => ({ rpcCode: INTERNAL_ERROR, statusCode: 503, message: 'Too many requests at a time' }),
  shutdown: () => ({ rpcCode: INTERNAL_ERROR, statusCode: 503, message: 'The server is shutting down' })
} satisfies ReasonTable

/** Codes of ours, which a callback passes on from another peer but must not make up. */
const OWN_CODES = new Set<number>([
  PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION
])

/**
 * What a client is answered; thrown by a callback it does what fail() does.
 *
 * A `custom` code is one that the protocol defines, passed on from another peer, or one of the application's own outside -32768 to -32000; any other
 * throws a RangeError (2026-07-28, Overview, Error Codes), and so does a `statusCode` that is neither 200 nor from 400 to 599.
 */
export class McpError extends Error {
  override readonly name = 'McpError'
  readonly reason: ErrorReason
  /** 'MCP_ERR_' and the kind: 'MCP_ERR_RESOURCE_NOT_FOUND'. */
  readonly code: `MCP_ERR_${string}`
  readonly statusCode: number
  readonly rpcCode: number
  readonly data: JsonValue | undefined

  constructor (reason: ErrorReason, options?: { readonly cause?: unknown }) {
    if (reason.kind === 'custom') checkCustom(reason)
    // The table has a row for each kind, and the row takes the reason of that kind: TypeScript cannot see the two as one.
    const answer = (reasons[reason.kind] as (reason: ErrorReason) => Answer)(reason)
    super(answer.message, options)
    this.reason = reason
    this.code = codes[reason.kind]
    this.statusCode = answer.statusCode
    this.rpcCode = answer.rpcCode
    this.data = answer.data
  }

  static unsupportedMethod (method: string): McpError {
    return new McpError({ kind: 'unsupportedMethod', method })
  }
}

/** An McpError of the mount's own checks, where the status follows the phase and not the reason. */
export class Refusal extends McpError {
  override readonly statusCode: number

  constructor (reason: ErrorReason, statusCode: number, options?: { readonly cause?: unknown }) {
    super(reason, options)
    this.statusCode = statusCode
  }
}

// Object.keys gives the keys of the table, which are the kinds.
const codes = Object.fromEntries((Object.keys(reasons) as Kind[]).map(kind => [kind, toCode(kind)])) as Record<Kind, `MCP_ERR_${string}`>

/** The error of whatever `fail` takes. A string is kind 'internal' with that text. */
export function toMcpError (reason: McpError | ErrorReason | string): McpError {
  if (reason instanceof McpError) return reason
  return new McpError(typeof reason === 'string' ? { kind: 'internal', message: reason } : reason)
}

/** What a client may learn of an error. Anything that is not an McpError stays in the log. */
export function toWireError (error: unknown): McpError {
  return error instanceof McpError ? error : new McpError({ kind: 'crash' }, { cause: error })
}

/** The JSON-RPC error object of an error. */
export function errorObject ({ rpcCode, message, data }: McpError): { readonly code: number, readonly message: string, readonly data?: JsonValue } {
  return data === undefined ? { code: rpcCode, message } : { code: rpcCode, message, data }
}

/** Seconds after which the client may try again, if the error says so. */
export function retryAfter ({ reason }: McpError): number | undefined {
  return 'retryAfter' in reason ? reason.retryAfter : undefined
}

function toCode (kind: Kind): `MCP_ERR_${string}` {
  return `MCP_ERR_${kind.replace(/[A-Z]/g, letter => `_${letter}`).toUpperCase()}`
}

function checkCustom ({ rpcCode, statusCode }: Extract<ErrorReason, { kind: 'custom' }>): void {
  const allowed = Number.isSafeInteger(rpcCode) && (rpcCode > -32000 || rpcCode < -32768 || OWN_CODES.has(rpcCode))
  if (!allowed) throw new RangeError(`rpcCode ${rpcCode} is reserved: use one of the protocol's, or one outside -32768 to -32000`)
  if (statusCode !== undefined && statusCode !== 200 && !(Number.isInteger(statusCode) && statusCode >= 400 && statusCode <= 599)) {
    throw new RangeError(`statusCode ${statusCode} is neither 200 nor an error status from 400 to 599`)
  }
}

function describeIssues (issues: readonly { readonly path: string, readonly message: string }[] | undefined): string {
  const first = issues?.[0]
  if (first === undefined) return 'Invalid params'
  // A path has names that the client chose.
  return `Invalid params: ${quote(first.path).slice(1, -1)} ${first.message}`
}

/** A name as it may stand in a one-line message: short, and without line breaks. */
function quote (name: string): string {
  return JSON.stringify(shorten(name)).replace(/[\u2028\u2029]/g, ' ')
}

function shorten (text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}...` : text
}
