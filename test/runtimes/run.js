/**
 * Runs the tests on each line of Node that the package is for, one after the other, and prints a line for each; exits 1 if something failed on one.
 *
 *   node test/runtimes/run.js [what tap takes: test files, folders, options]
 *
 * NODE_20, NODE_22 and NODE_24 may name the executables; else npx brings them. The package must have been built.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findNode, majors } from './find-node.js'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const tap = join(root, 'node_modules/tap/dist/esm/run.mjs')
// Of a folder, tap would run what is no test too.
const files = process.argv.slice(2).flatMap(path => isFolder(path) ? testsIn(path) : [path])
const outputs = mkdtempSync(join(tmpdir(), 'fastify-gen-mcp-runtimes-'))

for (const major of majors) {
  const started = performance.now()
  try {
    const { path, version } = await findNode(major)
    const { code, output } = await runTap(path, major)
    const text = readFileSync(output, 'utf8')
    const { pass = 0, fail = 0, skip = 0 } = totalsOf(text)
    console.log(`Node ${version.slice(1)}: ${pass} passed, ${fail} failed, ${skip} skipped, ${Math.round((performance.now() - started) / 1000)} s`)
    if (code === 0 && fail === 0 && pass > 0) continue
    console.log(`${failuresOf(text)}\n  all of it: ${output}`)
  } catch (error) {
    console.log(`Node ${major}: could not be run: ${error.message}`)
  }
  process.exitCode = 1
}

async function runTap (node, major) {
  const output = join(outputs, `${major}.tap`)
  const file = createWriteStream(output)
  await once(file, 'open')
  const child = spawn(node, [tap, 'run', '--disable-coverage', '--reporter=tap', ...files], {
    cwd: root,
    // What tests start by its name is to be that Node too.
    env: { ...process.env, NODE_OPTIONS: '', PATH: `${dirname(node)}${delimiter}${process.env.PATH}` },
    stdio: ['ignore', file, file]
  })
  const [code] = await once(child, 'exit')
  return { code, output }
}

function isFolder (path) {
  return statSync(join(root, path), { throwIfNoEntry: false })?.isDirectory() === true
}

function testsIn (folder) {
  return readdirSync(join(root, folder), { recursive: true }).filter(file => file.endsWith('.test.ts')).map(file => join(folder, file))
}

/** Tap ends with them: `# { total: 3, pass: 2, fail: 1 }`. */
function totalsOf (text) {
  const line = text.split('\n').findLast(line => line.startsWith('# { total:')) ?? ''
  return Object.fromEntries([...line.matchAll(/(\w+): (\d+)/g)].map(([, name, count]) => [name, Number(count)]))
}

function failuresOf (text) {
  return text.split('\n').filter(line => /^ *not ok /.test(line) && !/ # (?:SKIP|TODO)/.test(line)).map(line => `  ${line}`).join('\n')
}
