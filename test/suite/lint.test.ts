import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { createSuite, defineTool, toolResult, type ListToolsResult, type SuiteExtension, type SuiteOptions, type ToolProvider } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { Throttle } from '../../lib/suite/throttle.js'
import { info } from '../helpers/servers.js'
import { stage, type Line } from '../helpers/sockets.js'

const call = () => toolResult.text('called')
const good = (name: string) => defineTool({ name, description: 'Good.', call })
/** A tool that some clients refuse, for its schema. */
const bad = (name: string) => defineTool({ name, description: 'Bad.', input: Type.Object({ any: Type.Object({}), list: Type.Unsafe({ type: ['string', 'null'] }) }), call })
const bare = (name: string) => defineTool({ name, call })
const LIST = 'The tool bad has an input that /properties/list has a list of types, which some clients refuse: use anyOf'

/** What the lint said: level and text. */
const said = (lines: readonly Line[]): readonly (readonly [number, string])[] =>
  lines.filter(({ mcp }) => (mcp as { lint?: true } | undefined)?.lint === true).map(({ level, msg }) => [level, msg])

async function serve (t: Test, options: Partial<SuiteOptions> = {}) {
  const suite = createSuite({ info, tools: [], ...options })
  const staged = await stage(t, suite, { listen: false })
  const client = createTestClient(staged.app)
  const list = async () => (await client.request('tools/list', {})).result as ListToolsResult
  return {
    suite,
    lines: staged.lines,
    names: async () => (await list()).tools.map(({ name }) => name),
    call: async (name: string) => await client.request('tools/call', { name, arguments: {} })
  }
}

const finding = (tools: () => readonly ToolProvider[]): { readonly extensions: readonly SuiteExtension[] } => ({ extensions: [{ tools }] })

test('a tool that is added is looked at as those at boot, and told of once: case 064', async t => {
  const { suite, lines, names } = await serve(t, { tools: [bare('boot')] })
  t.strictSame(said(lines), [[40, 'The tool boot has no description']])
  const tool = bad('bad')
  for (let i = 0; i < 3; i++) {
    suite.add(tool)
    suite.remove(tool)
  }
  suite.add(tool)
  suite.add(good('good'))
  t.strictSame(said(lines).slice(1), [[40, LIST]])
  t.strictSame(await names(), ['boot', 'bad', 'good'])
})

test('a tool that is added before there is a mount is told of when there is one, and one that is removed before is not', async t => {
  const suite = createSuite({ info, tools: [bare('boot')] })
  const removed = bare('removed')
  suite.add(bad('bad'))
  suite.add(removed)
  suite.remove(removed)
  const { lines } = await stage(t, suite, { listen: false })
  t.strictSame(said(lines), [[40, 'The tool boot has no description'], [40, LIST]])
})

test('a tool that cannot be added is not told of', async t => {
  const { suite, lines } = await serve(t, { tools: [good('bad')] })
  t.throws(() => { suite.add(bad('bad')) }, { code: 'MCP_ERR_BAD_PROVIDER', message: /is there already/ })
  t.strictSame(said(lines), [])
})

test('a strict Suite refuses to be given what it refuses at boot: case 064', async t => {
  t.throws(() => createSuite({ info, tools: [bad('bad')], strict: true }), { code: 'MCP_ERR_BAD_PROVIDER', message: `A strict Suite refuses: ${LIST}` })
  const { suite, lines, names } = await serve(t, { strict: true })
  t.throws(() => { suite.add(bad('bad')) }, { code: 'MCP_ERR_BAD_PROVIDER', message: `A strict Suite refuses: ${LIST}` })
  t.strictSame(said(lines), [])
  t.strictSame(await names(), [])
})

test('a tool that an extension finds is told of once, and served', async t => {
  const tool = bad('bad')
  const { lines, names, call } = await serve(t, finding(() => [good('good'), tool]))
  for (let i = 0; i < 3; i++) t.strictSame(await names(), ['good', 'bad'])
  t.match(await call('bad'), { statusCode: 200 })
  t.strictSame(said(lines), [[40, LIST]])
})

test('a strict Suite leaves out what an extension finds, and says so once: case 064', async t => {
  const tool = bad('bad')
  const { lines, names, call } = await serve(t, { ...finding(() => [tool, good('good')]), strict: true })
  for (let i = 0; i < 3; i++) t.strictSame(await names(), ['good'])
  t.match(await call('bad'), { error: { code: -32602, data: { tool: 'bad' } } })
  t.match(await call('good'), { result: { content: [{ text: 'called' }] } })
  t.strictSame(said(lines), [[50, `a strict Suite leaves out what an extension found: ${LIST}`]])
})

test('an extension that makes its tools anew for each request does not fill the log', async t => {
  for (const strict of [false, true]) {
    const { lines, names } = await serve(t, { ...finding(() => [bad('bad'), bare('bare')]), strict })
    for (let i = 0; i < 3; i++) t.strictSame(await names(), strict ? [] : ['bad', 'bare'])
    t.equal(said(lines).length, 2)
  }
})

test('a name is told of once a minute, and so many of them at most', async t => {
  let now = 0
  const throttle = new Throttle(() => now)
  const allowed = (prefix: string): number => Array.from({ length: 150 }, (_, index) => throttle.allows(`${prefix}${index}`)).filter(Boolean).length
  t.equal(throttle.allows('a'), true)
  t.equal(throttle.allows('a'), false)
  now = 59_999
  t.equal(throttle.allows('a'), false)
  t.equal(allowed('b'), 99)
  now = 60_000
  t.equal(throttle.allows('a'), true)
  t.equal(allowed('c'), 0)
  now = 120_000
  t.equal(allowed('d'), 100)
  t.equal(new Throttle().allows('a'), true)
})
