import Fastify, { type FastifyInstance } from 'fastify'
import { pathToFileURL } from 'node:url'
// #region calculator
import genMcp, { defineServer, fail, listToolsResult, result, toolResult } from 'fastify-gen-mcp'

const operations = new Map<string, (a: number, b: number) => number>([['add', (a, b) => a + b], ['divide', (a, b) => a / b]])
const inputSchema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] }

const calculator = defineServer({
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
// #endregion

export async function build (): Promise<FastifyInstance> {
  const app = Fastify({ logger: true })
  await app.register(genMcp, { server: calculator })
  return app
}
