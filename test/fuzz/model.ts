import { isUtf8 } from 'node:buffer'
import { BODY_LIMIT, PARAMS, USER } from './app.js'
import { LISTS, stateOf, type Sent, type Tokens } from './shot.js'
import type { Published } from './published.js'
import type { LegacyVersion } from 'fastify-gen-mcp/legacy'

/** What must come of a request, by the specification and by nothing of lib. */
export type Expected =
  | { readonly kind: 'refused', readonly status: number, readonly code: number }
  /** Either is right: where the specification leaves it open, or what decides lies in Fastify. */
  | { readonly kind: 'open', readonly statuses: readonly number[] }
  | { readonly kind: 'accepted', readonly status: 202 | 204 }
  /** A callback may run, and answers. `error`: what it must be, if that is known; `method` is undefined for the answers of a batch. */
  | { readonly kind: 'served', readonly version: LegacyVersion | '2026-07-28', readonly method: string | undefined, readonly outcome: 'any' | 'result' | number }
  | { readonly kind: 'stream', readonly version: LegacyVersion }

type Json = Record<string, unknown>

const META = 'io.modelcontextprotocol/'
const REVISION = '2026-07-28'
const OLD = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']
const NAMED: Readonly<Record<string, string>> = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' }
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']
const MAX_DEPTH = 256
const MAX_BATCH = 100

const refused = (status: number, code: number): Expected => ({ kind: 'refused', status, code })
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
const isId = (id: unknown): id is string | number => typeof id === 'string' || Number.isSafeInteger(id)
const trim = (value: string): string => value.replace(/^[ \t]+/, '').replace(/[ \t]+$/, '')

/** The order of requirements.md, 31, with the eras of 31.1. */
export function expect (sent: Sent, tokens: Tokens, published: Published): Expected {
  const { verb, headers } = sent
  const { origin, host } = headers
  if (host !== undefined && host !== '' && !/^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d*)?$/i.test(host)) return refused(403, -32600)
  // Ports that go without saying are not part of a serialised origin.
  if (origin !== undefined && !isLoopback(origin)) return refused(403, -32600)
  if (verb === 'GET') return expectStream(sent, tokens)

  const read = readBody(sent)
  if ('expected' in read) return read.expected
  const { body } = read
  if (verb === 'DELETE') return enter(headers, tokens).refusal ?? { kind: 'accepted', status: 204 }
  if (body === undefined) return refused(400, -32700)
  return isLegacy(body, headers) ? expectLegacy(body, sent, tokens, published) : expectModern(body, sent, tokens, published)
}

function isLoopback (origin: string): boolean {
  const [, scheme = '', port] = /^([a-z]+):\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::([1-9]\d{0,4}))?$/.exec(origin) ?? []
  const usual: Readonly<Record<string, string>> = { http: '80', https: '443', ws: '80', wss: '443', ftp: '21' }
  return scheme in usual && port !== usual[scheme] && Number(port ?? 0) < 65536
}

type Body = { readonly body: unknown } | { readonly expected: Expected }

const bodies = new WeakMap<Sent, Body>()

/** The body as whoever is behind the parser sees it. */
export function readBody (sent: Sent): Body {
  const body = bodies.get(sent) ?? parseBody(sent)
  bodies.set(sent, body)
  return body
}

function parseBody ({ verb, headers, payload }: Sent): Body {
  const type = headers['content-type']
  const empty = payload === undefined || payload.length === 0
  if (type === undefined) return empty ? { body: undefined } : { expected: refused(415, -32600) }
  // Without a body Fastify reads no type of a DELETE, and of a POST only one that it knows.
  if (!/^application\/json[ \t]*(?:;.*)?$/i.test(trim(type))) return { expected: empty ? { kind: 'open', statuses: [400, 404, 415, 204] } : refused(415, -32600) }
  // How parameters may look is Fastify's to say.
  const plain = /^application\/json(?:; ?charset=utf-8)?$/i.test(type)
  const result = readJson(verb, headers, payload ?? Buffer.alloc(0))
  if (plain) return result
  return { expected: { kind: 'open', statuses: [200, 202, 204, 400, 404, 406, 413, 415] } }
}

function readJson (verb: Sent['verb'], headers: Sent['headers'], payload: Buffer): Body {
  if (payload.length > BODY_LIMIT) return { expected: refused(413, -32600) }
  if (payload.length === 0 && verb === 'DELETE') return { body: undefined }
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity') {
    return { expected: payload.length === 0 ? { kind: 'open', statuses: [400, 415] } : refused(415, -32600) }
  }
  if (payload.length === 0 || !isUtf8(payload)) return { expected: refused(400, -32700) }
  const text = payload.toString().replace(/^\uFEFF/, '')
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    // What is too deep is refused unread.
    return { expected: depthOf(text) > MAX_DEPTH ? { kind: 'open', statuses: [400] } : refused(400, -32700) }
  }
  if (depthOf(text) > MAX_DEPTH) return { expected: refused(400, -32600) }
  return { body: withoutPrototypes(body) }
}

