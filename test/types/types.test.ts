import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { test } from 'tap'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '../..')

/** Compilers take their time, more so beside other tests. */
const PATIENCE = 600_000
t.setTimeout(PATIENCE)

/** What users may import. */
const entries = ['dist/lib/index.d.ts', 'dist/lib/legacy/index.d.ts', 'dist/lib/testing/index.d.ts']
for (const entry of entries) {
  if (!existsSync(join(root, entry))) throw new Error(`${entry} is missing: these tests check the built package, so run "npm run build" first`)
}

// The files themselves, since not every loader knows a file without an extension.
const compilers = { 'TypeScript 5.9': 'typescript/lib/tsc.js', 'TypeScript 7': 'typescript7/lib/tsc.js' }
const projects = { 'exactOptionalPropertyTypes on': 'tsconfig.json', 'exactOptionalPropertyTypes off': 'tsconfig.loose.json' }

for (const [compiler, bin] of Object.entries(compilers)) {
  for (const [about, project] of Object.entries(projects)) {
    test(`whoever uses the built package compiles with ${compiler}, skipLibCheck off and ${about}`, { timeout: PATIENCE }, async t => {
      const { code, output } = await compile(bin, project)
      t.equal(output, '')
      t.equal(code, 0)
    })
  }
}

test('what the compilers check is the built package, and not its source', { timeout: PATIENCE }, async t => {
  const { output } = await compile(compilers['TypeScript 5.9'], 'tsconfig.json', '--listFilesOnly')
  const files = output.split('\n').filter(file => file.startsWith(`${root}/`)).map(file => file.slice(root.length + 1))
  for (const entry of entries) t.ok(files.includes(entry), entry)
  t.strictSame(files.filter(file => /^(?:lib|types)\//.test(file)), [])
})

test('nothing that users see is typed any', async t => {
  const files = declarations(entries.map(entry => join(root, entry)))
  t.ok(files.length > 20, `${files.length} files of declarations`)
  for (const file of files) t.strictSame(anyIn(readFileSync(file, 'utf8')), [], file.slice(root.length + 1))
})

test('the search for any finds one, and is not misled by words and strings', async t => {
  t.strictSame(anyIn('export type Bad = any\nexport const good: \'any\' // any\n/** any */\nexport type List = readonly any[]'), ['export type Bad = any', 'export type List = readonly any[]'])
})

async function compile (bin: string, project: string, ...options: string[]): Promise<{ readonly code: number | null, readonly output: string }> {
  return await new Promise(resolve => {
    const args = [join(root, 'node_modules', bin), '-p', join(here, project), ...options]
    const child = execFile(process.execPath, args, { cwd: root, env: { ...process.env, NODE_OPTIONS: '' }, maxBuffer: 1 << 24 }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode, output: `${stdout}${stderr}`.trim() })
    })
  })
}

/** The files of declarations that these reach within the package. */
function declarations (files: readonly string[]): string[] {
  const found = new Set<string>()
  const visit = (file: string): void => {
    if (found.has(file)) return
    found.add(file)
    for (const [, , path] of readFileSync(file, 'utf8').matchAll(/(from|import)\s*\(?\s*['"](\.[^'"]+)\.js['"]/g)) visit(join(dirname(file), `${path}.d.ts`))
  }
  files.forEach(visit)
  return [...found]
}

/** The lines of code that have the type `any`, without comments and strings. */
function anyIn (text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*|'[^'\n]*'|"[^"\n]*"/g, '')
  return code.split('\n').filter(line => /\bany\b/.test(line)).map(line => line.trim())
}
