import { connect, type Socket } from 'node:net'
import { post, type Post } from '../helpers/sockets.js'
import type { JsonObject } from 'fastify-gen-mcp'

export interface Answer { readonly status: number, readonly head: string, readonly body: string }

/** One HTTP/1.1 connection that is kept: requests one after the other, or a stream that stands. Its answers are small, and kept as they came. */
export class Connection {
  readonly socket: Socket
  #text = ''
  #failure: Error | undefined
  #changed: (() => void) | undefined

  private constructor (socket: Socket) {
    this.socket = socket
    socket.setEncoding('latin1').setNoDelay()
    socket.on('data', (chunk: string) => {
      this.#text += chunk
      this.#changed?.()
    })
    const fail = (error: Error): void => {
      this.#failure = error
      this.#changed?.()
    }
    socket.on('error', fail)
    socket.on('close', () => { fail(new Error(`The connection was closed after ${JSON.stringify(this.#text.slice(-300))}`)) })
  }

  static async open (port: number): Promise<Connection> {
    const socket = connect({ port, host: '127.0.0.1' })
    await new Promise<void>((resolve, reject) => { socket.once('connect', resolve).once('error', reject) })
    return new Connection(socket)
  }

  /** Sends a request and reads the whole of its answer. */
  async ask (request: Partial<Post>, verb: 'POST' | 'DELETE' = 'POST'): Promise<Answer> {
    this.send(request, verb)
    for (;;) {
      const answer = readAnswer(this.#text)
      if (answer !== undefined) {
        this.#text = ''
        return answer
      }
      await this.#more()
    }
  }

  send ({ headers = {}, payload = '' }: Partial<Post>, verb: 'POST' | 'GET' | 'DELETE' = 'POST'): void {
    const lines = Object.entries({ host: 'localhost', ...headers, 'content-length': String(Buffer.byteLength(payload)) }).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`${verb} /mcp HTTP/1.1\r\n${lines.join('')}\r\n${payload}`)
  }

  /** Resolves when this has come; what came before it is forgotten. */
  async received (text: string): Promise<void> {
    while (!this.#text.includes(text)) await this.#more()
    this.#text = this.#text.slice(this.#text.indexOf(text) + text.length)
  }

  close (): void {
    this.socket.destroy()
  }

  async #more (): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    await new Promise<void>(resolve => { this.#changed = resolve })
  }
}

/** Opens so many connections. */
export async function openConnections (port: number, count: number): Promise<Connection[]> {
  return await Promise.all(Array.from({ length: count }, async () => await Connection.open(port)))
}

/** A call of a tool by a 2026-07-28 client. */
export function modernCall (name: string, id: number): Post {
  return post('tools/call', { name, arguments: {} }, { id, meta: { progressToken: id } })
}

/** A 2025-11-25 session. */
export interface Session { readonly id: string, compose (method: string, params: JsonObject, id?: number): Post }

export async function openSession (connection: Pick<Connection, 'ask'>): Promise<Session> {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'load', version: '1.0.0' } }
  const { head, status, body } = await connection.ask({ headers, payload: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }) })
  const id = /^mcp-session-id: (\S+)\r$/m.exec(head)?.[1]
  if (id === undefined) throw new Error(`No session was opened: ${status} ${body}`)
  const session: Session = {
    id,
    compose: (method, params, id) => ({
      headers: { ...headers, 'mcp-session-id': session.id, 'mcp-protocol-version': '2025-11-25' }, payload: JSON.stringify({ jsonrpc: '2.0', id, method, params })
    })
  }
  await connection.ask(session.compose('notifications/initialized', {}))
  return session
}

/** Undefined while some of it is missing. */
function readAnswer (text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n') + 4
  if (end < 4) return undefined
  const head = text.slice(0, end)
  const body = text.slice(end)
  const status = Number(head.slice(9, 12))
  const length = /^content-length: (\d+)\r$/mi.exec(head)?.[1]
  const whole = /^transfer-encoding: chunked\r$/mi.test(head) ? body.endsWith('\r\n0\r\n\r\n') : body.length >= Number(length ?? 0)
  return whole ? { status, head, body } : undefined
}
