import { createHash, timingSafeEqual } from 'node:crypto'
import Fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, fail, listToolsResult, result, toolResult } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

interface User { readonly id: string, readonly name: string }

const accounts = [
  { digest: sha256('token-of-ada'), user: { id: 'u1', name: 'Ada' } },
  { digest: sha256('token-of-bob'), user: { id: 'u2', name: 'Bob' } }
]

// #region whoami
const whoami = defineServer({
  info: { name: 'whoami', version: '1.0.0' },
  capabilities: { tools: {} },
  handleRequest: {
    'tools/list': () => result(listToolsResult([{ name: 'whoami', inputSchema: { type: 'object' } }])),
    'tools/call' ({ params: { name } }, channel) {
      if (name !== 'whoami') return fail({ kind: 'unknownTool', name })
      const { httpRequest, principal } = channel // Fastify's request, with what hooks put there
      channel.sendProgress(1)
      return result(toolResult.data({ name: httpRequest.getDecorator<User>('user').name, principal, tenant: httpRequest.headers['x-tenant'] ?? null }))
    }
  }
})
// #endregion

// #region auth
export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  app.decorateRequest('user')
  app.get('/health', () => ({ ok: true })) // stays public
  await app.register(genMcp, {
    server: whoami,
    onRequest: async (httpRequest, reply) => {
      const user = findUser(httpRequest)
      if (user === undefined) {
        reply.header('www-authenticate', 'Bearer')
        throw Object.assign(new Error('A bearer token is needed'), { statusCode: 401 })
      }
      httpRequest.setDecorator('user', user)
    },
    principal: httpRequest => httpRequest.getDecorator<User>('user').id
  })
  return app
}

function findUser ({ headers: { authorization = '' } }: FastifyRequest): User | undefined {
  const given = sha256(authorization.replace(/^Bearer /i, ''))
  // Digests are of one length and all are compared, so that the time it takes tells nothing.
  return accounts.filter(({ digest }) => timingSafeEqual(digest, given))[0]?.user
}
// #endregion

function sha256 (text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

await startIfMain(import.meta.url, build)
