import { Agent, request, type IncomingMessage } from 'node:http'
import { postListen, type Post } from '../helpers/sockets.js'
import { Connection, modernCall, openSession } from './connection.js'
import { ServerProcess } from './process.js'
import type { Closed, Role } from './closing-process.js'
import type { Row } from './measure.js'

const STREAMS = 1_000
const DRAIN = 10_000
/** How long a call goes on that was under way, in ms. */
const RUNS = 500
/** The process ends when nothing keeps it; how long that is waited for, in ms. */
const EXIT = 10_000
const SESSIONS = 4

/** What the last of a stream must hold. */
interface Kind { readonly name: string, readonly last: RegExp, readonly open: (index: number) => readonly ['POST' | 'GET', Post] }

/** Many open streams when the app is closed (field case 079). */
export async function closing (scale: number): Promise<Row[]> {
  return await measure(Math.max(60, Math.round(STREAMS * scale)))
}

export async function measure (count: number): Promise<Row[]> {
  const server = new ServerProcess('closing-process.ts', { drain: DRAIN, runs: RUNS } satisfies Role)
  const agent = new Agent({ keepAlive: true })
  try {
    const { port } = await server.hear<{ port: number }>()
    const kinds = await createKinds(port, Math.ceil(count / 4))
    const streams = (await Promise.all(Array.from({ length: count }, async (_, index) => {
      const kind = kinds[index % kinds.length] as Kind
      return { kind, stream: await Stream.open(port, agent, ...kind.open(index)) }
    })))
    server.tell('close')
    const { ms } = await server.hear<Closed>()
    await Promise.all(streams.map(async ({ stream }) => { await stream.over }))
    const unclean = streams.filter(({ stream }) => !stream.whole)
    const unanswered = streams.filter(({ kind, stream }) => !kind.last.test(stream.end))
    const exited = await Promise.race([server.exited, new Promise<string>(resolve => { setTimeout(resolve, EXIT, 'not').unref() })])
    const name = `${count} streams at close()`
    return [
      { subject: `${name}: resolves in`, figure: `${ms.toFixed(0)} ms`, bound: `drain of ${DRAIN} ms`, holds: ms < DRAIN },
      { subject: `${name}: ended with the end of their bodies`, figure: `${count - unclean.length}${tell(unclean)}`, bound: 'all', holds: unclean.length === 0 },
      { subject: `${name}: ended with what their kind ends with`, figure: `${count - unanswered.length}${tell(unanswered)}`, bound: 'all', holds: unanswered.length === 0 },
      { subject: `${name}: the process ends by itself`, figure: `exit ${exited}`, bound: 'exit 0', holds: exited === 0 }
    ]
  } finally {
    agent.destroy()
    await server.kill()
  }
}

async function createKinds (port: number, sessions: number): Promise<Kind[]> {
  // A session has one stream of its own.
  const connections = await Promise.all(Array.from({ length: SESSIONS }, async () => await Connection.open(port)))
  const ids: string[] = []
  for (let index = 0; index < sessions; index++) ids.push((await openSession(connections[index % SESSIONS] as Connection)).id)
  for (const connection of connections) connection.close()
  return [
    { name: 'listen', last: /"resultType":"complete"/, open: id => ['POST', postListen({ toolsListChanged: true }, { id })] },
    { name: 'call that waits', last: /"error":\{"code":-32603,"message":"The server is shutting down"/, open: id => ['POST', modernCall('waits', id)] },
    { name: 'call that runs', last: /"text":"done"/, open: id => ['POST', modernCall('runs', id)] },
    {
      name: 'GET stream',
      last: /\nretry: \d+\n\n$/,
      open: index => ['GET', { headers: { accept: 'text/event-stream', 'mcp-session-id': ids[(index - 3) / 4] as string, 'mcp-protocol-version': '2025-11-25' }, payload: '' }]
    }
  ]
}

function tell (streams: readonly { readonly kind: Kind, readonly stream: Stream }[]): string {
  const [first] = streams
  return first === undefined ? '' : `; a ${first.kind.name} with ${JSON.stringify(first.stream.end.slice(-200))}`
}

/** One response that is read to its end. */
class Stream {
  readonly over: Promise<void>
  /** The end of its text. */
  end = ''
  /** The body came to its own end, and not just to that of the connection. */
  whole = false

  private constructor (response: IncomingMessage) {
    response.setEncoding('utf8').on('data', (chunk: string) => { this.end = (this.end + chunk).slice(-1_000) })
    // What is reset has no end.
    response.on('error', () => {})
    response.on('end', () => { this.whole = response.complete })
    this.over = new Promise(resolve => { response.on('close', resolve) })
  }

  /** Resolves when its first event is there. */
  static async open (port: number, agent: Agent, method: 'POST' | 'GET', { headers, payload }: Post): Promise<Stream> {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request({ port, host: '127.0.0.1', method, path: '/mcp', headers, agent }, resolve).on('error', reject).end(payload)
    })
    const stream = new Stream(response)
    await new Promise<void>((resolve, reject) => {
      response.once('data', () => { resolve() })
      response.once('close', () => { reject(new Error(`A stream was answered ${response.statusCode} ${stream.end}`)) })
    })
    return stream
  }
}
