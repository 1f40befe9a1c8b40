import { existsSync, readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { Value } from '@sinclair/typebox/value'
import type { TSchema } from '@sinclair/typebox'
import * as protocol from '../../lib/protocol/index.js'

/** What a revision's schema says of the messages of that revision. The one of 2025-11-25 stands for the older ones too, which have none of their own here. */
export interface Published {
  /** A request of 2026-07-28 by this name. */
  isRequest (method: string): boolean
  /** Whether params fit, `_meta` and what a client brings back apart: those are looked at member by member. */
  fitsParams (method: string, params: Readonly<Record<string, unknown>>): boolean
  /** What is wrong with a message of the server's; undefined if nothing is. `method`: that of the request that it answers. */
  problem (era: 'modern' | 'legacy', message: object, method: string | undefined): string | undefined
}

type Check = (value: unknown) => string | undefined

const folder = new URL('../../../shared/protocol/', import.meta.url)
const files = { modern: 'schema-2026-07-28.json', legacy: 'schema-2025-11-25.json' }

/** The definitions that begin with the same word for a request, its params and its result. */
const names: Readonly<Record<string, string>> = {
  'server/discover': 'Discover',
  'tools/list': 'ListTools',
  'tools/call': 'CallTool',
  'resources/list': 'ListResources',
  'resources/templates/list': 'ListResourceTemplates',
  'resources/read': 'ReadResource',
  'prompts/list': 'ListPrompts',
  'prompts/get': 'GetPrompt',
  'completion/complete': 'Complete',
  'subscriptions/listen': 'SubscriptionsListen',
  initialize: 'Initialize',
  ping: 'Empty',
  'logging/setLevel': 'Empty',
  'resources/subscribe': 'Empty',
  'resources/unsubscribe': 'Empty'
}
const OLD = ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']
const requests = new Set(Object.keys(names).filter(method => !OLD.includes(method)))
const paramsOf: Readonly<Record<string, string>> = {
  'server/discover': 'RequestParams',
  'tools/list': 'PaginatedRequestParams',
  'resources/list': 'PaginatedRequestParams',
  'resources/templates/list': 'PaginatedRequestParams',
  'prompts/list': 'PaginatedRequestParams'
}
const errors: Readonly<Record<number, string>> = { [-32021]: 'MissingRequiredClientCapabilityError', [-32022]: 'UnsupportedProtocolVersionError' }
const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} }
const ENVELOPES = { result: ['jsonrpc', 'id', 'result'], error: ['jsonrpc', 'id', 'error'] }

/** The published schemas where they are, else those of lib/protocol: of 2025 the envelopes alone are then held against one. */
export function readPublished (): Published {
  const check = createCheck()
  return {
    isRequest: method => requests.has(method),
    fitsParams (method, { _meta, requestState, inputResponses, ...params }) {
      const asks = ['tools/call', 'resources/read', 'prompts/get'].includes(method)
      const fit = ['string', 'undefined'].includes(typeof requestState) && ['object',
        'undefined'].includes(typeof inputResponses) && !Array.isArray(inputResponses)
      if (asks && !fit) return false
      // Many clients say null where there are none.
      const given = params['arguments'] === null ? { ...params, arguments: {} } : params
      return check('modern', paramsOf[method] ?? `${names[method]}RequestParams`, { ...given, _meta: META }) === undefined
    },
    problem (era, message, method) {
      if ('method' in message) {
        const kind = 'id' in message ? 'ServerRequest' : 'ServerNotification'
        return 'id' in message && era === 'modern' ? 'is a request, which this revision does not send' : check(era, kind, message)
      }
      const kind = 'error' in message ? 'error' : 'result'
      const foreign = Object.keys(message).find(member => !ENVELOPES[kind].includes(member))
      if (foreign !== undefined) return `has the member ${foreign}`
      if (kind === 'result') return checkResult(check, era, message as { readonly result?: unknown }, method)
      const { code } = (message as { readonly error: { readonly code: number } }).error
      const own = era === 'modern' ? errors[code] : undefined
      return check(era, 'JSONRPCErrorResponse', message) ?? (own === undefined ? undefined : check(era, own, message))
    }
  }
}

function checkResult (check: ReturnType<typeof createCheck>, era: 'modern' | 'legacy', message: { readonly result?: unknown },
  method: string | undefined): string | undefined {
  const envelope = check(era, 'JSONRPCResultResponse', message)
  if (envelope !== undefined || method === undefined) return envelope
  if (era === 'modern') return check(era, `${names[method]}ResultResponse`, message)
  // LEG-13
  const foreign = ['resultType', 'ttlMs', 'cacheScope'].find(member => Object.hasOwn(message.result as object, member))
  return foreign === undefined ? check(era, `${names[method]}Result`, message.result) : `has the ${foreign} of another revision`
}

function createCheck (): (era: 'modern' | 'legacy', name: string, value: unknown) => string | undefined {
  if (!existsSync(new URL(files.modern, folder))) return checkByLib
  // Their formats are annotations.
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  for (const [era, file] of Object.entries(files)) ajv.addSchema(JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as object, era)
  const compiled = new Map<string, Check>()
  return (era, name, value) => {
    const key = `${era}#/$defs/${name}`
    let check = compiled.get(key)
    if (check === undefined) {
      const validate: ValidateFunction = ajv.compile({ $ref: key })
      check = value => validate(value) ? undefined : `is no ${name}: ${ajv.errorsText(validate.errors)}`
      compiled.set(key, check)
    }
    return check(value)
  }
}

const exported = protocol as unknown as Readonly<Record<string, TSchema | undefined>>

function checkByLib (era: 'modern' | 'legacy', name: string, value: unknown): string | undefined {
  const schema = exported[name] ?? exported[name.replace(/Response$/, '')]
  if (schema === undefined || (era === 'legacy' && name !== 'JSONRPCErrorResponse')) return undefined
  const given = exported[name] === undefined ? (value as { readonly result: unknown }).result : value
  const fits = Value.Check(schema, given) || (name.endsWith('ResultResponse') && Value.Check(protocol.InputRequiredResult, given))
  return fits ? undefined : `is no ${name}`
}
