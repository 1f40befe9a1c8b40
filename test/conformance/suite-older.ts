import { setTimeout as delay } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { defineTool, inputRequired, toolResult, type ToolProvider } from '../../lib/index.js'
import { pauseStream } from '../../lib/legacy/index.js'
import { askContact, askModel, choices, defaults, describeResponse, textOf } from './questions.js'
import { askingTool } from './suite-asking.js'

const STEP = 50
const RECONNECTION = 100
const RETRY = 200

/** Tools that the suite calls at 2025 revisions alone. They do what any tool does: log for a request that wants logs, and ask in their result. */
export const suiteOlder: readonly ToolProvider[] = [
  defineTool({
    name: 'test_tool_with_logging',
    description: 'Logs what it does, step by step',
    async * call () {
      yield { level: 'info', data: 'Tool execution started' }
      await delay(STEP)
      yield { level: 'info', data: 'Tool processing data' }
      await delay(STEP)
      yield { level: 'info', data: 'Tool execution completed' }
      return toolResult.text('All steps are logged.')
    }
  }),
  defineTool({
    name: 'test_sampling',
    description: 'Passes a prompt on to the model of the client',
    input: Type.Object({ prompt: Type.String() }),
    call ({ prompt }, channel) {
      const questions = { answer: askModel(prompt, 100) }
      const answers = channel.inputResponses(questions)
      return answers === undefined ? inputRequired(questions) : toolResult.text(`LLM response: ${textOf(answers.answer)}`)
    }
  }),
  defineTool({
    name: 'test_elicitation',
    description: 'Asks the user for name and address',
    input: Type.Object({ message: Type.String() }),
    call ({ message }, channel) {
      const questions = { contact: askContact(message) }
      const answers = channel.inputResponses(questions)
      return answers === undefined ? inputRequired(questions) : toolResult.text(`User response: ${describeResponse(answers.contact)}`)
    }
  }),
  askingTool({
    name: 'test_elicitation_sep1034_defaults',
    description: 'Asks with a form that is filled in already',
    questions: defaults,
    say: answers => `Elicitation completed: ${describeResponse(answers.defaults)}`
  }),
  askingTool({
    name: 'test_elicitation_sep1330_enums',
    description: 'Asks with a form of choices',
    questions: choices,
    say: answers => `Elicitation completed: ${describeResponse(answers.choices)}`
  }),
  defineTool({
    name: 'test_reconnection',
    description: 'Takes its time',
    async call (_args, channel) {
      pauseStream(channel, RETRY)
      await delay(RECONNECTION)
      return toolResult.text('The time is over.')
    }
  })
]
