import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify'
import genMcp, { createSuite, defineResources, defineTool, readResourceResult, toolResult, type RequestContext } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

interface User { readonly id: string, readonly role: 'clerk' | 'manager' }

const users = new Map<string, User>([['Bearer clerk-token', { id: 'u1', role: 'clerk' }], ['Bearer manager-token', { id: 'u2', role: 'manager' }]])
const orders = new Map([['1', 'open'], ['2', 'paid']])

// #region access
const managers = ({ httpRequest }: RequestContext) => httpRequest.getDecorator<User>('user').role === 'manager'

const status = defineTool({
  name: 'order-status',
  description: 'Says what became of an order.',
  input: Type.Object({ id: Type.String() }),
  call: ({ id }) => toolResult.text(orders.get(id) ?? 'There is no such order.')
})
const refund = defineTool({
  name: 'refund',
  description: 'Pays an order back.',
  access: managers, // to anybody else there is no such tool
  input: Type.Object({ id: Type.String() }),
  call ({ id }) {
    orders.set(id, 'refunded')
    return toolResult.text('Refunded.')
  }
})
const reports = defineResources({
  prefix: 'report://',
  access: managers,
  list: () => ({ items: [{ uri: 'report://today', name: 'today' }] }),
  read: ({ uri }) => uri === 'report://today' ? readResourceResult({ uri, text: `${orders.size} orders` }) : null
})
// #endregion

// #region hook
export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  app.decorateRequest('user')
  await app.register(genMcp, {
    server: createSuite({ info: { name: 'orders', version: '1.0.0' }, tools: [status, refund], resources: [reports] }),
    onRequest: async httpRequest => { httpRequest.setDecorator('user', authenticate(httpRequest)) },
    principal: httpRequest => httpRequest.getDecorator<User>('user').id
  })
  return app
}
// #endregion

function authenticate ({ headers: { authorization = '' } }: FastifyRequest): User {
  const user = users.get(authorization)
  if (user === undefined) throw Object.assign(new Error('A bearer token is needed'), { statusCode: 401 })
  return user
}

await startIfMain(import.meta.url, build)
