import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import { defineTool, toolResult, type JsonSchema } from 'fastify-gen-mcp'
import { repair } from '../../lib/suite/repair.js'
import { failed, serveTools, textOf } from '../helpers/tools.js'

const counting = (repairArguments?: boolean) => defineTool({
  name: 'count',
  description: 'Counts',
  input: Type.Object({ n: Type.Number() }),
  ...repairArguments !== undefined && { repairArguments },
  call: ({ n }) => toolResult.text(typeof n === 'number' ? `number ${n}` : 'no number')
})

test('a text is no number unless the tool or the Suite says so, and the tool goes first: case 068', async t => {
  const answers = []
  for (const suite of [undefined, false, true]) {
    for (const own of [undefined, false, true]) {
      const { call } = await serveTools(t, [counting(own)], suite === undefined ? {} : { repairArguments: suite })
      const answer = await call('count', { n: '5' })
      answers.push(failed(answer) ? 'refused' : textOf(answer))
    }
  }
  t.strictSame(answers, ['refused', 'refused', 'number 5', 'refused', 'refused', 'number 5', 'number 5', 'refused', 'number 5'])
})

test('a text becomes what it says where the schema wants that: case 068', async t => {
  const cases: [JsonSchema, string, unknown][] = [
    [{ type: 'number' }, '5', 5], [{ type: 'number' }, '-0.5', -0.5], [{ type: 'number' }, '10.50', 10.5], [{ type: 'number' }, '1e3', 1000],
    [{ type: 'number' }, '0', 0], [{ type: 'number' }, '0.00', 0], [{ type: 'integer' }, '42', 42], [{ type: 'integer' }, '9007199254740991', Number.MAX_SAFE_INTEGER],
    [{ type: 'boolean' }, 'true', true], [{ type: 'boolean' }, 'false', false],
    [{ type: 'array' }, '[1,"a"]', [1, 'a']], [{ type: 'object' }, '{"a":[null]}', { a: [null] }]
  ]
  for (const [schema, text, value] of cases) t.strictSame(repair(schema, text), value, `${text} where ${JSON.stringify(schema)}`)
})

test('a text of which something would be lost stays a text: case 068', async t => {
  for (const text of [
    '', ' ', ' 5', '5 ', '0x10', '010', '+5', '5.', '.5', '1_000', '1,5', 'NaN', 'Infinity', 'five', '1e400', '9007199254740993', '-9007199254740993',
    '0.1234567890123456789', '1.00000000000000000001', '1e-400', '123456789.123456789'
  ]) t.equal(repair({ type: 'number' }, text), text)
  for (const text of ['True', 'FALSE', '1', '0', 'yes', '', 'null']) t.equal(repair({ type: 'boolean' }, text), text)
  for (const text of ['a,b', '{}', 'null', '"[]"', '[1', '']) t.equal(repair({ type: 'array' }, text), text)
  for (const text of ['[]', 'null', 'a=b', '{a:1}', '{', '5']) t.equal(repair({ type: 'object' }, text), text)
})

test('a text that may be one stays as it is: case 068', async t => {
  for (const schema of [{ type: 'string' }, {}, { type: ['number', 'string'] }, { anyOf: [{ type: 'number' }, { type: 'string' }] }, { enum: ['5', 5] }]) {
    t.equal(repair(schema, '5'), '5', JSON.stringify(schema))
  }
})

test('what is inside arrays, objects and their texts is repaired too, and what the schema does not know is left alone', async t => {
  const schema = {
    type: 'object',
    properties: {
      list: { type: 'array', items: { type: 'object', properties: { n: { type: 'number' } } } },
      inner: { type: 'object', properties: { on: { type: 'boolean' }, name: { type: 'string' } } },
      any: true,
      free: { type: 'array' }
    }
  }
  const sent = { list: '[{"n":"1"},{"n":2,"m":"3"}]', inner: { on: 'true', name: '5', other: '6' }, any: '7', free: ['8'], toString: '9' }
  t.strictSame(repair(schema, sent), {
    list: [{ n: 1 }, { n: 2, m: '3' }], inner: { on: true, name: '5', other: '6' }, any: '7', free: ['8'], toString: '9'
  })
})

test('each place of a tuple has a schema of its own', async t => {
  const tuple = { type: 'array', prefixItems: [{ type: 'string' }, { type: 'boolean' }], items: { type: 'number' } }
  t.strictSame(repair(tuple, ['1', 'true', '2', '3']), ['1', true, 2, 3])
  t.strictSame(repair({ ...tuple, items: false }, ['1', 'true', '2']), ['1', true, '2'])
})

test('what was sent is not changed, and a value of another kind comes back as it is', async t => {
  const sent = Object.freeze({ list: Object.freeze(['1']), n: '2' })
  const schema = { type: 'object', properties: { list: { type: 'array', items: { type: 'number' } }, n: { type: 'number' } } }
  t.strictSame(repair(schema, sent), { list: [1], n: 2 })
  t.strictSame(sent, { list: ['1'], n: '2' })
  for (const value of [null, 5, true, [1]]) t.strictSame(repair({ type: 'object', properties: {} }, value), value)
})

test('a text brings no key that would change a prototype', async t => {
  const repaired = repair({ type: 'object' }, '{"a":{"__proto__":{"admin":true}},"constructor":{"prototype":{"admin":true}},"b":1}') as { readonly a: object, readonly b: number }
  t.notOk(Object.hasOwn(repaired.a, '__proto__'))
  t.notOk(Object.hasOwn(repaired, 'constructor'))
  t.equal(repaired.b, 1)
})

test('a text as deep as no body may be stays a text: SCH-12', async t => {
  const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
  t.equal(repair({ type: 'array' }, deep(100_000)), deep(100_000))
  t.equal(repair({ type: 'array' }, deep(300)), deep(300))
  t.type(repair({ type: 'array' }, deep(50)), Array)
})
