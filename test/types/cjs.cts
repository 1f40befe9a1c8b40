// The package as CommonJS in TypeScript has it.
import typebox = require('@sinclair/typebox')
import Fastify = require('fastify')
import mcp = require('fastify-gen-mcp')
import testing = require('fastify-gen-mcp/testing')

const arg = typebox.Type.Object({ a: typebox.Type.String() })
const server = mcp.defineServer({ arg, init: arg => arg.a, handleRequest: (_request, _channel, state) => mcp.fail(state) })
const app = Fastify.fastify()
void app.register(mcp.genMcp, { server: [server, { a: 'x' }] })
void app.register(mcp.default, { server: mcp.withArg(server, { a: 'x' }) })
// @ts-expect-error wrong arg
mcp.withArg(server, { a: 1 })

export = { app, client: testing.createTestClient(app) }
