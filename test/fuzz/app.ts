import { Type, type TObject } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, {
  busSubscriptions, createSuite, definePrompt, definePrompts, defineResources, defineTool, elicitForm, getPromptResult, inputRequired, readResourceResult,
  toolResult,
  type Channel, type Gauges, type JsonObject, type Resource
} from 'fastify-gen-mcp'
import { generatedSchemas } from './schemas.js'

/** Who calls is what this header says. */
export const USER = 'x-user'
/** Names a request; whatever is answered may hold this one and no other. */
export const MARK = 'x-marker'
export const BODY_LIMIT = 65_536
/** Members that `param` repeats in headers. */
export const PARAMS = { region: 'Mcp-Param-Region', count: 'Mcp-Param-Count', flag: 'Mcp-Param-Flag' } as const

/** The app that is shot at, and what it notices. */
export interface Range {
  readonly app: FastifyInstance
  /** Marks of requests that a callback ran for. */
  readonly ran: Set<string>
  /** What must not happen, and did: lines of the log that somebody would be woken up for, arguments that are not what was promised. */
  readonly alarms: string[]
  readonly schemas: readonly TObject[]
  gauges (): Gauges
}

const description = 'For fuzzing'
const mark = ({ httpRequest }: Pick<Channel, 'httpRequest'>): string => `${httpRequest.headers[MARK]}`
const Confirmation = Type.Object({ sure: Type.Boolean() })
const colors = ['red', 'green', 'grey', 'blue']

/** An app with every kind of provider on one mount, which is closed by whoever built it. */
export async function buildRange (seed: number, http2 = false): Promise<Range> {
  const ran = new Set<string>()
  const alarms: string[] = []
  const schemas = generatedSchemas(seed)
  const suite = createSuite({
    info: { name: 'fuzzed', version: '1.0.0' },
    pageSize: 2,
    tools: [...createTools(), ...schemas.map((input, index) => defineTool({
      name: `generated${index}`, description, input, call: (args, channel) => toolResult.data({ args: args as JsonObject, mark: mark(channel) })
    }))],
    resources: createResources(),
    prompts: createPrompts(),
    subscriptions: busSubscriptions()
  })
  suite.init = (_arg, { httpRequest }) => { ran.add(`${httpRequest.headers[MARK]}`) }

  // The types of the two kinds of app differ, and nothing here goes by what differs.
  const app = Fastify({ http2, logger: { level: 'error', stream: { write: (line: string) => { alarms.push(line) } } } } as FastifyServerOptions)
  await app.register(genMcp, {
    prefix: '/mcp',
    server: suite,
    bodyLimit: BODY_LIMIT,
    keepAlive: 0,
    secrets: ['a secret of at least thirty-two characters'],
    principal: ({ headers }) => headers[USER]?.toString(),
    // A client that never answers is answered in time all the same.
    legacy: { answerTimeout: 5, retry: 1 }
  })
  await app.ready()
  return { app, ran, alarms, schemas, gauges: () => app.mcp.mounts[0]?.gauges() as Gauges }
}

function createTools () {
  const echo = defineTool({
    name: 'echo', description, input: Type.Object({ text: Type.String() }), call: ({ text }, channel) => toolResult.text(text, mark(channel))
  })
  const param = defineTool({
    name: 'param',
    description,
    input: Type.Object({
      region: Type.String({ 'x-mcp-header': 'Region' }),
      count: Type.Optional(Type.Integer({ 'x-mcp-header': 'Count' })),
      deep: Type.Optional(Type.Object({ flag: Type.Optional(Type.Boolean({ 'x-mcp-header': 'Flag' })) }))
    }),
    call: (args, channel) => toolResult.data({ args: args as unknown as JsonObject, mark: mark(channel) })
  })
  const ask = defineTool({
    name: 'ask',
    description,
    input: Type.Object({ text: Type.String() }),
    call ({ text }, channel) {
      const questions = { sure: elicitForm('Really?', Confirmation) }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions, { text })
      return toolResult.text(answers.sure.action, mark(channel))
    }
  })
  const steps = defineTool({
    name: 'steps',
    description,
    async * call (_args: JsonObject, channel) {
      for (let step = 1; step <= 3; step++) {
        channel.sendLog('warning', { step, mark: mark(channel) })
        yield { progress: step, total: 3, message: mark(channel) }
      }
      return toolResult.text('done', mark(channel))
    }
  })
  return [echo, param, ask, steps]
}

function createResources () {
  const items: readonly Resource[] = Array.from({ length: 7 }, (_, index) => ({ uri: `mem://item/${index}`, name: `item ${index}` }))
  // A template and what it reads, so that the answer shows all of it.
  const template = (uriTemplate: string) => defineResources({
    template: { uriTemplate, name: uriTemplate.slice(0, 4) },
    read: ({ uri, vars }, channel) => readResourceResult({ uri, text: JSON.stringify({ vars, mark: mark(channel) }) }),
    complete: {}
  })
  return [
    defineResources({
      prefix: 'mem://',
      // Its own pages, within those of the Suite.
      list (cursor) {
        const from = Number(cursor ?? 0)
        return { items: items.slice(from, from + 3), ...(from < 6 && { nextCursor: from + 3 }) }
      },
      read: ({ uri }, channel) => uri.startsWith('mem://item/') ? readResourceResult({ uri, text: mark(channel) }) : null
    }),
    defineResources({
      template: { uriTemplate: 'file:///{dir}/{+path}', name: 'files' },
      read: ({ uri, vars: { dir, path } }, channel) => readResourceResult({ uri, text: JSON.stringify({ dir, path, mark: mark(channel) }) }),
      complete: { dir: value => colors.filter(color => color.startsWith(value)) }
    }),
    ...['db://{table}/rows/{id}{?fields*,limit:2}', 'tree:{/steps*}{#mark}', 'dots:{name}{.ext*}', 'pairs:x{;a,b*}{&c}',
      'wide:{a,b,c}-{+d,e}{f*}'].map(template)
  ]
}

function createPrompts () {
  return [
    definePrompt({
      name: 'paint',
      arguments: Type.Object({ color: Type.String({ minLength: 1 }), size: Type.Optional(Type.String()) }),
      get: ({ color }, channel) => getPromptResult([{ role: 'user', content: `${color} ${mark(channel)}` }]),
      complete: { color: value => colors.filter(color => color.startsWith(value)) }
    }),
    definePrompts({
      prefix: 'store/',
      list: () => ({ items: [{ name: 'store/a' }, { name: 'store/b' }, { name: 'store/c' }] }),
      get: (name, args, channel) => name === 'store/a' ? getPromptResult([{ role: 'user', content: `${JSON.stringify(args)} ${mark(channel)}` }]) : null
    })
  ]
}
