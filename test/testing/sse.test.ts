import { test } from 'tap'
import { readSse } from 'fastify-gen-mcp/testing'
import { SseParser } from '../../lib/testing/sse.js'
import type { SseEvent } from 'fastify-gen-mcp/testing'

async function read (...chunks: (string | Uint8Array)[]): Promise<SseEvent[]> {
  async function * body (): AsyncGenerator<string | Uint8Array> { yield * chunks }
  const events = []
  for await (const event of readSse(body())) events.push(event)
  return events
}

test('an event is its data, parsed as JSON, under the name message', async t => {
  t.strictSame(await read('data: {"a":1}\n\ndata:[2]\n\n'), [{ event: 'message', data: { a: 1 } }, { event: 'message', data: [2] }])
})

test('an event keeps its own name and id, and hands neither on to the next', async t => {
  t.strictSame(await read('event: tick\nid: 7\ndata: 1\n\ndata: 2\n\n'), [{ event: 'tick', id: '7', data: 1 }, { event: 'message', data: 2 }])
})

test('an id may be empty, and one with a NUL is none', async t => {
  t.strictSame(await read('id\ndata: 1\n\nid: a\0b\ndata: 2\n\n'), [{ event: 'message', id: '', data: 1 }, { event: 'message', data: 2 }])
})

test('the lines of data are joined with line breaks', async t => {
  t.strictSame(await read('data: {"a":\ndata: 1}\n\n'), [{ event: 'message', data: { a: 1 } }])
})

test('LF, CR and CRLF end a line alike', async t => {
  const event = { event: 'message', data: 1 }
  t.strictSame(await read('data: 1\r\n\r\ndata: 1\r\rdata: 1\n\n'), [event, event, event])
})

test('a CRLF that is cut in two ends one line', async t => {
  t.strictSame(await read('event: a\r', '\ndata: 1\r', '\n\r', '\n'), [{ event: 'a', data: 1 }])
})

test('a body may be cut anywhere, within a character too', async t => {
  const bytes = Buffer.from('\uFEFFid: 1\r\ndata: "größe €"\r\n\r\n')
  const expected = [{ event: 'message', id: '1', data: 'größe €' }]
  t.strictSame(await read(...Array.from(bytes, byte => Uint8Array.of(byte))), expected, 'byte by byte')
  t.strictSame(await read(...bytes.toString()), expected, 'character by character')
  t.strictSame(await read('', bytes), expected, 'after an empty piece')
})

test('a byte order mark counts at the beginning alone', async t => {
  t.strictSame(await read('\uFEFFdata: 1\n\n', '\uFEFFdata: 2\n\ndata: 3\n\n'), [{ event: 'message', data: 1 }, { event: 'message', data: 3 }])
  t.strictSame(await read('\uFEFF', '\uFEFFdata: 2\n\n'), [], 'nor does a second one')
})

test('comments, unknown fields and events without data are passed over', async t => {
  t.strictSame(await read(':\n\n: data: 1\nretry: 10\nevent: nothing\n\ndata\n\nretry: 5\ndata: 1\n\n'), [{ event: 'message', data: 1 }])
})

test('an event that the end of the body cuts off is none', async t => {
  t.strictSame(await read('data: 1\n\ndata: 2\n'), [{ event: 'message', data: 1 }])
})

test('data that is no JSON throws, after the events before it', async t => {
  const seen: SseEvent[] = []
  async function * body (): AsyncGenerator<string> { yield 'data: 1\n\ndata: nonsense\n\n' }
  await t.rejects(async () => { for await (const event of readSse(body())) seen.push(event) }, { name: 'SyntaxError', message: /no JSON: nonsense/ })
  t.strictSame(seen, [{ event: 'message', data: 1 }])
})

test('a parser tells of each comment', async t => {
  let comments = 0
  const parser = new SseParser(() => { comments++ })
  t.strictSame([...parser.push(':\n\n: keep\n\nda'), ...parser.push('ta: 1\n:\n\n')], [{ event: 'message', data: 1 }])
  t.equal(comments, 3)
})
