import { homedir } from 'node:os'
import { Value } from '@sinclair/typebox/value'
import { expect, readBody, type Expected } from './model.js'
import type { Published } from './published.js'
import type { Range } from './app.js'
import type { Answer, Sent, Tokens } from './shot.js'

interface Message {
  readonly id?: unknown
  readonly method?: string
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly code: number }
}
type Era = 'modern' | 'legacy'

/** Statuses that a code may come with while no stream is open (requirements.md, 30); of 2025, 404 says that a session is gone and nothing else (LEG-21). */
const STATUSES: Readonly<Record<Era, Readonly<Record<number, readonly number[]>>>> = {
  modern: {
    [-32700]: [400],
    [-32600]: [400, 403, 405, 406, 413, 415],
    [-32601]: [404],
    [-32602]: [200, 400],
    // No callback of the range crashes, so that 500 is a fault of the package's own.
    [-32603]: [200],
    [-32020]: [400],
    [-32021]: [400],
    [-32022]: [400]
  },
  legacy: {
    [-32700]: [400],
    [-32600]: [200, 400, 403, 404, 405, 406, 413, 415],
    [-32601]: [200],
    [-32602]: [200],
    [-32603]: [200],
    [-32002]: [200]
  }
}
const STACK = /^\s*at .+:\d+:\d+\)?$|\bat [\w.<>]+ \([^)]*:\d+:\d+\)|node:internal|node_modules/m
const PATHS = [process.cwd(), `${homedir()}/`]
const MARKS = /mk-[0-9a-f-]{36}-/g

/** What a request is judged by. */
export interface Scene {
  readonly range: Range
  readonly tokens: Tokens
  readonly published: Published
  /** Requests that are under way with it. */
  readonly others: readonly Sent[]
}

/** Everything that is wrong with the answer to one request. */
export function judge ({ range, tokens, published, others }: Scene, sent: Sent, answer: Answer): string[] {
  const expected = expect(sent, tokens, published)
  const problems = [...leaks(sent, answer, tokens), ...isTwin(expected, sent, others, answer) || isCancelled(expected, sent, others, answer)
    ? []
    : fits(expected, range, published, sent,
      answer)].flatMap(found => typeof found === 'string' ? found : [...found])
  if (expected.kind === 'refused' && range.ran.has(sent.mark)) problems.push('a callback ran for what was to be refused')
  range.ran.delete(sent.mark)
  return problems.map(problem => `${problem}\n  expected ${JSON.stringify(expected)}`)
}

function * leaks ({ mark, verb, headers, payload }: Sent, { text, headers: answered }: Answer, { streams }: Tokens): Generator<string> {
  const all = `${text}\n${Object.values(answered).join('\n')}`
  // What a client said itself it may hear again.
  const said = `${payload?.toString() ?? ''}${Object.values(headers).join('\n')}`
  const stack = STACK.exec(all)?.[0]
  if (stack !== undefined && !said.includes(stack)) yield `the answer holds a stack: ${stack}`
  for (const path of PATHS) if (all.includes(path) && !said.includes(path)) yield `the answer holds the path ${path}`
  // LEG-54: a GET that goes on with a stream of its own session hears of the request that opened it.
  const resumed = verb === 'GET' ? streams.get(`${headers['mcp-session-id']} ${headers['last-event-id']?.replace(/_\d+$/, '')}`) : undefined
  for (const [found] of all.matchAll(MARKS)) if (found !== mark && found !== resumed) yield `the answer holds ${found}, the mark of another request`
}

