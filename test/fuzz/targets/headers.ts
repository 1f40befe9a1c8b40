import fc from 'fast-check'
import { USER } from '../app.js'
import { legacyHeaders, modern, type Shot } from '../shot.js'
import { legacyBody, modernBase, token, user, version } from './values.js'
import type { Target } from '../target.js'

/** What Node's parser lets through in a header. */
export const headerText = fc.oneof(
  fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map(code => String.fromCharCode(code)), maxLength: 20 }),
  fc.string({ unit: fc.constantFrom(' ', '\t', '\xff', '\x80', 'é', 'a', '=', '?', '/', ';', ',', '"', '*', ':'), maxLength: 12 }),
  fc.constantFrom('', ' ', '\t', 'x'.repeat(7_000), ','.repeat(3_000), ';'.repeat(3_000))
)

const values: Readonly<Record<string, readonly string[]>> = {
  'mcp-protocol-version': ['2026-07-28', ' 2026-07-28\t', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2099-01-01',
    '2026-07-28, 2026-07-28', '', 'DRAFT-2026-v1'],
  'mcp-method': ['tools/call', ' tools/call ', 'TOOLS/CALL', 'tools/list', 'ping', 'tools/call, tools/call', '__proto__', ''],
  'mcp-name': ['echo', ' echo', 'param', 'steps', '=?base64?ZWNobw==?=', '=?base64?ZWNobw?=', '=?base64?!?=', '=?base64??=', '', 'paint', 'file:///red/a/b'],
  'mcp-param-region': ['eu', ' eu ', 'us', '=?base64?ZXU=?=', 'é', ''],
  'mcp-param-count': ['3', '3.0', '03', '+3', '3e0', '0x3', '9007199254740993', ' 3', ''],
  'mcp-param-flag': ['true', 'TRUE', 'false', '1', ''],
  'mcp-param-unknown': ['x'],
  accept: ['application/json', 'text/event-stream', '*/*', 'application/*', 'text/*', 'text/html', 'application/json;q=0',
    'text/event-stream;q=0.0, */*', 'APPLICATION/JSON', 'q', ',,,', '*/*;q=0'],
  'content-type': ['application/json', 'Application/JSON', 'application/json;charset=utf-8', 'application/json; charset=utf-16',
    'application/json ; x', 'text/plain', 'application/jsonp', 'application/json, application/json', 'application/',
    '*/*', 'multipart/form-data; boundary=x', ''],
  'content-encoding': ['gzip', 'identity', 'IDENTITY', 'br, gzip', ''],
  origin: ['http://localhost', 'http://localhost:3000', 'https://127.0.0.1', 'http://[::1]:80', 'http://[::1]:8080', 'null',
    'http://localhost.evil.com', 'http://localhost@evil.com', 'http://evil.com', 'file://', 'http://localhost/', 'http://LOCALHOST', '',
    'localhost', 'http://127.1', 'http://localhost, http://localhost', 'http://0x7f.1'],
  host: ['localhost', 'localhost:80', 'LOCALHOST', '127.0.0.1:1', '[::1]', '[::1]:9', 'evil.com', 'localhost.', 'localhost:x', 'localhost:80:80',
    '::1', '@localhost'],
  'last-event-id': ['.AAAAAAAAAAAAAAAAAAAAAA_0', 'AAAAAAAAAAAAAAAAAAAAAA_0', '_0', '0', ''],
  'mcp-session-id': ['x', ''],
  [USER]: ['alice', 'bob', 'undefined', ''],
  traceparent: ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '00-x'],
  tracestate: ['a=b', '\xff'],
  baggage: ['a=b', 'x'.repeat(8_193)],
  expect: ['100-continue'],
  'accept-encoding': ['gzip']
}

interface Change { readonly name: string, readonly value: string | undefined }

const change: fc.Arbitrary<Change> = fc.constantFrom(...Object.keys(values)).chain(name => fc.record({
  name: fc.constant(name),
  value: fc.oneof(
    { arbitrary: fc.constantFrom(...values[name] as string[]), weight: 5 },
    { arbitrary: headerText, weight: 2 },
    { arbitrary: fc.constant(undefined), weight: 1 },
    ...(name === 'mcp-session-id' ? [{ arbitrary: token(fc.tuple(version, user).map(([version, user]) => `session/${version}/${user}`)), weight: 5 }] : []),
    ...(name === 'last-event-id' ? [{ arbitrary: token(fc.tuple(version, user).map(([version, user]) => `event/${version}/${user}`)), weight: 5 }] : [])
  )
}))

