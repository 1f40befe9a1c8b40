import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import * as api from 'fastify-gen-mcp'
import { fail, McpError, result, toolResult, type ErrorReason, type JsonValue } from 'fastify-gen-mcp'
import { errorObject, Refusal, retryAfter, toMcpError, toWireError } from '../lib/errors.js'
import { call, mount } from './helpers/mount.js'
import { refused } from './helpers/refusal.js'
import { toolServer } from './helpers/servers.js'

const readme = join(dirname(fileURLToPath(import.meta.url)), '../README.md')

type Kind = ErrorReason['kind']
/** The reason of one kind, also where several kinds share a form. */
type ReasonOf<K extends Kind, Reason = ErrorReason> = Reason extends { readonly kind: infer Kinds } ? K extends Kinds ? Omit<Reason, 'kind'> & { readonly kind: K } : never : never
interface Row<K extends Kind> {
  readonly reason: ReasonOf<K>
  readonly code: `MCP_ERR_${string}`
  readonly rpcCode: number
  readonly statusCode: number
  readonly data?: JsonValue
  readonly retryAfter?: number
}

/** A row for each kind, which the type of the table sees to. */
const table: { readonly [K in Kind]: Row<K> } = {
  unsupportedMethod: { reason: { kind: 'unsupportedMethod', method: 'a/b' }, code: 'MCP_ERR_UNSUPPORTED_METHOD', rpcCode: -32601, statusCode: 404, data: { method: 'a/b' } },
  invalidParams: {
    reason: { kind: 'invalidParams', issues: [{ path: '/a', message: 'is missing' }] },
    code: 'MCP_ERR_INVALID_PARAMS',
    rpcCode: -32602,
    statusCode: 200,
    data: { issues: [{ path: '/a', message: 'is missing' }] }
  },
  unknownTool: { reason: { kind: 'unknownTool', name: 'x' }, code: 'MCP_ERR_UNKNOWN_TOOL', rpcCode: -32602, statusCode: 200, data: { tool: 'x' } },
  promptNotFound: { reason: { kind: 'promptNotFound', name: 'x' }, code: 'MCP_ERR_PROMPT_NOT_FOUND', rpcCode: -32602, statusCode: 200, data: { name: 'x' } },
  resourceNotFound: { reason: { kind: 'resourceNotFound', uri: 'a://x' }, code: 'MCP_ERR_RESOURCE_NOT_FOUND', rpcCode: -32602, statusCode: 200, data: { uri: 'a://x' } },
  cursor: { reason: { kind: 'cursor' }, code: 'MCP_ERR_CURSOR', rpcCode: -32602, statusCode: 200 },
  requestState: { reason: { kind: 'requestState' }, code: 'MCP_ERR_REQUEST_STATE', rpcCode: -32602, statusCode: 200 },
  missingClientCapability: {
    reason: { kind: 'missingClientCapability', required: { elicitation: { url: {} } } },
    code: 'MCP_ERR_MISSING_CLIENT_CAPABILITY',
    rpcCode: -32021,
    statusCode: 400,
    data: { requiredCapabilities: { elicitation: { url: {} } } }
  },
  header: { reason: { kind: 'header', header: 'Mcp-Name', problem: 'mismatch' }, code: 'MCP_ERR_HEADER', rpcCode: -32020, statusCode: 400, data: { header: 'Mcp-Name' } },
  internal: { reason: { kind: 'internal', message: 'the database is away' }, code: 'MCP_ERR_INTERNAL', rpcCode: -32603, statusCode: 200 },
  custom: { reason: { kind: 'custom', rpcCode: 7, message: 'ours', data: [1], statusCode: 409 }, code: 'MCP_ERR_CUSTOM', rpcCode: 7, statusCode: 409, data: [1] },
  parse: { reason: { kind: 'parse' }, code: 'MCP_ERR_PARSE', rpcCode: -32700, statusCode: 400 },
  invalidRequest: { reason: { kind: 'invalidRequest' }, code: 'MCP_ERR_INVALID_REQUEST', rpcCode: -32600, statusCode: 400 },
  originForbidden: { reason: { kind: 'originForbidden' }, code: 'MCP_ERR_ORIGIN_FORBIDDEN', rpcCode: -32600, statusCode: 403 },
  hostForbidden: { reason: { kind: 'hostForbidden' }, code: 'MCP_ERR_HOST_FORBIDDEN', rpcCode: -32600, statusCode: 403 },
  mediaType: { reason: { kind: 'mediaType' }, code: 'MCP_ERR_MEDIA_TYPE', rpcCode: -32600, statusCode: 415 },
  bodyTooLarge: { reason: { kind: 'bodyTooLarge' }, code: 'MCP_ERR_BODY_TOO_LARGE', rpcCode: -32600, statusCode: 413 },
  notAcceptable: { reason: { kind: 'notAcceptable' }, code: 'MCP_ERR_NOT_ACCEPTABLE', rpcCode: -32600, statusCode: 406 },
  unsupportedVersion: {
    reason: { kind: 'unsupportedVersion', requested: '1', supported: ['2026-07-28'] },
    code: 'MCP_ERR_UNSUPPORTED_VERSION',
    rpcCode: -32022,
    statusCode: 400,
    data: { requested: '1', supported: ['2026-07-28'] }
  },
  crash: { reason: { kind: 'crash' }, code: 'MCP_ERR_CRASH', rpcCode: -32603, statusCode: 500 },
  closed: { reason: { kind: 'closed' }, code: 'MCP_ERR_CLOSED', rpcCode: -32603, statusCode: 200 },
  timeout: { reason: { kind: 'timeout' }, code: 'MCP_ERR_TIMEOUT', rpcCode: -32603, statusCode: 200 },
  overflow: { reason: { kind: 'overflow' }, code: 'MCP_ERR_OVERFLOW', rpcCode: -32603, statusCode: 200 },
  overloaded: { reason: { kind: 'overloaded', retryAfter: 3 }, code: 'MCP_ERR_OVERLOADED', rpcCode: -32603, statusCode: 503, retryAfter: 3 },
  shutdown: { reason: { kind: 'shutdown', retryAfter: 4 }, code: 'MCP_ERR_SHUTDOWN', rpcCode: -32603, statusCode: 503, retryAfter: 4 }
}
const rows: readonly (Omit<Row<Kind>, 'reason'> & { readonly reason: ErrorReason })[] = Object.values(table)

