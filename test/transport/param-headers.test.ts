import { test } from 'tap'
import { checkParamHeaders, result, toolResult } from 'fastify-gen-mcp'
import { call, meta, mount } from '../helpers/mount.js'
import { refused } from '../helpers/refusal.js'
import { toolServer } from '../helpers/servers.js'
import type { FastifyInstance } from 'fastify'
import type { JsonSchema } from 'fastify-gen-mcp'
import type { Response } from 'light-my-request'
import type { Test } from 'tap'

/** How a header that is wrong is answered. */
const REFUSED = { status: 400, code: -32020, id: 1 }

const base64 = (text: string): string => `=?base64?${Buffer.from(text).toString('base64')}?=`

const inputSchema = {
  type: 'object',
  properties: {
    region: { type: 'string', 'x-mcp-header': 'Region' },
    limit: { type: 'integer', 'x-mcp-header': 'Limit' },
    dry: { type: 'boolean', 'x-mcp-header': 'Dry-Run' },
    a: { type: 'object', properties: { b: { type: 'string', 'x-mcp-header': 'Nested' } } },
    toString: { type: 'object', properties: { name: { type: 'string', 'x-mcp-header': 'Inherited' } } },
    query: { type: 'string' }
  }
}

/** The tool, and the calls that got past its check. */
async function guarded (t: Test, schema: JsonSchema = inputSchema): Promise<{ app: FastifyInstance, ran: unknown[] }> {
  const ran: unknown[] = []
  const app = await mount(t, {
    server: toolServer((request, channel) => {
      checkParamHeaders(schema, request, channel.httpRequest)
      ran.push(request.params.arguments)
      return result(toolResult.text('ran'))
    })
  })
  return { app, ran }
}

async function send (app: FastifyInstance, args: object | undefined, headers: Record<string, string | undefined> = {}): Promise<Response> {
  return await call(app, 'tools/call', { name: 'execute_sql', arguments: args }, { headers })
}

/** A header, what is asked of it, and what is wrong with it. */
type Case = readonly [args: object, headers: Record<string, string>]

async function allServed (t: Test, cases: readonly Case[]): Promise<void> {
  const { app, ran } = await guarded(t)
  for (const [args, headers] of cases) {
    const response = await send(app, args, headers)
    t.equal(response.statusCode, 200, `${JSON.stringify(args)} with ${JSON.stringify(headers)}`)
    t.equal(response.json().result?.content[0].text, 'ran')
  }
  t.equal(ran.length, cases.length)
}

async function allRefused (t: Test, header: string, problem: string, cases: readonly Case[]): Promise<void> {
  const { app, ran } = await guarded(t)
  for (const [args, headers] of cases) {
    const about = `${JSON.stringify(args)} with ${JSON.stringify(headers)}`
    const { message, data } = refused(t, await send(app, args, headers), REFUSED, about)
    t.equal(message, `Header ${header} ${problem}`)
    t.strictSame(data, { header })
  }
  t.strictSame(ran, [])
}

test('a value without its header is refused with 400, -32020: XPH-08, HDR-14', async t => {
  await allRefused(t, 'Mcp-Param-Region', 'is missing', [
    [{ region: 'us-west1' }, {}], [{ region: '' }, {}], [{ region: 'us' }, { region: 'us', 'mcp-param-regio': 'us' }]
  ])
  await allRefused(t, 'Mcp-Param-Limit', 'is missing', [[{ limit: 0 }, {}]])
  await allRefused(t, 'Mcp-Param-Dry-Run', 'is missing', [[{ dry: false }, {}]])
  await allRefused(t, 'Mcp-Param-Nested', 'is missing', [[{ a: { b: 'x' } }, {}]])
})

test('a header that says something else than its value is refused with 400, -32020: XPH-09', async t => {
  await allRefused(t, 'Mcp-Param-Region', 'does not match the body', [
    [{ region: 'us-west1' }, { 'mcp-param-region': 'eu' }], [{ region: 'us-west1' }, { 'mcp-param-region': 'US-WEST1' }],
    [{ region: 'us' }, { 'mcp-param-region': '' }], [{ region: 'us' }, { 'mcp-param-region': 'us, us' }]
  ])
  await allRefused(t, 'Mcp-Param-Nested', 'does not match the body', [[{ a: { b: 'x' } }, { 'mcp-param-nested': 'y' }]])
})

