import { connect } from 'node:net'
import fc from 'fast-check'
import { load, modern, type Sent, type Shot } from './shot.js'
import { targets } from './targets/index.js'
import type { AddressInfo } from 'node:net'
import { describe, type Gallery, type Verdict } from './target.js'

/** What is written onto one connection: requests, and bytes that are none. */
type Piece = { readonly kind: 'shot', readonly shot: Shot } | { readonly kind: 'bytes', readonly bytes: Uint8Array } | { readonly kind: 'right' }

interface Response { readonly status: number, readonly body: string, readonly head: string }

/** An answer has to come within this, and after so long a pause nothing more does, in ms. */
const LIMIT = 2_000
const QUIET = 150
/** Connections of one input. */
const TOGETHER = 8
const echo = modern('tools/call', { name: 'echo', arguments: { text: '@@mark@@' } })
const LINES = /[\r\n\0]/g

const POST = 'POST /mcp HTTP/1.1\r\nhost: localhost\r\n'
const garbage = [
  'GET / HTTP/1.1\r\n\r\n',
  `${POST}transfer-encoding: chunked\r\n\r\nZZ\r\n`,
  `${POST}content-length: 5\r\ncontent-length: 6\r\n\r\n{}`,
  `${POST}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  `${POST}expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}`,
  `${POST}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'POST /mcp HTTP/1.0\r\ncontent-length: 0\r\n\r\n',
  'PUT /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n',
  'OPTIONS /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n',
  'HEAD /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  '\0\0\0\0',
  '\r\n\r\n'
]

function pieces (seed: number): fc.Arbitrary<Piece> {
  const shots = fc.oneof(...targets(seed).map(({ shot }) => shot))
  return fc.oneof(
    { arbitrary: fc.constant<Piece>({ kind: 'right' }), weight: 3 },
    { arbitrary: shots.map((shot): Piece => ({ kind: 'shot', shot })), weight: 4 },
    { arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes): Piece => ({ kind: 'bytes', bytes })), weight: 1 },
    {
      arbitrary: fc.constantFrom(...garbage).map((text): Piece => ({ kind: 'bytes', bytes: Buffer.from(text, 'latin1') })),
      weight: 2
    }
  )
}

/** Writes so many pieces onto connections of their own, several at a time, and reads what comes. */
export async function shootAtSockets (gallery: Gallery, inputs: number, seed: number): Promise<Verdict> {
  const began = performance.now()
  const { app } = gallery.range
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const drawnPiece = pieces(seed)
  let count = 0
  let failure: string | undefined
  for (let round = seed; count < inputs && failure === undefined; round++) {
    const property = fc.asyncProperty(fc.array(fc.array(drawnPiece, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: TOGETHER }),
      async connections => {
        count += connections.flat().length
        const problems = (await Promise.all(connections.map(async drawn => await connection(gallery, port, drawn)))).flat()
        problems.push(...gallery.alarms())
        if (problems.length > 0) throw new Error(problems.join('\n'))
      })
    const outcome = await fc.check(property, { seed: round, numRuns: Math.ceil((inputs - count) / (3 * TOGETHER)), endOnFailure: false })
    if (outcome.failed) failure = describe(outcome)
  }
  try {
    await gallery.checkHeld()
  } catch (error) {
    failure ??= String(error)
  }
  return { target: 'sockets: pipelined, with garbage', inputs: count, seed, seconds: (performance.now() - began) / 1_000, failure }
}

