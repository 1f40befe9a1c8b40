import { randomUUID } from 'node:crypto'
import { MARK, USER, type Range } from './app.js'
import { meta } from '../helpers/mount.js'
import { composeHeaders } from '../../lib/testing/message.js'
import type { LegacyVersion } from 'fastify-gen-mcp/legacy'
import type { JsonObject } from 'fastify-gen-mcp'

/** One HTTP request as it is drawn; `@@name@@` in it stands for a token of the range, with edits: `@@session/2025-11-25/alice|flip:3@@`. */
export interface Shot {
  readonly verb: 'POST' | 'GET' | 'DELETE'
  readonly headers: Readonly<Record<string, string>>
  readonly payload?: string | Uint8Array
}

/** What was sent, with tokens filled in. */
export interface Sent {
  readonly verb: Shot['verb']
  readonly headers: Readonly<Record<string, string>>
  readonly payload: Buffer | undefined
  readonly mark: string
}

/** What came back. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** It ended by itself; a stream that stands is left. */
  readonly ended: boolean
}

/** Tokens that the range gave out, by what they are. */
export interface Tokens {
  readonly values: ReadonlyMap<string, string>
  readonly sessions: ReadonlyMap<string, { readonly version: LegacyVersion, readonly user: string | undefined }>
  readonly cursors: ReadonlyMap<string, { readonly method: string, readonly user: string | undefined }>
  readonly states: ReadonlySet<string>
  /** The mark of the request that opened a stream, by session and name of the stream. */
  readonly streams: ReadonlyMap<string, string>
}

export const VERSIONS: readonly LegacyVersion[] = ['2025-11-25', '2025-06-18', '2025-03-26']
export const USERS = [undefined, 'alice', 'bob'] as const
export const LISTS = ['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'] as const
/** The call that the request states belong to. */
export const ASK = { name: 'ask', arguments: { text: 'x' } } as const
export const CAN_ANSWER = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } }
/** An answer has to come within this, in ms. */
const LIMIT = 2_000

/** A request of 2026-07-28 with all that belongs to it. */
export function modern (method: string, params: JsonObject = {}, id: unknown = 1): Shot & { readonly body: Record<string, unknown> } {
  const body = { jsonrpc: '2.0', id, method, params: { ...params, _meta: meta(CAN_ANSWER) } }
  return { verb: 'POST', headers: composeHeaders(method, params), payload: JSON.stringify(body), body }
}

/** What every POST of a 2025 client has. */
export function legacyHeaders (version: LegacyVersion, user?: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-session-id': `@@session/${version}/${user}@@`,
    ...(version !== '2025-03-26' && { 'mcp-protocol-version': version }),
    ...(user !== undefined && { [USER]: user })
  }
}

/** A request of a session. */
export function legacy (version: LegacyVersion, user: string | undefined, method: string, params: JsonObject = {}): Shot {
  return { verb: 'POST', headers: legacyHeaders(version, user), payload: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) }
}

/** Fills in the tokens, and gives the shot a mark of its own. */
export function load (shot: Shot, { values }: Tokens): Sent {
  const mark = `mk-${randomUUID()}-`
  const fill = (text: string): string => text.replace(/@@([^@|]+)((?:\|\w+:\d+)*)@@/g, (whole, name: string, edits: string) => {
    if (name === 'mark') return mark
    const token = values.get(name)
    return token === undefined ? whole : edit(token, edits)
  })
  const { verb, headers, payload } = shot
  return {
    verb,
    headers: { ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, fill(value)])), [MARK]: mark },
    payload: payload === undefined ? undefined : typeof payload === 'string' ? Buffer.from(fill(payload)) : Buffer.from(payload),
    mark
  }
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

function edit (token: string, edits: string): string {
  for (const [, kind, number] of edits.matchAll(/\|(\w+):(\d+)/g)) {
    const at = Number(number) % Math.max(1, token.length)
    if (kind === 'cut') token = token.slice(0, at)
    else if (kind === 'drop') token = token.slice(0, at) + token.slice(at + 1)
    else if (kind === 'add') token += ALPHABET[at % ALPHABET.length]
    else if (kind === 'pad') token += '='
    else if (kind === 'twice') token += token
    else token = token.slice(0, at) + another(token[at], Number(number)) + token.slice(at + 1)
  }
  return token
}

