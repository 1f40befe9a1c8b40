import t, { test } from 'tap'
import { installed, OFFLINE, PATIENCE } from './project.js'

t.setTimeout(PATIENCE)

const program = `
  import Fastify from 'fastify'
  import genMcp, { createSuite, defineTool, toolResult } from 'fastify-gen-mcp'
  import { createTestClient } from 'fastify-gen-mcp/testing'
  import { z as z4 } from 'zod'
  import { z as z3 } from 'zod3'
  import { z as bare } from 'zod322'
  import { zodToJsonSchema } from 'zod-to-json-schema'

  const greet = (name, input) => defineTool({ name, input, call: ({ who }) => toolResult.text('Hello ' + who) })
  const refused = (name, input) => {
    try {
      createSuite({ info: { name: 'x', version: '1' }, tools: [greet(name, input)] })
      return 'registered'
    } catch ({ code, message }) {
      return [code, message]
    }
  }
  const suite = createSuite({
    info: { name: 'x', version: '1' },
    tools: [greet('four', z4.object({ who: z4.string().min(2) })), greet('three', zodToJsonSchema(z3.object({ who: z3.string().min(2) })))]
  })
  const app = Fastify()
  await app.register(genMcp, { server: suite })
  const client = createTestClient(app)
  const call = async (name, who) => {
    const { statusCode, result } = await client.request('tools/call', { name, arguments: { who } })
    return [statusCode, result.isError === true, result.content[0].text]
  }
  const { result } = await client.request('tools/list', {})
  console.log(JSON.stringify({
    called: [await call('four', 'Ada'), await call('three', 'Bob')],
    wrong: [await call('four', 'A'), await call('three', 'B')].map(([, isError]) => isError),
    listed: result.tools.map(({ name, inputSchema: { type, required, $schema } }) => [name, type, required, $schema ?? null]),
    refused: [
      refused('three', z3.object({ who: z3.string() })), refused('old', bare.object({ who: bare.string() })),
      refused('shape-of-three', { who: z3.string() }), refused('shape-of-four', { who: z4.string() })
    ]
  }))
  await app.close()
`

const project = await installed(t, 'fastify@5', 'zod@4', 'zod3@npm:zod@3.25.76', 'zod322@npm:zod@3.22.4', 'zod-to-json-schema@3')
const skip = project === undefined && OFFLINE

test('Zod 3 and Zod 4 side by side: one as it is, the other through its JSON Schema, and without that it is refused by name: case 088', { skip }, async t => {
  if (project === undefined) throw new Error(OFFLINE)
  // It fails for a peer that is missing or of another version.
  await project.npm('ls', '--all')
  await project.write('tools.js', program)
  const { stdout, stderr } = await project.node('tools.js')
  t.equal(stderr, '')
  const { called, wrong, listed, refused } = JSON.parse(stdout) as Record<'called' | 'wrong' | 'listed' | 'refused', unknown>
  t.strictSame(called, [[200, false, 'Hello Ada'], [200, false, 'Hello Bob']])
  t.strictSame(wrong, [true, true])
  // The dialect of the one is the default, that of the other is rewritten.
  t.match(listed, [['four', 'object', ['who']], ['three', 'object', ['who'], null]])
  t.match(refused, ['three', 'old', 'shape-of-three', 'shape-of-four'].map(name => {
    return ['MCP_ERR_BAD_PROVIDER', `The tool ${name} has an input of a library that cannot give its JSON Schema: give the JSON Schema itself`]
  }))
})
