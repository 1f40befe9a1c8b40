import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { test } from 'tap'
import * as api from 'fastify-gen-mcp'
import genMcp from 'fastify-gen-mcp'
import * as testing from 'fastify-gen-mcp/testing'

const run = promisify(execFile)
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
/** Without what tells this process to load sources. */
const env = { ...process.env, NODE_OPTIONS: '' }
// npm takes its time beside other tests.
t.setTimeout(300_000)

interface Manifest {
  readonly version: string
  readonly engines: { readonly node: string }
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
}
// What npm has read already, or nothing here would run.
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

if (!existsSync(join(root, 'dist/lib/index.js'))) throw new Error('dist is missing: these tests check the built package, so run "npm run build" first')

/** Runs a script against the built package, as a program of somebody else would run. */
async function script (text: string, ...options: string[]): Promise<unknown> {
  const { stdout } = await run(process.execPath, [...options, '-e', text], { cwd: root, env })
  return JSON.parse(stdout)
}

test('what is published is the build with its types, README, licence and manifest', async t => {
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root, env, maxBuffer: 1 << 24 })
  const [{ files }] = JSON.parse(stdout) as [{ readonly files: readonly { readonly path: string }[] }]
  const paths = files.map(({ path }) => path)

  t.strictSame(paths.filter(path => !/^dist\/(?:lib|types)\//.test(path)).sort(), ['LICENSE', 'README.md', 'package.json'])
  t.strictSame(paths.filter(path => path.startsWith('dist/') && !/\.(?:js|d\.ts)$/.test(path)), [], 'no source and no map')
  for (const path of ['dist/lib/index.js', 'dist/lib/index.d.ts', 'dist/lib/legacy/index.js', 'dist/lib/legacy/index.d.ts', 'dist/lib/testing/index.js', 'dist/lib/testing/index.d.ts', 'dist/types/options.d.ts']) t.ok(paths.includes(path), path)
  for (const targets of Object.values(manifest.exports)) {
    for (const [condition, target] of typeof targets === 'string' ? [['default', targets]] : Object.entries(targets)) {
      if (condition !== '@fastify-gen-mcp/source') t.ok(paths.includes(target?.slice(2) ?? ''), `${target} is exported and published`)
    }
  }
})

// Node has it by default from 20.19 on; before that it is behind a flag.
const canRequire = (process.features as { readonly require_module?: boolean }).require_module === true
const requireFlags = canRequire ? [] : ['--experimental-require-module']

test('the built package can be required, and gives what it gives when imported', async t => {
  // Node marks what it required of ES modules with __esModule.
  const names = 'console.log(JSON.stringify([\'fastify-gen-mcp\', \'fastify-gen-mcp/testing\'].map(name => Object.keys(require(name)).filter(name => name !== \'__esModule\').sort())))'
  const own = [Object.keys(api), Object.keys(testing)].map(names => names.sort())
  t.strictSame(await script(names, ...requireFlags), own)
  const imported = 'Promise.all([import(\'fastify-gen-mcp\'), import(\'fastify-gen-mcp/testing\')]).then(all => console.log(JSON.stringify(all.map(names => Object.keys(names).sort()))))'
  t.strictSame(await script(imported), own)
})

test('the built package, required, mounts a server that answers', async t => {
  const answered = await script(`
    const { default: genMcp, toolResult, result } = require('fastify-gen-mcp')
    const { createTestClient } = require('fastify-gen-mcp/testing')
    const app = require('fastify')()
    app.register(genMcp, { server: { handleRequest: () => result(toolResult.text('built')) } })
    createTestClient(app).request('tools/call', { name: 'x', arguments: {} }).then(({ statusCode, result }) => console.log(JSON.stringify([statusCode, result.content])))
  `, ...requireFlags)
  t.strictSame(answered, [200, [{ type: 'text', text: 'built' }]])
})

test('nothing but what is exported can be loaded', async t => {
  const paths = ['fastify-gen-mcp/dist/lib/index.js', 'fastify-gen-mcp/lib/errors.js', 'fastify-gen-mcp/dist/lib/plugin.js']
  const codes = await script(`Promise.all(${JSON.stringify(paths)}.map(path => import(path).then(() => 'loaded', error => error.code))).then(codes => console.log(JSON.stringify(codes)))`)
  t.strictSame(codes, paths.map(() => 'ERR_PACKAGE_PATH_NOT_EXPORTED'))
  t.equal(await script('console.log(JSON.stringify(require(\'fastify-gen-mcp/package.json\').version))'), manifest.version)
})

