import { EventStream, type StreamOwner } from '../transport/event-stream.js'
import { sseEvent } from '../transport/sse.js'
import { idField, retryField } from './event-id.js'
import { hasLeft, onceGone } from '../transport/gone.js'
import type { FastifyReply } from 'fastify'
import type { StoredEvent } from '../../types/legacy.js'
import type { OutputSettings } from './output.js'

/** Nothing depends on what becomes of such a response: a client that did not get it asks again. */
const nobody: StreamOwner = { overflowed: ignore, failed: ignore }

/** Sends events that a client has missed, and ends the response: with a hint to come back, unless nothing will follow them. */
export function replay (settings: OutputSettings, stream: string, events: readonly StoredEvent[], complete: boolean, reply: FastifyReply): void {
  if (hasLeft(reply)) return
  const messages = events.filter(({ data }) => data !== '')
  if (complete && messages.length === 0) {
    // What event streams have to say that nothing more will come: a client comes back to one that just ends, again and again.
    reply.code(204).send()
    return
  }
  const connection = new EventStream(reply, settings.stream, settings.pulses.keepAlive, nobody)
  onceGone(reply, () => { connection.leave() })
  connection.open()
  for (const { seq, data } of messages) connection.write(idField(stream, seq) + sseEvent(data))
  connection.finish(complete ? '' : retryField(settings.retry))
}

/** Whether events follow each other from a number on. */
export function areInOrder (events: readonly StoredEvent[], first: number): boolean {
  return events.every(({ seq }, index) => seq === first + index)
}

function ignore (): boolean {
  return false
}
