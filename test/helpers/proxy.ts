import { once } from 'node:events'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A request as it passed. */
export interface Passed {
  readonly method: string
  readonly headers: IncomingMessage['headers']
  /** The place of its replica among the ports: of the one that it was meant for, until another had to take its place. */
  replica: number
  /** Of the response; undefined until its head has come. */
  status: number | undefined
}

/** What stands before several replicas, and sends each request to the next of them that takes connections. */
export interface Proxy {
  readonly port: number
  /** Where the mounts are. */
  readonly url: URL
  /** All requests so far. */
  readonly passed: readonly Passed[]
  /** Breaks every connection, as a network does. */
  drop (): void
}

/** A proxy on a loopback port; `pick` decides where a request goes, by default to the one after the one before. */
export async function openProxy (t: Test, ports: readonly number[], pick: (request: IncomingMessage, count: number) => number = (_request, count) => count % ports.length): Promise<Proxy> {
  const passed: Passed[] = []
  const sockets = new Set<Socket>()
  const server = createServer((incoming, outgoing) => {
    const replica = pick(incoming, passed.length)
    const pass: Passed = { method: String(incoming.method), headers: incoming.headers, replica, status: undefined }
    passed.push(pass)
    forward(ports, incoming, outgoing, pass)
  })
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => { sockets.delete(socket) })
  })
  const drop = (): void => { for (const socket of sockets) socket.resetAndDestroy() }
  t.teardown(() => {
    server.close()
    drop()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { port, url: new URL(`http://127.0.0.1:${port}/mcp`), passed, drop }
}

/** Each side that breaks takes the other with it. A request that nobody takes breaks. */
function forward (ports: readonly number[], incoming: IncomingMessage, outgoing: ServerResponse, pass: Passed): void {
  if (ports[pass.replica] === undefined) throw new Error('There is no such replica')
  const { method, url, headers } = incoming
  reach(ports, pass.replica).then(({ socket, replica }) => {
    pass.replica = replica
    if (outgoing.destroyed) return socket.destroy()
    const sent = request({ createConnection: () => socket, host: '127.0.0.1', method, path: url, headers }, response => {
      pass.status = response.statusCode
      outgoing.writeHead(response.statusCode ?? 502, response.rawHeaders)
      outgoing.flushHeaders()
      response.on('error', () => { outgoing.destroy() })
      response.pipe(outgoing)
    })
    sent.on('error', () => { outgoing.destroy() })
    outgoing.on('close', () => { sent.destroy() })
    incoming.pipe(sent)
  }).catch(() => { outgoing.destroy() })
}

/** A connection to this replica, or to the first after it that is there. */
async function reach (ports: readonly number[], first: number): Promise<{ readonly socket: Socket, readonly replica: number }> {
  let refusal: unknown
  for (let offset = 0; offset < ports.length; offset++) {
    const replica = (first + offset) % ports.length
    const socket = connect({ port: ports[replica] as number, host: '127.0.0.1' })
    try {
      await once(socket, 'connect')
      return { socket, replica }
    } catch (error) {
      refusal = error
    }
  }
  throw refusal
}
