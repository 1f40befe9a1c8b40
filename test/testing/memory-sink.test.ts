import { test } from 'tap'
import { MemorySink } from '../../lib/testing/memory-sink.js'
import { createCodec } from '../../lib/transport/codec.js'

const answered = { id: 1, cacheable: false, retried: false }

test('a sink that is over opens no stream and takes no header', async t => {
  const sink = new MemorySink<'tools/call'>(createCodec(undefined), answered, [])
  sink.end({ type: 'silent' })
  t.equal(sink.open(), false)
  t.equal(sink.notify('notifications/x', {}), false)
  t.equal(sink.header('x-a', 'b'), false)
  t.equal(sink.streaming, false)
  t.strictSame(await sink.reply, {})
})

test('a sink holds nothing back, so that nobody waits for it', async t => {
  const sink = new MemorySink<'tools/call'>(createCodec(undefined), answered, [])
  sink.notify('notifications/x', { text: 'x'.repeat(100_000) })
  await sink.drained()
  await sink.whenFlushed()
  t.equal(sink.bufferedBytes, 0)
  t.equal(sink.timers, 0)
  t.ok(sink.bytes > 100_000)
})
