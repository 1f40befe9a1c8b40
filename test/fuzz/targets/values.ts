import fc from 'fast-check'
import { meta } from '../../helpers/mount.js'
import { ASK, CAN_ANSWER, LISTS, modern, USERS, VERSIONS } from '../shot.js'
import type { JsonObject } from 'fastify-gen-mcp'

/** Where a value of a JSON document stands. */
type Path = readonly (string | number)[]
export type Mutation = { readonly at: number, readonly what: 'replace' | 'remove' | 'add' | 'wrap', readonly value: unknown, readonly key: string }

/** Keys that code which is careless with objects trips over. */
export const key = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'toJSON', 'hasOwnProperty', 'then', '_meta', 'params', 'id', 'method',
    'jsonrpc', 'result', 'error', '', '0', 'length',
    'io.modelcontextprotocol/protocolVersion', 'io.modelcontextprotocol/clientCapabilities', 'io.modelcontextprotocol/logLevel',
    'io.modelcontextprotocol/clientInfo', 'progressToken', 'traceparent',
    'requestState', 'inputResponses', 'cursor', 'name', 'uri', 'arguments', 'notifications', 'task'),
  fc.string({ maxLength: 6 })
)

export const text = fc.oneof(
  fc.string({ maxLength: 12 }), fc.string({ unit: 'binary', maxLength: 8 }), fc.string({ unit: 'grapheme', maxLength: 6 }),
  fc.constantFrom('', ' ', '\0', '\n', '\r\n\r\n', '\ud800', '\udc00x', '\u2028', '\ufeff', '=?base64?YQ==?=', '../..', '%00', '%2e%2e', '{{x}}',
    '2026-07-28', '2025-11-25', 'a'.repeat(5_000), '@@mark@@')
)

const scalar = fc.oneof(
  text, fc.integer(), fc.double(), fc.constantFrom(null, true, false, 0, -0, -1, 1.5, 2 ** 53, 2 ** 53 - 1, -(2 ** 53), 1e308, 1e21, 1e-7)
)

const zeros = Array.from({ length: 300 }, () => 0)

/** Any JSON. */
export const value: fc.Arbitrary<unknown> = fc.oneof(
  { arbitrary: scalar, weight: 5 },
  { arbitrary: fc.constantFrom<unknown[]>([], {}, [[]], [{}], { constructor: { prototype: { polluted: 1 } } }, { toJSON: 1 }, { then: 1 }, { length: 1e9 }, zeros), weight: 2 },
  { arbitrary: fc.array(scalar, { maxLength: 4 }), weight: 1 },
  { arbitrary: fc.dictionary(key, scalar, { maxKeys: 4, noNullPrototype: true }), weight: 2 },
  { arbitrary: fc.jsonValue({ maxDepth: 3 }), weight: 1 }
)

export const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.nat(40), what: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'remove', 'add', 'wrap'), value, key
})

/** A document with one thing changed somewhere. */
export function mutate (document: unknown, { at, what, value, key }: Mutation): unknown {
  const paths = [...pathsOf(document)]
  return change(document, paths[at % paths.length] ?? [], what, value, key)
}

function * pathsOf (value: unknown, path: Path = []): Generator<Path> {
  yield path
  if (typeof value === 'object' && value !== null) for (const [key, inner] of Object.entries(value)) yield * pathsOf(inner, [...path, key])
}

function change (document: unknown, [step, ...rest]: Path, what: Mutation['what'], value: unknown, key: string): unknown {
  if (step === undefined) {
    return what === 'wrap'
      ? [document]
      : what === 'add' && typeof document === 'object' && document !== null
        ? with_(document,
          key, value)
        : value
  }
  const copy: Record<string, unknown> | unknown[] = Array.isArray(document) ? [...document] : { ...document as Record<string, unknown> }
  const members = copy as Record<string, unknown>
  if (what === 'remove' && rest.length === 0) {
    if (Array.isArray(copy)) copy.splice(Number(step), 1)
    else delete members[step]
    return copy
  }
  return with_(copy, String(step), change(members[step], rest, what, value, key))
}

/** Even a member called `__proto__` is one of its own, as JSON has it. */
function with_ (object: object, key: string, value: unknown): object {
  const copy: object = Array.isArray(object) ? [...object] : { ...object }
  if (Array.isArray(copy) && key === 'length') return copy
  return Object.defineProperty(copy, key, { value, enumerable: true, configurable: true, writable: true })
}

