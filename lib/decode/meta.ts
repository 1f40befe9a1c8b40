import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { TSchema } from '@sinclair/typebox'
import { Refusal } from '../errors.js'
import { Implementation, LoggingLevel, metaKeys, type ClientCapabilities, type JsonObject } from '../protocol/index.js'
import { isObject, isRequestId } from './envelope.js'
import type { IncomingHttpHeaders } from 'node:http'
import type { LogLevel, ProtocolVersion, RequestMeta } from '../../types/request.js'

// As constants, which the loop below compares with fastest.
const {
  protocolVersion: PROTOCOL_VERSION, clientCapabilities: CLIENT_CAPABILITIES, clientInfo: CLIENT_INFO, logLevel: LOG_LEVEL
} = metaKeys

/** Lengths past which trace context is left out (W3C Trace Context 3.3, W3C Baggage 3.3). */
const TRACE_LENGTHS = { traceparent: 55, tracestate: 512, baggage: 8192 }
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
/** What a header may carry, so that whoever passes it on does not fail. */
const HEADER_TEXT = /^[\t -~]*$/

const implementation = TypeCompiler.Compile(Implementation as TSchema)
const logLevel = TypeCompiler.Compile(LoggingLevel as TSchema)
const NO_EXTRA: JsonObject = Object.freeze({})

/** What is being built: RequestMeta without `readonly`. */
type Draft = { -readonly [K in keyof RequestMeta]: RequestMeta[K] }

/** The version that a request names for itself, or throws 400, -32602 (2026-07-28, Overview, Per-request protocol fields). */
export function readVersion (params: unknown): string {
  if (!isObject(params)) throw incomplete('params', 'must be an object')
  const { _meta: meta } = params
  if (!isObject(meta)) throw incomplete('params._meta', 'must be an object')
  const version = meta[PROTOCOL_VERSION]
  if (typeof version !== 'string') throw incomplete(`params._meta["${PROTOCOL_VERSION}"]`, 'must be a string')
  return version
}

/**
 * The `_meta` of a request whose version has been accepted. A log level or progress token that is none is refused; a client info that is none is left out.
 * Trace context may be in the HTTP headers too.
 */
export function decodeMeta (meta: JsonObject, protocolVersion: ProtocolVersion, headers: IncomingHttpHeaders = {}): RequestMeta {
  const capabilities = meta[CLIENT_CAPABILITIES]
  if (!isObject(capabilities)) throw incomplete(`params._meta["${CLIENT_CAPABILITIES}"]`, 'must be an object')
  const draft = readMembers(meta, headers)
  draft.protocolVersion = protocolVersion
  draft.clientCapabilities = declared(capabilities)
  return Object.freeze(draft as RequestMeta)
}

/** The `_meta` of a notification, which need not have one. */
export function decodeNotificationMeta (meta: unknown, headers: IncomingHttpHeaders = {}): Partial<RequestMeta> {
  return Object.freeze(readMembers(isObject(meta) ? meta : NO_EXTRA, headers))
}

function readMembers (meta: JsonObject, headers: IncomingHttpHeaders): Partial<Draft> {
  const draft: Partial<Draft> = { extra: NO_EXTRA }
  let extra: { [key: string]: JsonObject[string] } | undefined
  for (const key in meta) {
    // Walking its own keys.
    const value = meta[key] as JsonObject[string]
    switch (key) {
      case PROTOCOL_VERSION:
      case CLIENT_CAPABILITIES:
        break
      case CLIENT_INFO:
        if (implementation.Check(value)) draft.clientInfo = value as unknown as Implementation
        break
      case LOG_LEVEL:
        if (!isLogLevel(value)) throw incomplete(`params._meta["${LOG_LEVEL}"]`, 'is no log level')
        draft.logLevel = value
        break
      case 'progressToken':
        if (!isRequestId(value)) throw incomplete('params._meta.progressToken', 'must be a string or an integer')
        draft.progressToken = value
        break
      case 'traceparent':
      case 'tracestate':
      case 'baggage':
        if (isTrace(key, value)) draft[key] = value
        break
      default:
        (extra ??= {})[key] = value
    }
  }
  if (extra !== undefined) draft.extra = Object.freeze(extra)
  if (headers['traceparent'] !== undefined && draft.traceparent === undefined) readTraceHeaders(draft, headers)
  return draft
}

/** Headers count where `_meta` names no parent and they do. A state belongs to its parent; a baggage needs none (W3C Trace Context 3.3, W3C Baggage 3). */
function readTraceHeaders (draft: Partial<Draft>, { traceparent, tracestate, baggage }: IncomingHttpHeaders): void {
  if (!isTrace('traceparent', traceparent)) return
  draft.traceparent = traceparent
  if (isTrace('tracestate', tracestate)) draft.tracestate = tracestate
  else delete draft.tracestate
  if (draft.baggage === undefined && isTrace('baggage', baggage)) draft.baggage = baggage
}

export function isLogLevel (value: unknown): value is LogLevel {
  return logLevel.Check(value)
}

/** A capability counts as declared when its value is an object; anything else is dropped here, so that nobody has to look. */
function declared (capabilities: JsonObject): ClientCapabilities {
  for (const name in capabilities) {
    if (!isObject(capabilities[name])) return Object.fromEntries(Object.entries(capabilities).filter(([, value]) => isObject(value)))
  }
  return capabilities as ClientCapabilities
}

function isTrace (key: keyof typeof TRACE_LENGTHS, value: unknown): value is string {
  if (typeof value !== 'string' || value.length > TRACE_LENGTHS[key]) return false
  return key === 'traceparent' ? TRACEPARENT.test(value) : HEADER_TEXT.test(value) && value.includes('=')
}

function incomplete (path: string, message: string): Refusal {
  return new Refusal({ kind: 'invalidParams', issues: [{ path, message }] }, 400)
}
