import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { initializeParams, read, readStream, type Reading } from '../legacy/helpers.js'
import { eventsOf, post, type Post, type PostOptions } from '../helpers/sockets.js'
import type { JsonObject } from 'fastify-gen-mcp'
import type { Test } from 'tap'
import type { Message } from '../helpers/messages.js'

/** A whole response; `answer` is its last message. */
export interface Response { readonly status: number | undefined, readonly headers: IncomingMessage['headers'], readonly messages: readonly Message[], readonly answer: Message | undefined }

/** The session of a 2025 client, which is no replica's. */
export interface Session { readonly headers: Record<string, string> }

async function exchange (port: number, method: 'POST' | 'DELETE' | 'GET', { headers = {}, payload = '' }: Partial<Post>): Promise<Response> {
  const sent = request({ port, host: '127.0.0.1', path: '/mcp', method, headers, agent: false }).end(payload)
  const [response] = await once(sent, 'response') as [IncomingMessage]
  const body = await text(response)
  const messages = parse(response, body)
  return { status: response.statusCode, headers: response.headers, messages, answer: messages.at(-1) }
}

function parse ({ headers }: IncomingMessage, body: string): Message[] {
  if (body === '') return []
  if (headers['content-type']?.startsWith('text/event-stream') !== true) return [JSON.parse(body) as Message]
  const data = body.split('\n').filter(line => line.startsWith('data: {')).map(line => `${line}\n\n`)
  return eventsOf(data.join(''))
}

/** A request of 2026-07-28. */
export async function ask (port: number, method: string, params: JsonObject = {}, options: PostOptions = {}): Promise<Response> {
  return await exchange(port, 'POST', post(method, params, options))
}

/** A stream of 2026-07-28, when its head has come. */
export async function openStream (t: Test, port: number, method: string, params: JsonObject, options: PostOptions = {}): Promise<Reading> {
  return await read(t, port, 'POST', post(method, params, options))
}

// ---- 2025-11-25

function compose ({ headers }: Session, body: object): Post {
  return { headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers }, payload: JSON.stringify({ jsonrpc: '2.0', ...body }) }
}

export async function openSession (port: number, capabilities: JsonObject = {}): Promise<Session> {
  const { status, headers } = await exchange(port, 'POST', compose({ headers: {} }, { id: 0, method: 'initialize', params: initializeParams('2025-11-25', capabilities) }))
  const id = headers['mcp-session-id']
  if (status !== 200 || typeof id !== 'string') throw new Error(`No session was opened: ${status}`)
  return { headers: { 'mcp-protocol-version': '2025-11-25', 'mcp-session-id': id } }
}

/** A request of a session; with a notification or an answer as the body, that. */
export async function askIn (session: Session, port: number, method: string, params: JsonObject = {}, id: string | number = 1): Promise<Response> {
  return await exchange(port, 'POST', compose(session, { id, method, params }))
}

/** A notification, or an answer of the client's. */
export async function tell (session: Session, port: number, body: JsonObject): Promise<number | undefined> {
  return (await exchange(port, 'POST', compose(session, body))).status
}

export async function endSession (session: Session, port: number): Promise<number | undefined> {
  return (await exchange(port, 'DELETE', session)).status
}

/** The status of a GET that is refused. */
export async function getRefused (session: Session, port: number): Promise<number | undefined> {
  return (await exchange(port, 'GET', { headers: { ...session.headers, accept: 'text/event-stream' } })).status
}

/** A call of a tool that is read as it comes. */
export async function callIn (t: Test, session: Session, port: number, name: string, id: string | number = 1): Promise<Reading> {
  return await read(t, port, 'POST', compose(session, { id, method: 'tools/call', params: { name, arguments: {}, _meta: { progressToken: 'p' } } }))
}

/** The GET stream of a session, when its head has come. */
export async function stand (t: Test, session: Session, port: number, lastEventId?: string): Promise<Reading> {
  return await readStream(t, port, session, lastEventId)
}
