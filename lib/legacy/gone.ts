import { isGone } from '../transport/event-stream.js'
import type { FastifyReply } from 'fastify'

/** Bytes of an answer that do not leave at once. */
const LARGE = 65_536

/** Whether nobody reads a response any more; one that waits behind another on its connection is not told of its end. */
export function hasLeft ({ raw, request }: FastifyReply): boolean {
  return isGone(raw) || request.raw.socket.destroyed
}

/** Whether some of a response is here still. */
export function isLeaving (reply: FastifyReply): boolean {
  const { raw } = reply
  return !hasLeft(reply) && (!raw.writableEnded || raw.writableLength > LARGE)
}

/** Calls back, once, when nobody reads a response any more. */
export function onceGone ({ raw, request }: FastifyReply, gone: () => void): void {
  const { socket } = request.raw
  const tell = (): void => {
    raw.off('close', tell)
    socket.off('close', tell)
    gone()
  }
  raw.on('close', tell)
  if (raw.socket === null) socket.on('close', tell)
}

/** Resolves when a response has left, or its client has. */
export async function whenFlushed (reply: FastifyReply): Promise<void> {
  const { raw } = reply
  if (raw.writableFinished || hasLeft(reply)) return
  await new Promise<void>(resolve => {
    raw.once('finish', resolve)
    onceGone(reply, resolve)
  })
}
