import { test } from 'tap'
import { createSuite, definePrompt, defineResources, defineTool, getPromptResult, readResourceResult, toolResult, type SuiteOptions } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'

const complete = { id: () => ['one', 'two'] }
const notes = defineResources({ template: { uriTemplate: 'notes://{id}', name: 'note' }, read: ({ uri }) => readResourceResult({ uri, text: '' }), complete })
const prompt = definePrompt({
  name: 'prompt', arguments: { type: 'object', properties: { id: { type: 'string' } } }, get: () => getPromptResult([]), complete: complete as object
})
const plain = definePrompt({ name: 'plain', get: () => getPromptResult([]) })
const ofNote = { ref: { type: 'ref/resource', uri: 'notes://{id}' }, argument: { name: 'id', value: '' }, context: { arguments: {} } } as const
const ofPrompt = { ref: { type: 'ref/prompt', name: 'prompt' }, argument: { name: 'id', value: '' }, context: { arguments: {} } } as const

const createEmpty = (options: Partial<SuiteOptions> = {}) => createSuite({ info, tools: [], resources: [], prompts: [], ...options })

test('a provider that completes cannot be added where nothing declared that at boot: DSC-04, CMP-01', async t => {
  const suite = createEmpty()
  const client = createTestClient(await mount(t, { server: suite }))
  for (const provider of [notes, prompt]) {
    t.throws(() => { suite.add(provider) }, {
      code: 'MCP_ERR_BAD_PROVIDER', message: 'A provider that completes cannot be added: give createSuite the option capabilities with completions, if only {}'
    })
  }
  suite.add(plain)
  suite.add(defineTool({ name: 'tool', description: 'A tool.', call: () => toolResult.text('') }))
  t.match(await client.request('prompts/list', {}), { result: { prompts: [{ name: 'plain' }] } })
  t.match(await client.request('resources/templates/list', {}), { result: { resourceTemplates: [] } })
  t.match(await client.request('completion/complete', ofNote), { statusCode: 404, error: { code: -32601 } })
})

test('one that completes may come where completions are declared, by an option or by another provider: DSC-04, CMP-01', async t => {
  const other = definePrompt({
    name: 'other', arguments: { type: 'object', properties: { id: { type: 'string' } } }, get: () => getPromptResult([]), complete: complete as object
  })
  for (const options of [{ capabilities: { completions: {} } }, { prompts: [other] }]) {
    const suite = createEmpty(options)
    const client = createTestClient(await mount(t, { server: suite }))
    t.match(await client.request('server/discover', {}), { result: { capabilities: { completions: {} } } })
    suite.add(notes)
    suite.add(prompt)
    for (const params of [ofNote, ofPrompt]) t.match(await client.request('completion/complete', params), { result: { completion: { values: ['one', 'two'] } } })
  }
})
