import { errorObject, type McpError } from '../errors.js'
import { methods, type Implementation, type JsonObject } from '../protocol/index.js'
import type { RequestId } from '../../types/request.js'

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'

/** What the codec must know of the request that is answered. */
export interface Answered {
  /** undefined for a notification */
  readonly id: RequestId | undefined
  readonly method: string
  /** It brought back a state or answers. */
  readonly retried: boolean
}

/** How the messages of one revision look on the wire: each method gives the JSON of one. */
export interface Codec {
  /** Throws what JSON.stringify throws, and a TypeError for a result that is no JSON object. */
  result (answered: Answered, result: object): string
  error (id: RequestId | undefined, error: McpError): string
  notification (method: string, params: JsonObject | undefined): string
  /** The result that ends a listen. */
  complete (answered: Answered): string
}

/** The codec of the current revision. With `info`, results that name no server are stamped with it (2026-07-28, Overview, Per-response protocol fields). */
export function createCodec (info: Implementation | undefined): Codec {
  const meta = info === undefined ? undefined : `"_meta":{"${SERVER_INFO}":${JSON.stringify(info)}}`

  function stamp (result: Readonly<Record<string, unknown>>): string {
    const own = result['_meta']
    if (own !== undefined) {
      return stringifyObject(info === undefined ? result : { ...result, _meta: { [SERVER_INFO]: info, ...own as object } })
    }
    const json = stringifyObject(result)
    return meta === undefined ? json : `${json.slice(0, -1)},${meta}}`
  }

  return {
    result: (answered, result) => envelope(answered.id, `"result":${stamp(complete(answered, result as Readonly<Record<string, unknown>>))}`),
    error: (id, error) => envelope(id, `"error":${stringifyError(error)}`),
    notification: (method, params) => JSON.stringify({ jsonrpc: '2.0', method, params }),
    complete: ({ id }) => envelope(id, `"result":${stamp({ resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: id } })}`)
  }
}

function envelope (id: RequestId | undefined, member: string): string {
  // Left out where it could not be read: null is no id of this protocol.
  return id === undefined ? `{"jsonrpc":"2.0",${member}}` : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${member}}`
}

/** What every result of the revision has, for authors who do without the builders; and of a retry nothing is kept (2026-07-28, Caching, Cache Key). */
function complete ({ method, retried }: Answered, result: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { resultType, ttlMs, cacheScope } = result
  const cacheable = methods[method as keyof typeof methods].cacheable === true && resultType !== 'input_required'
  if (cacheable && retried) return { resultType: 'complete', ...result, ttlMs: 0, cacheScope: 'private' }
  if (resultType !== undefined && !(cacheable && (ttlMs === undefined || cacheScope === undefined))) return result
  return { resultType: 'complete', ...cacheable && { ttlMs: 0, cacheScope: 'private' }, ...result }
}

function stringifyObject (value: object): string {
  const json = JSON.stringify(value)
  if (json?.[0] !== '{' || json === '{}') throw new TypeError('A result must be a JSON object')
  return json
}

function stringifyError (error: McpError): string {
  const { code, message, data } = errorObject(error)
  try {
    return JSON.stringify({ code, message, data })
  } catch {
    // `data` comes from an author, and an error must get through whatever it is.
    return JSON.stringify({ code, message })
  }
}