function apply (headers: Readonly<Record<string, string>>, changes: readonly Change[]): Record<string, string> {
  const changed = { ...headers, ...Object.fromEntries(changes.map(({ name, value }) => [name, value])) }
  return Object.fromEntries(Object.entries(changed).flatMap(([name, value]) => value === undefined ? [] : [[name, value.replace(/[\r\n\0]/g, '')]]))
}

const changes = fc.array(change, { minLength: 1, maxLength: 4 })

export const modernHeaders: Target = {
  name: 'headers: 2026-07-28',
  weight: 5,
  shot: fc.tuple(modernBase, changes).map(([{ body, headers }, changes]) => ({ verb: 'POST', headers: apply(headers, changes), payload: JSON.stringify(body) }))
}

export const legacyHeadersTarget: Target = {
  name: 'headers: 2025, POST, GET, DELETE',
  weight: 5,
  shot: fc.record({
    verb: fc.constantFrom<Shot['verb'][]>('POST', 'POST', 'GET', 'GET', 'DELETE'), version, user, body: legacyBody, changes: fc.array(change, { maxLength: 4 })
  }).map(({ verb, version, user, body, changes }) => ({
    verb, headers: apply(legacyHeaders(version, user), changes), ...(verb === 'POST' && { payload: JSON.stringify(body) })
  }))
}

const base64 = fc.oneof(
  fc.base64String({ maxLength: 24 }),
  fc.string({ unit: fc.constantFrom('A', 'Q', '=', '/', '+', '-', '_', ' ', '?'), maxLength: 12 }),
  fc.uint8Array({ maxLength: 12 }).map(bytes => Buffer.from(bytes).toString('base64')),
  fc.string({ unit: 'binary', maxLength: 6 }).map(text => Buffer.from(text).toString('base64'))
)
const encoded = fc.oneof(
  base64.map(text => `=?base64?${text}?=`), base64.map(text => `=?BASE64?${text}?=`), base64.map(text => ` =?base64?${text}?=\t`),
  fc.constantFrom('=?base64?=', '=?base64??=', '=?base64?', '?='), headerText
)

/** Ways to write a text in Base64, of which the first alone is right, and the second with blanks around it. */
const spellings: readonly ((base64: string) => string)[] = [
  text => `=?base64?${text}?=`,
  text => ` =?base64?${text}?=\t`,
  text => `=?base64?${text.replace(/=/g, '')}?=`,
  text => `=?base64?${text}=?=`,
  text => `=?base64?${text.replaceAll('+', '-').replaceAll('/', '_')}?=`,
  // Bits beyond the last byte.
  text => `=?base64?${text.replace(/[A-Za-z0-9+/](?==+$)/, last => last === 'Q' ? 'R' : last === 'A' ? 'B' : String.fromCharCode(last.charCodeAt(0) + 1))}?=`,
  text => `=?Base64?${text}?=`,
  text => `=?base64?${text} ?=`,
  text => `=?base64?${text.slice(0, 4)} ${text.slice(4)}?=`,
  text => `=?base64?${Buffer.from(`=?base64?${text}?=`).toString('base64')}?=`
]
const spelling = fc.constantFrom(...spellings)
const write = (text: string, spell: (base64: string) => string): string => spell(Buffer.from(text).toString('base64'))

/** Values of `Mcp-Name` and `Mcp-Param-*` against the body's. */
export const encodings: Target = {
  name: 'encodings of header values',
  weight: 3,
  shot: fc.record({
    region: fc.oneof(fc.string({ maxLength: 6 }), fc.string({ unit: 'binary', maxLength: 4 }), fc.constantFrom('a?>', '\xff\xfe', '=?base64?YQ==?=', ' a', '')),
    spell: fc.option(spelling, { nil: undefined, freq: 4 }),
    header: encoded,
    count: fc.oneof(fc.constantFrom<unknown[]>(3, -0, 10, 2 ** 53, undefined), fc.integer()),
    said: fc.option(fc.oneof(fc.constantFrom('3', '3.00', '-0', '1e1', ' 3 '), headerText), { nil: undefined, freq: 2 }),
    name: fc.oneof({ arbitrary: fc.constant('param'), weight: 4 }, { arbitrary: spelling.map(spell => write('param', spell)), weight: 2 },
      { arbitrary: encoded, weight: 1 })
  }).map(({ region, spell, header, count, said, name }) => {
    const { headers, payload } = modern('tools/call', { name: 'param', arguments: { region, ...(typeof count === 'number' && { count }) } })
    return {
      verb: 'POST',
      headers: {
        ...headers,
        'mcp-name': name,
        'mcp-param-region': spell === undefined ? header : write(region, spell),
        ...((said !== undefined || typeof count === 'number') && { 'mcp-param-count': said ?? String(count) })
      },
      payload: payload as string
    }
  })
}
