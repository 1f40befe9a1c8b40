import { EventEmitter } from 'node:events'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, fail, listResourcesResult, messageType, readResourceResult, result, stream } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

// #region subscribe
const notes = new Map([['note://1', 'Buy milk']])
const changes = new EventEmitter().setMaxListeners(0) // one listener a listen

const notesServer = defineServer({
  info: { name: 'notes', version: '1.0.0' },
  capabilities: { resources: { subscribe: true } },
  messages: messageType<{ readonly uri: string }>(),
  handleRequest: {
    'resources/list': () => result(listResourcesResult([...notes.keys()].map(uri => ({ uri, name: uri })))),
    'resources/read' ({ params: { uri } }) {
      const text = notes.get(uri)
      return text === undefined ? fail({ kind: 'resourceNotFound', uri }) : result(readResourceResult({ uri, text }))
    },
    'subscriptions/listen' (_request, channel) {
      channel.on(changes, 'changed', (uri: string) => ({ uri }))
      return stream(null) // acknowledges, and keeps the stream open
    }
  },
  handleMessage ({ uri }, channel, live) { // sent only to those who subscribed to this URI
    channel.sendNotification({ method: 'notifications/resources/updated', params: { uri } })
    return stream(live)
  }
})

export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  await app.register(genMcp, { server: notesServer })
  app.put<{ Params: { id: string }, Body: { text: string } }>('/notes/:id', ({ params: { id }, body: { text } }) => {
    notes.set(`note://${id}`, text)
    changes.emit('changed', `note://${id}`)
    return { id, text }
  })
  return app
}
// #endregion

await startIfMain(import.meta.url, build)
