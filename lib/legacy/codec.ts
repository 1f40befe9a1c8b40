import { isObject } from '../decode/envelope.js'
import { errorObject, type McpError } from '../errors.js'
import { INVALID_REQUEST, type JsonObject } from '../protocol/index.js'
import { envelope, stringifyError } from '../transport/codec.js'
import { translateParams, translateResult } from './translate.js'
import type { RequestId } from '../../types/request.js'
import type { LegacyVersion } from '../../types/legacy.js'

/** 2025-11-25, Resources, Error Handling; no later revision has it. */
const RESOURCE_NOT_FOUND = -32002
/** Codes that only 2026-07-28 gives a meaning, from and to. */
const MODERN_CODES = [-32029, -32020] as const

/** How the messages to one client look: each method gives the JSON of one. */
export interface LegacyCodec {
  /** Throws what JSON.stringify throws. A frozen result is translated once. */
  result (id: RequestId, result: object): string
  error (id: RequestId | undefined, error: McpError): string
  notification (method: string, params: JsonObject | undefined): string
  request (id: RequestId, method: string, params: unknown): string
}

function createCodec (version: LegacyVersion): LegacyCodec {
  const frozen = new WeakMap<object, string>()

  function render (result: object): string {
    const known = frozen.get(result)
    if (known !== undefined) return known
    const plain = toPlain(result)
    if (!isObject(plain)) throw new TypeError('A result must be a JSON object')
    const json = JSON.stringify(translateResult(version, plain))
    if (Object.isFrozen(result)) frozen.set(result, json)
    return json
  }

  return {
    result: (id, result) => envelope(id, `"result":${render(result)}`),
    error: (id, error) => envelope(id, `"error":${stringifyError(toError(error))}`),
    notification: (method, params) => JSON.stringify({ jsonrpc: '2.0', method, params: translateParams(params) }),
    request: (id, method, params) => JSON.stringify({ jsonrpc: '2.0', id, method, params })
  }
}

/** One a revision, for all mounts: they hold nothing of any. */
export const codecs: Readonly<Record<LegacyVersion, LegacyCodec>> = {
  '2025-11-25': createCodec('2025-11-25'),
  '2025-06-18': createCodec('2025-06-18'),
  '2025-03-26': createCodec('2025-03-26')
}

/** The status of an error while no stream is open. What has a meaning in 2026-07-28 alone is said in JSON-RPC only, and 404 that a session is gone. */
export function statusOf ({ statusCode, rpcCode }: McpError): number {
  return statusCode === 404 || isModern(rpcCode) ? 200 : statusCode
}

function toError (error: McpError): ReturnType<typeof errorObject> {
  const own = errorObject(error)
  if (error.reason.kind === 'resourceNotFound') return { ...own, code: RESOURCE_NOT_FOUND }
  return isModern(own.code) ? { ...own, code: INVALID_REQUEST } : own
}

function isModern (code: number): boolean {
  return code >= MODERN_CODES[0] && code <= MODERN_CODES[1]
}

/** The members of a result as JSON has them: it may have a toJSON of its own. */
function toPlain (result: object): unknown {
  const { toJSON } = result as { toJSON?: () => unknown }
  return typeof toJSON === 'function' ? toJSON.call(result) : result
}
