import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Bytes of an answer that do not leave at once. */
const LARGE = 65_536
/** The reason of a reset, 8 in RFC 9113, 7; `node:http2` is not loaded for it. */
const CANCEL = 8

/** A response on HTTP/2 has a stream of its own. */
type Raw = ServerResponse & { readonly stream?: { readonly destroyed: boolean, close (code: number): void } }

/** Whether nobody reads a response any more; one that waits behind another on its connection is not told of its end. */
export function hasLeft ({ raw, request }: FastifyReply): boolean {
  return isGone(raw) || request.raw.socket.destroyed
}

/** Whether some of a response is here still, for somebody who reads it. */
export function isLeaving (reply: FastifyReply): boolean {
  const { raw } = reply
  return (!raw.writableEnded || raw.writableLength > LARGE) && !hasLeft(reply)
}

/** Calls back, once, when nobody reads a response any more, or it has been read. */
export function onceGone ({ raw, request }: FastifyReply, gone: () => void): void {
  // On HTTP/1.1 the request closes when its body has been read, so that only the response tells of the client.
  if (raw.socket !== null) {
    raw.on('close', gone)
    return
  }
  // A response behind another one on its connection has no socket yet, and hears nothing of its end.
  const { socket } = request.raw
  const tell = (): void => {
    raw.off('close', tell)
    socket.off('close', tell)
    gone()
  }
  raw.on('close', tell)
  socket.on('close', tell)
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

/** Drops a response that is not whole. On HTTP/2 one that is just destroyed looks to its client as if it had ended well. */
export function drop (raw: Raw): void {
  raw.stream?.close(CANCEL)
  raw.destroy()
}

/** On HTTP/2 it is the stream that is destroyed, and not its response. */
function isGone (raw: Raw): boolean {
  return raw.destroyed || raw.stream?.destroyed === true
}
