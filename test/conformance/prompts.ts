import { fail, getPromptResult, inputRequired, result } from '../../lib/index.js'
import { accepted, userContext } from './questions.js'
import { image } from './samples.js'
import type { Awaitable, Channel, Prompt, RequestOutcome, RequestOf } from '../../lib/index.js'

/** A prompt: what is listed of it beside its name, and what it says. */
export interface FixturePrompt extends Omit<Prompt, 'name'> {
  readonly get: (request: RequestOf<'prompts/get'>, channel: Channel) => Awaitable<RequestOutcome<never, 'prompts/get'>>
}

/** The names of test_prompt_with_arguments' arguments. */
const NAMES = ['arg1', 'arg2'] as const

export const prompts: Readonly<Record<string, FixturePrompt>> = {
  test_simple_prompt: {
    description: 'Takes no arguments',
    get: () => result(getPromptResult([{ role: 'user', content: 'This is a simple prompt for testing.' }]))
  },
  test_prompt_with_arguments: {
    description: 'Says its arguments',
    arguments: NAMES.map(name => ({ name, description: 'Any text', required: true })),
    get ({ params: { arguments: args } }) {
      const missing = NAMES.find(name => args[name] === undefined)
      if (missing !== undefined) return fail({ kind: 'invalidParams', message: `The argument ${missing} is missing` })
      const said = NAMES.map(name => `${name}='${args[name]}'`).join(', ')
      return result(getPromptResult([{ role: 'user', content: `Prompt with arguments: ${said}` }]))
    }
  },
  test_prompt_with_embedded_resource: {
    description: 'Holds the resource that its argument names',
    arguments: [{ name: 'resourceUri', description: 'The URI of a resource', required: true }],
    get ({ params: { arguments: { resourceUri: uri } } }) {
      if (uri === undefined) return fail({ kind: 'invalidParams', message: 'The argument resourceUri is missing' })
      return result(getPromptResult([
        { role: 'user', content: { type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' } } },
        { role: 'user', content: 'Please process the embedded resource above.' }
      ]))
    }
  },
  test_prompt_with_image: {
    description: 'Holds an image',
    get: () => result(getPromptResult([
      { role: 'user', content: image },
      { role: 'user', content: 'Please analyze the image above.' }
    ]))
  },
  test_input_required_result_prompt: {
    description: 'Asks the user before it says anything',
    get (_request, channel) {
      const answers = channel.inputResponses(userContext)
      if (answers === undefined) return inputRequired(userContext)
      const context = accepted(answers.user_context)?.context ?? 'nothing in particular'
      return result(getPromptResult([{ role: 'user', content: `Write about ${context}.` }]))
    }
  }
}
