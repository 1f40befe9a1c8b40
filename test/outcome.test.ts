import { test } from 'tap'
import { fail, inputRequired, listRoots, McpError, result, stop, stream, toolResult } from 'fastify-gen-mcp'
import { badReturn, isOutcome, outcome } from '../lib/outcome.js'

test('result carries the result as it is, and a reason that the client is not told', async t => {
  const value = toolResult.text('hi')
  t.strictSame(result(value), { [outcome]: true, type: 'result', result: value, stopReason: undefined })
  t.equal(result(value).result, value)
  t.equal(result(value, { stopReason: 'done' }).stopReason, 'done')
  t.equal(result(value, {}).stopReason, undefined)
})

test('fail takes an error, a reason or a text', async t => {
  const error = McpError.unsupportedMethod('tools/call')
  t.equal(fail(error).error, error)
  t.match(fail({ kind: 'unknownTool', name: 'x' }), { type: 'error', error: { code: 'MCP_ERR_UNKNOWN_TOOL', data: { tool: 'x' } } })
  t.match(fail('no more'), { type: 'error', error: { code: 'MCP_ERR_INTERNAL', rpcCode: -32603, message: 'no more' } })
})

test('stream and stop carry what they were given', async t => {
  const state = { left: 1 }
  t.equal(stream(state).state, state)
  t.strictSame(stream(undefined), { [outcome]: true, type: 'stream', state: undefined })
  t.strictSame(stop(), { [outcome]: true, type: 'stop', reason: undefined })
  t.strictSame(stop('enough'), { [outcome]: true, type: 'stop', reason: 'enough' })
})

test('inputRequired carries the questions and the state', async t => {
  const requests = { roots: listRoots() }
  t.strictSame(inputRequired(requests, { round: 1 }), { [outcome]: true, type: 'inputRequired', requests, state: { round: 1 } })
  t.equal(inputRequired({}).state, undefined)
})

test('only what these functions made is an outcome', async t => {
  for (const made of [result(toolResult.text('')), fail('no'), stream(1), stop(), inputRequired({})]) t.ok(isOutcome(made), made.type)
  const lookalikes = [{ type: 'result', result: {} }, { type: 'stream', state: 1 }, { outcome: true, type: 'stop' }]
  const others = [undefined, null, 1, '', 'result', [], {}, () => {}, ...lookalikes]
  for (const other of others) t.notOk(isOutcome(other), String(other))
})

test('what the client sends can never be an outcome', async t => {
  t.notOk(isOutcome(JSON.parse(JSON.stringify(stream(1)))))
})

test('the error of a bad return names the callback and what it returned instead', async t => {
  const cases: readonly (readonly [returned: unknown, description: string])[] = [
    [undefined, 'undefined, which is no outcome'],
    [null, 'null, which is no outcome'],
    [7, '7, which is no outcome'],
    ['text', 'text, which is no outcome'],
    [Symbol('s'), 'Symbol(s), which is no outcome'],
    [{}, 'an object with the keys (none), which is no outcome'],
    [{ content: [], isError: true }, 'an object with the keys content, isError, which is no outcome'],
    [stop(), "the outcome 'stop', which it must not"]
  ]
  for (const [returned, description] of cases) {
    const error = badReturn('handleRequest', returned)
    t.match(error, { code: 'MCP_ERR_BAD_RETURN', message: `handleRequest returned ${description}` })
  }
})
