import fc from 'fast-check'
import { legacyHeaders, type Shot } from '../shot.js'
import { legacyBody, modernBase, mutate, mutation, text, user, version } from './values.js'
import type { Target } from '../target.js'

/** Bytes put into, or taken from, a text. */
const cuts = fc.array(fc.record({
  at: fc.nat(400),
  remove: fc.nat(3),
  insert: fc.oneof(fc.constantFrom('', '{', '}', '[', ']', '"', ',', ':', '\\', '\\u', '\0', '1e999', '-', '//',
    '\ufeff', 'null', '"__proto__":{},', 'NaN'), text)
}), { minLength: 1, maxLength: 3 })

function damage (json: string, places: readonly { readonly at: number, readonly remove: number, readonly insert: string }[]): string {
  return places.reduce((json, { at, remove, insert }) => {
    const place = at % (json.length + 1)
    return json.slice(0, place) + insert + json.slice(place + remove)
  }, json)
}

const payload = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.tuple(modernBase, fc.uint8Array({ minLength: 1, maxLength: 3 }), fc.nat(300)).map(([{ body }, bytes, at]) => {
    const json = Buffer.from(JSON.stringify(body))
    return Uint8Array.from([...json.subarray(0, at), ...bytes, ...json.subarray(at)])
  })
)

/** A value within so many others. */
const nested = fc.record({
  depth: fc.oneof(fc.integer({ min: 250, max: 260 }), fc.nat(3_000)), open: fc.constantFrom('[', '{"a":', '[[],'), closed: fc.boolean()
}).map(({ depth, open, closed }) => {
  const close = open.startsWith('{') ? '}' : ']'
  return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","x":${open.repeat(depth)}1${closed ? close.repeat(depth) : ''}}}`
})

const large = fc.record({ over: fc.integer({ min: -2, max: 2 }), fill: fc.constantFrom(' ', '"', '[', 'x') }).map(({ over, fill }) => {
  const json = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
  return json + fill.repeat(65_536 - json.length + over)
})

/** Bytes and texts that are no JSON, or nearly. */
export const rawBodies: Target = {
  name: 'bodies: bytes and broken JSON',
  weight: 3,
  shot: fc.record({
    base: modernBase,
    session: fc.option(fc.tuple(version, user), { nil: undefined, freq: 2 }),
    verb: fc.constantFrom<Shot['verb'][]>('POST', 'POST', 'POST', 'POST', 'POST', 'DELETE', 'GET'),
    drawn: fc.oneof(
      { arbitrary: payload, weight: 4 }, { arbitrary: nested, weight: 1 }, { arbitrary: large, weight: 1 }, { arbitrary: fc.json(), weight: 2 },
      { arbitrary: fc.tuple(modernBase, cuts).map(([{ body }, places]) => damage(JSON.stringify(body), places)), weight: 6 },
      { arbitrary: fc.tuple(legacyBody, cuts).map(([body, places]) => damage(JSON.stringify(body), places)), weight: 4 }
    )
  }).map(({ base, session, verb, drawn }) => ({ verb, headers: session === undefined ? base.headers : legacyHeaders(...session), payload: drawn }))
}

/** Requests of 2026-07-28 with something wrong. */
export const modernBodies: Target = {
  name: 'bodies: JSON-RPC of 2026-07-28',
  weight: 5,
  shot: fc.tuple(modernBase, fc.array(mutation, { maxLength: 3 })).map(([{ body, headers }, mutations]) => ({
    verb: 'POST', headers, payload: JSON.stringify(mutations.reduce(mutate, body)) ?? ''
  }))
}

/** Requests of the 2025 revisions with something wrong, alone and in batches. */
export const legacyBodies: Target = {
  name: 'bodies: JSON-RPC of 2025, batches',
  weight: 5,
  shot: fc.record({
    version,
    user,
    body: fc.oneof(
      { arbitrary: legacyBody, weight: 3 },
      { arbitrary: fc.array(legacyBody, { maxLength: 4 }), weight: 2 },
      { arbitrary: fc.nat(4).map(over => Array.from({ length: 98 + over }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }))), weight: 1 }
    ),
    mutations: fc.array(mutation, { maxLength: 3 })
  }).map(({ version, user, body, mutations }) => ({
    verb: 'POST', headers: legacyHeaders(version, user), payload: JSON.stringify(mutations.reduce(mutate, body)) ?? ''
  }))
}
