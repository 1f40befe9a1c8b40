import { test } from 'tap'
import { createTestClient, type TestAnswer, type TestRequestOptions } from '../../lib/testing/index.js'
import { build, fixtures } from './fixture.js'
import type { JsonObject, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult, ListToolsResult } from '../../lib/index.js'
import type { Test } from 'tap'

/** What the suite asks for in its order, the tools of the 2025 revisions as well. */
const toolNames = [
  'test_simple_text', 'test_image_content', 'test_audio_content', 'test_embedded_resource', 'test_multiple_content_types', 'test_error_handling',
  'test_tool_with_progress', 'json_schema_2020_12_tool', 'test_x_mcp_header', 'test_missing_capability', 'test_streaming_elicitation', 'test_logging_tool',
  'test_tool_with_logging', 'test_sampling', 'test_elicitation', 'test_elicitation_sep1034_defaults', 'test_elicitation_sep1330_enums', 'test_reconnection',
  'test_trigger_tool_change', 'test_trigger_prompt_change', 'test_input_required_result_elicitation', 'test_input_required_result_sampling',
  'test_input_required_result_list_roots', 'test_input_required_result_request_state', 'test_input_required_result_multiple_inputs',
  'test_input_required_result_multi_round', 'test_input_required_result_tampered_state', 'test_input_required_result_capabilities'
]

const asked = {
  defaults: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true }
  },
  enums: {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string', oneOf: titled('value1', 'value2', 'value3') },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: { type: 'array', items: { anyOf: titled('value1', 'value2', 'value3') } }
  }
}

for (const [name, fixture] of Object.entries(fixtures)) {
  /** Calls a tool of this fixture, and answers each of its questions alike; gives those as well. */
  const call = async (t: Test, tool: string, args: JsonObject, response: JsonObject = {}, options: TestRequestOptions = {}) => {
    const questions: JsonObject[] = []
    const app = await build(fixture)
    t.teardown(async () => { await app.close() })
    const client = createTestClient(app, { capabilities: { elicitation: {}, sampling: {} } })
    const respond = (_key: string, question: JsonObject) => {
      questions.push(question)
      return response
    }
    const answer: TestAnswer<'tools/call'> = await client.request('tools/call', { name: tool, arguments: args }, { respond, ...options })
    return { ...answer, questions }
  }
  const completed = (text: string) => ({ resultType: 'complete', content: [{ type: 'text', text }] })

  test(`${name}: what is listed is what the suite looks for, all of it described`, async t => {
    const app = await build(fixture)
    t.teardown(async () => { await app.close() })
    const client = createTestClient(app)
    const { tools } = (await client.request('tools/list', {})).result as ListToolsResult
    const { prompts } = (await client.request('prompts/list', {})).result as ListPromptsResult
    const { resources } = (await client.request('resources/list', {})).result as ListResourcesResult
    const { resourceTemplates } = (await client.request('resources/templates/list', {})).result as ListResourceTemplatesResult

    t.strictSame(tools.map(tool => tool.name), toolNames)
    t.strictSame(prompts.map(prompt => prompt.name), [
      'test_simple_prompt', 'test_prompt_with_arguments', 'test_prompt_with_embedded_resource', 'test_prompt_with_image', 'test_input_required_result_prompt'
    ])
    t.strictSame(resources.map(({ uri }) => uri), ['test://static-text', 'test://static-binary', 'test://watched-resource'])
    t.strictSame(resourceTemplates.map(({ uriTemplate }) => uriTemplate), ['test://template/{id}/data'])
    t.strictSame([...tools, ...prompts, ...resources, ...resourceTemplates].filter(({ description = '' }) => description === ''), [])
    const { required } = tools.find(tool => tool.name === 'test_sampling')?.inputSchema as { required: unknown }
    t.strictSame(required, ['prompt'])
  })

  test(`${name}: a tool logs step by step, for a request that wants logs`, async t => {
    const { notifications, result } = await call(t, 'test_tool_with_logging', {}, {}, { logLevel: 'info' })
    t.match(notifications.map(({ params }) => params), [
      { level: 'info', data: 'Tool execution started' }, { level: 'info', data: 'Tool processing data' }, { level: 'info', data: 'Tool execution completed' }
    ])
    t.match(result, completed('All steps are logged.'))
    t.strictSame((await call(t, 'test_tool_with_logging', {})).notifications, [])
  })

  test(`${name}: a prompt is passed on to the model`, async t => {
    const sampled = { role: 'assistant', content: { type: 'text', text: 'Four.' }, model: 'test' }
    const { questions, result } = await call(t, 'test_sampling', { prompt: 'Two and two?' }, sampled)
    t.strictSame(questions, [{
      method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: 'Two and two?' } }], maxTokens: 100 }
    }])
    t.match(result, completed('LLM response: Four.'))
    t.match((await call(t, 'test_sampling', {}, sampled)).result, { isError: true }, 'a prompt that is missing is a failure, and no question')
  })

  test(`${name}: the user is asked with the message that was given`, async t => {
    const content = { username: 'ada', email: 'ada@example.com' }
    const { questions, result } = await call(t, 'test_elicitation', { message: 'Who are you?' }, { action: 'accept', content })
    t.strictSame(questions, [{
      method: 'elicitation/create',
      params: {
        mode: 'form',
        message: 'Who are you?',
        requestedSchema: { type: 'object', properties: { username: { type: 'string' }, email: { type: 'string' } }, required: ['username', 'email'] }
      }
    }])
    t.match(result, completed(`User response: action=accept, content=${JSON.stringify(content)}`))
    const declined = await call(t, 'test_elicitation', { message: 'Who are you?' }, { action: 'decline' })
    t.match(declined.result, completed('User response: action=decline, content={}'))
    t.match((await call(t, 'test_elicitation', {}, { action: 'decline' })).result, { isError: true }, 'a message that is missing is a failure, and no question')
  })

  for (const [kind, tool] of [['defaults', 'test_elicitation_sep1034_defaults'], ['enums', 'test_elicitation_sep1330_enums']] as const) {
    test(`${name}: a form goes out with all its ${kind}, and may come back empty`, async t => {
      const { questions, result } = await call(t, tool, {}, { action: 'accept', content: {} })
      t.strictSame(questions.map(({ params }) => (params as JsonObject)['requestedSchema']), [{ type: 'object', properties: asked[kind] }])
      t.match(result, completed('Elicitation completed: action=accept, content={}'))
    })
  }

  test(`${name}: a tool that takes its time answers at last`, async t => {
    t.match((await call(t, 'test_reconnection', {})).result, completed('The time is over.'))
  })
}

function titled (...values: readonly string[]) {
  return values.map((value, index) => ({ const: value, title: `${['First', 'Second', 'Third'][index]} Option` }))
}
