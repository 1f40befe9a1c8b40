import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { test, type Test } from 'tap'
import Fastify, { type FastifyInstance, type LightMyRequestResponse } from 'fastify'
import genMcp, { defineServer, fail, listToolsResult, McpError, result, stream, toolResult, type GenMcpOptions } from 'fastify-gen-mcp'
import { call, mount } from '../helpers/mount.js'
import { stage } from '../helpers/sockets.js'
import { initializeParams, open, send } from '../legacy/helpers.js'

const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
const probe = fileURLToPath(new URL('../../examples/probe.sh', import.meta.url))

const run = promisify(execFile)
const curl = await run('curl', ['--version']).then(() => true, () => false)

const server = defineServer({
  info: { name: 'subject', version: '1.0.0' },
  capabilities: { tools: { listChanged: true } },
  handleRequest: {
    'tools/list': () => result(listToolsResult([])),
    'tools/call' ({ params: { name } }) {
      if (name === 'crash') throw new Error('a fault')
      return name === 'ask' ? fail(new McpError({ kind: 'missingClientCapability', required: { elicitation: {} } })) : result(toolResult.text('done'))
    },
    'subscriptions/listen': () => stream('live')
  }
})

type Answers = readonly LightMyRequestResponse[]
const about = async (t: Test, options: Partial<GenMcpOptions> = {}) => await mount(t, { server, ...options })
const listed = async (app: FastifyInstance, headers: Readonly<Record<string, string | undefined>>) => await call(app, 'tools/list', {}, { headers })

/** What a client sees, a row of the README each, and how it comes to that. */
const rows: Readonly<Record<string, (t: Test) => Promise<Answers>>> = {
  '404 none': async t => [await call(await about(t), 'tools/list', {}, { url: '/api/mcp' })],
  '404 -32601': async t => [await call(await about(t), 'prompts/list'), await call(await about(t), 'no/method')],
  async '404 -32600' (t) {
    const [one, other] = [await about(t), await about(t)]
    const session = await open(one)
    await session.delete()
    return [await session.request('tools/list'), await send(other, { jsonrpc: '2.0', id: 1, method: 'tools/list' }, session.headers)]
  },
  async '405 -32600' (t) {
    const app = await about(t, { legacy: false })
    const answers = await Promise.all((['GET', 'DELETE', 'PUT'] as const).map(async method => await app.inject({ method, url: '/mcp' })))
    t.same(answers.map(({ headers }) => headers.allow), ['POST', 'POST', 'POST'])
    return answers
  },
  async '400 -32020' (t) {
    const app = await about(t)
    const answers = await Promise.all(['mcp-method', 'mcp-protocol-version'].map(async name => await listed(app, { [name]: undefined })))
    t.match(answers.map(answer => answer.json<unknown>()), [{ error: { data: { header: 'Mcp-Method' } } }, { error: { data: { header: 'MCP-Protocol-Version' } } }])
    return answers
  },
  async '400 -32022' (t) {
    const answer = await send(await about(t, { legacy: false }), { jsonrpc: '2.0', id: 1, method: 'initialize', params: initializeParams() }, { 'mcp-protocol-version': '2025-11-25' })
    t.match(answer.json(), { error: { data: { supported: ['2026-07-28'] } } })
    return [answer]
  },
  '400 -32021': async t => [await call(await about(t), 'tools/call', { name: 'ask' })],
  async '400 -32600' (t) {
    const app = await about(t)
    return [await call(app, 'tools/list', {}, { body: '{}' }), await send(app, { jsonrpc: '2.0', id: 1, method: 'tools/list' }, { 'mcp-protocol-version': '2025-11-25' })]
  },
  '400 -32700': async t => [await call(await about(t), 'tools/list', {}, { body: '{"jsonrpc":' })],
  async '401 -32600' (t) {
    const challenge = 'Bearer resource_metadata="https://api.example.com/.well-known/oauth-protected-resource"'
    const app = await about(t, {
      onRequest: async (_httpRequest, reply) => {
        reply.header('www-authenticate', challenge)
        throw Object.assign(new Error('A bearer token is needed'), { statusCode: 401 })
      }
    })
    const answer = await call(app, 'tools/list')
    t.equal(answer.headers['www-authenticate'], challenge)
    return [answer]
  },
  async '403 -32600' (t) {
    const app = await about(t)
    const answers = [await listed(app, { origin: 'https://evil.example' }), await listed(app, { host: 'evil.example' })]
    t.match(answers.map(answer => answer.json<unknown>()), [{ error: { message: 'Origin not allowed' } }, { error: { message: 'Host not allowed' } }])
    return answers
  },
  async '406 -32600' (t) {
    const app = await about(t)
    return [await listed(app, { accept: 'text/html' }), await call(app, 'subscriptions/listen', { notifications: {} }, { headers: { accept: 'application/json' } })]
  },
  '413 -32600': async t => [await call(await about(t, { bodyLimit: 100 }), 'tools/list')],
  async '415 -32600' (t) {
    const app = await about(t)
    return [await listed(app, { 'content-type': 'text/plain' }), await listed(app, { 'content-encoding': 'gzip' })]
  },
  '500 -32603': async t => [await call(await about(t), 'tools/call', { name: 'crash' })],
  async '503 -32603' (t) {
    const { app } = await stage(t, server, { limits: { maxStreams: 1 } })
    const listen = async () => await call(app, 'subscriptions/listen', { notifications: { toolsListChanged: true } })
    const first = listen()
    const answer = await listen()
    t.type(answer.headers['retry-after'], 'string')
    await app.close()
    t.equal((await first).statusCode, 200)
    return [answer]
  }
}

