import { connect as connectTcp } from 'node:net'
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import fc from 'fast-check'
import { load, modern, type Answer, type Sent, type Shot } from './shot.js'
import { describe, type Gallery, type Verdict } from './target.js'
import { targets } from './targets/index.js'
import type { AddressInfo } from 'node:net'

/** A request whose stream is given up: when, and with which code. */
interface Reset { readonly shot: Shot, readonly when: 'head' | 'body' | 'sent' | 'answered', readonly code: number }
/** What one session is told, all of it together. */
interface Drawn {
  /** Answers to these are judged as those through `inject` are. */
  readonly shots: readonly Shot[]
  readonly resets: readonly Reset[]
  /** Bytes of a part of a body. */
  readonly part: number
  /** Of each stream, which makes the server write little by little. */
  readonly window: number
  /** What somebody else sends behind the preface, on a connection of its own. */
  readonly frames: readonly Uint8Array[]
}

/** An answer has to come within this, and after so long a silent connection is left, in ms. */
const LIMIT = 10_000
const QUIET = 20
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
/** Of HTTP/1.1, and refused by HTTP/2 clients before they are sent, or by Node before anybody is asked. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'host', 'te', 'http2-settings', 'content-length', 'expect'])
/** What every hop passes on as it is. */
const PLAIN = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/
const echo = modern('tools/call', { name: 'echo', arguments: { text: '@@mark@@' } })

const { NGHTTP2_NO_ERROR, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM } = constants
const code = fc.constantFrom(NGHTTP2_NO_ERROR, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM, 0xffff)

/** A frame with a right length and anything else in it. */
const frame = fc.record({
  type: fc.nat(11), flags: fc.constantFrom(0, 1, 4, 5, 8, 0x20, 0x2d, 0xff), stream: fc.constantFrom(0, 1, 2, 3, 5, 0x7fffffff), payload: fc.uint8Array({ maxLength: 40 })
}).map(({ type, flags, stream, payload }) => {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
})

function draws (seed: number): fc.Arbitrary<Drawn> {
  const shot = fc.oneof(...targets(seed).map(({ shot }) => shot)).map(overHttp2)
  // What ends a session would take it from the others.
  const ended = shot.filter(({ verb }) => verb !== 'DELETE')
  return fc.record({
    shots: fc.array(shot, { minLength: 1, maxLength: 5 }),
    resets: fc.array(fc.record({ shot: ended, when: fc.constantFrom<Reset['when'][]>('head', 'body', 'sent', 'answered'), code }), { maxLength: 3 }),
    part: fc.constantFrom(1, 7, 100, 65_536),
    window: fc.constantFrom(1, 100, 65_535),
    frames: fc.array(fc.oneof({ arbitrary: frame, weight: 4 }, { arbitrary: fc.uint8Array({ maxLength: 30 }), weight: 1 }), { maxLength: 4 })
  })
}

/** As it can be said in HTTP/2: other hops change what else there is, and what is judged is what was sent. */
function overHttp2 (shot: Shot): Shot {
  const headers = Object.entries(shot.headers).filter(([name, value]) => !HOP_BY_HOP.has(name.toLowerCase()) && PLAIN.test(value))
  return { ...shot, headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])) }
}

/** Sends so many requests, frames and bytes over sessions of their own. The gallery is one that speaks HTTP/2. */
export async function shootAtHttp2 (gallery: Gallery, inputs: number, seed: number): Promise<Verdict> {
  const began = performance.now()
  const { app } = gallery.range
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const drawn = draws(seed)
  let count = 0
  let failure: string | undefined
  for (let round = seed; count < inputs && failure === undefined; round++) {
    const property = fc.asyncProperty(drawn, async drawn => {
      count += drawn.shots.length + drawn.resets.length + drawn.frames.length
      await session(gallery, port, drawn)
    })
    const outcome = await fc.check(property, { seed: round, numRuns: Math.ceil((inputs - count) / 6), endOnFailure: false })
    if (outcome.failed) failure = describe(outcome)
  }
  try {
    await gallery.checkHeld()
  } catch (error) {
    failure ??= String(error)
  }
  return { target: 'HTTP/2: resets, small windows, frames', inputs: count, seed, seconds: (performance.now() - began) / 1_000, failure }
}