test('headers that say the same as their values are let through, the name in any case: XPH-08, XPH-09, HDR-09', async t => {
  await allServed(t, [
    [{ region: 'us-west1' }, { 'Mcp-Param-Region': 'us-west1' }],
    [
      { region: 'us-west1', limit: 5, dry: true, a: { b: 'deep' } },
      { 'MCP-PARAM-REGION': 'us-west1', 'mcp-param-limit': '5', 'mcp-param-dry-run': 'true', 'mcp-param-nested': 'deep' }
    ],
    [{ region: 'us west 1' }, { 'mcp-param-region': '  us west 1\t' }],
    [{ region: 'größe' }, { 'mcp-param-region': base64('größe') }],
    [{ region: '=?base64?x?=' }, { 'mcp-param-region': base64('=?base64?x?=') }]
  ])
})

test('an empty string comes as an empty header, or encoded: ENC-12', async t => {
  await allServed(t, [[{ region: '' }, { 'mcp-param-region': '' }], [{ region: '' }, { 'mcp-param-region': '=?base64??=' }]])
})

test('without a value no header is expected: XPH-10, case 037', async t => {
  await allServed(t, [[{}, {}], [{ region: null, limit: null, dry: null, a: { b: null } }, {}], [{ query: 'x' }, {}], [{ a: {} }, {}]])
  const { app, ran } = await guarded(t)
  t.equal((await send(app, undefined)).statusCode, 200)
  t.strictSame(ran, [{}])
})

test('a header without its value is refused with 400, -32020: XPH-11', async t => {
  await allRefused(t, 'Mcp-Param-Region', 'does not match the body', [
    [{}, { 'mcp-param-region': 'us' }], [{ region: null }, { 'mcp-param-region': 'null' }],
    [{}, { 'mcp-param-region': '' }], [{}, { 'mcp-param-region': '=?base64?!?=' }]
  ])
})

test('a header that is malformed is refused with 400, -32020: XPH-12, ENC-06, ENC-07, HDR-11', async t => {
  await allRefused(t, 'Mcp-Param-Region', 'is malformed', [
    [{ region: 'Hello' }, { 'mcp-param-region': '=?base64?SGVsbG8?=' }], [{ region: 'Hello' }, { 'mcp-param-region': '=?base64?SGVs!!!bG8=?=' }],
    [{ region: '\uFFFD' }, { 'mcp-param-region': '=?base64?/w==?=' }], [{ region: 'caf\u00e9' }, { 'mcp-param-region': 'caf\u00e9' }]
  ])
})

test('headers that the tool does not define are ignored: XPH-13', async t => {
  await allServed(t, [
    [{ query: 'x' }, { 'mcp-param-unknown': 'x' }], [{ query: 'x' }, { 'mcp-param-query': 'y', 'mcp-param-a': '=?base64?!?=', 'mcp-param-': 'z' }]
  ])
})

test('true and false are written so, and numbers in decimal: ENC-09', async t => {
  await allServed(t, [
    [{ dry: true }, { 'mcp-param-dry-run': 'true' }], [{ dry: false }, { 'mcp-param-dry-run': 'false' }],
    [{ dry: true }, { 'mcp-param-dry-run': base64('true') }],
    [{ limit: -7 }, { 'mcp-param-limit': '-7' }], [{ limit: 0 }, { 'mcp-param-limit': '0' }],
    [{ limit: 2 ** 53 - 1 }, { 'mcp-param-limit': '9007199254740991' }],
    [{ limit: -(2 ** 53 - 1) }, { 'mcp-param-limit': '-9007199254740991' }]
  ])
  await allRefused(t, 'Mcp-Param-Dry-Run', 'does not match the body',
    ['True', 'TRUE', '1', 'yes', '', 'false'].map(header => [{ dry: true }, { 'mcp-param-dry-run': header }]))
})

test('integers are compared as numbers, in strict decimal: ENC-10', async t => {
  await allServed(t, [[{ limit: 42 }, { 'mcp-param-limit': '42.0' }], [{ limit: 42 }, { 'mcp-param-limit': '42.000' }]])
  await allRefused(t, 'Mcp-Param-Limit', 'does not match the body', ['0x2a', '4.2e1', '42.', '42.5', '+42', '4 2', '42n', '٤٢', '42,0'].map(header =>
    [{ limit: 42 }, { 'mcp-param-limit': /^[\x20-\x7e]*$/.test(header) ? header : base64(header) }]))
  await allRefused(t, 'Mcp-Param-Limit', 'does not match the body',
    ['', '-', '.0', 'null', '0b0', 'Infinity'].map(header => [{ limit: 0 }, { 'mcp-param-limit': header }]))
})

