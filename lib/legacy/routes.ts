import { createPulses, Pulse } from '../transport/pulse.js'
import { createReporter } from '../transport/report.js'
import { isLegacy } from './era.js'
import { get } from './get.js'
import { readLegacyOptions } from './options.js'
import { post } from './post.js'
import { Sessions } from './sessions.js'
import { enter, type Legacy, type Opened } from './visit.js'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Mount, OtherEra } from '../mount.js'

/** Serves the clients of 2025-11-25, 2025-06-18 and 2025-03-26 on a mount; undefined where they are not wanted. Throws MCP_ERR_BAD_OPTION. */
export function serveLegacy (fastify: FastifyInstance, mount: Mount, option: unknown): OtherEra | undefined {
  const settings = readLegacyOptions(option)
  if (settings === undefined) return undefined
  const { sessions, events, bus, topic, retry, maxStreamAge, sessionCheck } = settings
  const { limits, onEnd } = mount.settings
  const legacy: Legacy = {
    mount,
    settings,
    sessions: sessions && new Sessions(sessions, bus, topic, fastify),
    output: { stream: { limits }, pulses: createPulses(mount.settings), store: events, retry, maxStreamAge, running: new Map() },
    checks: new Pulse(sessionCheck),
    onEnded: createReporter(onEnd)
  }
  const handle = (work: (legacy: Legacy, httpRequest: FastifyRequest, reply: FastifyReply) => Promise<void>, httpRequest: FastifyRequest, reply: FastifyReply): void => {
    // Not returned to Fastify, which would wait for a payload.
    work(legacy, httpRequest, reply).catch((error: unknown) => { reply.send(error) })
  }
  return {
    post (httpRequest, reply) {
      const { body, headers } = httpRequest
      // Only a body that may be one of these revisions: what is no JSON-RPC at all is refused like anybody's.
      if (typeof body !== 'object' || body === null || !isLegacy(body, headers)) return false
      handle(post, httpRequest, reply)
      return true
    },
    // Only sessions have something to tell.
    bus: sessions && bus,
    verbs: sessions === undefined
      ? {}
      : {
          GET: (httpRequest, reply) => { handle(get, httpRequest, reply) },
          ...(sessions.delete !== undefined && { DELETE: (httpRequest, reply) => { handle(end, httpRequest, reply) } })
        }
  }
}

/** Ends a session, everywhere (2025-11-25, Transports, Session Management). */
async function end (legacy: Legacy, httpRequest: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { opened } = await enter(legacy, httpRequest)
  // Where no sessions are kept no DELETE is served.
  const { id, key, controller, sessions } = opened as Opened
  await controller.delete?.(id, httpRequest)
  await sessions.tell(key, { type: 'ended' })
  reply.code(204).send()
}
