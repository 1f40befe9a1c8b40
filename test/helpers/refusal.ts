import { Value } from '@sinclair/typebox/value'
import { defineServer, messageType, result, stream, toolResult } from 'fastify-gen-mcp'
import { JSONRPCErrorResponse } from '../../lib/protocol/index.js'
import { info } from './servers.js'
import type { JsonValue, RequestId, Server } from 'fastify-gen-mcp'
import type { Response } from 'light-my-request'
import type { Test } from 'tap'

const LINE_BREAK = /[\r\n\u2028\u2029]/

/** What a refusal says. Without an `id` there must be none. */
export interface Refused { readonly status: number, readonly code: number, readonly id?: RequestId }

interface ErrorObject { readonly code: number, readonly message: string, readonly data?: JsonValue }

/** Asserts that a response is a JSON-RPC error as the schema has it, with nothing beside it, and gives its error object. */
export function refused (t: Test, response: Response, { status, code, id }: Refused, about = `${status}, ${code}`): ErrorObject {
  t.equal(response.statusCode, status, `${about}: the status`)
  t.match(response.headers['content-type'], /^application\/json(?:;|$)/, `${about}: the body is JSON`)
  const body = parse(response)
  t.ok(Value.Check(JSONRPCErrorResponse, body), `${about}: the body fits the schema`)
  t.strictSame(Object.keys(body), id === undefined ? ['jsonrpc', 'error'] : ['jsonrpc', 'id', 'error'], `${about}: the members`)
  t.equal(body.id, id, `${about}: the id`)
  t.equal(body.error.code, code, `${about}: the code`)
  t.notOk(LINE_BREAK.test(body.error.message), `${about}: the message is one line`)
  t.not(body.error.message, '', `${about}: the message says something`)
  t.notOk('mcp-session-id' in response.headers, `${about}: no session`)
  return body.error
}

function parse (response: Response): { readonly id?: RequestId, readonly error: ErrorObject } {
  try {
    return response.json()
  } catch {
    // What is no JSON fails the assertions, with its text.
    return { error: { code: NaN, message: response.body } }
  }
}

/** A server that opens a stream for every request, and the names of its callbacks that have run. */
export function createStreamer (): { readonly server: Server, readonly ran: string[] } {
  const ran: string[] = []
  const server = defineServer({
    info,
    capabilities: { tools: {}, resources: {} },
    messages: messageType<'go on'>(),
    init: () => { ran.push('init') },
    handleRequest: (_request, channel) => {
      ran.push('handleRequest')
      channel.startStream()
      channel.after(0, 'go on')
      return stream(undefined)
    },
    handleMessage: () => {
      ran.push('handleMessage')
      return result(toolResult.text('done'))
    },
    handleNotification: () => { ran.push('handleNotification') },
    handleClose: () => { ran.push('handleClose') }
  })
  return { server, ran }
}
