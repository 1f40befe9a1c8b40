// A process of its own for shutdown.test.ts: prints its port, and closes its app on SIGTERM. It has to end by itself.
import Fastify from 'fastify'
import genMcp, { defineServer, result, stream, toolResult } from 'fastify-gen-mcp'
import type { AddressInfo } from 'node:net'

const server = defineServer({
  handleRequest: {
    'tools/call': () => result(toolResult.text('done')),
    'subscriptions/listen': () => stream('live')
  }
})
const app = Fastify()
await app.register(genMcp, { prefix: '/mcp', server })
await app.listen({ port: 0, host: '127.0.0.1' })
process.once('SIGTERM', () => { app.close().catch(error => { throw error }) })
process.stdout.write(String((app.server.address() as AddressInfo).port))
