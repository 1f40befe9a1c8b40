import { decodeRequest, findMethod } from '../decode/decode.js'
import { isObject, type Envelope } from '../decode/envelope.js'
import { isLogLevel } from '../decode/meta.js'
import { McpError, toWireError } from '../errors.js'
import { admit } from '../transport/admit.js'
import { Call } from './call.js'
import { codecs } from './codec.js'
import { invalid, metaOf, refuse, type Legacy, type Opened, type Visit } from './visit.js'
import type { FastifyRequest } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { Session, SessionController } from '../../types/legacy.js'
import type { Output } from './output.js'

export type RequestEnvelope = Extract<Envelope, { kind: 'request' }>

/** Subscriptions of one session. */
const MAX_URIS = 1_000
/** Characters of one of them. */
const MAX_URI = 4_096
/** Known to 2026-07-28 alone. */
const MODERN_METHODS = new Set(['server/discover', 'subscriptions/listen'])

type Answer = (legacy: Legacy, visit: Visit, params: JsonObject, httpRequest: FastifyRequest) => Promise<void>

/** What only these revisions have; each is answered `{}`. */
const own: Readonly<Record<string, Answer>> = {
  async ping () {},
  async 'logging/setLevel' ({ mount }, { opened }, { level }, httpRequest) {
    if (mount.offer?.logging === false) throw McpError.unsupportedMethod('logging/setLevel')
    if (!isLogLevel(level)) throw invalid('params.level', 'is no log level')
    if (opened !== undefined && !await change(opened, session => ({ ...session, logLevel: level }), httpRequest)) await opened.sessions.tell(opened.key, { type: 'level', level })
  },
  async 'resources/subscribe' (legacy, visit, params, httpRequest) {
    const { opened, uri } = subscription(legacy, visit, params)
    const uris = urisOf(visit)
    if (!uris.has(uri) && uris.size >= MAX_URIS) throw new McpError({ kind: 'invalidParams', message: `A session may subscribe to ${MAX_URIS} resources` })
    await change(opened, session => ({ ...session, resourceSubscriptions: [...new Set(urisOf({ session, opened })).add(uri)] }), httpRequest)
    await opened.sessions.tell(opened.key, { type: 'subscribed', uri })
  },
  async 'resources/unsubscribe' (legacy, visit, params, httpRequest) {
    const { opened, uri } = subscription(legacy, visit, params)
    await change(opened, session => ({ ...session, resourceSubscriptions: [...urisOf({ session, opened })].filter(other => other !== uri) }), httpRequest)
    await opened.sessions.tell(opened.key, { type: 'unsubscribed', uri })
  }
}

/** Whether a method is one that only these revisions have. */
export function isOwn (method: string): boolean {
  return Object.hasOwn(own, method)
}

/** Answers one request through an output; what it throws is for the error handler, where it is alone in its response. */
export async function answer (legacy: Legacy, visit: Visit, envelope: RequestEnvelope, httpRequest: FastifyRequest, output: Output): Promise<void> {
  const { id, method } = envelope
  const params = envelope.params ?? {}
  const codec = codecs[visit.session.protocolVersion]
  try {
    if (!isObject(params)) throw invalid('params', 'must be an object')
    const ownMethod = isOwn(method) ? own[method] : undefined
    if (ownMethod !== undefined) {
      await ownMethod(legacy, visit, params, httpRequest)
      output.answer(codec.result(id, {}))
    } else {
      call(legacy, visit, envelope, params, httpRequest, output)
    }
  } catch (error) {
    const known = toWireError(error)
    if (known !== error) httpRequest.log.error({ err: error }, 'an MCP request crashed')
    if (known.reason.kind === 'crash') output.crash(known, codec.error(id, known))
    else output.answer(codec.error(id, known), known)
  }
}

/** Resources that a session has subscribed to, as far as they are known here. */
export function urisOf ({ session: { resourceSubscriptions }, opened }: Visit): ReadonlySet<string> {
  return resourceSubscriptions === undefined ? opened?.sessions.find(opened.key)?.uris ?? new Set() : new Set(resourceSubscriptions)
}

function call ({ mount, settings, onEnded }: Legacy, visit: Visit, envelope: RequestEnvelope, params: JsonObject, httpRequest: FastifyRequest, output: Output): void {
  const { session, opened } = visit
  const { method, id } = envelope
  if (MODERN_METHODS.has(method) || mount.offer?.opens(method) === false) throw McpError.unsupportedMethod(method)
  const request = decodeRequest(findMethod(method), envelope, params, metaOf(visit, params, httpRequest))
  admit(mount, false, httpRequest.headers)
  const known = opened?.sessions.get(opened.key)
  const name = JSON.stringify(id)
  if (known?.calls.has(name) === true) throw refuse(400, 'The id of this request is that of another one that still runs')
  const call = new Call({
    mount,
    request,
    httpRequest,
    session,
    known,
    output,
    answerTimeout: settings.answerTimeout,
    onEnded,
    over () {
      known?.calls.delete(name)
      opened?.sessions.release(opened.key)
    }
  })
  known?.calls.set(name, call)
  call.run()
}

function subscription ({ mount }: Legacy, { opened }: Visit, { uri }: JsonObject): { readonly opened: Opened, readonly uri: string } {
  if (opened === undefined || (mount.offer !== undefined && mount.offer.discover.capabilities.resources?.subscribe !== true)) throw McpError.unsupportedMethod('resources/subscribe')
  if (typeof uri !== 'string' || uri.length > MAX_URI) throw invalid('params.uri', `must be a string of at most ${MAX_URI} characters`)
  return { opened, uri }
}

/** The last change of each session that is being changed. */
const changes = new WeakMap<SessionController, Map<string, Promise<void>>>()

/**
 * Changes a session in its store; false for a controller that keeps nothing of what changes. Each change is made to what the one before it has left, since
 * clients make several at once and a store takes sessions whole.
 */
async function change ({ id, key, controller }: Opened, make: (session: Session) => Session, httpRequest: FastifyRequest): Promise<boolean> {
  if (controller.update === undefined) return false
  const running = changes.get(controller) ?? new Map<string, Promise<void>>()
  changes.set(controller, running)
  const before = running.get(key)
  const made = (async () => {
    await before?.catch(() => {})
    const session = await controller.fetch(id, httpRequest)
    // It may have been ended meanwhile, and must not come back.
    if (session !== undefined) await controller.update?.(id, make(session), httpRequest)
  })()
  running.set(key, made)
  try {
    await made
  } finally {
    if (running.get(key) === made) running.delete(key)
  }
  return true
}
