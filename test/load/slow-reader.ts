import { request } from 'node:http'
import { connect } from 'node:http2'
import { postListen, type Post } from '../helpers/sockets.js'
import { Connection, openSession } from './connection.js'
import { MIB, type Row } from './measure.js'
import { ServerProcess } from './process.js'
import type { Role, Told } from './slow-reader-process.js'
import type { Readable } from 'node:stream'

const NOTIFICATIONS = 100_000
const SEND_BUFFER = MIB
/** What the engine takes beside for 100 MB that pass through; all of it, were it kept, would be three times this. */
const MARGIN = 32 * MIB
/** Bytes that the slow one reads at a time, and how often, in ms. */
const SIP = 1_024
const SIP_EVERY = 1_000
const URI = 'mem://many'

type Era = '2026-07-28' | '2025-11-25'
interface Stream { readonly body: Readable, readonly close: () => void }

/** One who reads 1 KB/s beside one who reads all there is (field case 020). */
export async function slowReader (scale: number): Promise<Row[]> {
  const rows: Row[] = []
  // What the system holds between the two is some megabytes, and has to be exceeded.
  const count = Math.max(16_000, Math.round(NOTIFICATIONS * scale))
  for (const http2 of [false, true]) for (const era of ['2026-07-28', '2025-11-25'] as const) rows.push(...await measure(era, http2, count))
  return rows
}

export async function measure (era: Era, http2: boolean, count: number): Promise<Row[]> {
  const subject = `slow reader, ${era}, HTTP/${http2 ? '2' : '1.1'}`
  const server = new ServerProcess('slow-reader-process.ts', { http2, sendBuffer: SEND_BUFFER } satisfies Role)
  try {
    const { port } = await server.hear<{ port: number }>()
    const fast = await open(port, era, http2, 'fast')
    const heard = new Counter(fast.body)
    // So that the engine has what it needs, and what is measured is the slow one.
    const warmUp = Math.round(count / 5)
    server.tell({ count: warmUp })
    await server.hear<Told>()
    await heard.reached(warmUp)
    heard.restart()

    const slow = await open(port, era, http2, 'slow')
    slow.body.pause()
    const sips = setInterval(() => { slow.body.read(SIP) }, SIP_EVERY)
    server.tell({ count })
    const { before, most, causes } = await server.hear<Told>()
    clearInterval(sips)
    await heard.reached(count)
    slow.close()
    fast.close()
    const growth = most - before
    return [
      {
        subject: `${subject}: growth of resident memory`,
        figure: `${(growth / MIB).toFixed(1)} MiB of ${(count / 1_024).toFixed(0)} MiB told`,
        bound: `sendBuffer of ${SEND_BUFFER / MIB} MiB and ${MARGIN / MIB} MiB`,
        holds: growth <= SEND_BUFFER + MARGIN
      },
      { subject: `${subject}: its end`, figure: causes.join() || 'none', bound: 'overflow', holds: causes.join() === 'overflow' },
      { subject: `${subject}: heard by the fast one`, figure: `${heard.count}`, bound: `${count}, in order`, holds: heard.count === count && heard.inOrder }
    ]
  } finally {
    await server.kill()
  }
}

/** What a stream is told, in numbers. */
class Counter {
  count = 0
  inOrder = true
  #rest = ''
  #target = Infinity
  #reached: (() => void) | undefined
  #failed: ((error: Error) => void) | undefined

  constructor (body: Readable) {
    body.setEncoding('latin1').on('data', (chunk: string) => {
      const blocks = (this.#rest + chunk).split('\n\n')
      // split gives at least one.
      this.#rest = blocks.pop() as string
      for (const block of blocks) {
        const number = /x(\d+)"/.exec(block)?.[1]
        if (number !== undefined && Number(number) !== ++this.count) this.inOrder = false
      }
      if (this.count >= this.#target) this.#reached?.()
    })
    body.on('close', () => { this.#failed?.(new Error(`The fast reader has lost its stream after ${this.count}`)) })
  }

  restart (): void {
    this.count = 0
  }

  async reached (target: number): Promise<void> {
    if (this.count >= target) return
    this.#target = target
    await new Promise<void>((resolve, reject) => {
      this.#reached = resolve
      this.#failed = reject
    })
  }
}

/** Opens the stream of changes that a client of this era has, and gives it when the first of it has come. */
async function open (port: number, era: Era, http2: boolean, reader: string): Promise<Stream> {
  if (era === '2026-07-28') return await send(port, http2, 'POST', postListen({ resourceSubscriptions: [URI] }, { headers: { 'x-reader': reader } }))
  const headers = { accept: 'text/event-stream', 'x-reader': reader, ...await subscribe(port, http2) }
  return await send(port, http2, 'GET', { headers, payload: '' })
}

/** The headers of a session that has subscribed. */
async function subscribe (port: number, http2: boolean): Promise<Record<string, string>> {
  const connection = http2 ? new Http2Asker(port) : await Connection.open(port)
  const session = await openSession(connection)
  await connection.ask(session.compose('resources/subscribe', { uri: URI }, 1))
  connection.close()
  return { 'mcp-session-id': session.id, 'mcp-protocol-version': '2025-11-25' }
}

/** What `openSession` asks through, where there is no HTTP/1.1. */
class Http2Asker implements Pick<Connection, 'ask' | 'close'> {
  readonly #port: number

  constructor (port: number) {
    this.#port = port
  }

  async ask ({ headers = {}, payload = '' }: Partial<Post>): ReturnType<Connection['ask']> {
    const session = connect(`http://127.0.0.1:${this.#port}`)
    const stream = session.request({ ':method': 'POST', ':path': '/mcp', ...headers })
    let status = 0
    let head = ''
    let body = ''
    stream.setEncoding('latin1').on('data', (chunk: string) => { body += chunk })
    stream.on('response', answered => {
      status = Number(answered[':status'])
      head = Object.entries(answered).map(([name, value]) => `${name}: ${String(value)}\r\n`).join('')
    })
    await new Promise<void>((resolve, reject) => { stream.on('end', resolve).on('error', reject).end(payload) })
    session.close()
    return { status, head, body }
  }

  close (): void {}
}

async function send (port: number, http2: boolean, method: 'POST' | 'GET', { headers, payload }: Post): Promise<Stream> {
  if (http2) {
    const session = connect(`http://127.0.0.1:${port}`)
    const stream = session.request({ ':method': method, ':path': '/mcp', ...headers }, { endStream: method === 'GET' })
    // The slow one is cut off, which is what this is about; its end is told by the server.
    stream.on('error', () => {})
    session.on('error', () => {})
    if (method === 'POST') stream.end(payload)
    await new Promise(resolve => { stream.once('response', resolve) })
    return { body: stream, close: () => { session.destroy() } }
  }
  return await new Promise((resolve, reject) => {
    const sent = request({ port, host: '127.0.0.1', method, path: '/mcp', headers, agent: false }, response => {
      response.on('error', () => {})
      resolve({ body: response, close: () => { response.destroy() } })
    })
    sent.on('error', reject)
    sent.end(payload)
  })
}
