import { isUtf8 } from 'node:buffer'
import { McpError } from '../errors.js'
import type { FastifyBodyParser, FastifyInstance } from 'fastify'

/** Arrays and objects within one another. */
const MAX_DEPTH = 256

/**
 * The mount's own parser of `application/json`: UTF-8 that is valid, no deeper than the code that walks it can take, and without the keys that would
 * change a prototype.
 */
export function createJsonParser (fastify: FastifyInstance): FastifyBodyParser<Buffer> {
  const parse = fastify.getDefaultJsonParser('remove', 'remove')
  return (request, body, done) => {
    // Some clients name a type for the body that a DELETE does not have.
    if (body.length === 0 && request.method === 'DELETE') return done(null, undefined)
    if (!isPlain(request.headers['content-encoding'])) return done(new McpError({ kind: 'mediaType' }))
    if (!isUtf8(body)) return done(new McpError({ kind: 'parse' }))
    // Each level takes a byte at its beginning and one at its end.
    if (body.length > 2 * MAX_DEPTH && depthOf(body) > MAX_DEPTH) return done(new McpError({ kind: 'invalidRequest' }))
    // The parser takes the text that this package asks it to parse, and calls done itself.
    parse(request, body.toString(), done)
  }
}

function isPlain (encoding: string | undefined): boolean {
  return encoding === undefined || encoding.toLowerCase() === 'identity'
}

function depthOf (json: Buffer): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (inString) {
      if (byte === 0x5C) at++ // a backslash: whatever follows is of the string
      else if (byte === 0x22) inString = false
    } else if (byte === 0x22) inString = true
    else if (byte === 0x5B || byte === 0x7B) deepest = Math.max(deepest, ++depth)
    else if (byte === 0x5D || byte === 0x7D) depth--
  }
  return deepest
}
