import fc from 'fast-check'
import { legacyHeaders, modern } from '../shot.js'
import { text, user, version } from './values.js'
import type { Target } from '../target.js'

const marks = [
  '/', '//', '?', '#', '&', '=', ';', ',', '.', '..', '%', '%2F', '%2f', '%25', '%2e%2e', '%zz', '%E0%80', '%00', '\0', '{', '}', '+', ':', '@', ' ', '\\', '-', 'a',
  'b*', 'é', '😀', '\ud800'
]
const piece = fc.oneof(
  { arbitrary: fc.constantFrom(...marks), weight: 4 },
  { arbitrary: text, weight: 1 },
  { arbitrary: fc.constantFrom('a=1', 'fields=x', 'limit=10', 'limit=999', 'c=', ';a=1', ';b=2', '__proto__=1', 'rows', 'item'), weight: 2 }
)
const beginning = fc.constantFrom('file:///', 'db://t/rows/', 'db://t/rows/1?', 'tree:', 'dots:', 'pairs:x', 'wide:', 'mem://item/', 'mem:', 'FILE:///',
  'http://x/', '')
const pieces = fc.array(piece, { maxLength: 10 }).map(pieces => pieces.join(''))
/** The same again and again, up to what is too long. */
const long = fc.tuple(fc.constantFrom(',', '/', ';a=1', '.', 'fields=a&', '%41', '-', '%', 'é'), fc.nat(9_000))
  .map(([piece, length]) => piece.repeat(Math.ceil(length / piece.length)))
const uri = fc.oneof(
  { arbitrary: fc.tuple(beginning, pieces).map(parts => parts.join('')), weight: 6 },
  { arbitrary: fc.tuple(beginning, long).map(parts => parts.join('')), weight: 1 },
  { arbitrary: text, weight: 1 }
)

/** URIs of resources, read and completed, and of subscriptions. */
export const uris: Target = {
  name: 'URIs and templates',
  weight: 4,
  shot: fc.record({
    uri,
    method: fc.constantFrom('resources/read', 'resources/read', 'resources/read', 'completion/complete', 'resources/subscribe', 'subscriptions/listen'),
    variable: fc.constantFrom('dir', 'path', 'id', 'fields', 'steps', '__proto__', 'constructor'),
    session: fc.option(fc.tuple(version, user), { nil: undefined })
  }).map(({ uri, method, variable, session }) => {
    const params = method === 'completion/complete'
      ? { ref: { type: 'ref/resource', uri }, argument: { name: variable, value: '' } }
      : method === 'subscriptions/listen' ? { notifications: { resourceSubscriptions: [uri] } } : { uri }
    if (session === undefined) return modern(method, params)
    return { verb: 'POST', headers: legacyHeaders(...session), payload: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) }
  })
}