function another (character = 'A', by: number): string {
  return ALPHABET[(ALPHABET.indexOf(character) + 1 + by % 62) % ALPHABET.length] ?? ''
}

/** Fires a shot through `inject`; rejects if there is no whole answer in time. */
export async function fire ({ app }: Range, { verb, headers, payload }: Sent): Promise<Answer> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => { timer = setTimeout(() => { reject(new Error(`No answer within ${LIMIT} ms`)) }, LIMIT) })
  try {
    return await Promise.race([late, (async () => {
      const response = await app.inject({ method: verb, url: '/mcp', headers, ...(payload !== undefined && { payload }), payloadAsStream: true })
      const stands = verb === 'GET' && response.statusCode === 200 && !/^[\w-]{22}_/.test(headers['last-event-id'] ?? '')
      let text = ''
      const ended = await new Promise<boolean>(resolve => {
        const stream = response.stream().setEncoding('utf8')
        const leave = (): void => {
          resolve(false)
          response.raw.res.destroy()
        }
        stream.on('data', (chunk: string) => {
          text += chunk
          if (text.includes('notifications/subscriptions/acknowledged') && text.endsWith('\n\n')) leave()
        })
        stream.on('error', () => { resolve(false) })
        stream.on('end', () => { resolve(true) })
        if (stands) setImmediate(leave)
      })
      return { status: response.statusCode, headers: response.headers as Record<string, string>, text, ended }
    })()])
  } finally {
    clearTimeout(timer)
  }
}

/** Has the range give out one token of each kind. */
export async function collectTokens (range: Range): Promise<Tokens> {
  const values = new Map<string, string>()
  const sessions = new Map<string, { version: LegacyVersion, user: string | undefined }>()
  const cursors = new Map<string, { method: string, user: string | undefined }>()
  const states = new Set<string>()
  const streams = new Map<string, string>()
  const tokens: Tokens = { values, sessions, cursors, states, streams }
  const ask = async (shot: Shot, user?: string): Promise<Answer> => {
    return await fire(range, load({ ...shot, headers: { ...shot.headers, ...(user !== undefined && { [USER]: user }) } }, tokens))
  }

  for (const user of USERS) {
    for (const method of LISTS) {
      const { result } = JSON.parse((await ask(modern(method), user)).text) as { result: { nextCursor: string } }
      values.set(`cursor/${method}/${user}`, result.nextCursor)
      cursors.set(result.nextCursor, { method, user })
    }
    const asked = JSON.parse((await ask(modern('tools/call', ASK), user)).text) as { result: { requestState: string } }
    values.set(`state/${user}`, asked.result.requestState)
    states.add(stateOf(user, asked.result.requestState))
    for (const version of VERSIONS) {
      const id = await openSession(range, version, user)
      values.set(`session/${version}/${user}`, id)
      sessions.set(id, { version, user })
      const call = load(legacy(version, user, 'tools/call', { name: 'steps' }), tokens)
      const [, event = '', stream] = /^id: ((.*)_\d+)$/m.exec((await fire(range, call)).text) ?? []
      values.set(`event/${version}/${user}`, event)
      streams.set(`${id} ${stream}`, call.mark)
    }
  }
  const over = await openSession(range, '2025-11-25', undefined)
  await range.app.inject({ method: 'DELETE', url: '/mcp', headers: { 'mcp-session-id': over } })
  values.set('session/over', over)
  return tokens
}

/** A request state and whose it is; nobody is not whoever is called `undefined`. */
export function stateOf (user: string | undefined, state: string): string {
  return JSON.stringify([user ?? null, state])
}

export async function openSession ({ app }: Range, version: LegacyVersion, user: string | undefined): Promise<string> {
  const { headers: { accept } } = modern('ping')
  const params = { protocolVersion: version, capabilities: { elicitation: {} }, clientInfo: { name: 'fuzz', version: '1' } }
  const { headers } = await app.inject({
    method: 'POST',
    url: '/mcp',
    headers: { 'content-type': 'application/json', accept: accept as string, ...(user !== undefined && { [USER]: user }) },
    payload: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  })
  return `${headers['mcp-session-id']?.toString()}`
}
