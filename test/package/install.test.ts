import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { test } from 'tap'
import { steps, stepsOf } from '../runtimes/steps.js'
import { createProject, installed, OFFLINE, pack, PATIENCE, root, type Project } from './project.js'

t.setTimeout(PATIENCE)

const { version: FASTIFY } = JSON.parse(readFileSync(join(root, 'node_modules/fastify/package.json'), 'utf8')) as { readonly version: string }
/** All that is installed beside Fastify and what it brings itself. Another one needs a reason. */
const BESIDE_FASTIFY = ['@sinclair/typebox', 'fastify-gen-mcp', 'fastify-plugin']

const project = await installed(t, `fastify@${FASTIFY}`, 'mqemitter@7', '@types/node@20')
const skip = project === undefined && OFFLINE

test('installed, it is imported, and serves JSON, streams, listens and 2025 clients', { skip }, async t => {
  await own().copy('test/runtimes/smoke.js')
  const { code, stdout, stderr } = await own().node('smoke.js')
  t.equal(stderr, '')
  t.strictSame(stepsOf(stdout), steps)
  t.equal(code, 0)
})

// Node has it by default from 20.19 on; before that it is behind a flag.
const canRequire = (process.features as { readonly require_module?: boolean }).require_module === true
const requireFlags = canRequire ? [] : ['--experimental-require-module']

const required = `
const genMcp = require('fastify-gen-mcp')
const { createSuite, defineTool, toolResult } = require('fastify-gen-mcp')
const { sealedSessions } = require('fastify-gen-mcp/legacy')
const { createTestClient } = require('fastify-gen-mcp/testing')
const { version } = require('fastify-gen-mcp/package.json')
const fastify = require('fastify')

const suite = createSuite({ info: { name: 'cjs', version }, tools: [defineTool({ name: 'hello', call: () => toolResult.text('from CommonJS') })] })
async function ask (plugin) {
  const app = fastify()
  app.register(plugin, { server: suite, legacy: { sessions: sealedSessions() } })
  const client = createTestClient(app)
  const stream = await client.open('tools/call', { name: 'hello', arguments: {} })
  const { statusCode, result } = await stream.answer
  await client.close()
  await app.close()
  return [statusCode, result.content[0].text]
}
Promise.all([genMcp, genMcp.genMcp, genMcp.default].map(ask)).then(answers => console.log(JSON.stringify(answers)))
`

test('installed, it is required, registered as it comes, by its name or as the default, and answers over a socket', { skip }, async t => {
  await own().write('required.cjs', required)
  const { code, stdout, stderr } = await own().node(...requireFlags, 'required.cjs')
  if (canRequire) t.equal(stderr, '', 'no warning either')
  t.strictSame(JSON.parse(stdout), Array(3).fill([200, 'from CommonJS']), stderr)
  t.equal(code, 0)
})

test('installed, it gives the same whether it is imported or required, and nothing but what it exports', { skip }, async t => {
  await own().write('same.mjs', `
    import { createRequire } from 'node:module'
    const require = createRequire(import.meta.url)
    const entries = ['fastify-gen-mcp', 'fastify-gen-mcp/legacy', 'fastify-gen-mcp/testing']
    const own = entries => Object.entries(entries).filter(([name]) => name !== '__esModule' && name !== 'module.exports')
    const same = await Promise.all(entries.map(async entry => {
      const [imported, required] = [await import(entry), require(entry)]
      return own(imported).length > 0 && own(imported).length === own(required).length && own(imported).every(([name, value]) => required[name] === value)
    }))
    const refused = ['fastify-gen-mcp/dist/lib/index.js', 'fastify-gen-mcp/lib/index.js', 'fastify-gen-mcp/suite']
    const codes = await Promise.all(refused.map(path => import(path).then(() => 'loaded', error => error.code)))
    console.log(JSON.stringify({ same, codes }))
  `)
  const { stdout, stderr } = await own().node(...requireFlags, 'same.mjs')
  t.strictSame(JSON.parse(stdout), { same: [true, true, true], codes: Array(3).fill('ERR_PACKAGE_PATH_NOT_EXPORTED') }, stderr)
})

// ---- TypeScript

// The files themselves, since not every loader knows a file without an extension.
const compilers = { 'TypeScript 5.9': 'typescript/lib/tsc.js', 'TypeScript 7': 'typescript7/lib/tsc.js' }
const sources = ['usage.ts', 'legacy.ts', 'module-server.ts', 'cjs.cts']
const nodenext = { module: 'nodenext', moduleResolution: 'nodenext' }
const settings = {
  'nodenext and exactOptionalPropertyTypes': { ...nodenext, exactOptionalPropertyTypes: true },
  'nodenext alone': nodenext,
  'a bundler\'s resolution': { module: 'preserve', moduleResolution: 'bundler' }
}

for (const [compiler, bin] of Object.entries(compilers)) {
  for (const [about, options] of Object.entries(settings)) {
    test(`installed, it compiles with ${compiler}, skipLibCheck off and ${about}`, { skip, timeout: PATIENCE }, async t => {
      for (const file of sources) await own().copy(`test/types/${file}`)
      const compilerOptions = { target: 'es2022', lib: ['es2022'], strict: true, skipLibCheck: false, noEmit: true, types: ['node'], ...options }
      await own().write('tsconfig.json', JSON.stringify({ compilerOptions, files: sources }))
      const { code, stdout } = await own().node(join(root, 'node_modules', bin), '-p', 'tsconfig.json', '--listFiles')
      const lines = stdout.split('\n').filter(line => line !== '')
      t.strictSame(lines.filter(line => !line.startsWith('/')), [])
      t.ok(lines.includes(join(own().folder, 'node_modules/fastify-gen-mcp/dist/lib/index.d.ts')), 'what it reads is what is installed')
      // The compiler brings the types of the language.
      t.strictSame(lines.filter(line => line.startsWith(root) && !/\/node_modules\/@?typescript/.test(line)), [])
      t.equal(code, 0)
    })
  }
}

test('three packages are installed beside Fastify and what it brings', { skip }, async t => {
  const [bare, whole] = [await createProject(t), await createProject(t)]
  await bare.install('--package-lock-only', `fastify@${FASTIFY}`)
  await whole.install('--package-lock-only', `fastify@${FASTIFY}`, (await pack(whole)).path)
  const brought = await packagesOf(bare)
  t.ok(brought.includes('fastify') && brought.includes('avvio'), 'the lock has been read')
  t.strictSame((await packagesOf(whole)).filter(name => !brought.includes(name)), BESIDE_FASTIFY)
})

/** The project of this file, in tests that are skipped without it. */
function own (): Project {
  if (project === undefined) throw new Error(OFFLINE)
  return project
}

/** What would be installed, a package in two versions twice. */
async function packagesOf ({ folder }: Project): Promise<string[]> {
  const { packages } = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as { readonly packages: Readonly<Record<string, unknown>> }
  return Object.keys(packages).filter(path => path !== '').map(path => path.replace(/^node_modules\//, '')).sort()
}
