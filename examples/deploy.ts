import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp from 'fastify-gen-mcp'
import { calculator } from './calculator.js'
import { startIfMain } from './start.js'

// #region deploy
export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify({
    trustProxy: 'loopback', // the proxy is on the same machine, and is believed who the client is
    forceCloseConnections: true, // at the end of a shutdown
    pluginTimeout: 25_000, // bounds close(), too
    ...options
  })
  const secrets = process.env['MCP_SECRETS']?.split(' ') // a new secret goes first; drop the old one a day later, as sessions last
  const ended = new Map<string, number>()

  await app.register(genMcp, {
    server: calculator,
    ...(secrets !== undefined && { secrets }),
    allowedHosts: ['api.example.com'], // what the proxy passes on as Host
    allowedOrigins: ['https://app.example.com'],
    health: '/health',
    limits: { maxConcurrent: 500, maxStreams: 5_000, maxDuration: 300_000, drain: 20_000 },
    onEnd ({ method, cause }) {
      const key = `${method} ${cause}`
      ended.set(key, (ended.get(key) ?? 0) + 1)
    }
  })
  app.get('/metrics', () => ({ ended: Object.fromEntries(ended), now: app.mcp.mounts[0]?.gauges() }))
  return app
}

/** For the program that listens: when all is closed, nothing holds it and it ends by itself. */
export function closeOnSignal (app: FastifyInstance): void {
  for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => { app.close() })
}
// #endregion

await startIfMain(import.meta.url, async options => {
  const app = await build(options)
  closeOnSignal(app)
  return app
})