function * fits (expected: Expected, range: Range, published: Published, sent: Sent, answer: Answer): Generator<string> {
  const { status, text, headers } = answer
  if (status === 202 || status === 204) {
    if (text !== '') yield `${status} with a body`
    if (expected.kind !== 'accepted' && !(expected.kind === 'open' && expected.statuses.includes(status))) yield `${status}`
    return
  }
  if (!answer.ended && (expected.kind === 'refused' || (expected.kind === 'served' && expected.method !== 'subscriptions/listen'))) yield 'the answer did not end'
  const messages = [...read(answer)]
  if (messages.includes(undefined)) return yield `the answer is no JSON-RPC: ${headers['content-type']} ${text.slice(0, 500)}`
  const heard = messages as readonly Message[]
  const eras = erasOf(expected, sent)
  const method = expected.kind === 'served' ? expected.method : undefined
  for (const message of heard) {
    const problems = eras.map(era => published.problem(era, message, 'id' in message ? method : undefined))
    if (!problems.includes(undefined)) yield `${JSON.stringify(message).slice(0, 1_000)} ${problems.join(', ')}`
  }
  // What is on a stream, or in a batch, has no status of its own.
  for (const { error } of isStream(answer) || isBatch(sent) ? [] : heard) {
    if (error !== undefined && !eras.some(era => STATUSES[era][error.code]?.includes(status))) yield `${error.code} with status ${status}`
  }
  yield * asExpected(expected, heard, answer)
  yield * ids(expected, heard, sent)
  if (expected.kind === 'served') yield * toolAnswer(range, sent, heard)
}

function * asExpected (expected: Expected, messages: readonly Message[], { status }: Answer): Generator<string> {
  const last = messages.findLast(message => message.method === undefined)
  switch (expected.kind) {
    case 'refused':
      if (status !== expected.status || last?.error?.code !== expected.code) yield `${status}, ${last?.error?.code}`
      break
    case 'open':
      if (!expected.statuses.includes(status)) yield `${status}`
      break
    case 'accepted':
      yield `${status} instead of ${expected.status}`
      break
    case 'stream':
      if (status !== 200 || last !== undefined) yield `${status} with ${JSON.stringify(last)}`
      break
    case 'served': {
      const { outcome, method } = expected
      const after = [-32020, -32021].includes(last?.error?.code ?? 0)
      if (status !== 200 && !(status === 400 && after)) yield `${status}, ${last?.error?.code}`
      if (method === 'subscriptions/listen') return
      if (last === undefined) return yield 'no answer'
      if (outcome === 'result' && last.result === undefined) yield `${last.error?.code} instead of a result`
      if (typeof outcome === 'number' && last.error?.code !== outcome) yield `${last.error?.code ?? 'a result'} instead of ${outcome}`
    }
  }
}

/** An answer has the id of its request, if that can be read. */
function * ids (expected: Expected, messages: readonly Message[], sent: Sent): Generator<string> {
  const read = readBody(sent)
  if (sent.verb !== 'POST' || !('body' in read) || Array.isArray(read.body) || expected.kind === 'open') return
  const sentId = (read.body as { readonly id?: unknown } | null | undefined)?.id
  const readable = (typeof sentId === 'string' || Number.isSafeInteger(sentId)) && !(expected.kind === 'refused' && expected.status === 403)
  for (const { id, method } of messages) {
    if (method === undefined && id !== (readable ? sentId : undefined)) yield `an answer with the id ${JSON.stringify(id)} instead of ${JSON.stringify(sentId)}`
  }
}

/** A generated tool runs for the arguments that fit its schema, and for no others. */
function * toolAnswer ({ schemas }: Range, sent: Sent, messages: readonly Message[]): Generator<string> {
  const read = readBody(sent)
  const body = 'body' in read ? read.body : undefined
  const { params } = body as { readonly params?: { readonly name?: string, readonly arguments?: unknown } } ?? {}
  const schema = schemas[Number(/^generated(\d+)$/.exec(String(params?.name))?.[1] ?? -1)]
  const result = messages.find(message => message.result !== undefined)?.result
  if (schema === undefined || result === undefined) return
  const given = params?.arguments ?? {}
  // A length is in characters; TypeBox counts an astral one twice.
  const fits = Value.Check(schema, JSON.parse(JSON.stringify(given).replace(/[\u{10000}-\u{10ffff}]/gu, 'é')))
  const what = fits ? 'fit were refused' : 'do not fit were taken'
  if (fits === (result['isError'] === true)) yield `arguments that ${what}: ${JSON.stringify({ schema, given, result })}`
  const { args } = (result['structuredContent'] ?? {}) as { readonly args?: unknown }
  if (fits && args !== undefined && !Value.Equal(args, given)) yield `arguments were changed: ${JSON.stringify({ args, given })}`
}

