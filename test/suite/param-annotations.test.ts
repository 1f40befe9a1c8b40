import { test } from 'tap'
import { defineTool, toolResult, type JsonObject, type JsonSchema } from 'fastify-gen-mcp'
import { call as post } from '../helpers/mount.js'
import { serveTools } from '../helpers/tools.js'

const tool = (input: JsonSchema) => defineTool({ name: 'sql', description: 'x', input, call: () => toolResult.text('ran') })
const withProperties = (properties: JsonSchema, rest: JsonSchema = {}): JsonSchema => ({ type: 'object', properties, ...rest })
const refused = (message: RegExp) => ({ code: 'MCP_ERR_BAD_PROVIDER', message })

test('an annotation is the name of a header, or the tool is refused: XPH-02, XPH-06', async t => {
  for (const name of ['', 'My Region', 'Region:Primary', 'Région', 'Region\t1', 'a\n', 'a/b', '(a)', 'a"']) {
    t.throws(() => tool(withProperties({ a: { type: 'string', 'x-mcp-header': name } })), refused(/^The tool sql has the x-mcp-header .* no header name$/), JSON.stringify(name))
  }
  for (const name of ['Region', 'x', 'a-b_c.d', '1', "!#$%&'*+.^_`|~", 'Method', 'Name']) {
    t.doesNotThrow(() => tool(withProperties({ a: { type: 'string', 'x-mcp-header': name } })), name)
  }
})

test('an annotation that is no text is refused: XPH-02', async t => {
  for (const value of [5, true, false, null, ['Region'], {}, { name: 'Region' }]) {
    t.throws(() => tool(withProperties({ a: { type: 'string', 'x-mcp-header': value } })), refused(/^The tool sql .*x-mcp-header/), JSON.stringify(value))
  }
})

test('a header is named once in a schema, whatever its case: XPH-03', async t => {
  const twice = (a: string, b: string) => withProperties({ a: { type: 'string', 'x-mcp-header': a }, b: withProperties({ c: { type: 'integer', 'x-mcp-header': b } }) })
  t.throws(() => tool(twice('Region', 'Region')), refused(/^The tool sql has the x-mcp-header Region twice$/))
  t.throws(() => tool(twice('Region', 'REGION')), refused(/twice$/))
  t.doesNotThrow(() => tool(twice('Region', 'Regions')))
})

test('what is annotated is a string, an integer or a boolean: XPH-04', async t => {
  for (const type of ['string', 'integer', 'boolean']) t.doesNotThrow(() => tool(withProperties({ a: { type, 'x-mcp-header': 'A' } })), type)
  for (const type of ['number', 'array', 'object', 'null', ['string', 'null'], ['string'], undefined]) {
    t.throws(() => tool(withProperties({ a: { type, 'x-mcp-header': 'A' } })), refused(/^The tool sql has the x-mcp-header A on what is no string, integer or boolean$/), JSON.stringify(type))
  }
})

test('properties alone lead to what is annotated: XPH-05', async t => {
  const annotated = { type: 'string', 'x-mcp-header': 'A' }
  const inside = withProperties({ a: annotated })
  const nested = withProperties({ a: withProperties({ b: withProperties({ c: annotated }) }) })
  t.doesNotThrow(() => tool(nested))
  for (const schema of [
    { ...withProperties({}), 'x-mcp-header': 'A' },
    withProperties({ a: { type: 'array', items: annotated } }), withProperties({ a: { type: 'array', prefixItems: [annotated] } }),
    withProperties({}, { oneOf: [inside] }), withProperties({}, { anyOf: [{}, inside] }), withProperties({}, { allOf: [inside] }), withProperties({}, { not: inside }),
    withProperties({}, { if: inside }), withProperties({}, { then: inside }), withProperties({}, { else: inside }),
    withProperties({ a: { $ref: '#/$defs/a' } }, { $defs: { a: annotated } }), withProperties({}, { patternProperties: { a: annotated } }),
    withProperties({}, { additionalProperties: annotated }), withProperties({ a: { type: 'object', additionalProperties: inside } }),
    withProperties({ a: annotated }, { allOf: [withProperties({ a: { type: 'string', 'x-mcp-header': 'B' } })] })
  ]) {
    t.throws(() => tool(schema), refused(/^The tool sql has an x-mcp-header where a chain of properties does not lead$/), JSON.stringify(schema))
  }
})

test('a schema without annotations, or with a property of that name, is none to refuse', async t => {
  for (const schema of [withProperties({}), withProperties({ a: true }), { type: 'object', properties: { 'x-mcp-header': { type: 'string' } } }, { type: 'object', additionalProperties: {} }]) {
    t.doesNotThrow(() => tool(schema), JSON.stringify(schema))
  }
})

test('an annotation is listed as it was given, and holds calls to it, nested too: XPH-01, XPH-05', async t => {
  const input = withProperties({ where: withProperties({ region: { type: 'string', 'x-mcp-header': 'Region' } }) })
  const { app, list } = await serveTools(t, [tool(input)])
  t.strictSame((await list())[0]?.inputSchema, input)
  const send = async (args: JsonObject, header?: string) =>
    await post(app, 'tools/call', { name: 'sql', arguments: args }, { headers: { 'mcp-param-region': header } })
  t.match((await send({ where: { region: 'eu' } }, 'eu')).json().result, { content: [{ text: 'ran' }] })
  for (const header of [undefined, 'us']) {
    const refusal = await send({ where: { region: 'eu' } }, header)
    t.equal(refusal.statusCode, 400)
    t.match(refusal.json(), { error: { code: -32020, data: { header: 'Mcp-Param-Region' } } })
  }
  t.match((await send({})).json().result, { content: [{ text: 'ran' }] })
})
