// What a user writes for clients of 2025: sessions in a store, events that replicas share, a stream that is paused.
import Fastify from 'fastify'
import genMcp, { defineServer, result, toolResult, type MessageBus } from 'fastify-gen-mcp'
import {
  memoryEvents, pauseStream, sealedSessions, sessionControllerTests, type EventStore, type LegacyOptions, type Session, type SessionController, type StoredEvent
} from 'fastify-gen-mcp/legacy'

const sessions = new Map<string, Session>()
export const controller: SessionController = {
  async create (session) {
    const id = crypto.randomUUID()
    sessions.set(id, session)
    return id
  },
  fetch: id => sessions.get(id),
  update (id, session) { sessions.set(id, session) },
  delete (id) { sessions.delete(id) }
}

const kept = new Map<string, StoredEvent[]>()
export const events: EventStore = {
  append (stream, event) { kept.set(stream, [...kept.get(stream) ?? [], event]) },
  async after (stream, seq) { return kept.get(stream)?.filter(event => event.seq > seq) }
}

const server = defineServer({
  info: { name: 'x', version: '1' },
  capabilities: { tools: {} },
  handleRequest: {
    'tools/call' (_request, channel) {
      const paused: boolean = pauseStream(channel, 500)
      return result(toolResult.text(String(paused)))
    }
  }
})

export async function use (bus: MessageBus): Promise<void> {
  const app = Fastify()
  const legacy: LegacyOptions = { sessions: sealedSessions({ maxAge: 1_000 }), events: memoryEvents({ maxBytes: 1_000 }), bus, topic: 'a', answerTimeout: 1, maxStreamAge: 0, retry: 1, maxBatch: 1 }
  await app.register(genMcp, { server, legacy })
  await app.register(genMcp, { server, legacy: true })
  await app.register(genMcp, { server, legacy: { sessions: false, events: false } })
  // @ts-expect-error an option nobody takes
  await app.register(genMcp, { server, legacy: { session: controller } })
  for (const { name, run } of sessionControllerTests(() => controller)) {
    console.log(name satisfies string)
    await run()
  }
  // @ts-expect-error a controller that cannot fetch
  sessionControllerTests(() => ({ create: () => 'id' }))
  const session = await controller.fetch('id', {} as never)
  // @ts-expect-error no session is of the revision without a handshake
  if (session?.protocolVersion === '2026-07-28') console.log(session)
}
