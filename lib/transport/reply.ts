import { Readable } from 'node:stream'
import { retryAfter, type McpError } from '../errors.js'
import { drop } from './gone.js'
import { bytesOf, LONG } from './long.js'
import type { FastifyReply } from 'fastify'

const JSON_TYPE = 'application/json; charset=utf-8'

/** Sends JSON that is text already, past every serializer of the app; if it is long, as a stream, to hooks too. */
export function sendJson (reply: FastifyReply, statusCode: number, json: string): void {
  // What an answer says depends on who asks, and a POST is no key for a cache; a hook may know better.
  if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  reply.code(statusCode).header('content-type', JSON_TYPE)
  if (json.length > LONG) reply.header('content-length', Buffer.byteLength(json)).send(Readable.from(bytesOf(json), { objectMode: false }))
  else reply.serializer(asItIs).send(json)
}

function asItIs (payload: unknown): string {
  // Only called with the text of sendJson.
  return payload as string
}

/** Sends an error that has been rendered, with its status and headers. */
export function sendError (reply: FastifyReply, error: McpError, json: string, statusCode = error.statusCode): void {
  const seconds = retryAfter(error)
  if (seconds !== undefined) reply.header('retry-after', String(seconds))
  sendJson(reply, statusCode, json)
}

/** Sends JSON past Fastify, for a response whose hooks or headers do not let anything through. */
export function sendBare (reply: FastifyReply, statusCode: number, json: string): void {
  reply.hijack()
  const { raw } = reply
  if (raw.headersSent) {
    drop(raw)
    return
  }
  for (const name of raw.getHeaderNames()) raw.removeHeader(name)
  raw.writeHead(statusCode, { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(json) })
  raw.end(json)
}
