import { EventEmitter } from 'node:events'
import { fileURLToPath } from 'node:url'
import Fastify, { type FastifyInstance } from 'fastify'
// By its path: the package.json of this folder hides the name of the package.
import genMcp, {
  checkParamHeaders, completeResult, defineServer, fail, listPromptsResult, listResourcesResult, listResourceTemplatesResult, listToolsResult, messageType,
  result, stream, type ServerNotification
} from '../../lib/index.js'
import { streamOlder } from './older.js'
import { prompts } from './prompts.js'
import { readResource, resources, template } from './resources.js'
import { createSuiteFixture } from './suite-fixture.js'
import { createTools } from './tools.js'

const DEFAULT_PORT = 3000
const NO_ARGUMENTS = { type: 'object', additionalProperties: false }

/** The server that the conformance suite expects, on the server contract alone. */
export function createFixture () {
  const changes = new EventEmitter().setMaxListeners(0)
  const tools = new Map(Object.entries(createTools(list => { changes.emit('change', { method: `notifications/${list}/list_changed` }) })))
  const toolList = [...tools].map(([name, { description, inputSchema = NO_ARGUMENTS }]) => ({ name, description, inputSchema }))
  const promptsByName = new Map(Object.entries(prompts))
  const promptList = [...promptsByName].map(([name, { get, ...listed }]) => ({ name, ...listed }))

  return defineServer({
    info: { name: 'fastify-gen-mcp-conformance', version: '1.0.0' },
    capabilities: {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { subscribe: true },
      completions: {},
      logging: {}
    },
    messages: messageType<ServerNotification>(),
    handleRequest: {
      'tools/list' (_request, channel) {
        streamOlder(channel)
        return result(listToolsResult(toolList))
      },
      'tools/call' (request, channel) {
        const { name } = request.params
        const tool = tools.get(name)
        if (tool === undefined) return fail({ kind: 'unknownTool', name })
        if (tool.inputSchema !== undefined) checkParamHeaders(tool.inputSchema, request, channel.httpRequest)
        return tool.call(request, channel)
      },
      'prompts/list': () => result(listPromptsResult(promptList)),
      'prompts/get' (request, channel) {
        const { name } = request.params
        return promptsByName.get(name)?.get(request, channel) ?? fail({ kind: 'promptNotFound', name })
      },
      'resources/list': () => result(listResourcesResult(resources)),
      'resources/templates/list': () => result(listResourceTemplatesResult([template])),
      'resources/read' ({ params: { uri } }) {
        const found = readResource(uri)
        return found === undefined ? fail({ kind: 'resourceNotFound', uri }) : result(found)
      },
      'completion/complete': ({ params: { argument } }) => result(completeResult(['test', 'testing'].filter(value => value.startsWith(argument.value)))),
      'subscriptions/listen' (_request, channel) {
        channel.on(changes, 'change', (change: ServerNotification) => change)
        return stream('listening')
      }
    },
    handleMessage (change, channel, live) {
      channel.sendNotification(change)
      return stream(live)
    }
  })
}

/** What the suite runs against: a server on the contract alone, and one from the Suite's providers. */
export const fixtures = { contract: createFixture, suite: createSuiteFixture }

export type Fixture = typeof fixtures[keyof typeof fixtures]

export async function build (createServer: Fixture = createFixture): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(genMcp, { server: createServer(), secrets: ['a secret of the conformance fixture alone'] })
  return app
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const app = await build(process.argv.includes('--suite') ? fixtures.suite : fixtures.contract)
  console.log(`${await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? DEFAULT_PORT) })}/mcp`)
}
