import { Type, type TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import * as protocol from '../../lib/protocol/index.js'

// The specification's own examples and schema, which are not part of this project.
const published = new URL('../../../shared/protocol/', import.meta.url)
const folder = new URL('examples-2026-07-28/', published)
const schemaFile = new URL('schema-2026-07-28.json', published)
const skip = existsSync(folder) && existsSync(schemaFile) ? false : 'the published examples are not here; schemas.test.ts has some of our own'

interface Node { $ref?: string, type?: unknown, properties?: Record<string, Node>, required?: string[], additionalProperties?: Node, items?: Node, allOf?: Node[] }
type Json = Record<string, unknown>

const read = (url: URL) => JSON.parse(readFileSync(url, 'utf8'))
const exported = protocol as unknown as Record<string, TSchema>
const jsonrpc = { jsonrpc: Type.Literal('2.0'), id: protocol.RequestId }

// This one has no cache hints. The published schema lets it pass as an InputRequiredResult, which it is not: CACHE-01.
const refused = new Set(['ReadResourceResultResponse/read-resource-result-response.json'])

/** The schema of a folder. Whole requests and responses are put together here: the project checks envelope, `_meta` and params one by one. */
function schemaOf (name: string, example: Json): TSchema {
  const own = exported[name]
  if (own !== undefined) return own
  if (name.endsWith('ResultResponse')) {
    const result = exported[name.slice(0, -'Response'.length)] as TSchema
    return Type.Object({ ...jsonrpc, result: Type.Union([protocol.InputRequiredResult, result]) })
  }
  const method = protocol.methods[example.method as protocol.MethodName]
  return Type.Object({
    ...jsonrpc, method: Type.Literal(example.method as string), params: Type.Intersect([protocol.RequestParams, method.params])
  })
}

/** Follows references. Undefined: any value will do. */
function resolve (node: Node | undefined, defs: Record<string, Node>): Node | undefined {
  while (node?.$ref !== undefined) node = node.$ref.endsWith('/JSONValue') ? undefined : defs[node.$ref.slice('#/$defs/'.length)]
  return node === undefined || Object.keys(node).every(key => key === 'description') ? undefined : node
}

/** Copies of an example in which one member is gone or of a wrong type, at any depth that the published schema describes without a choice. */
function * broken (value: unknown, node: Node | undefined, defs: Record<string, Node>): Generator<[what: string, copy: unknown]> {
  node = resolve(node, defs)
  if (node === undefined || typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const [what, copy] of broken(item, node.items, defs)) yield [`[${index}]${what}`, value.with(index, copy)]
    }
    return
  }
  for (const part of node.allOf ?? []) yield * broken(value, part, defs)
  for (const name of node.required ?? []) {
    const { [name]: gone, ...rest } = value as Json
    yield [` without ${name}`, rest]
  }
  for (const [name, member] of Object.entries(value)) {
    const inner = resolve(node.properties?.[name] ?? node.additionalProperties, defs)
    if (inner === undefined) continue
    yield [`.${name} null`, { ...value, [name]: null }]
    if (inner.type === 'object') yield [`.${name} an array`, { ...value, [name]: [] }]
    if (inner.type === 'string') yield [`.${name} a number`, { ...value, [name]: 5 }]
    if (inner.type === 'integer' || inner.type === 'number' || inner.type === 'boolean') yield [`.${name} a string`, { ...value, [name]: '1' }]
    if (inner.type === 'integer') yield [`.${name} a fraction`, { ...value, [name]: 1.5 }]
    for (const [what, copy] of broken(member, inner, defs)) yield [`.${name}${what}`, { ...value, [name]: copy }]
  }
}

t.test('the published examples fit our schemas, and what is broken about them does not', { skip }, async t => {
  const { $defs } = read(schemaFile) as { $defs: Record<string, Node> }
  for (const name of readdirSync(folder)) {
    t.test(name, async t => {
      for (const file of readdirSync(new URL(`${name}/`, folder))) {
        const example = read(new URL(`${name}/${file}`, folder))
        const check = TypeCompiler.Compile(schemaOf(name, example))
        if (refused.has(`${name}/${file}`)) {
          t.notOk(check.Check(example), file)
          continue
        }
        t.ok(check.Check(example), file, { first: check.Errors(example).First() })
        for (const [what, copy] of broken(example, $defs[name], $defs)) t.notOk(check.Check(copy), `${file}${what}`)
      }
    })
  }
})