function depthOf (text: string): number {
  let depth = 0
  let deepest = 0
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"?|[[{]|[\]}]/gs)) {
    if (token === '[' || token === '{') deepest = Math.max(deepest, ++depth)
    else if (token === ']' || token === '}') depth--
  }
  return deepest
}

/** Keys that would change a prototype are not there. */
function withoutPrototypes (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPrototypes)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value)
    .filter(([key, inner]) => key !== '__proto__' && !(key === 'constructor' && typeof inner === 'object' && inner !== null && Object.hasOwn(inner,
      'prototype')))
    .map(([key, inner]) => [key, withoutPrototypes(inner)]))
}

function isLegacy (body: unknown, headers: Sent['headers']): boolean {
  if (typeof body !== 'object' || body === null) return false
  const params = isObject(body) ? body['params'] : undefined
  const meta = isObject(params) ? params['_meta'] : undefined
  if (isObject(meta) && (`${META}protocolVersion` in meta || `${META}clientCapabilities` in meta)) return false
  const version = headers['mcp-protocol-version'] === undefined ? undefined : trim(headers['mcp-protocol-version'])
  if (headers['mcp-session-id'] !== undefined) return true
  // LEG-05: it may open with initialize and a revision of the future.
  if (version !== undefined && !OLD.includes(version)) return isObject(body) && body['method'] === 'initialize' && version !== REVISION
  return version !== undefined || !isObject(body) || body['id'] !== undefined
}

function takes (accept: string | undefined): { readonly json: boolean, readonly sse: boolean } {
  const ranges = new Map<string, boolean>()
  for (const part of accept?.toLowerCase().split(',') ?? []) {
    const [type = '', ...rest] = part.split(';').map(text => text.trim())
    if (type.includes('/')) ranges.set(type, !rest.some(parameter => /^q=0(\.0*)?$/.test(parameter)))
  }
  if (ranges.size === 0) return { json: true, sse: true }
  const of = (...names: string[]): boolean => names.map(name => ranges.get(name)).find(taken => taken !== undefined) ?? false
  return { json: of('application/json', 'application/*', '*/*'), sse: of('text/event-stream', 'text/*', '*/*') }
}

// ---- 2026-07-28

function expectModern (body: unknown, sent: Sent, tokens: Tokens, published: Published): Expected {
  const { headers } = sent
  if (!isObject(body) || body['jsonrpc'] !== '2.0' || typeof body['method'] !== 'string') return refused(400, -32600)
  const { id, method, params } = body
  if (id === undefined) return expectNotification(method, params, headers)
  if (!isId(id)) return refused(400, -32600)

  const meta = isObject(params) ? params['_meta'] : undefined
  if (!isObject(params) || !isObject(meta)) return refused(400, -32602)
  const version = meta[`${META}protocolVersion`]
  if (typeof version !== 'string') return refused(400, -32602)
  if (trim(headers['mcp-protocol-version'] ?? '\0') !== version && headers['mcp-protocol-version'] !== version) return refused(400, -32020)
  if (version !== REVISION) return refused(400, -32022)
  if (!isObject(meta[`${META}clientCapabilities`]) || !fitsMeta(meta)) return refused(400, -32602)
  if (headers['mcp-method'] !== method && trim(headers['mcp-method'] ?? '\0') !== method) return refused(400, -32020)
  if (!published.isRequest(method)) return refused(404, -32601)
  const name = params[NAMED[method] ?? '\0']
  if (typeof name === 'string' && (headers['mcp-name'] === undefined || decode(headers['mcp-name']) !== name)) return refused(400, -32020)
  if (!published.fitsParams(method, params)) return refused(200, -32602)
  const { requestState } = params
  const asks = method in NAMED
  if (asks && typeof requestState === 'string' && !isState(requestState, params, headers, tokens)) return refused(200, -32602)
  const { json, sse } = takes(headers.accept)
  if (!sse && (method === 'subscriptions/listen' || !json)) return refused(406, -32600)
  return { kind: 'served', version: REVISION, method, outcome: outcomeOf(method, params, headers, tokens, REVISION) }
}

function fitsMeta (meta: Json): boolean {
  const level = meta[`${META}logLevel`]
  return (meta['progressToken'] === undefined || isId(meta['progressToken'])) && (level === undefined || LEVELS.includes(level as string))
}

