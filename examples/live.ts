import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { busSubscriptions, createSuite, defineResources, defineTool, readResourceResult, toolResult } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

const uriOf = (name: string) => `shop://items/${encodeURIComponent(name)}`

// #region live
export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  const items = new Map([['tea', 3], ['rice', 5]])
  const changes = busSubscriptions() // busSubscriptions({ bus }) tells the listens of all replicas
  const stock = defineResources({
    template: { uriTemplate: 'shop://items/{name}', name: 'stock', mimeType: 'text/plain' },
    list: () => ({ items: [...items.keys()].map(name => ({ uri: uriOf(name), name })) }),
    read: ({ uri, vars: { name } }) => items.has(name) ? readResourceResult({ uri, text: `${items.get(name)} left` }) : null
  })
  const suite = createSuite({ info: { name: 'shop', version: '1.0.0' }, tools: [], resources: [stock], subscriptions: changes })
  await app.register(genMcp, { server: suite })

  app.put<{ Params: { name: string }, Body: { left: number } }>('/items/:name', ({ params: { name }, body: { left } }) => {
    const isNew = !items.has(name)
    items.set(name, left)
    if (isNew) changes.resourcesChanged()
    else changes.resourceUpdated(uriOf(name))
    return { name, left }
  })
  app.put<{ Body: { open: boolean } }>('/sale', ({ body: { open } }) => {
    suite.remove(discount) // a tool that comes or goes announces itself
    if (open) suite.add(discount)
    return { open }
  })
  return app
}
// #endregion

const discount = defineTool({
  name: 'discount',
  description: 'Says what a number of items costs less, while the sale is open.',
  input: Type.Object({ count: Type.Integer({ minimum: 1 }) }),
  call: ({ count }) => toolResult.text(`${Math.min(count * 5, 50)} %`)
})

await startIfMain(import.meta.url, build)
