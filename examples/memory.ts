import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, {
  busSubscriptions, createSuite, definePrompt, defineResources, defineTool, elicitForm, getPromptResult, inputRequired, readResourceResult, toolResult
} from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

const notes = new Map<string, string>()
const changes = busSubscriptions()

// #region tool
const remember = defineTool({
  name: 'remember',
  description: 'Keeps a note under a title.',
  input: Type.Object({ title: Type.String({ pattern: '^[a-z-]+$' }), text: Type.String() }),
  output: Type.Object({ notes: Type.Number() }),
  call ({ title, text }) {
    notes.set(title, text)
    changes.resourcesChanged()
    return toolResult.data({ notes: notes.size })
  }
})
// #endregion

// #region confirm
const forget = defineTool({
  name: 'forget',
  description: 'Removes a note, when the user agrees.',
  input: Type.Object({ title: Type.String() }),
  annotations: { destructiveHint: true },
  requires: { elicitation: { form: {} } }, // a client that cannot show forms is refused before anything runs
  call ({ title }, channel) {
    if (!notes.has(title)) return toolResult.error(`There is no note called ${title}.`)
    const questions = { sure: elicitForm(`Forget ${title}?`, Type.Object({ really: Type.Boolean() })) }
    const answers = channel.inputResponses(questions)
    if (answers === undefined) return inputRequired(questions) // the client asks its user, and calls again
    if (answers.sure.action !== 'accept' || !answers.sure.content.really) return toolResult.text('Kept.')
    notes.delete(title)
    changes.resourcesChanged()
    return toolResult.text('Forgotten.')
  }
})
// #endregion

// #region providers
const stored = defineResources({
  template: { uriTemplate: 'note://{title}', name: 'note', mimeType: 'text/plain' },
  list: () => ({ items: [...notes.keys()].map(title => ({ uri: `note://${title}`, name: title })) }),
  read ({ uri, vars: { title } }) {
    const text = notes.get(title)
    return text === undefined ? null : readResourceResult({ uri, text, mimeType: 'text/plain' })
  },
  complete: { title: value => [...notes.keys()].filter(title => title.startsWith(value)) }
})
const summarize = definePrompt({
  name: 'summarize',
  description: 'Asks for a summary of a note.',
  arguments: Type.Object({ title: Type.String() }),
  get: ({ title }) => getPromptResult([{ role: 'user', content: `Summarize: ${notes.get(title) ?? ''}` }])
})
// #endregion

// #region suite
const suite = createSuite({
  info: { name: 'memory', version: '1.0.0' },
  tools: [remember, forget],
  resources: [stored],
  prompts: [summarize],
  subscriptions: changes
})
// #endregion

export async function build (options?: FastifyServerOptions): Promise<FastifyInstance> {
  const app = Fastify(options)
  await app.register(genMcp, { server: suite })
  return app
}

await startIfMain(import.meta.url, build)
