import { Type } from '@sinclair/typebox'
import { definePrompt, getPromptResult, inputRequired, type PromptProvider } from '../../lib/index.js'
import { accepted, userContext } from './questions.js'
import { image } from './samples.js'

const VALUES = ['test', 'testing']

const complete = (value: string) => VALUES.filter(known => known.startsWith(value))

export const suitePrompts: readonly PromptProvider[] = [
  definePrompt({
    name: 'test_simple_prompt',
    description: 'Takes no arguments',
    get: () => getPromptResult([{ role: 'user', content: 'This is a simple prompt for testing.' }])
  }),
  definePrompt({
    name: 'test_prompt_with_arguments',
    description: 'Says its arguments',
    arguments: Type.Object({ arg1: Type.String({ description: 'Any text' }), arg2: Type.String({ description: 'Any text' }) }),
    get: ({ arg1, arg2 }) => getPromptResult([{ role: 'user', content: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` }]),
    complete: { arg1: complete, arg2: complete }
  }),
  definePrompt({
    name: 'test_prompt_with_embedded_resource',
    description: 'Holds the resource that its argument names',
    arguments: Type.Object({ resourceUri: Type.String({ description: 'The URI of a resource' }) }),
    get: ({ resourceUri: uri }) => getPromptResult([
      { role: 'user', content: { type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' } } },
      { role: 'user', content: 'Please process the embedded resource above.' }
    ])
  }),
  definePrompt({
    name: 'test_prompt_with_image',
    description: 'Holds an image',
    get: () => getPromptResult([{ role: 'user', content: image }, { role: 'user', content: 'Please analyze the image above.' }])
  }),
  definePrompt({
    name: 'test_input_required_result_prompt',
    description: 'Asks the user before it says anything',
    get (_args, channel) {
      const answers = channel.inputResponses(userContext)
      if (answers === undefined) return inputRequired(userContext)
      return getPromptResult([{ role: 'user', content: `Write about ${accepted(answers.user_context)?.context ?? 'nothing in particular'}.` }])
    }
  })
]
