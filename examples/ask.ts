import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, elicitForm, fail, inputRequired, listToolsResult, result, toolResult } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

const inputSchema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }

// #region ask
const Confirmation = Type.Object({ sure: Type.Boolean({ title: 'Really?' }), reason: Type.Optional(Type.String()) })

function createFiles (files: Set<string>) {
  return defineServer({
    info: { name: 'files', version: '1.0.0' },
    capabilities: { tools: {} },
    handleRequest: {
      'tools/list': () => result(listToolsResult([{ name: 'remove', inputSchema }])),
      'tools/call' ({ params: { name, arguments: { path } } }, channel) {
        if (name !== 'remove') return fail({ kind: 'unknownTool', name })
        if (typeof path !== 'string' || !files.has(path)) return result(toolResult.error('There is no such file.'))

        const questions = { confirm: elicitForm(`Delete ${path}?`, Confirmation) }
        const answers = channel.inputResponses(questions)
        if (answers === undefined) return inputRequired(questions) // the client asks its user, and calls again
        if (answers.confirm.action !== 'accept' || !answers.confirm.content.sure) return result(toolResult.text('Kept.'))
        files.delete(path) // what has effects comes after the last question
        return result(toolResult.text('Gone.'))
      }
    }
  })
}
// #endregion

export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  const { MCP_SECRET: secret } = process.env // at least 32 characters, the same for all replicas
  await app.register(genMcp, { server: createFiles(new Set(['/a.txt', '/b.txt'])), ...(secret !== undefined && { secrets: [secret] }) })
  return app
}

await startIfMain(import.meta.url, build)