/** Throws what is wrong with what one session was answered. */
async function session (gallery: Gallery, port: number, { shots, resets, part, window, frames }: Drawn): Promise<void> {
  const loaded = resets.map(reset => ({ ...reset, sent: load(reset.shot, gallery.tokens) }))
  const client = await openSession(port, window)
  try {
    await Promise.all([
      gallery.volley(shots, async sent => await fire(client, sent, part), loaded.map(({ sent }) => sent)),
      ...loaded.map(async reset => { await giveUp(client, reset.sent, part, reset) }),
      sendFrames(port, frames)
    ])
  } finally {
    client.destroy()
  }
  for (const { sent: { mark } } of loaded) gallery.range.ran.delete(mark)
  // The process goes on, for whoever comes next.
  const next = await openSession(port, 65_535)
  try {
    await gallery.volley([echo], async sent => {
      const answer = await fire(next, sent, 65_536)
      if (answer.status !== 200 || !answer.text.includes(sent.mark)) throw new Error(`The next session was answered ${answer.status} ${answer.text.slice(0, 300)}`)
      return answer
    })
  } finally {
    next.destroy()
  }
}

async function openSession (port: number, initialWindowSize: number): Promise<ClientHttp2Session> {
  const client = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize } })
  // One that breaks is told of by its streams.
  client.on('error', () => {})
  await new Promise(resolve => { client.once('connect', resolve).once('close', resolve) })
  return client
}

function begin (client: ClientHttp2Session, { verb, headers, payload }: Sent): ClientHttp2Stream {
  // Fastify looks for a body by its length where its type is missing.
  const length = verb === 'GET' ? {} : { 'content-length': String(payload?.length ?? 0) }
  const stream = client.request({ ':method': verb, ':path': '/mcp', ...headers, ...length }, { endStream: verb === 'GET' })
  stream.on('error', () => {})
  return stream
}

/** Writes a body in parts; false when the stream is over before. */
function send (stream: ClientHttp2Stream, { verb, payload = Buffer.alloc(0) }: Sent, part: number, share = 1): void {
  if (verb === 'GET') return
  // A great many frames say no more than a few.
  const size = Math.max(part, Math.ceil(payload.length / 50))
  const last = Math.floor(payload.length * share)
  for (let at = 0; at < last; at += size) stream.write(payload.subarray(at, Math.min(at + size, last)))
  if (share === 1) stream.end()
}

/** The answer to a request that is let go to its end, as `fire` of `inject` gives it. */
async function fire (client: ClientHttp2Session, sent: Sent, part: number): Promise<Answer> {
  const stream = begin(client, sent)
  const stands = sent.verb === 'GET' && !/^[\w-]{22}_/.test(sent.headers['last-event-id'] ?? '')
  send(stream, sent, part)
  let status = 0
  let headers: Record<string, string> = {}
  let text = ''
  let timer: NodeJS.Timeout | undefined
  try {
    return await new Promise<Answer>((resolve, reject) => {
      timer = setTimeout(() => { reject(new Error(`No answer within ${LIMIT} ms over HTTP/2: ${status} ${text.slice(0, 300)}`)) }, LIMIT)
      const leave = (): void => {
        // Of a stream that is left, what is whole: a small window cuts anywhere.
        const whole = text.lastIndexOf('\n\n')
        resolve({ status, headers, text: whole === -1 ? '' : text.slice(0, whole + 2), ended: false })
        stream.close(NGHTTP2_CANCEL)
      }
      stream.on('response', ({ ':status': answered, ...rest }) => {
        status = Number(answered)
        headers = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]))
        if (stands && status === 200) setImmediate(leave)
      })
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
        if (text.includes('notifications/subscriptions/acknowledged') && text.endsWith('\n\n')) leave()
      })
      stream.on('end', () => { resolve({ status, headers, text, ended: true }) })
      stream.on('close', () => { reject(new Error(`The stream was reset with ${stream.rstCode}: ${status} ${text.slice(0, 300)}`)) })
    })
  } finally {
    clearTimeout(timer)
  }
}

/** Begins a request and resets its stream. */
async function giveUp (client: ClientHttp2Session, sent: Sent, part: number, { when, code }: Reset): Promise<void> {
  const stream = begin(client, sent)
  const closed = new Promise(resolve => { stream.on('close', resolve) })
  if (when !== 'head') send(stream, sent, part, when === 'body' ? 0.5 : 1)
  // Answered or not: what has no answer to come is not waited for.
  if (when === 'answered') await Promise.race([closed, new Promise(resolve => { stream.once('response', resolve) })])
  // So that what was written has left.
  else await new Promise(resolve => { setImmediate(resolve) })
  stream.close(code)
  stream.resume()
  await closed
}

/** What is no HTTP/2, or none that makes sense; what comes back is between the two ends. */
async function sendFrames (port: number, frames: readonly Uint8Array[]): Promise<void> {
  if (frames.length === 0) return
  const socket = connectTcp({ port, host: '127.0.0.1' })
  socket.on('error', () => {}).resume()
  socket.write(Buffer.concat([Buffer.from(PREFACE, 'latin1'), ...frames]))
  await new Promise<void>(resolve => {
    socket.once('close', () => { resolve() })
    setTimeout(resolve, QUIET)
  })
  socket.destroy()
}
