import { sendJson } from './transport/reply.js'
import type { FastifyInstance, FastifySchema } from 'fastify'
import type { Mount } from './mount.js'
import type { Registration } from './options.js'

/** Serves at these paths, with GET and HEAD, whether a mount can be sent requests: for whoever sends them, so that no MCP is spoken and nobody is refused. */
export function addHealth (fastify: FastifyInstance, urls: readonly string[], mount: Mount, { logLevel, logSerializers }: Registration['route']): void {
  for (const url of urls) {
    fastify.route({
      ...(logLevel !== undefined && { logLevel }),
      ...(logSerializers !== undefined && { logSerializers }),
      method: ['GET', 'HEAD'],
      url,
      // Fastify's type does not know `hide`.
      schema: { hide: true } as FastifySchema,
      config: { mcp: false, mcpHealth: true },
      handler: (_httpRequest, reply) => {
        const status = statusOf(mount)
        sendJson(reply.header('cache-control', 'no-store'), status === 'ok' ? 200 : 503, `{"status":"${status}"}`)
      }
    })
  }
}

function statusOf ({ draining, probe }: Mount): 'ok' | 'draining' | 'busDown' {
  if (draining) return 'draining'
  return probe !== undefined && probe.down > 0 ? 'busDown' : 'ok'
}
