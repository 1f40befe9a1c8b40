import { setTimeout as delay } from 'node:timers/promises'
import { inputRequired, result, toolResult, type Channel } from '../../lib/index.js'
import { pauseStream } from '../../lib/legacy/index.js'
import { askContact, askModel, choices, defaults, describeResponse, textOf } from './questions.js'
import type { JsonSchema } from '../../lib/index.js'
import type { FixtureTools } from './tools.js'

const STEP = 50
const RECONNECTION = 100
const RETRY = 200

/** Tools that the suite calls at 2025 revisions alone. They do what any tool does: log for a request that wants logs, and ask in their result. */
export const older: FixtureTools = {
  test_tool_with_logging: {
    description: 'Logs what it does, step by step',
    async call (_request, channel) {
      channel.sendLog('info', 'Tool execution started')
      await delay(STEP)
      channel.sendLog('info', 'Tool processing data')
      await delay(STEP)
      channel.sendLog('info', 'Tool execution completed')
      return result(toolResult.text('All steps are logged.'))
    }
  },
  test_sampling: {
    description: 'Passes a prompt on to the model of the client',
    inputSchema: oneText('prompt'),
    call ({ params: { arguments: { prompt } } }, channel) {
      if (typeof prompt !== 'string') return result(toolResult.error('The prompt must be a text.'))
      const questions = { answer: askModel(prompt, 100) }
      const answers = channel.inputResponses(questions)
      return answers === undefined ? inputRequired(questions) : result(toolResult.text(`LLM response: ${textOf(answers.answer)}`))
    }
  },
  test_elicitation: {
    description: 'Asks the user for name and address',
    inputSchema: oneText('message'),
    call ({ params: { arguments: { message } } }, channel) {
      if (typeof message !== 'string') return result(toolResult.error('The message must be a text.'))
      const questions = { contact: askContact(message) }
      const answers = channel.inputResponses(questions)
      return answers === undefined ? inputRequired(questions) : result(toolResult.text(`User response: ${describeResponse(answers.contact)}`))
    }
  },
  test_elicitation_sep1034_defaults: {
    description: 'Asks with a form that is filled in already',
    call (_request, channel) {
      const answers = channel.inputResponses(defaults)
      if (answers === undefined) return inputRequired(defaults)
      return result(toolResult.text(`Elicitation completed: ${describeResponse(answers.defaults)}`))
    }
  },
  test_elicitation_sep1330_enums: {
    description: 'Asks with a form of choices',
    call (_request, channel) {
      const answers = channel.inputResponses(choices)
      if (answers === undefined) return inputRequired(choices)
      return result(toolResult.text(`Elicitation completed: ${describeResponse(answers.choices)}`))
    }
  },
  test_reconnection: {
    description: 'Takes its time',
    async call (_request, channel) {
      pauseStream(channel, RETRY)
      await delay(RECONNECTION)
      return result(toolResult.text('The time is over.'))
    }
  }
}

/** Answers clients of 2025 with a stream, where the suite wants to see several at a time. */
export function streamOlder (channel: Channel): void {
  if (channel.request.meta.protocolVersion !== '2026-07-28') channel.startStream()
}

function oneText (name: string): JsonSchema {
  return { type: 'object', properties: { [name]: { type: 'string' } }, required: [name], additionalProperties: false }
}
