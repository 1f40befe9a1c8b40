import { Value } from '@sinclair/typebox/value'
import { fail } from 'fastify-gen-mcp'
import { test } from 'tap'
import { JSONRPCErrorResponse, JSONRPCResultResponse } from '../../lib/protocol/index.js'
import { call, meta, mount, type Overrides } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { createListenServer, echo, toolServer } from '../helpers/servers.js'
import type { Response } from 'light-my-request'

const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

test('a request that fails two steps before its body is read is answered for the first: HTTP-11', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server, bodyLimit: 5_000 })

  const steps: { readonly step: string, readonly overrides: Overrides, readonly status: number, readonly code: number }[] = [
    { step: 'Origin', overrides: { headers: { origin: 'https://evil.example' } }, status: 403, code: -32600 },
    { step: 'content type', overrides: { headers: { 'content-type': 'text/plain' } }, status: 415, code: -32600 },
    { step: 'size', overrides: { body: `{"long":"${'x'.repeat(5_000)}` }, status: 413, code: -32600 },
    { step: 'JSON', overrides: { body: '{"jsonrpc":' }, status: 400, code: -32700 }
  ]
  for (const [at, { step, overrides, status, code }] of steps.entries()) {
    refused(t, await call(app, 'tools/list', {}, overrides), { status, code }, `${step} alone`)
    for (const later of steps.slice(at + 1)) {
      // A body that is too large is no JSON either.
      const both = { ...later.overrides, ...overrides, headers: { ...later.overrides.headers, ...overrides.headers } }
      refused(t, await call(app, 'tools/list', {}, both), { status, code }, `${step} before ${later.step}`)
    }
  }
  t.strictSame(ran, [])
})

/** What is wrong with a call of a tool, how that alone is answered, and where it is put. */
interface Fault {
  readonly step: string
  readonly status: number
  readonly code: number
  readonly body?: Readonly<Record<string, unknown>>
  readonly meta?: Readonly<Record<string, unknown>>
  readonly params?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string | undefined>>
}

test('of two faults of a body the first in order is answered: VER-12, HDR-03, HDR-04, HTTP-11', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  const unknown = '2027-01-01'
  const faults: Fault[] = [
    { step: 'shape', body: { jsonrpc: '1.0' }, status: 400, code: -32600 },
    { step: 'a string as version', meta: { [VERSION]: 5 }, status: 400, code: -32602 },
    { step: 'the version of the header', headers: { 'mcp-protocol-version': '1999-01-01' }, status: 400, code: -32020 },
    { step: 'a known version', meta: { [VERSION]: unknown }, headers: { 'mcp-protocol-version': unknown }, status: 400, code: -32022 },
    { step: 'capabilities', meta: { [CAPABILITIES]: [] }, status: 400, code: -32602 },
    { step: 'a log level', meta: { 'io.modelcontextprotocol/logLevel': 'loud' }, status: 400, code: -32602 },
    { step: 'Mcp-Method', headers: { 'mcp-method': undefined }, status: 400, code: -32020 },
    { step: 'a capability', body: { method: 'prompts/get' }, headers: { 'mcp-method': 'prompts/get' }, status: 404, code: -32601 },
    { step: 'Mcp-Name', headers: { 'mcp-name': 'other' }, status: 400, code: -32020 },
    { step: 'params', params: { arguments: [] }, status: 200, code: -32602 },
    { step: 'a state', params: { requestState: 'forged' }, status: 200, code: -32602 },
    { step: 'Accept', headers: { accept: 'text/html' }, status: 406, code: -32600 }
  ]
  const send = async (first?: Fault, later?: Fault): Promise<Response> => await call(app, 'tools/call', { name: 'echo', ...later?.params, ...first?.params }, {
    meta: { ...later?.meta, ...first?.meta },
    headers: { ...later?.headers, ...first?.headers },
    body: { ...later?.body, ...first?.body }
  })
  for (const [at, fault] of faults.entries()) {
    const { step, status, code } = fault
    refused(t, await send(fault), { status, code, id: 1 }, `${step} alone`)
    for (const later of faults.slice(at + 1)) refused(t, await send(fault, later), { status, code, id: 1 }, `${step} before ${later.step}`)
  }
  t.strictSame(ran, [])
  t.equal((await send()).statusCode, 200, 'without a fault it is served')
  t.strictSame(ran, ['init', 'handleRequest', 'handleMessage'])
})

test('an unknown method comes after Mcp-Method and before what its params are: HDR-05, HTTP-10', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  refused(t, await call(app, 'no/such', {}, { headers: { 'mcp-method': undefined } }), { status: 400, code: -32020, id: 1 })
  refused(t, await call(app, 'no/such', { name: 5 }, { headers: { accept: 'text/html' } }), { status: 404, code: -32601, id: 1 })
  refused(t, await call(app, 'prompts/get', { name: 'x' }, { headers: { 'mcp-name': undefined } }), { status: 404, code: -32601, id: 1 })
  t.strictSame(ran, [])
})

