import { test } from 'tap'
import { decodeHeaderValue, encodeHeaderValue, trim } from '../../lib/transport/header-value.js'
import { result, toolResult } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer } from '../helpers/servers.js'
import type { FastifyInstance } from 'fastify'
import type { Response } from 'light-my-request'
import type { Test } from 'tap'

/** How a header that is wrong is answered. */
const REFUSED = { status: 400, code: -32020, id: 1 }

const base64 = (text: string): string => `=?base64?${text}?=`

/** Names with the header values that stand for them (2026-07-28, Streamable HTTP, Value Encoding). */
const vectors = [
  ['us-west1', 'us-west1'], ['us west 1', 'us west 1'], ['Hello, 世界', base64('SGVsbG8sIOS4lueVjA==')], [' padded ', base64('IHBhZGRlZCA=')],
  ['line1\nline2', base64('bGluZTEKbGluZTI=')], ['line1\r\nline2', base64('bGluZTENCmxpbmUy')], ['\tindented', base64('CWluZGVudGVk')],
  ['日本語', base64('5pel5pys6Kqe')], [' us-west1', base64('IHVzLXdlc3Qx')], ['größe', base64('Z3LDtsOfZQ==')]
] as const

/** Values that stand for nothing. */
const malformed = [
  base64('SGVsbG8'), base64('SGVs!!!bG8='), base64('_-_-'), base64('SGVsbG8=='), base64('SGVs bG8='), base64('='), base64('===='), base64('A'),
  base64('SGVsbG9='), base64('?'),
  base64('/w=='), base64('7aCA'), base64('wIA='), base64('4pyT4'), 'caf\u00e9', 'a\u007fb', 'a\u0001b', '\u00a0'
]

async function serveAll (t: Test): Promise<FastifyInstance> {
  return await mount(t, { server: bareServer(({ params }) => result(toolResult.text((params as { name?: string, uri?: string }).name ?? 'read'))) })
}

async function callNamed (app: FastifyInstance, name: string, header: string): Promise<Response> {
  return await call(app, 'tools/call', { name }, { headers: { 'mcp-name': header } })
}

test('every name arrives in the form that stands for it: ENC-13, ENC-01, ENC-05, ENC-12, case 042', async t => {
  const app = await serveAll(t)
  for (const [name, header] of vectors) {
    t.equal(decodeHeaderValue(header), name, header)
    const response = await callNamed(app, name, header)
    t.equal(response.statusCode, 200, header)
    t.equal(response.json().result.content[0].text, name)
  }
})

test('a name is written as it is where that is safe, and encoded elsewhere: ENC-13', t => {
  for (const [name, header] of vectors) t.equal(encodeHeaderValue(name), header, JSON.stringify(name))
  for (const name of ['', ' ', 'a\u0000', '\u00e9', '=?base64?=', '=?base64??=', '=?base64?SGVsbG8=?=', '=?BASE64?x?=', '😀', 'a '.repeat(50)]) {
    t.match(encodeHeaderValue(name), /^[\x20-\x7e]*$/)
    t.equal(decodeHeaderValue(encodeHeaderValue(name)), name, JSON.stringify(name))
  }
  t.end()
})

test('what is nearly encoded is a name as it stands: ENC-01, ENC-03, ENC-04', async t => {
  const app = await serveAll(t)
  for (const name of [
    'SGVsbG8=', '=?base64?SGVsbG8=', 'SGVsbG8=?=', '=?BASE64?SGVsbG8=?=', '=?Base64?SGVsbG8=?=', '=?base64?=', '=?base64', '?=', '=?base32?SGVsbG8=?='
  ]) {
    t.equal((await callNamed(app, name, name)).statusCode, 200, name)
  }
  for (const header of ['SGVsbG8=', '=?BASE64?SGVsbG8=?=']) refused(t, await callNamed(app, 'Hello', header), REFUSED, header)
})

