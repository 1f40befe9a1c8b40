// Holds streams of every kind, closes its app when it is told to, and has to end by itself.
import Fastify from 'fastify'
import genMcp, { createSuite, defineTool, busSubscriptions, messageType, stream, toolResult } from 'fastify-gen-mcp'
import { onTold, readRole, say } from './process.js'
import type { AddressInfo } from 'node:net'

/** What it is told to be, and what it says when its app is closed. */
export interface Role { /** ms */ readonly drain: number, readonly runs: number }
export interface Closed { readonly ms: number }

const { drain, runs } = readRole<Role>()
const server = createSuite({
  info: { name: 'load', version: '1.0.0' },
  subscriptions: busSubscriptions(),
  tools: [
    defineTool({
      name: 'waits',
      description: 'Tells of its progress and waits for more, without end',
      messages: messageType<number>(),
      call (_args, channel) {
        let progress = 0
        channel.sendProgress(progress)
        channel.every(50, () => ++progress)
        return stream(undefined)
      },
      handleMessage (progress, channel) {
        channel.sendProgress(progress)
        return stream(undefined)
      }
    }),
    defineTool({
      name: 'runs',
      description: 'Tells of its progress, and is done some time after',
      async * call () {
        for (let progress = 0; performance.now() < closed + runs; progress++) {
          yield { progress }
          await new Promise(resolve => { setTimeout(resolve, 50) })
        }
        return toolResult.text('done')
      }
    })
  ]
})
/** When the app was closed. */
let closed = Infinity

const app = Fastify()
await app.register(genMcp, { prefix: '/mcp', server, limits: { drain } })
await app.listen({ port: 0, host: '127.0.0.1' })

async function close (): Promise<void> {
  const began = closed = performance.now()
  await app.close()
  say({ ms: performance.now() - began } satisfies Closed)
  // Nothing else of this file keeps the process.
  process.disconnect()
}

onTold<'close'>(() => { close().catch((error: unknown) => { throw error }) })
say({ port: (app.server.address() as AddressInfo).port })
