import { startIfMain } from './start.js'
// #region calculator
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, fail, listToolsResult, result, toolResult } from 'fastify-gen-mcp'

const operations = new Map<string, (a: number, b: number) => number>([['add', (a, b) => a + b], ['multiply', (a, b) => a * b]])
const inputSchema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] }

export const calculator = defineServer({
  info: { name: 'calculator', version: '1.0.0' },
  capabilities: { tools: {} },
  handleRequest: {
    'tools/list': () => result(listToolsResult([...operations.keys()].map(name => ({ name, inputSchema })))),
    'tools/call' ({ params: { name, arguments: { a, b } } }) {
      const operation = operations.get(name)
      if (operation === undefined) return fail({ kind: 'unknownTool', name })
      if (typeof a !== 'number' || typeof b !== 'number') return result(toolResult.error('a and b must be numbers'))
      return result(toolResult.data(operation(a, b)))
    }
  }
})

export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  await app.register(genMcp, { server: calculator }) // POST /mcp
  return app
}
// #endregion

const address = await startIfMain(import.meta.url, build)
if (address !== undefined) console.log(`\n${address}/mcp\n\n${curl(`${address}/mcp`)}\n`)

/** A call that can be pasted into a shell. */
export function curl (url: string): string {
  return [
    `curl -s ${url}`,
    "-H 'content-type: application/json'",
    "-H 'mcp-protocol-version: 2026-07-28'",
    "-H 'mcp-method: tools/call'",
    "-H 'mcp-name: add'",
    `-d '${JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'add',
        arguments: { a: 2, b: 3 },
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} }
      }
    })}'`
  ].join(' \\\n  ')
}
