import { Connection, modernCall, openConnections, openSession, type Session } from './connection.js'
import { openHouse, type House } from './house.js'
import { growthRow, heapUsed, leftRow, median, type Row } from './measure.js'

const CALLS = 100_000
const CONNECTIONS = 8
/** Calls of one window, and how many windows stand for the beginning and the end: a window is short, and anything may happen in one. */
const WINDOW = 1_000
const WINDOWS = 5
/** A tool for each way to answer. */
const TOOLS = ['sync', 'async', 'streamed'] as const
/** Calls of a session, where there are many. */
const CALLS_A_SESSION = 9
/** Growth with the number of past calls would be far beyond this; two halves of a machine's minute are not. */
const SLOWDOWN = 1.5
const BYTES_A_CALL = 16
/** Of a session that DELETE ended its key is remembered, so that nobody goes on with it. */
const BYTES_A_SESSION = 200

/** Calls on one connection until there are enough; says when each has been answered. */
type Caller = (connection: Connection, next: () => number | undefined, answered: () => void) => Promise<void>

const modern: Caller = async (connection, next, answered) => {
  for (let id = next(); id !== undefined; id = next()) {
    check(await connection.ask(modernCall(toolOf(id), id)))
    answered()
  }
}

function inOneSession (session: Session): Caller {
  return async (connection, next, answered) => {
    for (let id = next(); id !== undefined; id = next()) {
      check(await connection.ask(callIn(session, id)))
      answered()
    }
  }
}

const inManySessions: Caller = async (connection, next, answered) => {
  for (let id = next(); id !== undefined; id = next()) {
    const session = await openSession(connection)
    for (let call = 1; ; call++) {
      check(await connection.ask(callIn(session, id)))
      answered()
      if (call === CALLS_A_SESSION) break
      id = next()
      if (id === undefined) break
    }
    await connection.ask({ headers: { 'mcp-session-id': session.id } }, 'DELETE')
  }
}

/** Many calls: the last as fast as the first, and nothing kept of any. */
export async function calls (scale: number): Promise<Row[]> {
  const house = await openHouse()
  const count = Math.max(300, Math.round(CALLS * scale))
  const [connection] = await openConnections(house.port, 1) as [Connection]
  const rows = [
    ...await series('calls, 2026-07-28', house, count, modern, BYTES_A_CALL),
    ...await series('calls, 2025-11-25, one session', house, count, inOneSession(await openSession(connection)), BYTES_A_CALL),
    ...await series('calls, 2025-11-25, many sessions', house, count, inManySessions, BYTES_A_CALL + BYTES_A_SESSION / CALLS_A_SESSION)
  ]
  connection.close()
  await house.close()
  return rows
}

async function series (subject: string, house: House, count: number, caller: Caller, bytes: number): Promise<Row[]> {
  const { port } = house
  const window = Math.min(WINDOW, Math.floor(count / (3 * WINDOWS)))
  // The first calls of a process wait for the compiler.
  await drive(port, Math.min(count, 5 * WINDOW), window, caller)
  const early = Math.round(count / 5)
  const first = await drive(port, early, window, caller)
  const before = await heapUsed()
  const last = await drive(port, count - early, window, caller)
  const after = await heapUsed()
  const [began, ended] = [median(first.slice(0, WINDOWS)), median(last.slice(-WINDOWS))]
  return [
    {
      subject: `${subject}: last / first ${window} of ${count}`,
      figure: `${ended.toFixed(0)} / ${began.toFixed(0)} ms = ${(ended / began).toFixed(2)}`,
      bound: `${SLOWDOWN}`,
      holds: ended / began <= SLOWDOWN
    },
    growthRow(subject, before, after, count - early, Math.ceil(bytes)),
    await leftRow(subject, house)
  ]
}

/** So many calls on a few connections; the milliseconds that each window took. */
async function drive (port: number, count: number, window: number, caller: Caller): Promise<number[]> {
  const windows: number[] = []
  let sent = 0
  let answered = 0
  let began = performance.now()
  const connections = await openConnections(port, CONNECTIONS)
  await Promise.all(connections.map(async connection => {
    await caller(connection, () => sent < count ? ++sent : undefined, () => {
      if (++answered % window !== 0) return
      const now = performance.now()
      windows.push(now - began)
      began = now
    })
  }))
  for (const connection of connections) connection.close()
  return windows
}

function callIn (session: Session, id: number): ReturnType<Session['compose']> {
  return session.compose('tools/call', { name: toolOf(id), arguments: {}, _meta: { progressToken: id } }, id)
}

function toolOf (id: number): string {
  return TOOLS[id % TOOLS.length] as string
}

function check ({ status, body }: { readonly status: number, readonly body: string }): void {
  if (status !== 200 || !body.includes('"text":"done"')) throw new Error(`A call was answered ${status} ${body}`)
}
