/** The plugin as it is built and published, with its default settings. */
import { setImmediate } from 'node:timers/promises'
import Fastify from 'fastify'
import genMcp, { defineServer, result, stream, toolResult } from 'fastify-gen-mcp'
import { EVENTS_A_CALL, info } from './wire.js'

const tools = {
  echo: text => result(toolResult.text(text)),
  'echo-async': async text => result(toolResult.text(text)),
  progress (text, channel) {
    for (let at = 1; at <= EVENTS_A_CALL; at++) channel.sendProgress(at, EVENTS_A_CALL)
    return result(toolResult.text(text))
  },
  async 'progress-paced' (text, channel) {
    for (let at = 1; at <= EVENTS_A_CALL; at++) {
      channel.sendProgress(at, EVENTS_A_CALL)
      await setImmediate()
    }
    return result(toolResult.text(text))
  }
}

/** An app with one mount of a low-level server. */
export async function createOurs (changes) {
  const server = defineServer({
    info,
    capabilities: { tools: { listChanged: true } },
    handleRequest: {
      'tools/call': ({ params }, channel) => tools[params.name](params.arguments.text, channel),
      'subscriptions/listen' (request, channel) {
        channel.on(changes, 'changed', () => true)
        return stream()
      }
    },
    handleMessage (changed, channel) {
      channel.sendNotification({ method: 'notifications/tools/list_changed' })
      return stream()
    }
  })
  const app = Fastify()
  await app.register(genMcp, { server })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return { port: app.server.address().port, listens: () => changes.listenerCount('changed') }
}
