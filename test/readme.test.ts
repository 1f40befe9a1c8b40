import { readFile } from 'node:fs/promises'
import Fastify from 'fastify'
import { McpError, type ErrorReason } from 'fastify-gen-mcp'
import * as api from 'fastify-gen-mcp'
import { test } from 'tap'
import { curl } from '../examples/calculator.js'
import { readOptions } from '../lib/options.js'
import { echo } from './helpers/servers.js'

const root = new URL('../', import.meta.url)
const readme = await readFile(new URL('README.md', root), 'utf8')

/** One reason of each kind, so that a new kind is a type error here. */
const reasons: Readonly<Record<ErrorReason['kind'], ErrorReason>> = {
  unsupportedMethod: { kind: 'unsupportedMethod', method: 'any' },
  invalidParams: { kind: 'invalidParams' },
  unknownTool: { kind: 'unknownTool', name: 'any' },
  promptNotFound: { kind: 'promptNotFound', name: 'any' },
  resourceNotFound: { kind: 'resourceNotFound', uri: 'any:' },
  cursor: { kind: 'cursor' },
  requestState: { kind: 'requestState' },
  missingClientCapability: { kind: 'missingClientCapability', required: {} },
  header: { kind: 'header', header: 'Mcp-Name', problem: 'missing' },
  internal: { kind: 'internal', message: 'any' },
  custom: { kind: 'custom', rpcCode: 1, message: 'any' },
  parse: { kind: 'parse' },
  invalidRequest: { kind: 'invalidRequest' },
  originForbidden: { kind: 'originForbidden' },
  hostForbidden: { kind: 'hostForbidden' },
  mediaType: { kind: 'mediaType' },
  bodyTooLarge: { kind: 'bodyTooLarge' },
  notAcceptable: { kind: 'notAcceptable' },
  unsupportedVersion: { kind: 'unsupportedVersion', requested: 'any', supported: [] },
  crash: { kind: 'crash' },
  closed: { kind: 'closed' },
  timeout: { kind: 'timeout' },
  overflow: { kind: 'overflow' },
  overloaded: { kind: 'overloaded', retryAfter: 1 },
  shutdown: { kind: 'shutdown', retryAfter: 1 }
}

test('every TypeScript block of the README is a region of an example', async t => {
  const blocks = [...readme.matchAll(/(?:<!-- (\S+)#(\S+) -->\n)?```(ts|typescript|js|javascript|tsx)\n([\s\S]*?)\n```/g)]
  t.ok(blocks.length >= 10)
  for (const [, path, name, , code] of blocks) {
    if (path === undefined || name === undefined) {
      t.fail('a block names no region', { code })
      continue
    }
    t.equal(code, await readRegion(path, name), `${path}#${name}`)
  }
})

test('every region that the README names exists, and is followed by its block', async t => {
  const names = [...readme.matchAll(/<!-- (examples\/\S+)#(\S+) -->\n(.*)/g)]
  t.ok(names.length >= 10)
  for (const [, path = '', name = '', next] of names) {
    t.type(await readRegion(path, name), 'string', `${path}#${name}`)
    t.equal(next, path.endsWith('.sh') ? '```sh' : '```ts')
  }
})

test('the shell commands that the README takes from an example, and the configuration of nginx, are what the examples have', async t => {
  const commands = [...readme.matchAll(/<!-- (\S+\.sh)#(\S+) -->\n```sh\n([\s\S]*?)\n```/g)]
  t.ok(commands.length >= 1)
  for (const [, path = '', name = '', code] of commands) t.equal(code, await readRegion(path, name), `${path}#${name}`)

  const configurations = [...readme.matchAll(/(?:<!-- (\S+) -->\n)?```nginx\n([\s\S]*?)```/g)]
  t.ok(configurations.length >= 1)
  for (const [, path = 'names no file', text] of configurations) t.equal(text, await readFile(new URL(path, root), 'utf8'), path)
})

test('the curl line of the README is the one that the example prints', async t => {
  t.ok(readme.includes(`\`\`\`sh\n${curl('http://127.0.0.1:3000/mcp')}\n\`\`\``))
})

test('the README lists each error code, with its numbers, and no other', async t => {
  const rows = readTable('code').map(([code, rpcCode, statusCode]) => [unquote(code), rpcCode, statusCode])
  const answered = Object.values(reasons).map(reason => {
    const { code, rpcCode, statusCode } = new McpError(reason)
    return [code, reason.kind === 'custom' ? 'as given' : String(rpcCode), String(statusCode)]
  })
  const thrown = Object.keys(api).filter(name => name.startsWith('MCP_ERR_')).map(code => [code, 'none', 'none'])
  t.same(rows.sort(), [...answered, ...thrown].sort())
})

test('the README lists each option, with the default that a mount has', async t => {
  const { settings: { limits, ...settings } } = readOptions({ server: echo })
  const { retryAfter: _, ...ownLimits } = limits
  const { busProbe } = settings
  const rows = new Map([...readTable('option'), ...readTable('limit')].flatMap(([names = '', value]) => names.split(', ').map(name => [unquote(name), value])))

  for (const [name, value] of [...Object.entries(settings), ...Object.entries(ownLimits).map(([name, value]) => [`limits.${name}`, value] as const)]) {
    t.ok(rows.has(name), name)
    if (typeof value === 'number' || typeof value === 'boolean') t.equal(rows.get(name), value === Infinity ? 'off' : String(value), name)
  }
  t.equal(rows.get('limits.onOverflow'), limits.onOverflow)
  t.equal(rows.get('allowedOrigins'), settings.allowedOrigins)
  t.equal(rows.get('bodyLimit'), String(Fastify().initialConfig.bodyLimit), 'which is Fastify\'s')
  t.ok(busProbe)
  for (const [name, value] of Object.entries(busProbe ?? {})) t.equal(rows.get(`busProbe.${name}`), String(value), name)
  t.same([...rows.keys()].filter(name => !name.includes('.') && !isOption(name)), [], 'options that the README made up')
  t.same([...rows.keys()].filter(name => name.startsWith('limits.') && !(name.slice('limits.'.length) in ownLimits)), [], 'limits that the README made up')
})

test('the links inside of the README lead to headings', async t => {
  const headings = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => text.toLowerCase().replace(/[^a-z0-9 -]/g, '').replaceAll(' ', '-'))
  const links = [...readme.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor = '']) => anchor)
  t.ok(links.length > 10)
  t.same(links.filter(anchor => !headings.includes(anchor)), [])
})

async function readRegion (path: string, name: string): Promise<string | undefined> {
  const text = await readFile(new URL(path, root), 'utf8')
  const [, rest] = text.split(`# #region ${name}\n`.replace('#', path.endsWith('.sh') ? '#' : '//'))
  return rest?.split(/\n(?:#|\/\/) #endregion/)[0]
}

/** The rows of all tables whose first column has this heading. */
function readTable (heading: string): string[][] {
  const tables = [...readme.matchAll(new RegExp(`^\\| ${heading} \\|.*\\n\\|[-|]+\\n((?:\\|.*\\n)+)`, 'gm'))]
  return tables.flatMap(([, rows = '']) => rows.trimEnd().split('\n').map(row => row.slice(1, -1).split('|').map(cell => cell.trim())))
}

function unquote (cell = ''): string {
  return cell.replaceAll('`', '')
}

/** Whether the mount knows an option: one that it does not know is a mistake, even if it is undefined. */
function isOption (name: string): boolean {
  try {
    readOptions({ [name]: undefined, server: echo })
    return true
  } catch {
    return false
  }
}