test('an empty name comes as nothing, or as nothing encoded: ENC-04, ENC-12, HDR-12', async t => {
  const app = await serveAll(t)
  for (const header of ['', '  ', '=?base64??=']) {
    t.equal((await callNamed(app, '', header)).statusCode, 200, JSON.stringify(header))
    refused(t, await callNamed(app, 'foo', header), REFUSED, JSON.stringify(header))
  }
})

test('a value is decoded once: ENC-08', async t => {
  const app = await serveAll(t)
  const header = '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='
  t.equal((await callNamed(app, '=?base64?literal?=', header)).statusCode, 200)
  const twice = encodeHeaderValue(encodeHeaderValue('größe'))
  t.equal(twice, base64('PT9iYXNlNjQ/WjNMRHRzT2ZaUT09Pz0='))
  refused(t, await callNamed(app, 'größe', twice), REFUSED)
})

test('Base64 is read strictly, as UTF-8, and characters that no header has are refused: ENC-06, ENC-07, HDR-11, case 042', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const header of malformed) {
    t.equal(decodeHeaderValue(header), undefined, JSON.stringify(header))
    for (const name of ['Hello', '\uFFFD', header]) {
      const { message, data } = refused(t, await callNamed(app, name, header), REFUSED, JSON.stringify(header))
      t.equal(message, 'Header Mcp-Name is malformed')
      t.strictSame(data, { header: 'Mcp-Name' })
    }
  }
  t.strictSame(ran, [])
})

test('a resource with a Japanese path is read by its encoded URI, and not by its raw bytes: ENC-05, HDR-11, case 042', async t => {
  const app = await serveAll(t)
  const uri = 'file:///書類/報告.txt'
  const read = async (header: string): Promise<Response> => await call(app, 'resources/read', { uri }, { headers: { 'mcp-name': header } })
  t.equal((await read(encodeHeaderValue(uri))).statusCode, 200)
  // Node gives a header's bytes as Latin-1.
  refused(t, await read(Buffer.from(uri).toString('latin1')), REFUSED)
  refused(t, await read(encodeHeaderValue(uri).replace('?=', '=?=')), REFUSED)
})

test('a URI is compared as it is, neither decoded nor normalised: ENC-14', async t => {
  const app = await serveAll(t)
  const uri = 'file:///path/to/file%20name.txt'
  const read = async (header: string): Promise<Response> => await call(app, 'resources/read', { uri }, { headers: { 'mcp-name': header } })
  t.equal((await read(uri)).statusCode, 200)
  for (const other of [
    'file:///path/to/file name.txt', 'file:///path/to/file%2520name.txt', 'FILE:///path/to/file%20name.txt', 'file:///path/to/./file%20name.txt'
  ]) {
    refused(t, await read(other), REFUSED, other)
  }
  const long = 'https://example.com/a?b=c&d=%2F#e:f'
  t.equal((await call(app, 'resources/read', { uri: long }, { headers: { 'mcp-name': long } })).statusCode, 200)
})

test('spaces and tabs around a value are not part of it, within it they are: HDR-10', async t => {
  const app = await serveAll(t)
  for (const header of ['  get_weather  ', '\tget_weather\t', ' \t get_weather', ` ${base64('Z2V0X3dlYXRoZXI=')}\t`]) {
    t.equal((await callNamed(app, 'get_weather', header)).statusCode, 200, JSON.stringify(header))
  }
  for (const header of ['get weather', 'get\tweather', 'get_weather\u000b']) refused(t, await callNamed(app, 'get_weather', header), REFUSED)
  t.equal((await callNamed(app, 'a\tb  c', 'a\tb  c')).statusCode, 200)
  t.equal(trim(' \t '), '')
  t.equal(trim(''), '')
})

test('a long value takes no long time to read', t => {
  const long = 'A'.repeat(400_000)
  t.equal(decodeHeaderValue(`${' '.repeat(400_000)}x${' '.repeat(400_000)}`), 'x')
  t.equal(decodeHeaderValue(base64(long))?.length, 300_000)
  t.equal(decodeHeaderValue(base64(`${long}!`)), undefined)
  t.end()
})
