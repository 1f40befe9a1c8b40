import { EventEmitter, once } from 'node:events'
import { Type } from '@sinclair/typebox'
import {
  busSubscriptions, createMessage, createSuite, definePrompt, defineResources, defineTool, elicitForm, getPromptResult, inputRequired, listRoots,
  readResourceResult, toolResult
} from 'fastify-gen-mcp'
import type { BusSubscriptions, MessageBus, Suite } from 'fastify-gen-mcp'

export const toolNames = ['add', 'count', 'steps', 'wait', 'remove', 'summarize', 'roots']

/** What a test sees of the server, and makes it do. */
export interface InteropServer {
  readonly suite: Suite
  readonly changes: BusSubscriptions
  /** 'waiting' with the signal of a call of `wait`; `steps` reports progress at each 'step', and answers at 'finish'. */
  readonly events: EventEmitter
}

const cities = ['Paris', 'Prague', 'Porto', 'Rome']
const startingWith = (value: string) => cities.filter(city => city.startsWith(value))

/** A tool that comes and goes. */
export const late = defineTool({ name: 'late', call: () => toolResult.text('Better than never.') })

/** A Suite with something for each part of the protocol; replicas share the bus. */
export function createInteropServer (bus?: MessageBus): InteropServer {
  const events = new EventEmitter()
  const changes = busSubscriptions(bus && { bus })

  const add = defineTool({
    name: 'add',
    title: 'Add',
    input: Type.Object({ a: Type.Number(), b: Type.Number() }),
    output: Type.Object({ sum: Type.Number() }),
    call: ({ a, b }) => toolResult.data({ sum: a + b })
  })
  const count = defineTool({
    name: 'count',
    call (_args, channel) {
      channel.sendProgress(1, 2, 'one')
      channel.sendProgress(2, 2, 'two')
      channel.sendLog('debug', 'details')
      channel.sendLog('info', 'counted')
      channel.sendLog('error', 'nothing left')
      return toolResult.data({ counted: 2 })
    }
  })
  const steps = defineTool({
    name: 'steps',
    async call (_args, channel) {
      let step = 0
      const report = () => { channel.sendProgress(++step) }
      events.on('step', report)
      channel.defer(() => { events.off('step', report) })
      channel.sendProgress(0.5)
      await once(events, 'finish', { signal: channel.signal })
      return toolResult.data({ steps: step })
    }
  })
  const wait = defineTool({
    name: 'wait',
    async call (_args, { signal }) {
      events.emit('waiting', signal)
      await once(signal, 'abort')
      return toolResult.text('for nobody')
    }
  })
  const remove = defineTool({
    name: 'remove',
    requires: { elicitation: { form: {} } },
    call (_args, channel) {
      const questions = { confirm: elicitForm('Really?', Type.Object({ sure: Type.Boolean() })) }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions)
      return toolResult.text(answers.confirm.action === 'accept' && answers.confirm.content.sure ? 'Gone.' : 'Kept.')
    }
  })
  const summarize = defineTool({
    name: 'summarize',
    input: Type.Object({ text: Type.String() }),
    call ({ text }, channel) {
      const questions = { summary: createMessage({ messages: [{ role: 'user', content: { type: 'text', text: `Summarize: ${text}` } }], maxTokens: 50 }) }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions)
      const { content } = answers.summary
      return toolResult.text(JSON.stringify(content))
    }
  })
  const roots = defineTool({
    name: 'roots',
    call (_args, channel) {
      const questions = { roots: listRoots() }
      const answers = channel.inputResponses(questions)
      return answers === undefined ? inputRequired(questions) : toolResult.text(answers.roots.roots.map(({ uri }) => uri).join(' '))
    }
  })

  const notes = defineResources({
    template: { uriTemplate: 'note://{city}', name: 'note', title: 'A note' },
    list: () => ({ items: cities.map(city => ({ uri: `note://${city}`, name: city })) }),
    read: ({ uri, vars: { city } }) => cities.includes(city) ? readResourceResult({ uri, text: `About ${city}` }) : null,
    complete: { city: startingWith }
  })
  const visit = definePrompt({
    name: 'visit',
    description: 'Plans a visit.',
    arguments: Type.Object({ city: Type.String() }),
    get: ({ city }) => getPromptResult([{ role: 'user', content: `Plan a visit to ${city}.` }]),
    complete: { city: startingWith }
  })
  const suite = createSuite({
    info: { name: 'interop', version: '1.0.0', title: 'Interop' },
    instructions: 'Be kind.',
    tools: [add, count, steps, wait, remove, summarize, roots],
    resources: [notes],
    prompts: [visit],
    subscriptions: changes
  })
  return { suite, changes, events }
}
