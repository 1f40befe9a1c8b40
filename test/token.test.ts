import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { test } from 'tap'
import { result, toolResult, type TokenSealer } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { createKeyRing, createRandomKeyRing, forPrincipal } from '../lib/token.js'
import { mount } from './helpers/mount.js'
import { toolServer } from './helpers/servers.js'

const SECRET = 'the first secret, of 32 characters or more'
const OTHER = 'another secret, of 32 characters or more'
const INVALID = { ok: false, reason: 'invalid' }
const EXPIRED = { ok: false, reason: 'expired' }

const ring = createKeyRing([SECRET])

test('what was sealed opens under its purpose', async t => {
  for (const value of [null, true, 0, -1.5, '', 'text', 'Größe 🎉 \u2028 "', [], {}, [1, [2]], { a: { b: [null] } }]) {
    t.strictSame(ring.open('cursor', ring.seal('cursor', value)), { ok: true, value })
  }
  t.strictSame(ring.open('', ring.seal('', 1)), { ok: true, value: 1 }, 'a purpose may be empty')
})

test('undefined is sealed as null, and what is no JSON throws', async t => {
  t.strictSame(ring.open('cursor', ring.seal('cursor', undefined)), { ok: true, value: null })
  t.throws(() => ring.seal('cursor', 1n), TypeError)
})

test('a token with any byte changed does not open', async t => {
  const bytes = Buffer.from(ring.seal('requestState', { step: 2 }), 'base64url')
  for (let at = 0; at < bytes.length; at++) {
    for (const bit of [0x01, 0x80]) {
      const forged = Buffer.from(bytes)
      forged[at] = bytes[at] as number ^ bit
      t.strictSame(ring.open('requestState', forged.toString('base64url')), INVALID, `byte ${at}`)
    }
  }
})

test('a token that is cut at either end, or goes on, does not open', async t => {
  const bytes = Buffer.from(ring.seal('requestState', 'x'), 'base64url')
  for (let length = 0; length < bytes.length; length++) {
    t.strictSame(ring.open('requestState', bytes.subarray(0, length).toString('base64url')), INVALID, `the first ${length} bytes`)
    t.strictSame(ring.open('requestState', bytes.subarray(bytes.length - length).toString('base64url')), INVALID, `the last ${length} bytes`)
  }
  t.strictSame(ring.open('requestState', Buffer.concat([bytes, Buffer.alloc(1)]).toString('base64url')), INVALID)
})

test('a token has one spelling', async t => {
  // Of three values in a row at least two make a token whose last character has bits to spare.
  for (const value of ['a', 'ab', 'abc']) {
    const token = ring.seal('cursor', value)
    const spellings = [
      `${token}=`, `${token}==`, ` ${token}`, `${token}\n`, `${token}.`, `${token}A`, token.toUpperCase(), Buffer.from(token, 'base64url').toString('hex'),
      ...[' ', '!', '\n', '=', '\0'].map(stranger => `${token.slice(0, 9)}${stranger}${token.slice(9)}`)
    ]
    const base64 = Buffer.from(token, 'base64url').toString('base64')
    if (base64 !== token) spellings.push(base64)
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const last = alphabet.indexOf(token.at(-1) as string)
    if (token.length % 4 !== 0) spellings.push(token.slice(0, -1) + alphabet[last ^ 1])
    for (const spelling of spellings) t.strictSame(ring.open('cursor', spelling), INVALID, JSON.stringify(spelling))
  }
})

test('what nobody sealed does not open', async t => {
  for (const token of ['', 'x', '{}', 'null', 'A'.repeat(1_000_000), 'é', '\0', JSON.stringify([0, 'value'])]) t.strictSame(ring.open('cursor', token), INVALID)
  for (const length of [1, 16, 31, 32, 33, 200]) t.strictSame(ring.open('cursor', randomBytes(length).toString('base64url')), INVALID, `${length} random bytes`)
  const keyId = Buffer.from(ring.seal('cursor', 1), 'base64url').subarray(0, 4)
  t.strictSame(ring.open('cursor', Buffer.concat([keyId, randomBytes(40)]).toString('base64url')), INVALID, 'the right key, and nothing else')
})