test('an integer that JSON cannot carry exactly is refused rather than rounded: ENC-11', async t => {
  const { app, ran } = await guarded(t)
  for (const number of ['9007199254740993', '9007199254740992', '-9007199254740993', '1e400']) {
    const params = `{"name":"x","arguments":{"limit":${number}},"_meta":${JSON.stringify(meta())}}`
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`
    for (const header of [number, '9007199254740992', '9007199254740993']) {
      refused(t, await call(app, 'tools/call', { name: 'x' }, { body, headers: { 'mcp-param-limit': header } }), REFUSED, `${number} with ${header}`)
    }
  }
  t.strictSame(ran, [])
})

test('a value of another type than the schema says is no match for any header: ENC-09', async t => {
  await allRefused(t, 'Mcp-Param-Limit', 'does not match the body', [
    [{ limit: 1.5 }, { 'mcp-param-limit': '1.5' }], [{ limit: [1] }, { 'mcp-param-limit': '1' }],
    [{ limit: {} }, { 'mcp-param-limit': '[object Object]' }]
  ])
})

test('a way that meets no object, or no member of its own, finds no value: XPH-15', async t => {
  await allServed(t, [[{ a: 5 }, {}], [{ a: null }, {}], [{ a: 'text' }, {}], [{ a: [{ b: 'x' }] }, {}], [{}, {}], [{ toString: 5 }, {}]])
  await allRefused(t, 'Mcp-Param-Nested', 'does not match the body', [[{ a: 5 }, { 'mcp-param-nested': '5' }], [{ a: ['x'] }, { 'mcp-param-nested': 'x' }]])
  await allRefused(t, 'Mcp-Param-Inherited', 'does not match the body', [[{}, { 'mcp-param-inherited': 'toString' }]])
})

test('only a chain of properties leads to what is annotated', async t => {
  const annotated = { type: 'string', 'x-mcp-header': 'Hidden' }
  const { app, ran } = await guarded(t, {
    type: 'object',
    'x-mcp-header': 'Hidden',
    properties: {
      list: { type: 'array', items: annotated, prefixItems: [annotated] },
      either: { oneOf: [annotated], anyOf: [annotated], allOf: [{ properties: { b: annotated } }], not: annotated, if: annotated },
      odd: { 'x-mcp-header': 5 },
      open: true,
      none: { properties: [annotated] }
    },
    patternProperties: { '^x': annotated },
    additionalProperties: annotated,
    $defs: { properties: { b: annotated } }
  })
  const args = { list: ['x'], either: { b: 'x' }, odd: 'x', open: 'x', none: ['x'], x: 'x' }
  t.equal((await send(app, args, { 'mcp-param-hidden': 'y' })).statusCode, 200)
  t.strictSame(ran, [args])
})

test('a schema without properties, or with a property of that name, is none to stumble over: XPH-13', async t => {
  for (const schema of [{}, { type: 'object' }, { properties: null }, { properties: { properties: { type: 'string' } } }] as JsonSchema[]) {
    const { app } = await guarded(t, schema)
    t.equal((await send(app, { properties: 'x' }, { 'mcp-param-region': 'us' })).statusCode, 200)
  }
})

test('the tool of the body decides, and each schema is asked anew: XPH-14', async t => {
  const other = { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Area' } } }
  const schemas: Record<string, JsonSchema> = { sql: inputSchema, other }
  const app = await mount(t, {
    server: toolServer((request, { httpRequest }) => {
      const schema = schemas[request.params.name]
      if (schema === undefined) return result(toolResult.error('unknown'))
      checkParamHeaders(schema, request, httpRequest)
      return result(toolResult.text('ran'))
    })
  })
  const ask = async (name: string, headers: Record<string, string>): Promise<Response> =>
    await call(app, 'tools/call', { name, arguments: { region: 'us' } }, { headers })
  for (let round = 0; round < 2; round++) {
    t.equal((await ask('sql', { 'mcp-param-region': 'us' })).statusCode, 200)
    t.equal((await ask('other', { 'mcp-param-area': 'us', 'mcp-param-region': 'eu' })).statusCode, 200)
    refused(t, await ask('sql', { 'mcp-param-area': 'us' }), REFUSED)
    refused(t, await ask('other', { 'mcp-param-region': 'us' }), REFUSED)
  }
})
