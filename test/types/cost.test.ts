import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { test } from 'tap'

const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
const entry = 'dist/lib/index.d.ts'
if (!existsSync(join(root, entry))) throw new Error(`${entry} is missing: these tests check the built package, so run "npm run build" first`)

const PATIENCE = 600_000
t.setTimeout(PATIENCE)

const FIELDS = 20
const SECONDS = 10
const BYTES = 2 ** 30
/** A machine that is busy with other things may be slow once. */
const ATTEMPTS = 3
/** Of types made for a tool: what its library makes for the schema, and what the package adds. A recursive inference over the fields would be far above. */
const INSTANTIATIONS = 2_000

/** A library of schemas: how a field of each of five types is written, and an object of fields. */
interface Library { readonly from: string, readonly fields: readonly string[], readonly object: string, readonly tools: number, readonly instantiations: number }

const libraries: Readonly<Record<string, Library>> = {
  TypeBox: {
    from: "import { Type } from '@sinclair/typebox'",
    fields: ['Type.String()', 'Type.Number()', 'Type.Optional(Type.Boolean())', 'Type.Array(Type.String())', "Type.Union([Type.Literal('a'), Type.Literal('b')])"],
    object: 'Type.Object',
    tools: 200,
    instantiations: INSTANTIATIONS
  },
  Zod: {
    from: "import { z } from 'zod'",
    fields: ['z.string()', 'z.number()', 'z.boolean().optional()', 'z.array(z.string())', "z.enum(['a', 'b'])"],
    object: 'z.object',
    tools: 200,
    instantiations: INSTANTIATIONS
  },
  // It reads the text of each field as a type, which costs more than all else.
  ArkType: {
    from: "import { type } from 'arktype'",
    fields: ["'string'", "'number'", "'boolean'", "'string[]'", '"\'a\' | \'b\'"'],
    object: 'type',
    tools: 100,
    instantiations: 15_000
  }
}

const project = {
  compilerOptions: {
    target: 'es2022',
    lib: ['es2023'],
    module: 'nodenext',
    moduleResolution: 'nodenext',
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true
  },
  files: ['tools.ts']
}

for (const [name, library] of Object.entries(libraries)) {
  const { tools, instantiations } = library
  test(`${tools} tools with ${FIELDS} fields of ${name} each compile in ${SECONDS} s and 1 GB, with their types known: case 087`, { timeout: PATIENCE }, async t => {
    const folder = t.testdir({ 'tools.ts': write(library), 'tsconfig.json': JSON.stringify(project) })
    let cost = await compile(folder)
    for (let attempt = 1; attempt < ATTEMPTS && cost.seconds >= SECONDS; attempt++) cost = await compile(folder)
    t.comment(`${cost.seconds.toFixed(1)} s, ${(cost.bytes / 2 ** 20).toFixed(0)} MB, ${cost.instantiations} instantiations`)
    t.strictSame(cost.errors, [])
    t.ok(cost.seconds < SECONDS, `${cost.seconds} s`)
    t.ok(cost.bytes < BYTES, `${cost.bytes} bytes`)
    t.ok(cost.instantiations / tools < instantiations, `${cost.instantiations / tools} instantiations a tool`)
  })
}

test('an error in what is compiled is seen, and so is what it takes: case 087', { timeout: PATIENCE }, async t => {
  const { errors, seconds, bytes, instantiations } = await compile(t.testdir({ 'tools.ts': 'export const wrong: string = 5\n', 'tsconfig.json': JSON.stringify(project) }))
  t.match(errors, [/^tools\.ts\(1,14\): error TS2322/])
  t.ok(seconds > 0 && bytes > 0 && instantiations >= 0)
})

/** A file of tools, no two of which have a field in common. Each reads fields of its arguments, and one that there is not. */
function write ({ from, fields, object, tools }: Library): string {
  const names = Array.from({ length: tools }, (_, index) => `tool${index}`)
  const written = names.map(name => {
    const members = Array.from({ length: FIELDS }, (_, index) => `${name}_${index}: ${fields[index % fields.length]}`)
    return `const ${name} = defineTool({
  name: '${name}',
  input: ${object}({ ${members.join(', ')} }),
  output: ${object}({ length: ${fields[1]} }),
  call (args) {
    const [text, number]: [string, number] = [args.${name}_0, args.${name}_1]
    // @ts-expect-error
    const none = args.${name}_${FIELDS}
    return toolResult.data({ length: text.length + number + Number(none) })
  }
})`
  })
  return [
    from, "import { createSuite, defineTool, toolResult } from 'fastify-gen-mcp'", ...written,
    `export const suite = createSuite({ info: { name: 'many', version: '1.0.0' }, tools: [${names.join(', ')}] })`, ''
  ].join('\n')
}

interface Cost { readonly errors: readonly string[], readonly seconds: number, readonly bytes: number, readonly instantiations: number }

/** Compiles a project, and says what that took: `seconds` are those in which the compiler had a processor while it checked. */
async function compile (folder: string): Promise<Cost> {
  const output = await new Promise<string>(resolve => {
    const cpu = 'data:text/javascript,process.on("exit",()=>{const{user,system}=process.cpuUsage();console.log("Processor time: "+(user+system)/1e6)})'
    const args = ['--import', cpu, join(root, 'node_modules/typescript/lib/tsc.js'), '-p', folder, '--extendedDiagnostics', '--pretty', 'false']
    const options = { cwd: folder, env: { ...process.env, NODE_OPTIONS: '' }, maxBuffer: 1 << 24 }
    execFile(process.execPath, args, options, (_error, stdout, stderr) => { resolve(`${stdout}${stderr}`) })
  })
  const read = (label: string): number => {
    const [, number] = new RegExp(`^${label}: +([\\d.]+)`, 'm').exec(output) ?? []
    if (number === undefined) throw new Error(`The compiler did not say its ${label}: ${output.slice(0, 1000)}`)
    return Number(number)
  }
  const check = read('Check time')
  return {
    errors: output.split('\n').filter(line => / error TS\d+/.test(line)),
    seconds: Math.min(check, read('Processor time') * check / read('Total time')),
    bytes: read('Memory used') * 1024,
    instantiations: read('Instantiations')
  }
}