/** What is thrown at whoever mounts and writes callbacks. */
const ownErrors = ['MCP_ERR_BAD_OPTION', 'MCP_ERR_BAD_PROVIDER', 'MCP_ERR_BAD_RETURN', 'MCP_ERR_BUS_DOWN', 'MCP_ERR_HEAD_SENT'] as const

for (const row of rows) {
  test(`kind ${row.reason.kind} is ${row.code}, ${row.rpcCode} and ${row.statusCode}`, async t => {
    const error = new McpError(row.reason)
    t.equal(error.name, 'McpError')
    t.equal(error.reason, row.reason)
    t.equal(error.code, row.code)
    t.equal(error.rpcCode, row.rpcCode)
    t.equal(error.statusCode, row.statusCode)
    t.strictSame(error.data, row.data)
    t.equal(retryAfter(error), row.retryAfter)
    t.match(error.message, /^[^\r\n]+$/)
    t.strictSame(errorObject(error), { code: row.rpcCode, message: error.message, ...(row.data !== undefined && { data: row.data }) })
  })

  test(`a callback that fails with kind ${row.reason.kind}, or throws it, is answered so`, async t => {
    const app = await mount(t, {
      server: toolServer(({ params: { name } }) => {
        if (name === 'throw') throw new McpError(row.reason)
        return name === 'instance' ? fail(new McpError(row.reason)) : fail(row.reason)
      })
    })
    for (const name of ['throw', 'fail', 'instance']) {
      const response = await call(app, 'tools/call', { name, arguments: {} })
      // ERR-10: an error has neither result nor resultType, and does not name the server; `refused` asserts what members there are.
      const error = refused(t, response, { status: row.statusCode, code: row.rpcCode, id: 1 }, name)
      t.strictSame(error.data, row.data, name)
      t.notMatch(response.body, /resultType|serverInfo/, name)
      t.equal(response.headers['retry-after'], row.retryAfter === undefined ? undefined : String(row.retryAfter), name)
    }
  })
}

test('no kind but custom has a code that the protocol does not define: ERR-01, ERR-02, ERR-03, ERR-04', async t => {
  const defined = new Set([-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022])
  for (const { reason, rpcCode } of rows) if (reason.kind !== 'custom') t.ok(defined.has(rpcCode), `${reason.kind}: ${rpcCode}`)
})

test('a defined code from -32020 on has the one meaning that it has in the protocol: ERR-03', async t => {
  const kindsOf = (code: number): readonly Kind[] => rows.filter(({ rpcCode }) => rpcCode === code).map(({ reason }) => reason.kind)
  t.strictSame(kindsOf(-32020), ['header'])
  t.strictSame(kindsOf(-32021), ['missingClientCapability'])
  t.strictSame(kindsOf(-32022), ['unsupportedVersion'])
})

