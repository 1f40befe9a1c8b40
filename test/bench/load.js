/** The process that makes the load: prepared bytes over raw sockets, since an HTTP client would cost more than the server. */
import { connect } from 'node:net'
import { answerCalls } from './process.js'
import { createReader } from './reader.js'
import { callRequest, listenRequest } from './wire.js'

const OPENED_AT_ONCE = 100
const EVENT = Buffer.from('data: ')
/** One for all sockets: what is read is looked at before the next socket is read. */
const buffer = Buffer.allocUnsafe(65_536)

const streams = new Set()
let expected = 0
let allReceived

answerCalls({
  /** The text of one response. */
  async probe (port, tool) {
    const isComplete = createReader()
    let text = ''
    return await new Promise((resolve, reject) => {
      const socket = open(port, callRequest(tool), reject, chunk => {
        text += chunk.latin1Slice()
        if (!isComplete(chunk)) return
        socket.destroy()
        resolve(text)
      })
    })
  },

  /** Calls for so long on so many connections; how many were answered, in how many seconds. */
  async callFor (port, tool, connections, ms) {
    const started = performance.now()
    let count = 0
    await drive(port, tool, connections, () => {
      count++
      return performance.now() - started < ms
    })
    return { count, seconds: (performance.now() - started) / 1000 }
  },

  /** Calls so often; the milliseconds that each window of so many calls took. */
  async callTimes (port, tool, connections, count, window) {
    const windows = []
    let sent = connections
    let answered = 0
    let last = performance.now()
    await drive(port, tool, connections, () => {
      if (++answered % window === 0) {
        const now = performance.now()
        windows.push(now - last)
        last = now
      }
      return sent++ < count
    })
    return windows
  },

  /** Opens so many listens and waits until each has been acknowledged. */
  async open (port, count) {
    for (let first = 0; first < count; first += OPENED_AT_ONCE) {
      await Promise.all(Array.from({ length: Math.min(OPENED_AT_ONCE, count - first) }, async (_, index) => await openStream(port, `listen-${first + index}`)))
    }
  },

  /** Waits for the next event of every stream; when the last has come, on the clock that all processes share. */
  receive: async () => await new Promise(resolve => {
    expected = streams.size
    allReceived = resolve
  }),

  close () {
    for (const socket of streams) socket.resetAndDestroy()
    streams.clear()
  }
})

/** Sends on each connection one request after the other, while `again` says so. */
async function drive (port, tool, connections, again) {
  const request = callRequest(tool)
  await Promise.all(Array.from({ length: connections }, () => new Promise((resolve, reject) => {
    const isComplete = createReader()
    const socket = open(port, request, reject, chunk => {
      if (!isComplete(chunk)) return
      if (again()) return socket.write(request)
      socket.resetAndDestroy()
      resolve()
    })
  })))
}

async function openStream (port, id) {
  await new Promise((resolve, reject) => {
    const socket = open(port, listenRequest(id), reject, chunk => {
      // Events are small, and leave in one write each: none comes in two parts.
      if (!chunk.includes(EVENT)) return
      if (!streams.has(socket)) {
        streams.add(socket)
        resolve()
      } else if (--expected === 0) allReceived(String(process.hrtime.bigint()))
    })
  })
}

function open (port, request, failed, received) {
  const socket = connect({
    port,
    host: '127.0.0.1',
    noDelay: true,
    onread: {
      buffer,
      callback (length) {
        try {
          received(buffer.subarray(0, length))
        } catch (error) {
          failed(error)
        }
        return true
      }
    }
  }, () => { socket.write(request) })
  socket.on('error', failed)
  socket.on('end', () => { failed(new Error('The server closed the connection')) })
  return socket
}
