import { McpError } from '../errors.js'
import type { JsonObject, JsonValue } from '../protocol/index.js'
import type { RequestId } from '../../types/request.js'

/** What the JSON-RPC envelope of a body says. */
export type Envelope =
  | { readonly kind: 'request', readonly id: RequestId, readonly method: string, readonly params: unknown }
  | { readonly kind: 'notification', readonly method: string, readonly params: unknown }

/** Reads a parsed body as JSON-RPC, or throws McpError: 'parse' for no body at all, 'invalidRequest' for batches, responses and anything else. */
export function readEnvelope (body: unknown): Envelope {
  if (body === undefined) throw new McpError({ kind: 'parse' })
  if (!isObject(body) || body['jsonrpc'] !== '2.0') throw new McpError({ kind: 'invalidRequest' })
  const { id, method, params } = body
  if (typeof method !== 'string') throw new McpError({ kind: 'invalidRequest' })
  if (id === undefined) return { kind: 'notification', method, params }
  if (!isRequestId(id)) throw new McpError({ kind: 'invalidRequest' })
  return { kind: 'request', id, method, params }
}

/** The id that an answer to this body carries, if it has one that can be read. */
export function readId (body: unknown): RequestId | undefined {
  const id = isObject(body) ? body['id'] : undefined
  return isRequestId(id) ? id : undefined
}

/** A string or an integer that survives JSON (2026-07-28, Overview, Requests). */
export function isRequestId (id: unknown): id is RequestId {
  return typeof id === 'string' || Number.isSafeInteger(id)
}

export function isObject (value: unknown): value is { readonly [key: string]: JsonValue | undefined } & JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
