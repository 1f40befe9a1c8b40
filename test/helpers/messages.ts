import { Readable } from 'node:stream'
import { readSse } from 'fastify-gen-mcp/testing'
import type { JsonObject } from 'fastify-gen-mcp'
import type { Response } from 'light-my-request'

/** A JSON-RPC message as it came: a notification has a method, an answer a result or an error. */
export interface Message {
  readonly id?: unknown
  readonly method?: string
  readonly params?: JsonObject
  readonly result?: JsonObject
  readonly error?: { readonly code: number, readonly message: string, readonly data?: JsonObject }
}

/** Whether a response is a stream of events. */
export function isStream ({ headers }: Pick<Response, 'headers'>): boolean {
  return headers['content-type']?.toString().startsWith('text/event-stream') === true
}

/** All messages of a response in their order: the events of a stream, or the one body. */
export async function messagesOf (response: Response): Promise<Message[]> {
  if (!isStream(response)) return [response.json<Message>()]
  const messages: Message[] = []
  for await (const { data } of readSse(Readable.from([response.rawPayload]))) messages.push(data as Message)
  return messages
}

/** The notifications of a response, and its last message. */
export async function split (response: Response): Promise<{ readonly notifications: readonly Message[], readonly answer: Message }> {
  const messages = await messagesOf(response)
  const answer = messages.pop()
  if (answer === undefined || answer.method !== undefined) throw new Error('The response has no answer')
  return { notifications: messages, answer }
}
