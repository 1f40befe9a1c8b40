import { validateHeaderName, validateHeaderValue } from 'node:http'
import { McpError, Refusal } from '../errors.js'
import { readId } from '../decode/envelope.js'
import { failStream, setStreamHeaders } from './event-stream.js'
import { sendBare, sendError } from './reply.js'
import { reportRefusal } from './report.js'
import { readAccept } from './accept.js'
import { sseEvent } from './sse.js'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Codec } from './codec.js'

/** What Fastify refuses by itself, in our words. */
const fastifyErrors = new Map<string, 'mediaType' | 'bodyTooLarge' | 'parse'>([
  ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 'mediaType'],
  ['FST_ERR_CTP_BODY_TOO_LARGE', 'bodyTooLarge'],
  ['FST_ERR_CTP_INVALID_JSON_BODY', 'parse'],
  ['FST_ERR_CTP_EMPTY_JSON_BODY', 'parse'],
  ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 'parse']
])

/** The error handler of a mount: whatever fails on its routes is answered in JSON-RPC, and tells no more than the table of errors says. */
export function createErrorHandler (codec: Codec): (error: FastifyError, httpRequest: FastifyRequest, reply: FastifyReply) => void {
  return (error, httpRequest, reply) => {
    const answer = translate(error, reply)
    const reported = failStream(reply, error)
    // The crash of an exchange, which tells of itself, passes through Fastify for the sake of its hooks.
    if (!isCrash(error)) reportRefusal(httpRequest, answer)
    if (!(error instanceof McpError)) {
      if (isCrash(answer) && !reported) httpRequest.log.error({ err: error }, 'an MCP request failed outside its server')
      setHeaders(reply, (error as { headers?: Record<string, string> }).headers ?? {})
    }
    // Fastify sets it for a body it could not read, and Node warns the process of it: HTTP/2 has no such header.
    if (httpRequest.raw.httpVersionMajor === 2) reply.removeHeader('connection')
    const json = codec.error(readId(httpRequest.body), answer)
    const { json: takesJson, sse } = readAccept(httpRequest.headers.accept)
    // A client that takes event streams alone is answered in one; another status than 200 no stream can have.
    if (answer.statusCode === 200 && sse && !takesJson) setStreamHeaders(reply.code(200)).send(sseEvent(json))
    else sendError(reply, answer, json)
  }
}

/** What answers where the error handler's own answer fails: hooks of the app that let nothing through must not make it Fastify's. */
export function createLastResort (codec: Codec): (error: FastifyError, httpRequest: FastifyRequest, reply: FastifyReply) => void {
  return (error, httpRequest, reply) => {
    httpRequest.log.error({ err: error }, 'the answer to an MCP request failed')
    const crash = new McpError({ kind: 'crash' })
    sendBare(reply, crash.statusCode, codec.error(readId(httpRequest.body), crash))
  }
}

/** What a hook throws brings its own headers, as Fastify's convention is; one that Node refuses would let nothing through. */
function setHeaders (reply: FastifyReply, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
      reply.header(name, value)
    } catch (err) {
      reply.log.error({ err }, 'a header of an error was left out')
    }
  }
}

function translate (error: FastifyError, reply: FastifyReply): McpError {
  if (error instanceof McpError) return error
  const kind = fastifyErrors.get(error.code)
  if (kind !== undefined) return new McpError({ kind }, { cause: error })

  // What an app's hook threw keeps its status; from 500 on its message is nobody's business, and 429 is the app's fault, not the client's.
  const statusCode = statusOf(error) ?? statusOf(reply) ?? 500
  if (statusCode >= 500) return new Refusal({ kind: 'crash' }, statusCode, { cause: error })
  const rpcCode = statusCode === 429 ? -32603 : -32600
  return new Refusal({ kind: 'custom', rpcCode, message: oneLine(error.message) }, statusCode, { cause: error })
}

function isCrash (error: unknown): boolean {
  return error instanceof McpError && error.reason.kind === 'crash'
}

function statusOf ({ statusCode }: { readonly statusCode?: number | undefined }): number | undefined {
  return statusCode !== undefined && statusCode >= 400 && statusCode <= 599 ? statusCode : undefined
}

function oneLine (message: unknown): string {
  const [line] = typeof message === 'string' ? message.split(/[\r\n\u2028\u2029]/, 1) : []
  return line === undefined || line === '' ? 'Request refused' : line
}
