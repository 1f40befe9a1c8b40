import { isObject, isRequestId, readEnvelope, readId, type Envelope } from '../decode/envelope.js'
import { McpError } from '../errors.js'
import { accepts, admit } from '../transport/admit.js'
import { Call } from './call.js'
import { codecs } from './codec.js'
import { SESSION_HEADER } from './era.js'
import { initializeResult, readInitialize } from './handshake.js'
import { Output } from './output.js'
import { rememberOutput } from './pause.js'
import { answer, isOwn, type RequestEnvelope } from './requests.js'
import { lendSealer } from './session.js'
import { enter, metaOf, refuse, type Legacy, type Visit } from './visit.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Accepted } from '../transport/accept.js'
import type { DiscoverResult, JsonObject } from '../protocol/index.js'
import type { Session } from '../../types/legacy.js'
import type { McpRequest, RequestId } from '../../types/request.js'

/** What a client posts: beside requests and notifications the answers to our own requests. */
type Message = Envelope | { readonly kind: 'response', readonly id: RequestId, readonly answer: JsonObject }

/** What a batch has in it. */
type Member = Message | { readonly kind: 'none', readonly id: RequestId | undefined, readonly error: McpError }

/** Visible ASCII (2025-11-25, Transports, Session Management). */
const SESSION_ID = /^[\x21-\x7E]+$/

/** One POST of a 2025 client. */
export async function post (legacy: Legacy, httpRequest: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { body } = httpRequest
  if (Array.isArray(body)) return await postBatch(legacy, body, httpRequest, reply)
  const message = readMessage(body)
  if (message.kind === 'request' && message.method === 'initialize') return await initialize(legacy, message, httpRequest, reply)
  const visit = await enter(legacy, httpRequest)
  if (message.kind !== 'request') {
    take(visit, message)
    reply.code(202).send()
    return
  }
  // What is answered at once is answered at any time.
  const accepted = isOwn(message.method) ? accepts(false, httpRequest.headers.accept) : admit(legacy.mount, false, httpRequest.headers)
  const output = createOutput(legacy, visit, accepted, reply)
  rememberOutput(httpRequest, output)
  await answer(legacy, visit, message, httpRequest, output)
}

/** 2025-03-26, Overview, Batching; the revisions after it have none. */
async function postBatch (legacy: Legacy, body: readonly unknown[], httpRequest: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { maxBatch } = legacy.settings
  if (body.length === 0) throw new McpError({ kind: 'invalidRequest' })
  const visit = await enter(legacy, httpRequest)
  if (visit.session.protocolVersion !== '2025-03-26') throw refuse(400, 'Batches are of protocol version 2025-03-26, which was not agreed on')
  if (body.length > maxBatch) throw refuse(400, `A batch may have ${maxBatch} messages`)

  const members = body.map(readMember)
  if (members.some(member => member.kind === 'request' && member.method === 'initialize')) throw refuse(400, 'initialize must not be part of a batch')
  const answered = members.filter(member => member.kind === 'request' || member.kind === 'none')
  for (const member of members) if (member.kind === 'response' || member.kind === 'notification') take(visit, member)
  if (answered.length === 0) {
    reply.code(202).send()
    return
  }
  const output = createOutput(legacy, visit, admit(legacy.mount, false, httpRequest.headers), reply, { batch: answered.length })
  await Promise.all(answered.map(async member => {
    if (member.kind === 'none') output.answer(codecs[visit.session.protocolVersion].error(member.id, member.error))
    else await answer(legacy, visit, member, httpRequest, output)
  }))
}

/** Opens a session (2025-11-25, Lifecycle, Initialization). What the server offers it says as in 2026-07-28, to `server/discover`. */
async function initialize (legacy: Legacy, { id, params }: RequestEnvelope, httpRequest: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { mount, settings, onEnded } = legacy
  const principal = mount.settings.principal?.(httpRequest)
  lendSealer(mount, httpRequest, principal)
  if (await isOpen(legacy, httpRequest, principal)) throw refuse(400, 'The session has been initialized already')
  const session = readInitialize(params, principal)
  const visit: Visit = { session, opened: undefined }
  // The id of the session is in the head.
  const output = createOutput(legacy, visit, admit(mount, false, httpRequest.headers), reply, { late: true })
  const request: McpRequest = Object.freeze({ method: 'server/discover', id, params: Object.freeze({}), meta: metaOf(visit, params, httpRequest) })
  new Call({
    mount,
    request,
    httpRequest,
    session,
    known: undefined,
    output,
    answerTimeout: settings.answerTimeout,
    onEnded,
    over: () => {},
    async complete (result) {
      if (settings.sessions !== undefined) reply.header(SESSION_HEADER, await createSession(legacy, session, httpRequest))
      // The server has been asked for nothing else.
      return initializeResult(session.protocolVersion, result as DiscoverResult, mount.server.info, settings.sessions !== undefined)
    }
  }).run()
}

/** A session that is over, or somebody else's, does not keep a client from opening another. */
async function isOpen ({ settings: { sessions } }: Legacy, httpRequest: FastifyRequest, principal: string | undefined): Promise<boolean> {
  const id = httpRequest.headers[SESSION_HEADER]
  if (typeof id !== 'string' || sessions === undefined) return false
  const session = await sessions.fetch(id, httpRequest)
  return session !== undefined && session.principal === principal
}

async function createSession ({ settings: { sessions } }: Legacy, session: Session, httpRequest: FastifyRequest): Promise<string> {
  const id = await sessions?.create(session, httpRequest)
  if (typeof id !== 'string' || !SESSION_ID.test(id)) throw new TypeError('SessionController.create gave no id of visible ASCII')
  return id
}

function createOutput ({ output }: Legacy, { session, opened }: Visit, accepted: Accepted, reply: FastifyReply, { batch, late = false }: { readonly batch?: number, readonly late?: boolean } = {}): Output {
  return new Output(reply, output, { session: opened?.key, codec: codecs[session.protocolVersion], accepted, primes: session.protocolVersion === '2025-11-25', batch, late })
}

/** What has no answer: it is for a request that runs, here or at another replica, or for nobody. */
function take ({ opened }: Visit, message: Exclude<Message, RequestEnvelope>): void {
  if (opened === undefined) return
  const { sessions, key } = opened
  if (message.kind === 'response') {
    sessions.tell(key, { type: 'answered', id: message.id, answer: message.answer })
    return
  }
  const { requestId, reason } = isObject(message.params) ? message.params : {}
  if (message.method !== 'notifications/cancelled' || !isRequestId(requestId)) return
  sessions.tell(key, { type: 'cancelled', requestId, ...(typeof reason === 'string' && { reason }) })
}

function readMember (body: unknown): Member {
  try {
    return readMessage(body)
  } catch (error) {
    // Nothing else is thrown there.
    return { kind: 'none', id: readId(body), error: error as McpError }
  }
}

function readMessage (body: unknown): Message {
  if (isObject(body) && body['jsonrpc'] === '2.0' && body['method'] === undefined) {
    const { id, result, error } = body
    if (isRequestId(id) && (result ?? error ?? undefined) !== undefined) return { kind: 'response', id, answer: { ...(result !== undefined && { result }), ...(error !== undefined && { error }) } }
  }
  return readEnvelope(body)
}