function expectNotification (method: string, params: unknown, headers: Sent['headers']): Expected {
  const meta = isObject(params) ? params['_meta'] : undefined
  const claimed = isObject(meta) ? meta[`${META}protocolVersion`] : undefined
  const header = headers['mcp-protocol-version']
  if (header !== undefined && typeof claimed === 'string' && trim(header) !== claimed && header !== claimed) return refused(400, -32020)
  const version = typeof claimed === 'string' ? claimed : header === undefined ? undefined : trim(header)
  if (version !== undefined && version !== REVISION) return refused(400, -32022)
  const said = headers['mcp-method']
  if (said !== undefined && said !== method && trim(said) !== method) return refused(400, -32020)
  if (method !== 'notifications/cancelled') return { kind: 'accepted', status: 202 }
  if (!isObject(params) || !isId(params['requestId']) || !['string', 'undefined'].includes(typeof params['reason'])) return refused(400, -32602)
  return isObject(meta) && !fitsMeta(meta) ? refused(400, -32602) : { kind: 'accepted', status: 202 }
}

/** The text of a header value; undefined for what is malformed. */
export function decode (header: string): string | undefined {
  const text = trim(header)
  if (!/^[\t -~]*$/.test(text)) return undefined
  const encoded = /^=\?base64\?(.*)\?=$/.exec(text)?.[1]
  if (encoded === undefined) return text
  if (encoded.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(encoded)) return undefined
  try {
    const decoded = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(encoded, 'base64'))
    return Buffer.from(decoded).toString('base64') === encoded ? decoded : undefined
  } catch {
    return undefined
  }
}

function isState (state: string, params: Json, headers: Sent['headers'], { states }: Tokens): boolean {
  return states.has(stateOf(headers[USER], state)) && params['name'] === 'ask' && JSON.stringify(params['arguments']) === '{"text":"x"}'
}

/** What the Suite makes of it, as far as that is known without it. */
function outcomeOf (method: string, params: Json, headers: Sent['headers'], { cursors }: Tokens, version: string): 'any' | 'result' | number {
  const { cursor, name, arguments: args = {} } = params
  if ((LISTS as readonly string[]).includes(method)) {
    const known = typeof cursor === 'string' ? cursors.get(cursor) : undefined
    return cursor === undefined || (known?.method === method && known.user === headers[USER]) ? 'result' : -32602
  }
  if (method === 'server/discover') return 'result'
  if (method !== 'tools/call') return 'any'
  if (name === 'param') return version === REVISION && !fitsHeaders(args as Json, headers) ? -32020 : 'result'
  if (name === 'ask') return 'any'
  return typeof name === 'string' && /^(?:echo|steps|generated(?:\d|1\d|2[0-3]))$/.test(name) ? 'result' : -32602
}

function fitsHeaders (args: Json | null, headers: Sent['headers']): boolean {
  const deep = args?.['deep']
  const values = { region: args?.['region'], count: args?.['count'], flag: isObject(deep) ? deep['flag'] : undefined }
  return Object.entries(PARAMS).every(([member, header]) => {
    const value = values[member as keyof typeof PARAMS]
    const sent = headers[header.toLowerCase()]
    if (value === undefined || value === null || sent === undefined) return (value ?? undefined) === undefined && sent === undefined
    const decoded = decode(sent)
    if (typeof value === 'number') return decoded !== undefined && /^-?\d+(\.0+)?$/.test(decoded) && Number.isSafeInteger(value) && Number(decoded) === value
    return (typeof value === 'string' || typeof value === 'boolean') && decoded === String(value)
  })
}

// ---- 2025

type Entered = { readonly refusal: Expected } | { readonly refusal?: undefined, readonly version: LegacyVersion }

function enter (headers: Sent['headers'], { sessions }: Tokens): Entered {
  const id = headers['mcp-session-id']
  if (id === undefined || id === '') return { refusal: refused(400, -32600) }
  const session = sessions.get(id)
  if (session === undefined || session.user !== headers[USER]) return { refusal: refused(404, -32600) }
  const version = headers['mcp-protocol-version']
  // 2024-11-05 is none that is served.
  if (version !== undefined && !OLD.slice(0, 3).includes(trim(version))) return { refusal: refused(400, -32600) }
  return { version: session.version }
}