/** What is wrong with what one connection was answered. */
async function connection (gallery: Gallery, port: number, drawn: readonly Piece[]): Promise<string[]> {
  const loaded = drawn.map(piece => piece.kind === 'bytes' ? piece.bytes : load(piece.kind === 'right' ? echo : piece.shot, gallery.tokens))
  // The server closes behind the last, unless something before it keeps it from being read.
  const last = load({ ...echo, headers: { ...echo.headers, connection: 'close' } }, gallery.tokens)
  const sent = [...loaded.filter((piece): piece is Sent => !(piece instanceof Uint8Array)), last]
  const begins = !(loaded[0] instanceof Uint8Array)
  const text = await talk(port, [...loaded, last].map(piece => piece instanceof Uint8Array ? piece : compose(piece)), begins ? LIMIT : QUIET)
  const problems = [...read(text, sent)]
  if (begins && text === '') problems.push(`no answer within ${LIMIT} ms`)
  // The process goes on, for whoever comes next.
  const probe = load({ ...echo, headers: { ...echo.headers, connection: 'close' } }, gallery.tokens)
  const after = await talk(port, [compose(probe)], LIMIT)
  if (!/^HTTP\/1\.1 200 /.test(after) || !after.includes(probe.mark)) problems.push(`the next connection was answered ${after.slice(0, 300)}`)
  for (const { mark } of [...sent, probe]) gallery.range.ran.delete(mark)
  return problems
}

function compose ({ verb, headers, payload }: Sent): Buffer {
  const { host = 'localhost', ...rest } = headers
  const own = { host, ...rest, ...(verb !== 'GET' && { 'content-length': String(payload?.length ?? 0) }) }
  const lines = Object.entries(own).map(([name, value]) => `${name}: ${value.replace(LINES, '')}\r\n`)
  return Buffer.concat([Buffer.from(`${verb} /mcp HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'), verb === 'GET' ? Buffer.alloc(0) : payload ?? Buffer.alloc(0)])
}

/** Says all at once; gives all that came until the server closed, or nothing more came. */
async function talk (port: number, chunks: readonly Uint8Array[], patience: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  let text = ''
  let timer: NodeJS.Timeout | undefined
  socket.setEncoding('latin1')
  // A connection that breaks is what this is about.
  socket.on('error', () => {})
  await new Promise<void>(resolve => {
    // A stream that stands never ends, nor does a request that is not whole.
    const wait = (ms: number): void => {
      clearTimeout(timer)
      timer = setTimeout(resolve, ms)
    }
    socket.on('data', (chunk: string) => {
      text += chunk
      wait(QUIET)
    })
    socket.on('close', () => { resolve() })
    socket.write(Buffer.concat(chunks))
    wait(patience)
  })
  clearTimeout(timer)
  socket.destroy()
  return text
}

/** What is wrong with the responses: what is none, what holds a stack, and marks that come out of turn. */
function * read (text: string, sent: readonly Sent[]): Generator<string> {
  const order = sent.map(({ mark }) => mark)
  let last = -1
  for (const { status, head, body } of split(text)) {
    // Garbage is answered by Fastify, and in its own form.
    if (status >= 500) yield `a response with ${status}: ${body.slice(0, 300)}`
    if (/\bat [\w.<>]+ \([^)]*:\d+:\d+\)|node:internal/.test(body)) yield `a response with a stack: ${body.slice(0, 300)}`
    const marks = new Set([...`${head}${body}`.matchAll(/mk-[0-9a-f-]{36}-/g)].map(([mark]) => mark))
    // A stream that was resumed has the mark of the request which opened it.
    const own = [...marks].filter(mark => order.includes(mark))
    if (own.length > 1) yield `one response holds the marks ${own.join(', ')}`
    const at = order.indexOf(own[0] ?? '')
    if (own.length === 1 && at <= last) yield `the mark ${own[0]} comes out of turn`
    if (own.length === 1) last = at
  }
}

/** The responses on a connection; what is cut off at its end is one too. */
function * split (text: string): Generator<Response> {
  const heads = [...text.matchAll(/HTTP\/1\.1 (\d{3}) [^\r]*\r\n/g)]
  if (text !== '' && heads[0]?.index !== 0) yield { status: 599, head: '', body: text }
  for (const [index, { 0: line, 1: status, index: at }] of heads.entries()) {
    const whole = text.slice(at + line.length, heads[index + 1]?.index)
    const blank = whole.indexOf('\r\n\r\n')
    yield { status: Number(status), head: whole.slice(0, blank), body: whole.slice(blank + 4) }
  }
}