test('the Origin counts before the verb, and the verb before hooks of the mount: HTTP-07, ORG-01', async t => {
  const hooked: string[] = []
  const app = await mount(t, {
    server: echo,
    legacy: false,
    onRequest: async ({ method }) => {
      hooked.push(method)
      throw Object.assign(new Error('Who are you?'), { statusCode: 401 })
    }
  })
  const origin = 'https://evil.example'
  for (const method of ['GET', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'] as const) {
    refused(t, await app.inject({ method, url: '/mcp', headers: { origin } }), { status: 403, code: -32600 }, method)
    refused(t, await app.inject({ method, url: '/mcp' }), { status: 405, code: -32600 }, method)
  }
  refused(t, await call(app, 'tools/list', {}, { headers: { origin } }), { status: 403, code: -32600 })
  t.strictSame(hooked, [])
  refused(t, await call(app, 'tools/list', {}, { headers: { 'content-type': 'text/plain' } }), { status: 401, code: -32600 })
  refused(t, await call(app, 'tools/list', {}, { body: '{' }), { status: 401, code: -32600 })
  t.strictSame(hooked, ['POST', 'POST'])
})

test('a state that does not open counts before Accept: MRTR-14', async t => {
  const app = await mount(t, { server: createListenServer().server })
  const call1 = await call(app, 'tools/call', { name: 'x', requestState: 'forged' }, { headers: { accept: 'image/*' } })
  refused(t, call1, { status: 200, code: -32602, id: 1 })
})

test('whatever is refused with another status than 200 is refused in JSON, though the server streams and the client takes events alone: HTTP-11', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  const accept = 'text/event-stream'
  refused(t, await call(app, 'tools/list', {}, { headers: { accept, 'mcp-method': undefined } }), { status: 400, code: -32020, id: 1 })
  refused(t, await call(app, 'tools/list', {}, { headers: { accept }, meta: { [CAPABILITIES]: 5 } }), { status: 400, code: -32602, id: 1 })
  refused(t, await call(app, 'no/such', {}, { headers: { accept } }), { status: 404, code: -32601, id: 1 })
  refused(t, await call(app, 'tools/list', {}, { headers: { accept, origin: 'https://evil.example' } }), { status: 403, code: -32600 })
  t.strictSame(ran, [])
})

test('a handler that fails before it has anything to stream keeps its status: HTTP-12', async t => {
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      channel.sendProgress(1)
      return fail({ kind: 'missingClientCapability', required: { roots: {} } })
    })
  })
  refused(t, await call(app, 'tools/call', { name: 'x' }), { status: 400, code: -32021, id: 1 })
  const streamed = await call(app, 'tools/call', { name: 'x' }, { meta: { progressToken: 1 } })
  t.equal(streamed.statusCode, 200)
  t.match(streamed.body, /"progress":1.*\n\ndata: .*"code":-32021/)
})

// ERR-01, ERR-06, ERR-08, ERR-10, VER-10, HTTP-24, RPC-06
test('however a request is spoilt, it is answered with a status, a code and a shape of the protocol', async t => {
  const app = await mount(t, { server: echo })
  const statuses: Readonly<Record<number, readonly number[]>> = {
    [-32700]: [400], [-32600]: [400, 403, 406, 415], [-32601]: [404], [-32602]: [200, 400], [-32020]: [400], [-32022]: [400]
  }
  const oddities = [undefined, null, true, 0, -1, 1.5, '', 'x', '2026-07-28', '\u0000', [], [[]], {}, { a: 1 }, '__proto__', 'constructor']
  const texts = [undefined, '', ' ', 'x', '=?base64?x?=', '2026-07-28', '\u00ff', 'tools/call', 'x'.repeat(5_000)]
  const spoilt: Overrides[] = [
    ...['jsonrpc', 'id', 'method', 'params'].flatMap(member => oddities.map(value => ({ body: { [member]: value } }))),
    ...[VERSION, CAPABILITIES, 'progressToken', 'traceparent', 'io.modelcontextprotocol/clientInfo', 'io.modelcontextprotocol/logLevel', '__proto__', 'x']
      .flatMap(member => oddities.map(value => ({ meta: { [member]: value } }))),
    ...['name', 'arguments', 'requestState', 'inputResponses', '_meta', 'constructor']
      .flatMap(member => oddities.map(value => ({ body: { params: { name: 'echo', _meta: meta(), [member]: value } } }))),
    ...['content-type', 'accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id', 'last-event-id', 'content-encoding', 'origin']
      .flatMap(name => texts.map(value => ({ headers: { [name]: value } })))
  ]
  let refusals = 0
  for (const overrides of spoilt) {
    const response = await call(app, 'tools/call', { name: 'echo' }, overrides)
    const about = JSON.stringify(overrides).slice(0, 200)
    if (response.statusCode === 202) {
      if (response.body !== '') t.fail('202 has no body', { about })
      continue
    }
    const body = response.headers['content-type']?.toString().startsWith('application/json') === true ? response.json() : undefined
    if (response.statusCode === 200 && Value.Check(JSONRPCResultResponse, body)) continue
    refusals++
    const fine = Value.Check(JSONRPCErrorResponse, body) && !('result' in body) && statuses[body.error.code]?.includes(response.statusCode) === true
    if (!fine) t.fail('an answer of the protocol', { about, statusCode: response.statusCode, body: response.body })
  }
  t.ok(refusals > 150, `${refusals} of ${spoilt.length} were refused`)
  t.equal((await call(app, 'tools/call', { name: 'echo' })).statusCode, 200, 'the app goes on')
})
