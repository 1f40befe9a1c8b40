import { Type } from '@sinclair/typebox'
import { test } from 'tap'
import { createSuite, defineResources, elicitForm, inputRequired, readResourceResult, type JsonValue } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { openWire, post, stage } from '../helpers/sockets.js'
import { echo, toolServer } from '../helpers/servers.js'

// What the README says of the limits that no option sets.

test('a body of 256 levels is taken, and one of 257 is refused', async t => {
  const app = await mount(t, { server: echo })
  // params, arguments and the body itself are three of them.
  const nested = (levels: number): JsonValue => levels === 0 ? 1 : [nested(levels - 1)]
  const deep = async (levels: number) => (await call(app, 'tools/call', { name: 'echo', arguments: { deep: nested(levels - 3) } })).statusCode
  t.equal(await deep(256), 200)
  t.equal(await deep(257), 400)
})

test('a URI of 8,192 characters is looked for in a Suite, and a longer one not found', async t => {
  const looked: number[] = []
  const files = defineResources({
    prefix: 'file:',
    read ({ uri }) {
      looked.push(uri.length)
      return readResourceResult({ uri, text: '' })
    }
  })
  const app = await mount(t, { server: createSuite({ info: { name: 'files', version: '1.0.0' }, resources: [files] }) })
  const read = async (length: number) => (await call(app, 'resources/read', { uri: `file:${'x'.repeat(length - 5)}` })).json<unknown>()
  t.match(await read(8_192), { result: {} })
  t.match(await read(8_193), { error: { code: -32602 } })
  t.same(looked, [8_192])
})

test('inputRequired takes a state of 16 KiB of JSON', async t => {
  const questions = { sure: elicitForm('Sure?', Type.Object({ really: Type.Boolean() })) }
  const server = toolServer(({ params }) => inputRequired(questions, 'x'.repeat(Number(params.arguments['length']))))
  const app = await mount(t, { server, secrets: ['a secret so that the mount need not make one'] })
  const ask = async (length: number) => (await call(app, 'tools/call', { name: 'tool', arguments: { length } }, {
    meta: { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } } }
  })).json<unknown>()
  t.match(await ask(16_384 - 2), { result: { resultType: 'input_required' } })
  t.match(await ask(16_384 - 1), { error: { code: -32603 } })
})

test('the head of a request may have 16 KiB: HTTP-23', async t => {
  const { port } = await stage(t, echo)
  for (const [size, status] of [[15_000, 200], [17_000, 431]] as const) {
    const wire = await openWire(t, port)
    wire.send(post('tools/list', {}, { headers: { 'x-long': 'x'.repeat(size) } }))
    t.match(await wire.received('\r\n\r\n'), new RegExp(`^HTTP/1\\.1 ${status} `))
  }
})