test('the errors of the protocol\'s own HTTP status have 400: ERR-06', async t => {
  for (const { rpcCode, statusCode } of rows) if ([-32020, -32021, -32022].includes(rpcCode)) t.equal(statusCode, 400, String(rpcCode))
})

test('a custom code is one that the protocol defines, or one of the application\'s own: ERR-03, ERR-04, ERR-05', async t => {
  const custom = (rpcCode: number): McpError => new McpError({ kind: 'custom', rpcCode, message: 'x' })
  for (const rpcCode of [-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, -32769, -31999, 0, 1, 404, Number.MAX_SAFE_INTEGER]) t.equal(custom(rpcCode).rpcCode, rpcCode)
  for (const rpcCode of [-32000, -32001, -32002, -32019, -32023, -32042, -32099, -32100, -32768, -32604, 1.5, NaN, Infinity]) t.throws(() => custom(rpcCode), RangeError, String(rpcCode))
})

test('a custom status is 200 or one of an error, and 200 where none is given', async t => {
  const custom = (statusCode?: number): McpError => new McpError({ kind: 'custom', rpcCode: 1, message: 'x', ...(statusCode !== undefined && { statusCode }) })
  t.equal(custom().statusCode, 200)
  for (const statusCode of [200, 400, 429, 500, 599]) t.equal(custom(statusCode).statusCode, statusCode)
  for (const statusCode of [0, 100, 201, 204, 301, 399, 600, 404.5, NaN]) t.throws(() => custom(statusCode), RangeError, String(statusCode))
})

test('a code of another peer that is passed on does not change the HTTP status: ERR-11', async t => {
  for (const rpcCode of [-32601, -32020, -32022, -32700]) {
    const app = await mount(t, { server: toolServer(() => fail({ kind: 'custom', rpcCode, message: 'from downstream', data: { hop: 2 } })) })
    const response = await call(app, 'tools/call', { name: 'relay', arguments: {} })
    t.equal(response.statusCode, 200, String(rpcCode))
    t.match(response.json(), { error: { code: rpcCode, message: 'from downstream', data: { hop: 2 } } })
  }
})

test('a string that fails is an internal error with that text, which the client sees', async t => {
  const app = await mount(t, { server: toolServer(() => fail('the printer is on fire')) })
  const response = await call(app, 'tools/call', { name: 'print', arguments: {} })
  t.equal(response.statusCode, 200)
  t.strictSame(response.json<{ error: object }>().error, { code: -32603, message: 'the printer is on fire' })
})

test('messages are one line whatever they are about, and do not grow with it', async t => {
  const long = `a"\n${'x'.repeat(10_000)}`
  for (const reason of [{ kind: 'unknownTool', name: long }, { kind: 'promptNotFound', name: long }, { kind: 'resourceNotFound', uri: long }] satisfies ErrorReason[]) {
    const { message } = new McpError(reason)
    t.notMatch(message, /[\r\n]/, reason.kind)
    t.ok(message.length < 200, reason.kind)
  }
})

test('invalid params say what is wrong: their own message, the first issue, or no more than that', async t => {
  const message = (reason: Omit<Extract<ErrorReason, { kind: 'invalidParams' }>, 'kind'>): string => new McpError({ kind: 'invalidParams', ...reason }).message
  t.equal(message({ message: 'a must be even' }), 'a must be even')
  t.equal(message({ issues: [{ path: '/a', message: 'is odd' }, { path: '/b', message: 'is missing' }] }), 'Invalid params: /a is odd')
  t.equal(message({ issues: [] }), 'Invalid params')
  t.equal(message({}), 'Invalid params')
})

test('a header problem names the header and what is wrong with it; of the version header also what is served', async t => {
  const about = (header: string, problem: 'missing' | 'mismatch' | 'malformed'): McpError => new McpError({ kind: 'header', header, problem })
  t.equal(about('Mcp-Name', 'missing').message, 'Header Mcp-Name is missing')
  t.equal(about('Mcp-Name', 'malformed').message, 'Header Mcp-Name is malformed')
  t.equal(about('MCP-Protocol-Version', 'mismatch').message, 'Header MCP-Protocol-Version does not match the body, use 2026-07-28')
  t.strictSame(about('MCP-Protocol-Version', 'missing').data, { header: 'MCP-Protocol-Version', supported: ['2026-07-28'] })
})