function expectStream ({ headers }: Sent, tokens: Tokens): Expected {
  if (!takes(headers.accept).sse) return refused(406, -32600)
  const entered = enter(headers, tokens)
  if (entered.refusal !== undefined) return entered.refusal
  const last = headers['last-event-id']
  const { version } = entered
  if (last === undefined || last === '' || /^\.[\w-]{22}_\d{1,15}$/.test(last)) return { kind: 'stream', version }
  const own = tokens.values.get(`event/${version}/${headers[USER]}`) ?? ''
  // Any place on a stream of its own that is not past its end.
  return last.split('_').slice(0, -1).join('_') === own.replace(/_\d+$/, '') ? { kind: 'open', statuses: [200, 400] } : refused(400, -32600)
}

function expectLegacy (body: unknown, sent: Sent, tokens: Tokens, published: Published): Expected {
  const { headers } = sent
  if (Array.isArray(body)) return expectBatch(body, headers, tokens)
  const kind = kindOf(body)
  // readable from here on
  if (kind === 'none') return refused(400, -32600)
  const { method, params } = body as Json
  if (kind === 'request' && method === 'initialize') return expectInitialize(params, headers, tokens)
  const entered = enter(headers, tokens)
  if (entered.refusal !== undefined) return entered.refusal
  if (kind !== 'request') return { kind: 'accepted', status: 202 }
  const { json, sse } = takes(headers.accept)
  if (!json && !sse) return refused(406, -32600)
  const { version } = entered
  return { kind: 'served', version, method: method as string, outcome: outcomeOfLegacy(method as string, params, headers, tokens, published, version) }
}

function outcomeOfLegacy (
  method: string, params: unknown, headers: Sent['headers'], tokens: Tokens, published: Published, version: LegacyVersion
): 'any' | 'result' | number {
  // JSON-RPC leaves params out; null is nearly that.
  if (params !== undefined && params !== null && !isObject(params)) return -32602
  const given = params ?? {}
  if (method === 'ping') return 'result'
  if (method === 'logging/setLevel') return LEVELS.includes((given as Json)['level'] as string) ? 'result' : -32602
  if (method === 'resources/subscribe' || method === 'resources/unsubscribe') return 'any'
  if (!published.isRequest(method) || method === 'server/discover' || method === 'subscriptions/listen') return -32601
  // The `_meta` of these revisions is looked at too.
  const meta = (given as Json)['_meta']
  if (!published.fitsParams(method, given as Json) || (isObject(meta) && !fitsMeta(meta))) return -32602
  return outcomeOf(method, given as Json, headers, tokens, version)
}

function expectInitialize (params: unknown, headers: Sent['headers'], { sessions }: Tokens): Expected {
  const session = sessions.get(headers['mcp-session-id'] ?? '')
  if (session !== undefined && session.user === headers[USER]) return refused(400, -32600)
  const { protocolVersion, capabilities, clientInfo } = isObject(params) ? params : {}
  const { name, version: clientVersion } = isObject(clientInfo) ? clientInfo : {}
  if (typeof protocolVersion !== 'string' || !isObject(capabilities) || typeof name !== 'string' || typeof clientVersion !== 'string') return refused(200, -32602)
  const { json, sse } = takes(headers.accept)
  if (!json && !sse) return refused(406, -32600)
  const version = OLD.slice(0, 3).find(known => known === protocolVersion) ?? '2025-11-25'
  const meta = isObject(params) ? params['_meta'] : undefined
  // One of the three.
  return { kind: 'served', version: version as LegacyVersion, method: 'initialize', outcome: isObject(meta) && !fitsMeta(meta) ? -32602 : 'result' }
}

function expectBatch (body: readonly unknown[], headers: Sent['headers'], tokens: Tokens): Expected {
  if (body.length === 0) return refused(400, -32600)
  const entered = enter(headers, tokens)
  if (entered.refusal !== undefined) return entered.refusal
  if (entered.version !== '2025-03-26' || body.length > MAX_BATCH) return refused(400, -32600)
  const kinds = body.map(kindOf)
  if (body.some((member, index) => kinds[index] === 'request' && (member as Json)['method'] === 'initialize')) return refused(400, -32600)
  if (!kinds.includes('request') && !kinds.includes('none')) return { kind: 'accepted', status: 202 }
  const { json, sse } = takes(headers.accept)
  if (!json && !sse) return refused(406, -32600)
  return { kind: 'served', version: entered.version, method: undefined, outcome: 'any' }
}

function kindOf (body: unknown): 'request' | 'notification' | 'response' | 'none' {
  if (!isObject(body) || body['jsonrpc'] !== '2.0') return 'none'
  const { id, method, result, error } = body
  if (method === undefined && isId(id) && (result ?? error) !== undefined && (result ?? error) !== null) return 'response'
  if (typeof method !== 'string') return 'none'
  return id === undefined ? 'notification' : isId(id) ? 'request' : 'none'
}