function * read (answer: Answer): Generator<Message | undefined> {
  const { text, headers } = answer
  const type = headers['content-type'] ?? ''
  if (isStream(answer)) {
    for (const block of text.split('\n\n')) {
      // Lines end with a line feed, and with nothing else that is a line's end elsewhere.
      const lines = block.split('\n').filter(line => line !== '' && !line.startsWith(':'))
      const data = lines.filter(line => line.startsWith('data: '))
      if (data.length > 1 || lines.some(line => !/^(?:id|retry|data): /.test(line))) yield undefined
      else if (data[0] !== undefined && data[0] !== 'data: ') yield parse(data[0].slice(6))
    }
  } else if (/^application\/json(?:;|$)/.test(type)) {
    const message = parseJson(text)
    for (const one of Array.isArray(message) ? message : [message]) yield isMessage(one) ? one : undefined
  } else {
    yield undefined
  }
}

function isStream ({ headers }: Answer): boolean {
  return /^text\/event-stream(?:;|$)/.test(headers['content-type'] ?? '')
}

function parse (text: string): Message | undefined {
  const message = parseJson(text)
  return isMessage(message) ? message : undefined
}

function parseJson (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isMessage (value: unknown): value is Message {
  return typeof value === 'object' && value !== null && (value as { readonly jsonrpc?: unknown }).jsonrpc === '2.0'
}

/** The eras that an answer may be of: one, unless it is open what the body is taken for. */
function erasOf (expected: Expected, sent: Sent): readonly Era[] {
  if (expected.kind === 'open') return ['modern', 'legacy']
  if (expected.kind === 'served') return [expected.version === '2026-07-28' ? 'modern' : 'legacy']
  return [expected.kind === 'stream' || isOfSession(sent) ? 'legacy' : 'modern']
}

/** What has a session, or would, is answered as the 2025 revisions are. */
function isOfSession (sent: Sent): boolean {
  const read = readBody(sent)
  if (sent.verb !== 'POST') return true
  const { params } = ('body' in read ? read.body : undefined) as { readonly params?: { readonly _meta?: object } } ?? {}
  return sent.headers['mcp-session-id'] !== undefined && !Object.keys(params?._meta ?? {}).some(key => key.startsWith('io.modelcontextprotocol/'))
}

/** LEG-44: one of two requests with the same id that run at a time in a session is refused. */
function isTwin (expected: Expected, sent: Sent, others: readonly Sent[], { status, text }: Answer): boolean {
  if (expected.kind !== 'served' || expected.version === '2026-07-28' || !(status === 400 || isBatch(sent)) || !text.includes('still runs')) return false
  return isBatch(sent) || others.some(other => other !== sent && other.headers['mcp-session-id'] === sent.headers['mcp-session-id'])
}

/** Another request in the session cancelled it before it was answered, which then it need not be. */
function isCancelled (expected: Expected, sent: Sent, others: readonly Sent[], answer: Answer): boolean {
  if (expected.kind !== 'served' || expected.version === '2026-07-28' || [...read(answer)].some(message => message?.method === undefined)) return false
  const ids = new Set(bodiesOf(sent).map(({ id }) => id))
  return others.some(other => other !== sent && other.headers['mcp-session-id'] === sent.headers['mcp-session-id'] &&
    bodiesOf(other).some(({ method, params }) => method === 'notifications/cancelled' && ids.has((params as { requestId?: unknown } | undefined)?.requestId)))
}

/** The messages of a request, one or a batch. */
function bodiesOf (sent: Sent): Readonly<Record<string, unknown>>[] {
  const read = readBody(sent)
  const bodies: readonly unknown[] = 'body' in read ? [read.body].flat() : []
  return bodies.filter(body => typeof body === 'object' && body !== null) as Readonly<Record<string, unknown>>[]
}

function isBatch (sent: Sent): boolean {
  const read = readBody(sent)
  return 'body' in read && Array.isArray(read.body)
}