test('a token opens under no other purpose', async t => {
  const token = ring.seal('cursor', 1)
  for (const purpose of ['', 'curso', 'cursor ', 'Cursor', 'requestState', '["cursor",null]']) t.strictSame(ring.open(purpose, token), INVALID, purpose)
})

test('a token shows neither its value nor its purpose, and no two are alike', async t => {
  const token = ring.seal('very-secret-purpose', { password: 'hunter2-hunter2' })
  const bytes = Buffer.from(token, 'base64url')
  t.match(token, /^[\w-]+$/, 'it is safe wherever text is')
  for (const text of ['hunter2', 'password', 'very-secret-purpose', SECRET]) {
    t.notOk(bytes.includes(text), text)
    t.notOk(token.includes(text), text)
    t.notOk(token.includes(Buffer.from(text).toString('base64url').slice(0, -2)), text)
  }
  const again = Buffer.from(ring.seal('very-secret-purpose', { password: 'hunter2-hunter2' }), 'base64url')
  t.equal(bytes.length, again.length)
  t.notOk(bytes.subarray(4, 16).equals(again.subarray(4, 16)), 'a nonce is used once')
  t.notOk(bytes.subarray(16).equals(again.subarray(16)))
})

test('a token opens for twenty minutes, or as long as it was told', async t => {
  let now = Date.now()
  t.intercept(Date, 'now', { value: () => now })
  const byDefault = ring.seal('cursor', 1)
  const brief = ring.seal('cursor', 2, { maxAge: 500 })
  const long = ring.seal('cursor', 3, { maxAge: 86_400_000 })

  now += 499
  t.strictSame(ring.open('cursor', brief), { ok: true, value: 2 })
  now += 1
  t.strictSame(ring.open('cursor', brief), EXPIRED)
  now += 1_200_000 - 501
  t.strictSame(ring.open('cursor', byDefault), { ok: true, value: 1 })
  now += 1
  t.strictSame(ring.open('cursor', byDefault), EXPIRED)
  t.strictSame(ring.open('requestState', byDefault), INVALID, 'who may not open it does not learn its age')
  t.strictSame(ring.open('cursor', long), { ok: true, value: 3 })
})

test('an age that is none never opens', async t => {
  for (const maxAge of [0, -1, NaN]) t.strictSame(ring.open('cursor', ring.seal('cursor', 1, { maxAge })), EXPIRED, String(maxAge))
})

test('the first secret of a ring seals, and all of them open', async t => {
  const before = createKeyRing([OTHER])
  const during = createKeyRing([SECRET, OTHER])
  const after = createKeyRing([SECRET])
  const old = before.seal('cursor', 'old')
  const young = during.seal('cursor', 'young')

  t.strictSame(during.open('cursor', old), { ok: true, value: 'old' }, 'what was sealed before the rotation')
  t.strictSame(after.open('cursor', young), { ok: true, value: 'young' })
  t.strictSame(before.open('cursor', young), INVALID, 'the new secret seals')
  t.strictSame(after.open('cursor', old), INVALID, 'a secret that is gone opens nothing')
})

test('secrets whose key ids are the same are told apart', async t => {
  // Found by search: the four bytes in front of their tokens are equal.
  const twins: [string, string] = ['collision-secret-0123456789-0123456789-14531', 'collision-secret-0123456789-0123456789-43885']
  const [first, second] = twins.map(secret => createKeyRing([secret])) as [TokenSealer, TokenSealer]
  const tokens = [first.seal('cursor', 1), second.seal('cursor', 2)].map(token => Buffer.from(token, 'base64url').subarray(0, 4).toString('hex'))
  t.equal(tokens[0], tokens[1])
  t.strictSame(createKeyRing(twins).open('cursor', second.seal('cursor', 2)), { ok: true, value: 2 })
  t.strictSame(first.open('cursor', second.seal('cursor', 2)), INVALID)
})

