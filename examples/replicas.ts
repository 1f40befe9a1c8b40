import { randomBytes } from 'node:crypto'
import cors, { type FastifyCorsOptions } from '@fastify/cors'
import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, {
  busSubscriptions, createSuite, defineResources, defineTool, elicitForm, inputRequired, readResourceResult, toolResult, type MessageBus
} from 'fastify-gen-mcp'
import { memoryEvents, type EventStore } from 'fastify-gen-mcp/legacy'
import mqemitter from 'mqemitter'
import { startIfMain } from './start.js'

/** What all processes have in common. */
export interface Shared {
  readonly secrets: readonly string[]
  readonly bus: MessageBus
  readonly events: EventStore
  /** Who has booked which table. */
  readonly booked: Map<string, string>
}

/** For one process, and for tests. Several have the secret from their configuration, an MQEmitter and an EventStore over Redis, say, and a database. */
export function createShared (): Shared {
  return { secrets: [randomBytes(32).toString('hex')], bus: mqemitter(), events: memoryEvents(), booked: new Map() }
}

function createServer ({ bus, booked }: Shared) {
  const changes = busSubscriptions({ bus })
  const book = defineTool({
    name: 'book',
    description: 'Books a table, when the user agrees.',
    input: Type.Object({ table: Type.String(), name: Type.String() }),
    call ({ table, name }, channel) {
      const questions = { agreed: elicitForm(`Book table ${table} for ${name}?`, Type.Object({ really: Type.Boolean() })) }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions) // asked in the way that the client's revision has
      if (answers.agreed.action !== 'accept' || !answers.agreed.content.really) return toolResult.text('Not booked.')
      booked.set(table, name)
      changes.resourceUpdated(`table://${table}`)
      return toolResult.text('Booked.')
    }
  })
  const tables = defineResources({
    template: { uriTemplate: 'table://{table}', name: 'table', mimeType: 'text/plain' },
    read: ({ uri, vars: { table } }) => readResourceResult({ uri, text: booked.has(table) ? 'taken' : 'free' })
  })
  return createSuite({ info: { name: 'tables', version: '1.0.0' }, tools: [book], resources: [tables], subscriptions: changes })
}

// #region cors
const pages = ['https://app.example.com']
const browsers: FastifyCorsOptions = {
  origin: pages,
  methods: ['GET', 'POST', 'DELETE'], // a current client needs no more than POST
  exposedHeaders: ['mcp-session-id', 'www-authenticate', 'retry-after'] // without the first a page loses its session at once
  // no allowedHeaders: the plugin then allows those that a page asks for, mcp-param-* among them
}
// #endregion

// #region replicas
export async function build (options: FastifyServerOptions = {}, shared: Shared = createShared()): Promise<FastifyInstance> {
  const { secrets, bus, events } = shared
  const app = Fastify({ forceCloseConnections: true, ...options })
  await app.register(cors, browsers) // answers preflights before the mount and its hooks see them
  await app.register(genMcp, {
    server: createServer(shared), // it tells of changes over the same bus
    secrets, // what one process sealed, the id of a session, say, the others open
    allowedOrigins: pages,
    legacy: { bus, events }
  })
  return app
}
// #endregion

await startIfMain(import.meta.url, build)