test('whatever is no McpError is a crash on the wire, and its cause is kept for the log', async t => {
  const cause = new Error('secret')
  for (const thrown of [cause, 'text', undefined, null, { statusCode: 404, message: 'no' }]) {
    const error = toWireError(thrown)
    t.strictSame(errorObject(error), { code: -32603, message: 'Internal error' })
    t.equal(error.statusCode, 500)
    t.equal(error.cause, thrown)
  }
  const known = McpError.unsupportedMethod('a/b')
  t.equal(toWireError(known), known)
  t.equal(toMcpError(known), known)
  t.equal(toMcpError('text').message, 'text')
  t.equal(toMcpError({ kind: 'cursor' }).code, 'MCP_ERR_CURSOR')
})

test('a refusal is an McpError with the status of its phase', async t => {
  const refusal = new Refusal({ kind: 'crash' }, 502, { cause: 'x' })
  t.ok(refusal instanceof McpError)
  t.equal(refusal.statusCode, 502)
  t.equal(refusal.rpcCode, -32603)
  t.equal(refusal.cause, 'x')
})

test('the errors for whoever mounts and writes callbacks say what they are about', async t => {
  const errors = [
    new api.MCP_ERR_BAD_OPTION('limits.drain', 'must be a number'), new api.MCP_ERR_BAD_PROVIDER('tool x', 'has no name'),
    new api.MCP_ERR_BAD_RETURN('init', 'a number'), new api.MCP_ERR_BUS_DOWN('legacy.bus', '5000'), new api.MCP_ERR_HEAD_SENT('x-a')
  ]
  t.strictSame(errors.map(({ code }) => code), ownErrors)
  t.strictSame(errors.map(({ message }) => message), [
    'Option limits.drain must be a number', 'tool x has no name', 'init returned a number',
    'Nothing came back from the message bus legacy.bus within 5000 ms: look at whether its address is right, its broker is reached and what is emitted comes to the process itself',
    'The head of the response has been sent; header "x-a" comes too late'
  ])
  t.strictSame(Object.keys(api).filter(name => name.startsWith('MCP_ERR_')).sort(), [...ownErrors].sort())
})

test('a return outside the union is MCP_ERR_BAD_RETURN in the log, and a bare crash to the client', async t => {
  const lines: string[] = []
  // What TypeScript would not let pass.
  const wrong = (() => ({ type: 'result', result: toolResult.text('secret') })) as unknown as () => ReturnType<typeof result>
  const app = await mount(t, { server: toolServer(wrong as never) }, { logger: { level: 'error', stream: { write: (line: string) => { lines.push(line) } } } })
  const response = await call(app, 'tools/call', { name: 'x', arguments: {} })
  t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.equal(lines.length, 1)
  t.match(lines[0], 'MCP_ERR_BAD_RETURN')
})

test('the README has a table of all error codes, and of no others', async t => {
  if (!existsSync(readme)) return t.fail('there is no README.md')
  const documented = readTable(readFileSync(readme, 'utf8'))
  t.strictSame([...documented.keys()].sort(), [...rows.map(({ code }) => code), ...ownErrors].sort())
  for (const { reason, code, rpcCode, statusCode } of rows) {
    const { rpc = '', http = '', when = '' } = documented.get(code) ?? {}
    t.not(when, '', `${code} says when`)
    if (reason.kind === 'custom') continue
    t.match(rpc.replaceAll(/[\u2212\u2011\u2013]/g, '-'), String(rpcCode), `${code}: JSON-RPC`)
    t.match(http, String(statusCode), `${code}: HTTP`)
  }
})

/** The rows of the tables whose columns are code, JSON-RPC, HTTP and when. A row may be about several codes. */
function readTable (text: string): Map<string, { readonly rpc: string, readonly http: string, readonly when: string }> {
  const found = new Map<string, { readonly rpc: string, readonly http: string, readonly when: string }>()
  let inTable = false
  for (const line of text.split('\n')) {
    const [code = '', rpc = '', http = '', when = ''] = line.startsWith('|') ? line.split('|').slice(1, -1).map(cell => cell.trim()) : []
    if (/^`?code`?$/i.test(code) && /json-?rpc/i.test(rpc) && /http/i.test(http)) inTable = true
    else if (!line.startsWith('|')) inTable = false
    if (inTable) for (const name of code.match(/MCP_ERR_[A-Z_]+/g) ?? []) found.set(name, { rpc, http, when })
  }
  return found
}