test('a token opens for the principal it was sealed for, and nobody is one too', async t => {
  const principals = [undefined, '', 'null', 'undefined', 'alice', 'alice ', '["cursor","alice"]', 'cursor']
  for (const owner of principals) {
    const token = forPrincipal(ring, owner).seal('cursor', 1)
    for (const caller of principals) {
      const opened = forPrincipal(ring, caller).open('cursor', token)
      t.strictSame(opened, caller === owner ? { ok: true, value: 1 } : INVALID, `${owner} and ${caller}`)
    }
    t.strictSame(ring.open('cursor', token), INVALID, 'not without a principal')
  }
})

test('purpose and principal cannot be shifted into one another', async t => {
  const token = forPrincipal(ring, 'c').seal('a","b', 1)
  t.strictSame(forPrincipal(ring, 'b","c').open('a', token), INVALID)
  t.strictSame(forPrincipal(ring, 'c"]').open('a","b', token), INVALID)
  t.strictSame(forPrincipal(ring, '\uD800').open('a', forPrincipal(ring, '\uDFFF').seal('a', 1)), INVALID, 'halves of surrogate pairs differ')
})

test('the age is the caller\'s too', async t => {
  const sealer = forPrincipal(ring, 'alice')
  t.strictSame(sealer.open('cursor', sealer.seal('cursor', 1, { maxAge: 0 })), EXPIRED)
})

test('a random ring tells once, when it first seals, and opens nothing of another', async t => {
  let told = 0
  const random = createRandomKeyRing(() => { told++ })
  t.strictSame(random.open('cursor', ring.seal('cursor', 1)), INVALID)
  t.equal(told, 0)
  const token = random.seal('cursor', 1)
  random.seal('cursor', 2)
  t.equal(told, 1)
  t.strictSame(random.open('cursor', token), { ok: true, value: 1 })
  t.strictSame(random.open('cursor', random.seal('cursor', 1, { maxAge: 0 })), EXPIRED)
  t.strictSame(createRandomKeyRing(() => {}).open('cursor', token), INVALID)
})

test('what a handler seals is for its caller, on every instance that has the secret', async t => {
  const vault = toolServer(({ params }, { tokens }) => {
    const { token } = params.arguments
    if (typeof token !== 'string') return result(toolResult.text(tokens.seal('ticket', { seat: 7 })))
    return result(toolResult.data({ opened: tokens.open('ticket', token) }))
  })
  const app = async (secrets: readonly string[]) => await mount(t, { server: vault, secrets, principal: ({ headers }) => headers['x-user']?.toString() })
  const [one, two, foreign] = [await app([SECRET]), await app([OTHER, SECRET]), await app([OTHER])]
  const open = async (instance: typeof one, user: string | undefined, token: unknown) => {
    const headers = user === undefined ? {} : { 'x-user': user }
    const params = { name: 'vault', arguments: token === undefined ? {} : { token: String(token) } }
    const { result } = await createTestClient(instance, { headers }).request('tools/call', params)
    return result
  }

  const sealed = await open(one, 'alice', undefined)
  const { content: [{ text }] } = sealed as unknown as { content: [{ text: string }] }
  t.match(await open(two, 'alice', text), { structuredContent: { opened: { ok: true, value: { seat: 7 } } } })
  t.match(await open(two, 'bob', text), { structuredContent: { opened: INVALID } })
  t.match(await open(one, undefined, text), { structuredContent: { opened: INVALID } })
  t.match(await open(foreign, 'alice', text), { structuredContent: { opened: INVALID } })
})

test('an age without end never expires', async t => {
  const ring = createKeyRing(['x'.repeat(32)])
  t.same(ring.open('p', ring.seal('p', 1, { maxAge: Infinity })), { ok: true, value: 1 })
})

test('what is no text is no token', async t => {
  t.same(createKeyRing(['x'.repeat(32)]).open('p', 5 as unknown as string), { ok: false, reason: 'invalid' })
})
