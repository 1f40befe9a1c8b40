import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import type { TSchema } from '@sinclair/typebox'
import type { IncomingHttpHeaders } from 'node:http'
import { McpError, Refusal } from '../errors.js'
import { methods, type JsonObject, type Method, type SubscriptionFilter } from '../protocol/index.js'
import { firstProblem } from '../schema.js'
import type { Envelope } from './envelope.js'
import { decodeNotificationMeta } from './meta.js'
import type { CompleteParams, McpMethod, McpNotification, McpRequest, ParamsOf, RequestMeta } from '../../types/request.js'

/** A method with its params' schema compiled. */
export interface KnownMethod extends Method { readonly method: string, readonly check: TypeCheck<TSchema> }

const known = new Map<string, KnownMethod>(Object.entries(methods).map(([method, spec]) =>
  [method, { ...spec, method, check: TypeCompiler.Compile(spec.params) }]))

const NO_ARGUMENTS = Object.freeze({})

/** What callbacks get of the params of a method: its own members, with the defaults filled in. The params have passed the method's schema. */
const own: { readonly [M in McpMethod]: (params: JsonObject) => ParamsOf<M> } = {
  'server/discover': () => NO_ARGUMENTS,
  'tools/list': readCursor,
  'tools/call': params => ({ name: params['name'] as string, arguments: (params['arguments'] ?? NO_ARGUMENTS) as JsonObject }),
  'resources/list': readCursor,
  'resources/templates/list': readCursor,
  'resources/read': params => ({ uri: params['uri'] as string }),
  'prompts/list': readCursor,
  'prompts/get': params => ({ name: params['name'] as string, arguments: (params['arguments'] ?? NO_ARGUMENTS) as Record<string, string> }),
  'completion/complete': params => {
    const { ref, argument, context } = params as unknown as CompleteParams & { context?: Partial<CompleteParams['context']> }
    return {
      ref: Object.freeze(ref.type === 'ref/prompt' ? { type: ref.type, name: ref.name } : { type: ref.type, uri: ref.uri }),
      argument: Object.freeze({ name: argument.name, value: argument.value }),
      context: Object.freeze({ arguments: context?.arguments ?? NO_ARGUMENTS })
    }
  },
  'subscriptions/listen': params => ({ notifications: Object.freeze(readFilter(params['notifications'] as SubscriptionFilter)) })
}

/** The request method of this name, or throws McpError 'unsupportedMethod'. */
export function findMethod (method: string): KnownMethod {
  const found = known.get(method)
  if (found === undefined || found.kind !== 'request') throw McpError.unsupportedMethod(method)
  return found
}

/** Turns a request whose envelope, version, headers and method have been accepted into something callbacks can trust, or throws McpError 'invalidParams'. */
export function decodeRequest ({ method, check }: KnownMethod, envelope: Extract<Envelope, { kind: 'request' }>, sent: JsonObject, meta: RequestMeta): McpRequest {
  // Many clients say null where there are none.
  const params = sent['arguments'] === null ? { ...sent, arguments: NO_ARGUMENTS } : sent
  if (!check.Check(params)) throw new McpError({ kind: 'invalidParams', issues: [firstProblem(check, params)] })
  // The method is one of the table's, and the params have been held against its schema.
  const decoded = Object.freeze(own[method as McpMethod](params))
  return Object.freeze({ method, id: envelope.id, params: decoded, meta }) as McpRequest
}

/** The notification, or undefined for one that the revision does not define; throws 400 for params that do not fit. */
export function decodeNotification ({ method, params = {} }: Envelope, headers: IncomingHttpHeaders = {}): McpNotification | undefined {
  const found = known.get(method)
  if (found === undefined || found.kind !== 'notification') return undefined
  if (!found.check.Check(params)) throw new Refusal({ kind: 'invalidParams', issues: [firstProblem(found.check, params)] }, 400)
  const { requestId, reason, _meta } = params as unknown as McpNotification['params'] & { _meta?: unknown }
  return Object.freeze({
    // The one notification that there is.
    method: method as McpNotification['method'],
    params: Object.freeze({ requestId, ...(reason !== undefined && { reason }) }),
    meta: decodeNotificationMeta(_meta, headers)
  })
}

function readFilter ({ toolsListChanged, promptsListChanged, resourcesListChanged, resourceSubscriptions }: SubscriptionFilter): SubscriptionFilter {
  return {
    ...(toolsListChanged !== undefined && { toolsListChanged }),
    ...(promptsListChanged !== undefined && { promptsListChanged }),
    ...(resourcesListChanged !== undefined && { resourcesListChanged }),
    ...(resourceSubscriptions !== undefined && { resourceSubscriptions })
  }
}

function readCursor ({ cursor }: JsonObject): { readonly cursor?: string } {
  return cursor === undefined ? NO_ARGUMENTS : { cursor: cursor as string }
}