// ---- requests that are right

const own: readonly (readonly [method: string, params: JsonObject])[] = [
  ['server/discover', {}],
  ...LISTS.map((method): readonly [string, JsonObject] => [method, {}]),
  ['tools/list', { cursor: '@@cursor/tools/list/undefined@@' }],
  ['tools/call', { name: 'echo', arguments: { text: '@@mark@@' } }],
  ['tools/call', { name: 'steps' }],
  ['tools/call', { name: 'param', arguments: { region: 'eu', count: 3, deep: { flag: true } } }],
  ['tools/call', ASK],
  ['tools/call', { ...ASK, requestState: '@@state/undefined@@', inputResponses: { sure: { action: 'accept', content: { sure: true } } } }],
  ['tools/call', { name: 'generated0', arguments: {} }],
  ['resources/read', { uri: 'file:///red/a/b' }],
  ['resources/read', { uri: 'mem://item/1' }],
  ['prompts/get', { name: 'paint', arguments: { color: 'red' } }],
  ['prompts/get', { name: 'store/a', arguments: { x: '@@mark@@' } }],
  ['completion/complete', { ref: { type: 'ref/prompt', name: 'paint' }, argument: { name: 'color', value: 'gr' }, context: { arguments: { size: '1' } } }],
  ['completion/complete', { ref: { type: 'ref/resource', uri: 'file:///{dir}/{+path}' }, argument: { name: 'dir', value: '' } }]
]
const ownOfModern: typeof own = [['subscriptions/listen', { notifications: { toolsListChanged: true, resourceSubscriptions: ['mem://item/1'] } }]]
const ownOfLegacy: typeof own = [
  ['ping', {}], ['logging/setLevel', { level: 'info' }], ['resources/subscribe', { uri: 'mem://item/1' }], ['resources/unsubscribe', { uri: 'mem://item/1' }],
  ['initialize', { protocolVersion: '2025-11-25', capabilities: { elicitation: {}, sampling: {} }, clientInfo: { name: 'c', version: '1' } }]
]
const notifications: readonly { readonly jsonrpc: string, readonly method?: string, readonly params?: object, readonly [member: string]: unknown }[] = [
  { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, reason: 'none' } }, { jsonrpc: '2.0', method: 'notifications/initialized' },
  { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } },
  { jsonrpc: '2.0', id: 'x', result: {} }, { jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } }
]

interface Base { readonly body: unknown, readonly headers: Readonly<Record<string, string>> }

const requests = [...own, ...ownOfModern].map(([method, params]): Base => {
  const { body, headers } = modern(method, params)
  return { body, headers: { ...headers, ...(params['name'] === 'param' && { 'mcp-param-region': 'eu', 'mcp-param-count': '3', 'mcp-param-flag': 'true' }) } }
})
const told = notifications.map(({ params, ...rest }): Base => ({
  body: { ...rest, params: { _meta: meta(CAN_ANSWER), ...params } }, headers: { ...modern('x').headers, 'mcp-method': rest.method ?? 'x' }
}))

export const modernBase = fc.constantFrom(...requests, ...told)

export const legacyBody = fc.constantFrom<unknown[]>(...[...own,
  ...ownOfLegacy].map(([method, params]) => ({ jsonrpc: '2.0', id: 1, method, params })), ...notifications)

export const user = fc.constantFrom(...USERS)
export const version = fc.constantFrom(...VERSIONS)

/** A token of the range, as it is or with edits. */
export function token (name: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const edit = fc.tuple(fc.constantFrom('flip', 'cut', 'drop', 'add', 'pad', 'twice'), fc.nat(400)).map(([kind, at]) => `|${kind}:${at}`)
  return fc.oneof(
    { arbitrary: name.map(name => `@@${name}@@`), weight: 2 },
    { arbitrary: fc.tuple(name, fc.array(edit, { minLength: 1, maxLength: 2 })).map(([name, edits]) => `@@${name}${edits.join('')}@@`), weight: 4 },
    { arbitrary: fc.base64String({ maxLength: 120 }), weight: 1 },
    { arbitrary: text, weight: 1 }
  )
}
