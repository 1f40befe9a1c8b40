import { setTimeout as delay } from 'node:timers/promises'
import { inputRequired, result, toolResult } from '../../lib/index.js'
import { older } from './older.js'
import { username } from './questions.js'
import { rounds } from './rounds.js'
import { contact, image, wav } from './samples.js'
import type { Awaitable, CallToolRequest, Channel, JsonSchema, RequestOutcome } from '../../lib/index.js'

/** A tool: what is listed of it beside its name, and what it does. */
export interface FixtureTool {
  readonly description: string
  /** default: no arguments */
  readonly inputSchema?: JsonSchema
  readonly call: (request: CallToolRequest, channel: Channel) => Awaitable<RequestOutcome<never, 'tools/call'>>
}

export type FixtureTools = Readonly<Record<string, FixtureTool>>

const STEP = 50

const regional = {
  type: 'object',
  properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, note: { type: 'string' } }
}

/** What tools answer and send. The first one is called without arguments, and must take that. */
const singles: FixtureTools = {
  test_simple_text: {
    description: 'Answers with text',
    call: () => result(toolResult.text('This is a simple text response for testing.'))
  },
  test_image_content: {
    description: 'Answers with an image',
    call: () => result(toolResult.content(image))
  },
  test_audio_content: {
    description: 'Answers with sound',
    call: () => result(toolResult.content({ type: 'audio', mimeType: 'audio/wav', data: wav }))
  },
  test_embedded_resource: {
    description: 'Answers with a resource',
    call: () => result(toolResult.content({
      type: 'resource',
      resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' }
    }))
  },
  test_multiple_content_types: {
    description: 'Answers with text, an image and a resource',
    call: () => result(toolResult.content(
      { type: 'text', text: 'Multiple content types test:' },
      image,
      {
        type: 'resource',
        resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: JSON.stringify({ test: 'data', value: 123 }) }
      }
    ))
  },
  test_error_handling: {
    description: 'Fails, in a way that the model may read',
    call: () => result(toolResult.error('This tool intentionally returns an error for testing'))
  },
  test_tool_with_progress: {
    description: 'Reports progress before it answers',
    async call (_request, channel) {
      channel.sendProgress(0, 100)
      await delay(STEP)
      channel.sendProgress(50, 100)
      await delay(STEP)
      channel.sendProgress(100, 100)
      return result(toolResult.text('All steps are done.'))
    }
  },
  json_schema_2020_12_tool: {
    description: 'Has an input schema with keywords of JSON Schema 2020-12',
    inputSchema: contact,
    call: ({ params }) => result(toolResult.text(`Called with ${JSON.stringify(params.arguments)}`))
  },
  test_x_mcp_header: {
    description: 'Has an argument that clients repeat in a header',
    inputSchema: regional,
    call: ({ params }) => result(toolResult.text(`The region is ${String(params.arguments.region ?? 'not given')}`))
  },
  test_missing_capability: {
    description: 'Serves only clients that can sample',
    call (_request, channel) {
      channel.requireCapability({ sampling: {} })
      return result(toolResult.text('The client can sample.'))
    }
  },
  test_streaming_elicitation: {
    description: 'Asks the user in its result, not by a request on the stream',
    call (_request, channel) {
      const answers = channel.inputResponses(username)
      return answers === undefined ? inputRequired(username) : result(toolResult.text(`The user chose to ${answers.username.action}.`))
    }
  },
  test_logging_tool: {
    description: 'Logs, for a request that wants logs',
    call (_request, channel) {
      channel.sendLog('info', 'The tool runs')
      return result(toolResult.text('The tool has run.'))
    }
  }
}

/** All tools, in the order of the list. Those that tell of a change do so through `changed`; the lists themselves stay as they are. */
export function createTools (changed: (list: 'tools' | 'prompts') => void): FixtureTools {
  return {
    ...singles,
    ...older,
    test_trigger_tool_change: {
      description: 'Tells listens that the list of tools changed',
      call () {
        changed('tools')
        return result(toolResult.text('Listens are told that the tools changed.'))
      }
    },
    test_trigger_prompt_change: {
      description: 'Tells listens that the list of prompts changed',
      call () {
        changed('prompts')
        return result(toolResult.text('Listens are told that the prompts changed.'))
      }
    },
    ...rounds
  }
}
