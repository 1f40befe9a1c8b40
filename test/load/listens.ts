import { postListen } from '../helpers/sockets.js'
import { Connection, openConnections, openSession, type Session } from './connection.js'
import { openHouse, type House } from './house.js'
import { growthRow, heapUsed, leftRow, median, type Row } from './measure.js'

const LISTENS = 10_000
const STREAMS = 2_000
const WAVE = 500
const SLOWDOWN = 1.5
/** A wave is measured as a whole, and what the engine keeps of one is not what grows. */
const BYTES_EACH = 64
const URI = 'mem://one'

/** Opens one stream on a connection of its own, up to the moment where it is told of changes. */
type Open = (connection: Connection, index: number) => Promise<void>

/** Many streams opened and closed, in waves: nothing is left of any. */
export async function listens (scale: number): Promise<Row[]> {
  const house = await openHouse()
  const rows = [
    ...await series('listens, 2026-07-28', house, atLeast(LISTENS * scale), openListen),
    ...await series('GET streams, 2025-11-25', house, atLeast(STREAMS * scale), openStream)
  ]
  await house.close()
  return rows
}

const openListen: Open = async (connection, index) => {
  connection.send(postListen({ toolsListChanged: true, resourceSubscriptions: [URI] }, { id: index }))
  await connection.received('subscriptions/acknowledged')
}

const openStream: Open = async (connection, index) => {
  const session: Session = await openSession(connection)
  await connection.ask(session.compose('resources/subscribe', { uri: URI }, index))
  connection.send({ headers: { accept: 'text/event-stream', 'mcp-session-id': session.id, 'mcp-protocol-version': '2025-11-25' } }, 'GET')
  // The event without data, which a client would come back from.
  await connection.received('data: \n\n')
}

async function series (subject: string, house: House, count: number, open: Open): Promise<Row[]> {
  const waves = count / 5 >= WAVE ? Math.round(count / WAVE) : 5
  const size = Math.round(count / waves)
  const times: number[] = []
  let heard = 0
  // What the first wave leaves to later ones, such as room in the engine's tables, is no growth.
  await wave(house, size, open)
  let before = 0
  for (let number = 1; number <= waves; number++) {
    const began = performance.now()
    heard += await wave(house, size, open)
    times.push(performance.now() - began)
    if (number === Math.ceil(waves / 5)) before = await heapUsed()
  }
  const after = await heapUsed()
  const few = Math.max(1, Math.floor(waves / 4))
  const [first, last] = [median(times.slice(0, few)), median(times.slice(-few))]
  return [
    { subject: `${subject}: told of two changes each`, figure: `${heard} of ${2 * waves * size}`, bound: 'all', holds: heard === 2 * waves * size },
    {
      subject: `${subject}: last / first waves of ${size}, of ${waves}`,
      figure: `${last.toFixed(0)} / ${first.toFixed(0)} ms = ${(last / first).toFixed(2)}`,
      bound: `${SLOWDOWN}`,
      holds: last / first <= SLOWDOWN
    },
    growthRow(subject, before, after, waves * size, BYTES_EACH),
    await leftRow(subject, house)
  ]
}

/** Opens so many, tells all of them of two changes, closes all; how many changes were heard of. */
async function wave (house: House, size: number, open: Open): Promise<number> {
  const connections = await openConnections(house.port, size)
  await Promise.all(connections.map(open))
  const told = connections.map(async connection => {
    await connection.received('tools/list_changed')
    await connection.received('resources/updated')
    return 2
  })
  house.changes.toolsChanged()
  // Once each has been told of the first, so that the order is known.
  await new Promise(resolve => { setTimeout(resolve, 100) })
  house.changes.resourceUpdated(URI)
  const heard = (await Promise.all(told)).reduce((sum, count) => sum + count, 0)
  for (const [index, connection] of connections.entries()) {
    // Half of them vanish, half take their leave.
    if (index % 2 === 0) connection.socket.resetAndDestroy()
    else connection.socket.end()
  }
  const held = await house.held()
  if (held !== '') throw new Error(`A wave of streams has left ${held}`)
  return heard
}

function atLeast (count: number): number {
  return Math.max(100, Math.round(count))
}
