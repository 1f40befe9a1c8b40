import { request } from 'node:http'
import { Connection, modernCall, openSession } from './connection.js'
import { MIB, type Row } from './measure.js'
import { ServerProcess } from './process.js'
import type { Post } from '../helpers/sockets.js'
import type { Role, Took } from './large-results-process.js'

const BYTES = 50 * MIB
const LIMIT = 10 * MIB
/** Growth of resident memory, in payloads; the text itself is one. */
const MOST = 4
const WARM_UP = 200

export interface Case { readonly era: '2026-07-28' | '2025-11-25', readonly sse: boolean, readonly suite: boolean }

/** Results of 50 MB (field case 014). */
export async function largeResults (): Promise<Row[]> {
  const rows: Row[] = []
  for (const era of ['2026-07-28', '2025-11-25'] as const) {
    for (const sse of [false, true]) for (const suite of [false, true]) rows.push(...await measure({ era, sse, suite }))
    rows.push(...await measureLimit(era))
  }
  return rows
}

export async function measure (what: Case): Promise<Row[]> {
  const subject = `50 MiB result, ${what.era}, ${what.sse ? 'SSE' : 'JSON'}, ${what.suite ? 'Suite' : 'low-level'}`
  const { growth, delay, bytes, end } = await call(what, { suite: what.suite, bytes: BYTES })
  const whole = bytes > BYTES && bytes < BYTES + 2_000
  return [
    {
      subject: `${subject}: growth of resident memory`,
      figure: `${(growth / BYTES).toFixed(2)} payloads; the loop stood ${delay.toFixed(0)} ms`,
      bound: `${MOST} payloads`,
      holds: growth < MOST * BYTES
    },
    { subject: `${subject}: arrived`, figure: `${bytes} bytes`, bound: 'all of it, and its end', holds: whole && /\}\s*$/.test(end) }
  ]
}

/** What the Suite holds back is told of, and costs no more than what it lets through. */
export async function measureLimit (era: Case['era']): Promise<Row[]> {
  const { growth, end } = await call({ era, sse: false, suite: true }, { suite: true, bytes: BYTES, maxResultSize: LIMIT })
  const subject = `50 MiB result, ${era}, maxResultSize 10 MiB`
  return [
    { subject: `${subject}: the answer`, figure: /"text":"([^"]*)"/.exec(end)?.[1] ?? end.slice(-100), bound: 'isError, and the limit', holds: end.includes('"isError":true') && end.includes(String(LIMIT)) },
    { subject: `${subject}: growth of resident memory`, figure: `${(growth / BYTES).toFixed(2)} payloads`, bound: `${MOST} payloads`, holds: growth < MOST * BYTES }
  ]
}

async function call ({ era, sse }: Case, role: Role): Promise<{ readonly growth: number, readonly delay: number, readonly bytes: number, readonly end: string }> {
  const server = new ServerProcess('large-results-process.ts', role)
  try {
    const { port } = await server.hear<{ port: number }>()
    const connection = await Connection.open(port)
    const session = era === '2026-07-28' ? undefined : await openSession(connection)
    const compose = (name: string): Post => {
      const { headers, payload } = session === undefined ? modernCall(name, 1) : session.compose('tools/call', { name, arguments: {} }, 1)
      return { headers: { ...headers, accept: sse ? 'text/event-stream' : 'application/json' }, payload }
    }
    // As it is before, with all that a call needs in place.
    for (let number = 0; number < WARM_UP; number++) await connection.ask(compose('small'))
    connection.close()
    server.tell('begin')
    await server.hear()
    const read = await receive(port, compose('large'))
    server.tell('end')
    const { before, most, delay } = await server.hear<Took>()
    return { growth: most - before, delay, ...read }
  } finally {
    await server.kill()
  }
}

/** Counts what comes, and keeps the end of it. */
async function receive (port: number, { headers, payload }: Post): Promise<{ readonly bytes: number, readonly end: string }> {
  return await new Promise((resolve, reject) => {
    request({ port, host: '127.0.0.1', method: 'POST', path: '/mcp', headers, agent: false }, response => {
      let bytes = 0
      let end = ''
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        end = (end + chunk.toString('latin1', Math.max(0, chunk.length - 500))).slice(-500)
      })
      response.on('end', () => { resolve({ bytes, end }) })
      response.on('error', reject)
    }).on('error', reject).end(payload)
  })
}
