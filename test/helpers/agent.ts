import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import type { FastifyInstance } from 'fastify'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import type { Message } from './messages.js'

/** A response over a socket. */
export interface SocketAnswer {
  readonly status: number | undefined
  readonly headers: IncomingMessage['headers']
  readonly text: string
  /** The text as the JSON-RPC message that it must be. */
  message (): Message
}

/** Sends one POST; a header with several values goes out several times. */
export type Sender = (headers: Readonly<Record<string, string | string[]>>, body: string) => Promise<SocketAnswer>

/** Makes an app listen, and gives what sends to `/mcp` over connections that are kept alive, `maxSockets` of them at most. */
export async function senderTo (t: Test, app: FastifyInstance, maxSockets = 20): Promise<Sender> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  const agent = new Agent({ keepAlive: true, maxSockets })
  t.teardown(() => { agent.destroy() })
  const { port } = app.server.address() as AddressInfo
  return async (headers, body) => {
    const sent = request({ port, host: '127.0.0.1', path: '/mcp', method: 'POST', agent, headers: { 'Content-Type': 'application/json', ...headers } })
    sent.end(body)
    const [response] = await once(sent, 'response') as [IncomingMessage]
    const received = await text(response)
    return { status: response.statusCode, headers: response.headers, text: received, message: () => JSON.parse(received) as Message }
  }
}