test('at most eight packages are installed beside Fastify\'s own', async t => {
  const { stdout } = await run('npm', ['ls', '--omit=dev', '--all', '--json'], { cwd: root, env, maxBuffer: 1 << 24 })
  const installed = [...packagesOf(JSON.parse(stdout) as Tree)].filter(name => name !== 'fastify')
  t.ok(installed.includes('@sinclair/typebox') && installed.includes('fastify-plugin'), 'the tree has been read')
  const fastifys = new Set(['fastify', ...dependenciesOf('fastify')])
  const beside = installed.filter(name => !fastifys.has(name))
  t.ok(beside.length <= 8, beside.join(', '))
  t.strictSame(manifest.optionalDependencies ?? {}, {})
})

test('the range of Fastify is the same for npm and for Fastify itself: case 021', async t => {
  const meta = (genMcp as unknown as Record<symbol, { readonly name: string, readonly fastify: string }>)[Symbol.for('plugin-meta')]
  t.equal(meta?.name, 'fastify-gen-mcp')
  t.equal(meta?.fastify, manifest.peerDependencies['fastify'])
  t.strictSame(Object.keys(manifest.peerDependencies), ['fastify'])
})

/** Advisories on Fastify 5, and the last version that each is about. */
const advisories: Readonly<Record<string, string>> = {
  'GHSA-mg2h-6x62-wpwc, a Content-Type that bypasses validation': '5.3.1',
  'GHSA-jx2c-rxcm-jvmq, a tab in Content-Type': '5.7.1',
  'GHSA-mrq3-vjjr-p77c, web streams without backpressure': '5.7.2',
  'GHSA-573f-x89g-hqp9, a malformed Content-Type': '5.8.0',
  'GHSA-444r-cwp2-x5xf, X-Forwarded headers of whoever connects': '5.8.2',
  'GHSA-247c-9743-5963, a space before Content-Type': '5.8.4',
  'GHSA-3m5p-2c4r-xxw2, X-Forwarded headers where hops are counted': '5.12.0',
  'GHSA-w2qp-rph6-63g4, coerced root primitives that bypass validation': '5.12.0',
  'the four that 5.12.2 closes': '5.12.1'
}

test('the range of Fastify has no version with a known advisory: case 021', async t => {
  const range = manifest.peerDependencies['fastify'] ?? ''
  const lowest = /^>=(\d+\.\d+\.\d+) <6$/.exec(range)?.[1]
  if (lowest === undefined) return t.fail(`${range} is not of the form that this test can read`)
  t.ok(isAfter(lowest, '5.7.2'), `${lowest} is after 5.7.2`)
  for (const [advisory, last] of Object.entries(advisories)) t.ok(isAfter(lowest, last), `${lowest} is after ${last}: ${advisory}`)
  // The suite has seen the range's newest; the lowest is for whoever installs it.
  const { version } = JSON.parse(readFileSync(join(root, 'node_modules/fastify/package.json'), 'utf8')) as { readonly version: string }
  t.ok(version === lowest || isAfter(version, lowest), `${version} is in the range`)
})

interface Tree { readonly dependencies?: Readonly<Record<string, Tree>> }

function packagesOf ({ dependencies = {} }: Tree, found = new Set<string>()): Set<string> {
  for (const [name, tree] of Object.entries(dependencies)) {
    found.add(name)
    packagesOf(tree, found)
  }
  return found
}

/** All that a package brings, by the manifests that are installed. */
function dependenciesOf (name: string, found = new Set<string>(), from = join(root, 'node_modules', name)): Set<string> {
  const { dependencies = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as Partial<Manifest>
  for (const dependency of Object.keys(dependencies)) {
    if (found.has(dependency)) continue
    found.add(dependency)
    const nested = join(from, 'node_modules', dependency)
    dependenciesOf(dependency, found, existsSync(nested) ? nested : join(root, 'node_modules', dependency))
  }
  return found
}

function isAfter (version: string, other: string): boolean {
  const [a, b] = [version, other].map(text => text.split('.').map(Number))
  const index = [0, 1, 2].find(i => a?.[i] !== b?.[i])
  return index !== undefined && (a?.[index] ?? 0) > (b?.[index] ?? 0)
}
