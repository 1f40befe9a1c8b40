import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, fail, listToolsResult, result, toolResult, withArg } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

// #region server
interface Access { readonly notes: Map<string, string>, readonly writable: boolean }

const inputSchema = { type: 'object', properties: { id: { type: 'string' }, text: { type: 'string' } }, required: ['id'] }
const [read, write] = [{ name: 'read-note', inputSchema }, { name: 'write-note', inputSchema }]

const notesServer = defineServer({
  info: { name: 'notes', version: '1.0.0' },
  capabilities: { tools: {} },
  init: (access: Access) => access, // what a mount binds; what init returns is the handlers' third parameter
  handleRequest: {
    'tools/list': (_request, _channel, { writable }) => result(listToolsResult(writable ? [read, write] : [read])),
    'tools/call' ({ params: { name, arguments: { id, text } } }, _channel, { notes, writable }) {
      if (typeof id !== 'string') return result(toolResult.error('id must be a string'))
      if (name === read.name) return result(toolResult.text(notes.get(id) ?? 'There is no such note.'))
      if (name !== write.name || !writable) return fail({ kind: 'unknownTool', name })
      if (typeof text !== 'string') return result(toolResult.error('text must be a string'))
      notes.set(id, text)
      return result(toolResult.text('Written.'))
    }
  }
})
// #endregion

// #region mounts
export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  const notes = new Map([['1', 'Buy milk']])
  app.get('/notes', () => Object.fromEntries(notes)) // the API that was there before
  await app.register(genMcp, { prefix: '/mcp', server: withArg(notesServer, { notes, writable: false }) })
  await app.register(genMcp, { prefix: '/admin/mcp', server: withArg(notesServer, { notes, writable: true }), bodyLimit: 65_536 })
  return app
}
// #endregion

await startIfMain(import.meta.url, build)
