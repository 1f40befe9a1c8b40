import { execFile } from 'node:child_process'
import { cp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { test } from 'tap'

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)

/** A modern request, and one of a 2025 client, to what was built. */
const tryOut = `
import Fastify from 'fastify'
import genMcp, { defineServer } from './dist/lib/index.js'
const app = Fastify()
await app.register(genMcp, { prefix: '/mcp', server: defineServer({ info: { name: 'a', version: '1' }, capabilities: {}, handleRequest: {} }) })
const post = async (headers, body) => await app.inject({ method: 'POST', url: '/mcp', headers: { accept: 'application/json', ...headers }, payload: { jsonrpc: '2.0', id: 1, ...body } })
const version = '2026-07-28'
const _meta = { 'io.modelcontextprotocol/protocolVersion': version, 'io.modelcontextprotocol/clientCapabilities': {} }
const modern = await post({ 'mcp-protocol-version': version, 'mcp-method': 'server/discover' }, { method: 'server/discover', params: { _meta } })
const older = await post({}, { method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'b', version: '1' } } })
console.log(JSON.stringify([modern.statusCode, modern.json().result.supportedVersions, older.statusCode, older.json().error.code]))
await app.close()
`

test('without lib/legacy and the lines of plugin.ts that reach it there is a package that builds and serves 2026-07-28', async t => {
  const folder = t.testdir()
  for (const name of ['lib', 'types', 'package.json', 'tsconfig.json', 'tsconfig.build.json']) await cp(join(root, name), join(folder, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))

  await rm(join(folder, 'lib/legacy'), { recursive: true })
  const plugin = await readFile(join(folder, 'lib/plugin.ts'), 'utf8')
  const lines = plugin.split('\n')
  const kept = lines.filter(line => !line.includes('serveLegacy'))
  t.equal(lines.length - kept.length, 2, 'one import and one call')
  await writeFile(join(folder, 'lib/plugin.ts'), kept.join('\n'))

  await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(folder, 'tsconfig.build.json')])
  await writeFile(join(folder, 'try.mjs'), tryOut)
  const { stdout } = await run(process.execPath, [join(folder, 'try.mjs')])
  t.strictSame(JSON.parse(stdout), [200, ['2026-07-28'], 400, -32020])
})

test('nothing but the plugin knows of lib/legacy, and types/legacy.ts is of types alone', async t => {
  const { stdout } = await run('grep', ['-rlE', "from '.*legacy", join(root, 'lib'), join(root, 'types')])
  const files = stdout.trim().split('\n').map(file => file.slice(root.length)).filter(file => !file.startsWith('lib/legacy/')).sort()
  t.strictSame(files, ['lib/plugin.ts', 'types/options.ts'])
})
