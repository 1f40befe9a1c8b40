import { readRetry } from '../channel/asking.js'
import { Exchange, type Facts } from '../channel/exchange.js'
import { decodeNotification, decodeRequest, findMethod } from '../decode/decode.js'
import { isObject, readEnvelope, type Envelope } from '../decode/envelope.js'
import { decodeMeta, readVersion } from '../decode/meta.js'
import { McpError } from '../errors.js'
import { createTrace, traceExchange } from '../observe.js'
import { metaKeys, REVISION, type JsonObject } from '../protocol/index.js'
import { forPrincipal } from '../token.js'
import { admit, shutdown } from './admit.js'
import { checkMethodHeader, checkNameHeader, checkNotificationHeaders, checkVersionHeader, missingVersion, OLDER_VERSIONS, readVersionHeader, unsupported } from './headers.js'
import { createPulses } from './pulse.js'
import { Relay } from './relay.js'
import { createReporter } from './report.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Mount } from '../mount.js'
import type { McpRequest } from '../../types/request.js'
import type { Accepted } from './accept.js'
import type { Codec } from './codec.js'

type RequestEnvelope = Extract<Envelope, { kind: 'request' }>
type NotificationEnvelope = Extract<Envelope, { kind: 'notification' }>

/** A request as callbacks get it, and what else is to be known to answer it. */
interface Decoded { readonly request: McpRequest, readonly params: JsonObject, readonly cacheable: boolean }

/** What a notification is answered with is a status, and never a stream. */
const NO_STREAM: Accepted = { json: true, sse: false }

/**
 * The whole life of one POST. A throw on the way is answered by the mount's error handler. Nothing here waits: what a server answers at once leaves in
 * the same turn.
 */
export function createPost (mount: Mount, codec: Codec): (httpRequest: FastifyRequest, reply: FastifyReply) => void {
  const { settings } = mount
  const onEnded = createReporter(settings.onEnd)
  const pulses = createPulses(settings)

  function answer (envelope: RequestEnvelope, httpRequest: FastifyRequest, reply: FastifyReply): void {
    const { request, params, cacheable } = decode(mount, envelope, httpRequest)
    const principal = settings.principal?.(httpRequest)
    const retry = readRetry(request, params, () => forPrincipal(mount.tokens, principal, 'package'))
    const accepted = admit(mount, request.method === 'subscriptions/listen', httpRequest.headers)
    const relay = new Relay(reply, codec, { id: request.id, cacheable, retried: retry !== undefined }, accepted, settings, pulses)
    run({ mount, request, httpRequest, protocolVersion: REVISION, principal, retry, traced: createTrace(request, httpRequest), onEnded }, relay)
  }

  function accept (envelope: NotificationEnvelope, httpRequest: FastifyRequest, reply: FastifyReply): void {
    const { _meta: meta } = isObject(envelope.params) ? envelope.params : {}
    const version = isObject(meta) ? meta[metaKeys.protocolVersion] : undefined
    checkNotificationHeaders(httpRequest.headers, envelope.method, typeof version === 'string' ? version : undefined)
    const request = decodeNotification(envelope, httpRequest.headers)
    if (mount.draining) throw shutdown(settings.limits)
    const relay = new Relay(reply, codec, { id: undefined, cacheable: false, retried: false }, NO_STREAM, settings, pulses)
    if (request === undefined) return relay.end({ type: 'accepted' })
    const principal = settings.principal?.(httpRequest)
    run({ mount, request, httpRequest, protocolVersion: REVISION, principal, retry: undefined, traced: createTrace(request, httpRequest), onEnded }, relay)
  }

  return (httpRequest, reply) => {
    const { body } = httpRequest
    const modern = isModern(body)
    if (!modern && mount.otherEra?.post(httpRequest, reply) === true) return
    const envelope = readEnvelope(body)
    if (envelope.kind === 'notification') return accept(envelope, httpRequest, reply)
    if (!modern) checkEra(readVersionHeader(httpRequest.headers))
    answer(envelope, httpRequest, reply)
  }
}

function run (facts: Facts, relay: Relay): void {
  const exchange = new Exchange(facts, relay)
  relay.serve(exchange.worker)
  traceExchange(facts.traced, exchange)
  if (!exchange.worker.over) relay.attend()
}

/** The checks of a request in their order, before any callback runs. */
function decode ({ offer }: Mount, envelope: RequestEnvelope, { headers }: FastifyRequest): Decoded {
  const version = readVersion(envelope.params)
  checkVersionHeader(headers, version)
  // readVersion has found an object with a `_meta`.
  const params = envelope.params as JsonObject & { readonly _meta: JsonObject }
  const meta = decodeMeta(params._meta, REVISION, headers)
  checkMethodHeader(headers, envelope.method)
  const method = findMethod(envelope.method)
  if (offer?.opens(envelope.method) === false) throw McpError.unsupportedMethod(envelope.method)
  checkNameHeader(headers, method, params)
  return { request: decodeRequest(method, envelope, params, meta), params, cacheable: method.cacheable === true }
}

/** Whether a body has the envelope of this revision, of which the era is known by (2026-07-28, Versioning, Era selection). */
function isModern (body: unknown): boolean {
  const params = isObject(body) ? body['params'] : undefined
  const meta = isObject(params) ? params['_meta'] : undefined
  return isObject(meta) && (metaKeys.protocolVersion in meta || metaKeys.clientCapabilities in meta)
}

/** A request without the modern envelope: one of a 2025 client, which is not served, is told what is. */
function checkEra (version: string | undefined): void {
  if (version === undefined) throw missingVersion()
  if (OLDER_VERSIONS.has(version)) throw unsupported(version)
}
