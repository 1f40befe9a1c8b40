import { inputRequired, result, toolResult } from '../../lib/index.js'
import {
  accepted, capitalQuestion, clientRoots, confirm, everything, questionsFor, Round, step1, step2, textOf, userName
} from './questions.js'
import type { FixtureTools } from './tools.js'

/** Tools that ask the client and are called again with its answers. */
export const rounds: FixtureTools = {
  test_input_required_result_elicitation: {
    description: 'Asks the user for a name, and does without a state of its own',
    call (_request, channel) {
      const answers = channel.inputResponses(userName)
      if (answers === undefined) return inputRequired(userName)
      return result(toolResult.text(`Hello, ${accepted(answers.user_name)?.name ?? 'nobody'}!`))
    }
  },
  test_input_required_result_sampling: {
    description: 'Asks the model of the client',
    call (_request, channel) {
      const answers = channel.inputResponses(capitalQuestion)
      return answers === undefined ? inputRequired(capitalQuestion) : result(toolResult.text(textOf(answers.capital_question)))
    }
  },
  test_input_required_result_list_roots: {
    description: 'Asks for the roots of the client',
    call (_request, channel) {
      const answers = channel.inputResponses(clientRoots)
      if (answers === undefined) return inputRequired(clientRoots)
      return result(toolResult.text(`Roots: ${answers.client_roots.roots.map(({ uri }) => uri).join(', ')}`))
    }
  },
  test_input_required_result_request_state: {
    description: 'Asks the user, and wants its state back',
    call (_request, channel) {
      const answers = channel.inputResponses(confirm)
      const state = channel.requestState(Round)
      return answers === undefined || state === undefined ? inputRequired(confirm, { round: 1 }) : result(toolResult.text('state-ok'))
    }
  },
  test_input_required_result_multiple_inputs: {
    description: 'Asks user, model and client at once',
    call (_request, channel) {
      const answers = channel.inputResponses(everything)
      if (answers === undefined) return inputRequired(everything, { round: 1 })
      const { user_name: user, greeting, client_roots: { roots } } = answers
      return result(toolResult.text(`${textOf(greeting)} ${accepted(user)?.name ?? 'nobody'}, ${roots.length} roots`))
    }
  },
  test_input_required_result_multi_round: {
    description: 'Asks one thing after the other',
    call (_request, channel) {
      const first = channel.inputResponses(step1)
      if (first === undefined) return inputRequired(step1, { round: 1 })
      const second = channel.inputResponses(step2)
      if (second === undefined) return inputRequired(step2, { round: 2 })
      return result(toolResult.text(`${accepted(first.step1)?.name ?? 'Somebody'} likes ${accepted(second.step2)?.color ?? 'no color'}.`))
    }
  },
  test_input_required_result_tampered_state: {
    description: 'Asks the user, with a state that nobody else can write',
    call (_request, channel) {
      const answers = channel.inputResponses(confirm)
      return answers === undefined ? inputRequired(confirm, { round: 1 }) : result(toolResult.text('The state came back unchanged.'))
    }
  },
  test_input_required_result_capabilities: {
    description: 'Asks only what the client can answer',
    call ({ meta }, channel) {
      const questions = questionsFor(meta.clientCapabilities)
      if (Object.keys(questions).length === 0) return result(toolResult.text('There is nothing that this client could be asked.'))
      return channel.inputResponses(questions) === undefined ? inputRequired(questions) : result(toolResult.text('Everything is answered.'))
    }
  }
}
