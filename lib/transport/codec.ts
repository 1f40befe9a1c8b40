import { errorObject, type McpError } from '../errors.js'
import { LONG } from './long.js'
import { metaKeys, type Implementation, type JsonObject } from '../protocol/index.js'
import type { RequestId } from '../../types/request.js'

/** What the codec must know of the request that is answered. */
export interface Answered {
  /** undefined for a notification */
  readonly id: RequestId | undefined
  /** Its result has cache hints. */
  readonly cacheable: boolean
  /** It brought back a state or answers. */
  readonly retried: boolean
}

/** How the messages of one revision look on the wire: each method gives the JSON of one. */
export interface Codec {
  /**
   * Throws what JSON.stringify throws, and a TypeError for a result that is no JSON object. A frozen list or discover result is serialised once: whoever
   * freezes it and answers with it again says that it stays as it is.
   */
  result (answered: Answered, result: object): string
  error (id: RequestId | undefined, error: McpError): string
  notification (method: string, params: JsonObject | undefined): string
  /** The one notification that there may be many of; `total` and `progress` are finite. */
  progress (token: RequestId, progress: number, total: number | undefined, message: string | undefined): string
  /** The result that ends a listen. */
  complete (answered: Answered): string
}

/** The codec of the current revision. With `info`, results that name no server are stamped with it (2026-07-28, Overview, Per-response protocol fields). */
export function createCodec (info: Implementation | undefined): Codec {
  const meta = info === undefined ? undefined : `"_meta":{"${metaKeys.serverInfo}":${JSON.stringify(info)}}`

  function stamp (result: Readonly<Record<string, unknown>>): string {
    const own = result['_meta']
    // Nothing is spliced into long JSON: that would copy it.
    if (isLong(result)) return JSON.stringify(info === undefined ? result : { ...result, _meta: { [metaKeys.serverInfo]: info, ...own as object | undefined } })
    if (own !== undefined) {
      return stringifyObject(info === undefined ? result : { ...result, _meta: { [metaKeys.serverInfo]: info, ...own as object } })
    }
    const json = stringifyObject(result)
    return meta === undefined ? json : `${json.slice(0, -1)},${meta}}`
  }

  const frozen = new WeakMap<object, string>()

  function render (answered: Answered, result: object): string {
    const once = answered.cacheable && !answered.retried && Object.isFrozen(result)
    const known = once ? frozen.get(result) : undefined
    if (known !== undefined) return known
    const json = stamp(complete(answered, result as Readonly<Record<string, unknown>>))
    if (once) frozen.set(result, json)
    return json
  }

  return {
    result: (answered, result) => envelope(answered.id, `"result":${render(answered, result)}`),
    error: (id, error) => envelope(id, `"error":${stringifyError(errorObject(error))}`),
    notification: (method, params) => JSON.stringify({ jsonrpc: '2.0', method, params }),
    progress: (token, progress, total, message) =>
      `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${JSON.stringify(token)},"progress":${progress}` +
      `${total === undefined ? '' : `,"total":${total}`}${message === undefined ? '' : `,"message":${JSON.stringify(String(message))}`}}}`,
    complete: ({ id }) => envelope(id, `"result":${stamp({ resultType: 'complete', _meta: { [metaKeys.subscriptionId]: id } })}`)
  }
}

/** The JSON of an answer, from that of its result or error. */
export function envelope (id: RequestId | undefined, member: string): string {
  // Left out where it could not be read: null is no id of this protocol.
  return id === undefined ? `{"jsonrpc":"2.0",${member}}` : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${member}}`
}

/** What every result of the revision has, for authors who do without the builders; and of a retry nothing is kept (2026-07-28, Caching, Cache Key). */
function complete ({ cacheable, retried }: Answered, result: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { resultType = 'complete' } = result
  if (!cacheable || resultType === 'input_required') return result['resultType'] === undefined ? { ...result, resultType } : result
  if (retried) return { ...result, resultType, ttlMs: 0, cacheScope: 'private' }
  const { ttlMs = 0, cacheScope = 'private' } = result
  if (result['resultType'] !== undefined && result['ttlMs'] !== undefined && result['cacheScope'] !== undefined) return result
  return { ...result, resultType, ttlMs, cacheScope }
}

/** Whether it is an object with some long text in it, where results have such. */
function isLong (result: Readonly<Record<string, unknown>>): boolean {
  const items = result['content'] ?? result['contents']
  if (!Array.isArray(items) || Array.isArray(result) || typeof result['toJSON'] === 'function') return false
  // From an author, and anything at all until JSON has been made of it.
  for (const item of items as (Readonly<Record<string, unknown>> | null | undefined)[]) {
    const text = item?.['text'] ?? item?.['data'] ?? item?.['blob'] ?? (item?.['resource'] as typeof item)?.['text'] ?? (item?.['resource'] as typeof item)?.['blob']
    if (typeof text === 'string' && text.length > LONG) return true
  }
  return false
}

function stringifyObject (value: object): string {
  const json = JSON.stringify(value)
  if (json?.[0] !== '{' || json === '{}') throw new TypeError('A result must be a JSON object')
  return json
}

export function stringifyError ({ code, message, data }: ReturnType<typeof errorObject>): string {
  try {
    return JSON.stringify({ code, message, data })
  } catch {
    // `data` comes from an author, and an error must get through whatever it is.
    return JSON.stringify({ code, message })
  }
}
