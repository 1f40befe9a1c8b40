import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import { z } from 'zod'
import { defineTool, inputRequired, result, toolResult, type CallToolResult, type JsonSchema, type JsonValue, type Schema } from 'fastify-gen-mcp'
import { alarms } from '../helpers/sockets.js'
import { failed, serveTools, textOf, type ServedTools } from '../helpers/tools.js'
import type { Test } from 'tap'

/** A Suite of one tool, `report`, that answers what it is given here. */
async function reporting (t: Test, output: Schema<unknown>, answer: CallToolResult, stripOutput?: boolean): Promise<ServedTools> {
  return await serveTools(t, [defineTool({
    name: 'report', description: 'Reports', output, ...stripOutput !== undefined && { stripOutput }, call: () => answer
  })])
}

const point: JsonSchema = { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x', 'y'], additionalProperties: false }

test('a result that fits its output is sent, and the output is listed: TOOL-26, SCH-05', async t => {
  const { call, list } = await reporting(t, point, toolResult.data({ x: 1, y: 2 }))
  t.strictSame((await list())[0]?.outputSchema, point)
  const answer = await call('report')
  t.match(answer.result, { structuredContent: { x: 1, y: 2 }, content: [{ type: 'text', text: '{"x":1,"y":2}' }] })
  t.notOk(failed(answer))
})

test('a bigint is sent as its decimal text where the output takes one, and is a failure where it takes integers alone: case 075', async t => {
  const big = 2n ** 63n
  const answer = toolResult.data({ list: [{ big }], small: 1 }) as unknown as CallToolResult
  const output = (type: JsonSchema): JsonSchema => ({ type: 'object', properties: { list: { type: 'array', items: { type: 'object', properties: { big: type } } } } })

  const { call } = await reporting(t, output({ anyOf: [{ type: 'string' }, { type: 'integer' }] }), answer)
  const sent = await call('report')
  t.match(sent.result, { structuredContent: { list: [{ big: '9223372036854775808' }], small: 1 } })
  t.match(textOf(sent), '"9223372036854775808"')

  const { call: callStrict } = await reporting(t, output({ type: 'integer' }), answer)
  const refused = await callStrict('report')
  t.ok(failed(refused))
  t.notMatch(JSON.stringify(refused.result), /9223372036854775/)
})

test('a result that does not fit is a failure without the structure, and the log says where: TOOL-26, case 065', async t => {
  for (const value of [{ x: 1 }, { x: 1, y: 'secret' }, { x: 1, y: 2, z: 3 }]) {
    const { call, lines } = await reporting(t, point, toolResult.data(value))
    const answer = await call('report')
    t.ok(failed(answer), JSON.stringify(value))
    t.notOk('structuredContent' in (answer.result ?? {}))
    t.match(textOf(answer), 'failed')
    t.notMatch(textOf(answer), /secret|\/y/, 'what the client is told says nothing of the inside')
    const [line, ...more] = alarms(lines)
    t.match(line, { msg: /^The tool report /, mcp: { issues: [{ path: /^\/[yz]$/, message: String }] } })
    t.strictSame(more, [])
    t.notMatch(JSON.stringify(line), 'secret')
  }
})

test('a result without structured content breaks the promise of an output: TOOL-27', async t => {
  const { call, lines } = await reporting(t, {}, toolResult.text('x'))
  t.ok(failed(await call('report')))
  t.equal(alarms(lines).length, 1)
})

test('a failure and a question are not held against the output: TOOL-29', async t => {
  const { call, lines } = await reporting(t, point, toolResult.error('No such report'))
  const answer = await call('report')
  t.ok(failed(answer))
  t.equal(textOf(answer), 'No such report')
  const { call: ask } = await serveTools(t, [defineTool({ name: 'ask', description: 'x', output: point, call: () => inputRequired({}, 'again') })])
  t.match((await ask('ask')).result, { resultType: 'input_required' })
  t.strictSame(alarms(lines), [])
})

test('an output may be of any type: SCH-07, TOOL-25', async t => {
  const cases: [JsonSchema, JsonValue, JsonValue][] = [
    [{ type: 'array', items: { type: 'number' } }, [1, 2], ['a']], [{ type: 'string' }, '', 1], [{ type: 'integer' }, 0, 0.5],
    [{ type: 'boolean' }, false, null], [{ type: 'null' }, null, 0], [{ anyOf: [{ const: 1 }, { const: 2 }] }, 2, 3]
  ]
  for (const [schema, good, bad] of cases) {
    const { call, list } = await reporting(t, schema, toolResult.data(good))
    t.strictSame((await list())[0]?.outputSchema, schema)
    const answer = await call('report')
    t.ok('structuredContent' in (answer.result ?? {}), JSON.stringify(schema))
    t.strictSame((answer.result as CallToolResult).structuredContent, good)
    t.ok(failed(await (await reporting(t, schema, toolResult.data(bad))).call('report')), `${JSON.stringify(bad)} where ${JSON.stringify(schema)}`)
  }
})

test('a result given as an outcome is held against the output too', async t => {
  const tool = defineTool({ name: 'report', description: 'x', output: point, call: () => result(toolResult.data({ x: 'no' })) as never })
  t.ok(failed(await (await serveTools(t, [tool])).call('report')))
})

test('with stripOutput what the output does not name is left out, from the text that says the same too: case 065', async t => {
  const output = Type.Object({ id: Type.Number(), parts: Type.Array(Type.Object({ name: Type.String() })) }, { additionalProperties: false })
  const row = { id: 1, parts: [{ name: 'a', cost: 3 }], password: 'x' }
  const { call } = await reporting(t, output, toolResult.content({ type: 'text', text: 'A report' }), true)
  t.ok(failed(await call('report')), 'there is nothing to strip')

  const answer = await (await reporting(t, output, toolResult.data(row), true)).call('report')
  t.match(answer.result, { structuredContent: { id: 1, parts: [{ name: 'a' }] }, content: [{ type: 'text', text: '{"id":1,"parts":[{"name":"a"}]}' }] })
  t.notMatch(JSON.stringify(answer.result), /password|cost/)

  const told = await (await reporting(t, output, { ...toolResult.data(row, { text: 'Two parts' }), _meta: { 'com.example/a': 1 } }, true)).call('report')
  t.equal(textOf(told), 'Two parts', 'a text of its own stays')
  t.match(told.result, { _meta: { 'com.example/a': 1 } })

  t.ok(failed(await (await reporting(t, output, toolResult.data(row))).call('report')), 'without the option it does not fit')
})

test('stripOutput leaves alone what another part of the output speaks of', async t => {
  const named = { type: 'object', properties: { id: { type: 'number' } } }
  const value = { id: 1, 'x-a': 2, b: 3 }
  const cases: [JsonSchema, unknown][] = [
    [named, { id: 1 }],
    [{ ...named, additionalProperties: { type: 'number' } }, value],
    [{ ...named, unevaluatedProperties: true }, value],
    [{ ...named, patternProperties: { '^x-': { type: 'number' } } }, value],
    [{ ...named, allOf: [{ properties: { b: { type: 'number' } }, required: ['b'] }] }, value],
    [{ ...named, $ref: '#/$defs/more', $defs: { more: { required: ['b'] } } }, value],
    [{ type: 'object', additionalProperties: { type: 'number' } }, value],
    [{ type: 'object', properties: { id: true }, required: ['id'] }, { id: 1 }]
  ]
  for (const [schema, expected] of cases) {
    const { call } = await reporting(t, schema, toolResult.data(value), true)
    t.strictSame(((await call('report')).result as CallToolResult).structuredContent, expected, JSON.stringify(schema))
  }
})

test('stripOutput knows that each place of a tuple has a schema of its own', async t => {
  const output = {
    type: 'array',
    prefixItems: [{ type: 'object', properties: { a: {} } }, true],
    items: { type: 'object', properties: { b: {} } }
  }
  const value = [{ a: 1, b: 1 }, { a: 2, b: 2 }, { a: 3, b: 3 }]
  const { call } = await reporting(t, output, toolResult.data(value), true)
  t.strictSame(((await call('report')).result as CallToolResult).structuredContent, [{ a: 1 }, { a: 2, b: 2 }, { b: 3 }])
  const free = await reporting(t, { type: 'array' }, toolResult.data(value), true)
  t.strictSame(((await free.call('report')).result as CallToolResult).structuredContent, value)
})

test('a Standard Schema is listed as what comes out of it, and holds the result to that: case 088', async t => {
  const output = z.object({ total: z.number().default(1) })
  const { call, list } = await reporting(t, output, toolResult.data({ total: 5 }))
  t.match((await list())[0]?.outputSchema, { type: 'object', required: ['total'], additionalProperties: false })
  t.match((await call('report')).result, { structuredContent: { total: 5 } })
  t.ok(failed(await (await reporting(t, output, toolResult.data({}))).call('report')))
})

test('an output that is no schema is refused with the name of the tool: SCH-04', async t => {
  for (const output of [{ type: 5 }, { $ref: '#/$defs/none' }, [] as unknown as JsonSchema, true as unknown as JsonSchema, null as unknown as JsonSchema]) {
    t.throws(() => defineTool({ name: 'report', output, call: () => toolResult.data(1) }), { code: 'MCP_ERR_BAD_PROVIDER', message: /^The tool report has an output / }, JSON.stringify(output))
  }
})
