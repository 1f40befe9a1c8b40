import { setTimeout as delay } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { defineTool, toolResult, type BusSubscriptions, type ToolProvider } from '../../lib/index.js'
import { username } from './questions.js'
import { contact, image, wav } from './samples.js'
import { askingTool } from './suite-asking.js'
import { suiteOlder } from './suite-older.js'
import { suiteRounds } from './suite-rounds.js'

const STEP = 50

/** What tools answer and send. The first one is called without arguments, and must take that. */
const singles: readonly ToolProvider[] = [
  defineTool({
    name: 'test_simple_text',
    description: 'Answers with text',
    call: () => toolResult.text('This is a simple text response for testing.')
  }),
  defineTool({
    name: 'test_image_content',
    description: 'Answers with an image',
    call: () => toolResult.content(image)
  }),
  defineTool({
    name: 'test_audio_content',
    description: 'Answers with sound',
    call: () => toolResult.content({ type: 'audio', mimeType: 'audio/wav', data: wav })
  }),
  defineTool({
    name: 'test_embedded_resource',
    description: 'Answers with a resource',
    call: () => toolResult.content({
      type: 'resource',
      resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' }
    })
  }),
  defineTool({
    name: 'test_multiple_content_types',
    description: 'Answers with text, an image and a resource',
    call: () => toolResult.content(
      { type: 'text', text: 'Multiple content types test:' },
      image,
      {
        type: 'resource',
        resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: JSON.stringify({ test: 'data', value: 123 }) }
      }
    )
  }),
  defineTool({
    name: 'test_error_handling',
    description: 'Fails, in a way that the model may read',
    call: () => toolResult.error('This tool intentionally returns an error for testing')
  }),
  defineTool({
    name: 'test_tool_with_progress',
    description: 'Reports progress before it answers',
    async * call () {
      yield { progress: 0, total: 100 }
      await delay(STEP)
      yield { progress: 50, total: 100 }
      await delay(STEP)
      yield { progress: 100, total: 100 }
      return toolResult.text('All steps are done.')
    }
  }),
  defineTool({
    name: 'json_schema_2020_12_tool',
    description: 'Has an input schema with keywords of JSON Schema 2020-12',
    input: contact,
    call: args => toolResult.text(`Called with ${JSON.stringify(args)}`)
  }),
  defineTool({
    name: 'test_x_mcp_header',
    description: 'Has an argument that clients repeat in a header',
    input: Type.Object({ region: Type.Optional(Type.String({ 'x-mcp-header': 'Region' })), note: Type.Optional(Type.String()) }),
    call: ({ region = 'not given' }) => toolResult.text(`The region is ${region}`)
  }),
  defineTool({
    name: 'test_missing_capability',
    description: 'Serves only clients that can sample',
    requires: { sampling: {} },
    call: () => toolResult.text('The client can sample.')
  }),
  askingTool({
    name: 'test_streaming_elicitation',
    description: 'Asks the user in its result, not by a request on the stream',
    questions: username,
    say: answers => `The user chose to ${answers.username.action}.`
  }),
  defineTool({
    name: 'test_logging_tool',
    description: 'Logs, for a request that wants logs',
    call (_args, channel) {
      channel.sendLog('info', 'The tool runs')
      return toolResult.text('The tool has run.')
    }
  })
]

/** All tools, in the order of the list. Those that tell of a change do so through `changes`; the lists themselves stay as they are. */
export function createSuiteTools (changes: BusSubscriptions): readonly ToolProvider[] {
  return [
    ...singles,
    ...suiteOlder,
    defineTool({
      name: 'test_trigger_tool_change',
      description: 'Tells listens that the list of tools changed',
      call () {
        changes.toolsChanged()
        return toolResult.text('Listens are told that the tools changed.')
      }
    }),
    defineTool({
      name: 'test_trigger_prompt_change',
      description: 'Tells listens that the list of prompts changed',
      call () {
        changes.promptsChanged()
        return toolResult.text('Listens are told that the prompts changed.')
      }
    }),
    ...suiteRounds
  ]
}
