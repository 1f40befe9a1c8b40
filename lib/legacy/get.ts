import { admit } from '../transport/admit.js'
import { readEventId } from './event-id.js'
import { storedName } from './output.js'
import { areInOrder, replay } from './replay.js'
import { urisOf } from './requests.js'
import { Standing } from './standing.js'
import { enter, findSession, metaOf, refuse, type Legacy, type Opened, type Visit } from './visit.js'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** One GET: the stream of a session, or the rest of one that was lost (2025-11-25, Transports, Resumability and Redelivery). */
export async function get (legacy: Legacy, httpRequest: FastifyRequest, reply: FastifyReply): Promise<void> {
  admit(legacy.mount, true, httpRequest.headers)
  const visit = await enter(legacy, httpRequest)
  // Where no sessions are kept no GET is served.
  const opened = visit.opened as Opened
  const last = httpRequest.headers['last-event-id']
  if (typeof last !== 'string' || last === '') return stand(legacy, visit, opened, false, httpRequest, reply)
  const event = readEventId(last)
  if (event?.standing === true) return stand(legacy, visit, opened, true, httpRequest, reply)
  if (event === undefined || !await resume(legacy, opened, event, reply)) throw refuse(400, 'The stream of this Last-Event-ID is not known, or has been given up')
}

/** Whichever was opened last is the stream of a session: one whose connection died unnoticed holds nobody up. */
function stand (legacy: Legacy, visit: Visit, { id, key, sessions, controller }: Opened, again: boolean, httpRequest: FastifyRequest, reply: FastifyReply): void {
  const { mount, output, checks, onEnded } = legacy
  const { session } = visit
  const uris = [...urisOf(visit)]
  sessions.tell(key, { type: 'opened' })
  const known = sessions.get(key)
  const standing = new Standing({
    mount,
    session,
    meta: metaOf(visit, undefined, httpRequest),
    httpRequest,
    reply,
    settings: output,
    uris,
    again,
    checks,
    isOpen: async () => await findSession(controller, id, session.principal, httpRequest) !== undefined,
    onEnded,
    over () {
      if (known.standing === standing) known.standing = undefined
      sessions.release(key)
    }
  })
  known.standing = standing
  if (standing.open()) return
  reply.header('allow', controller.delete === undefined ? 'POST' : 'POST, DELETE')
  throw refuse(405, 'This server has no stream of its own to offer')
}

/** Goes on with a stream; false if it is none of this session, or nothing is known of it. Of a call that runs elsewhere the rest is to be asked for again. */
async function resume ({ output: settings }: Legacy, { key }: Opened, { stream, seq }: { readonly stream: string, readonly seq: number }, reply: FastifyReply): Promise<boolean> {
  const name = storedName(key, stream)
  const running = settings.running.get(name)
  if (running !== undefined) return await running.resume(reply, seq)
  // From the event itself on, since it may be the last.
  const events = await settings.store?.after(name, seq - 1) ?? []
  const last = events.at(-1)
  if (last === undefined || !areInOrder(events, seq)) return false
  replay(settings, stream, events.slice(1), last.last, reply)
  return true
}