for (const [row, ask] of Object.entries(rows)) {
  test(`a client that cannot connect is answered ${row}`, async t => {
    const [status, code] = row.split(' ')
    const answers = await ask(t)
    for (const answer of answers) {
      t.equal(answer.statusCode, Number(status))
      const { error } = answer.json<{ error?: { code?: number } }>()
      t.equal(String(error?.code ?? 'none'), code)
    }
  })
}

test('the README has these rows, and no others', async t => {
  const [, table = ''] = readme.split(/^\| status \| code \|.*\n\|[-|]+\n/m)
  const described = table.split('\n\n')[0]?.split('\n').map(line => line.split('|').slice(1, 3).map(cell => cell.trim()).join(' '))
  t.same(described, Object.keys(rows))
})

test('logLevel of a mount shows its refusals and ends, in an app that logs no such lines', async t => {
  const lines: { level: number, msg: string, mcp?: object }[] = []
  const app = Fastify({ logger: { level: 'info', stream: { write: (line: string) => { lines.push(JSON.parse(line) as typeof lines[number]) } } } })
  t.teardown(async () => { await app.close() })
  await app.register(genMcp, { prefix: '/mcp', server, logLevel: 'debug' })
  await app.register(genMcp, { prefix: '/quiet', server: { ...server } })
  for (const url of ['/mcp', '/quiet']) {
    await call(app, 'tools/list', {}, { url, headers: { 'mcp-method': undefined } })
    await call(app, 'tools/list', {}, { url })
  }
  t.match(lines.filter(({ level }) => level === 20), [
    { msg: 'an MCP request was refused', mcp: { reason: 'header', rpcCode: -32020, statusCode: 400 } },
    { msg: 'an MCP exchange ended', mcp: { method: 'tools/list', cause: 'result' } }
  ])
})

test('the commands of the README ask a server who it is, in both eras', { skip: curl ? false : 'curl is not installed' }, async t => {
  const { port } = await stage(t, server)
  const { stdout } = await run('sh', [probe, `http://127.0.0.1:${port}/mcp`])
  t.equal(stdout.match(/^HTTP\/1\.1 200 OK/gm)?.length, 2)
  t.match(stdout, /"supportedVersions":\["2026-07-28"/)
  t.match(stdout, /mcp-session-id: /)
  t.match(stdout, /"protocolVersion":"2025-11-25"/)
})
