import { test } from 'tap'
import { isExtension, isMetaKey, isReserved } from '../lib/meta-key.js'

test('a key is a name, with or without a prefix of labels: META-07', async t => {
  for (const key of ['a', 'A1', '0', 'a.b', 'a-b_c', 'com.example/a', 'a/b', 'my-label/x', 'a1.b2.c3/x.y', 'com.example/', '']) t.ok(isMetaKey(key), key)
  for (const key of [
    '-a', 'a-', '_a', 'a_', '.a', 'a.', 'a b', 'ä', 'a\n', '/', '/a', 'a//b', 'a/b/c', '1a/b', 'a-/b', '-a/b', 'a..b/c', '.a/b', 'a./b', 'a_b/c', 'a:b'
  ]) t.notOk(isMetaKey(key), JSON.stringify(key))
})

test('a prefix is reserved if its second label is the protocol\'s: META-08', async t => {
  for (const key of ['io.modelcontextprotocol/a', 'dev.mcp/', 'com.mcp.tools/a', 'org.modelcontextprotocol.api/x']) t.ok(isReserved(key), key)
  for (const key of ['com.example.mcp/a', 'mcp/a', 'mcp.example/a', 'modelcontextprotocol/a', 'com.mcps/a', 'com.mcp', 'io.modelcontextprotocol', 'a.b/io.mcp']) t.notOk(isReserved(key), key)
})

test('the reserved keys without a prefix are the four that mean something: META-11', async t => {
  for (const key of ['progressToken', 'traceparent', 'tracestate', 'baggage']) t.ok(isReserved(key), key)
  for (const key of ['progresstoken', 'trace', 'constructor', 'toString', '']) t.notOk(isReserved(key), key)
})

test('an extension is named with a prefix and a name', async t => {
  for (const name of ['com.example/a', 'io.modelcontextprotocol/ui', 'a/b.c']) t.ok(isExtension(name), name)
  for (const name of ['a', 'com.example/', '/a', '', 'a/b/c', 'a b/c', 'com.example/-a']) t.notOk(isExtension(name), name)
})

test('what is longer than any name is none, and costs no time', async t => {
  for (const key of ['a'.repeat(256), `${'a'.repeat(127)}/${'b'.repeat(128)}`]) t.ok(isMetaKey(key))
  t.ok(isExtension(`a/${'b'.repeat(254)}`))
  t.ok(isReserved(`a.mcp/${'b'.repeat(250)}`))
  t.notOk(isMetaKey('a'.repeat(257)))
  t.notOk(isExtension(`a/${'b'.repeat(255)}`))
  t.notOk(isReserved(`a.mcp/${'b'.repeat(251)}`))
  // Quadratic in its length this would outlast the test.
  const hostile = `${'a-'.repeat(2_000_000)}/`
  t.notOk(isMetaKey(hostile) || isExtension(hostile) || isReserved(hostile))
})
