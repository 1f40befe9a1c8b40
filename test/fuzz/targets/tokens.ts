import fc from 'fast-check'
import { USER } from '../app.js'
import { ASK, legacyHeaders, LISTS, modern, type Shot } from '../shot.js'
import { text, token, user, value, version } from './values.js'
import type { Target } from '../target.js'
import type { JsonObject } from 'fastify-gen-mcp'

const as = (shot: Shot, user: string | undefined): Shot => ({ ...shot, headers: { ...shot.headers, ...(user !== undefined && { [USER]: user }) } })
const list = fc.constantFrom(...LISTS)
const echo = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', arguments: { text: '@@mark@@' } } })

export const ids: Target = {
  name: 'ids',
  weight: 2,
  shot: fc.record({
    id: fc.oneof(fc.integer(), fc.constantFrom<unknown[]>(0, -0, 2 ** 53, -(2 ** 53) + 1, '', '__proto__', null, 1.5, [], {}, true), text, value),
    session: fc.option(fc.tuple(version, user), { nil: undefined }),
    method: fc.constantFrom('tools/list', 'ping', 'tools/call'),
    cancel: fc.boolean()
  }).map(({ id, session, method, cancel }) => {
    const body = cancel
      ? { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } }
      : { jsonrpc: '2.0', id, method, params: { name: 'steps', _meta: { progressToken: 1 } } }
    if (session !== undefined) return { verb: 'POST', headers: legacyHeaders(...session), payload: JSON.stringify(body) }
    const { headers, body: { params } } = modern('tools/call', { name: 'steps' })
    return cancel
      ? { verb: 'POST', headers: { ...headers, 'mcp-method': 'notifications/cancelled' }, payload: JSON.stringify(body) }
      : { verb: 'POST', headers, payload: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }) }
  })
}

export const cursors: Target = {
  name: 'cursors',
  weight: 2,
  shot: fc.record({
    asked: list, user, cursor: token(fc.tuple(list, user).map(([method, user]) => `cursor/${method}/${user}`)), session: fc.option(version, { nil: undefined })
  }).map(({ asked, user, cursor, session }) => session === undefined
    ? as(modern(asked, { cursor }), user)
    : { verb: 'POST', headers: legacyHeaders(session, user), payload: JSON.stringify({ jsonrpc: '2.0', id: 1, method: asked, params: { cursor } }) })
}

export const requestStates: Target = {
  name: 'request states',
  weight: 2,
  shot: fc.record({
    user,
    requestState: token(user.map(user => `state/${user}`)),
    inputResponses: fc.oneof(
      fc.constantFrom<unknown[]>({ sure: { action: 'accept', content: { sure: true } } }, { sure: { action: 'decline' } },
        { sure: { action: 'accept' } }, { other: {} }, {}, null),
      fc.dictionary(fc.constantFrom('sure', '__proto__', 'x'), value, { noNullPrototype: true }), value
    ),
    params: fc.constantFrom<JsonObject[]>(ASK, ASK, ASK, { name: 'ask', arguments: { text: 'y' } }, { name: 'echo', arguments: { text: 'x' } })
  }).map(({ user, requestState, inputResponses, params }) => as(modern('tools/call',
    { ...params, requestState, inputResponses: inputResponses as JsonObject }), user))
}

export const sessions: Target = {
  name: 'session ids',
  weight: 2,
  shot: fc.record({
    verb: fc.constantFrom<Shot['verb'][]>('POST', 'POST', 'GET', 'DELETE'),
    id: fc.oneof({ arbitrary: token(fc.tuple(version, user).map(([version, user]) => `session/${version}/${user}`)), weight: 6 },
      { arbitrary: fc.constant('@@session/over@@'), weight: 1 }),
    version,
    user
  }).map(({ verb, id, version, user }) => ({
    verb,
    headers: { ...legacyHeaders(version, user), 'mcp-session-id': id.replace(/[\r\n\0]/g, '') },
    ...(verb === 'POST' && { payload: echo })
  }))
}

const madeUp = fc.record({
  dot: fc.constantFrom('', '.', '..'),
  stream: fc.base64String({ minLength: 20, maxLength: 24 }),
  seq: fc.oneof(fc.nat().map(String), fc.constantFrom('', '-1', '1e3', '0'.repeat(16), '9'.repeat(15)))
}).map(({ dot, stream, seq }) => `${dot}${stream}_${seq}`)

export const eventIds: Target = {
  name: 'event ids',
  weight: 2,
  shot: fc.record({
    event: fc.oneof(
      { arbitrary: token(fc.tuple(version, user).map(([version, user]) => `event/${version}/${user}`)), weight: 4 },
      { arbitrary: madeUp, weight: 2 }
    ),
    version,
    user,
    verb: fc.constantFrom<Shot['verb'][]>('GET', 'GET', 'GET', 'POST')
  }).map(({ event, version, user, verb }) => ({
    verb,
    headers: { ...legacyHeaders(version, user), 'last-event-id': event.replace(/[\r\n\0]/g, '') },
    ...(verb === 'POST' && { payload: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }) })
  }))
}
