import { defineTool, inputRequired, toolResult, type ToolProvider } from '../../lib/index.js'
import {
  accepted, capitalQuestion, clientRoots, confirm, everything, questionsFor, Round, step1, step2, textOf, userName
} from './questions.js'
import { askingTool } from './suite-asking.js'

/** Tools that ask the client and are called again with its answers. */
export const suiteRounds: readonly ToolProvider[] = [
  askingTool({
    name: 'test_input_required_result_elicitation',
    description: 'Asks the user for a name, and does without a state of its own',
    questions: userName,
    say: answers => `Hello, ${accepted(answers.user_name)?.name ?? 'nobody'}!`
  }),
  askingTool({
    name: 'test_input_required_result_sampling',
    description: 'Asks the model of the client',
    questions: capitalQuestion,
    say: answers => textOf(answers.capital_question)
  }),
  askingTool({
    name: 'test_input_required_result_list_roots',
    description: 'Asks for the roots of the client',
    questions: clientRoots,
    say: answers => `Roots: ${answers.client_roots.roots.map(({ uri }) => uri).join(', ')}`
  }),
  defineTool({
    name: 'test_input_required_result_request_state',
    description: 'Asks the user, and wants its state back',
    call (_args, channel) {
      const answers = channel.inputResponses(confirm)
      const state = channel.requestState(Round)
      return answers === undefined || state === undefined ? inputRequired(confirm, { round: 1 }) : toolResult.text('state-ok')
    }
  }),
  askingTool({
    name: 'test_input_required_result_multiple_inputs',
    description: 'Asks user, model and client at once',
    questions: everything,
    state: { round: 1 },
    say: ({ user_name: user, greeting, client_roots: { roots } }) => `${textOf(greeting)} ${accepted(user)?.name ?? 'nobody'}, ${roots.length} roots`
  }),
  defineTool({
    name: 'test_input_required_result_multi_round',
    description: 'Asks one thing after the other',
    call (_args, channel) {
      const first = channel.inputResponses(step1)
      if (first === undefined) return inputRequired(step1, { round: 1 })
      const second = channel.inputResponses(step2)
      if (second === undefined) return inputRequired(step2, { round: 2 })
      return toolResult.text(`${accepted(first.step1)?.name ?? 'Somebody'} likes ${accepted(second.step2)?.color ?? 'no color'}.`)
    }
  }),
  askingTool({
    name: 'test_input_required_result_tampered_state',
    description: 'Asks the user, with a state that nobody else can write',
    questions: confirm,
    state: { round: 1 },
    say: () => 'The state came back unchanged.'
  }),
  defineTool({
    name: 'test_input_required_result_capabilities',
    description: 'Asks only what the client can answer',
    call (_args, channel) {
      const questions = questionsFor(channel.request.meta.clientCapabilities)
      if (Object.keys(questions).length === 0) return toolResult.text('There is nothing that this client could be asked.')
      return channel.inputResponses(questions) === undefined ? inputRequired(questions) : toolResult.text('Everything is answered.')
    }
  })
]
