import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  createSuite, definePrompt, definePrompts, defineResources, getPromptResult, readResourceResult, type CompleteParams, type Completer, type GenMcpOptions, type SuiteOptions
} from 'fastify-gen-mcp'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import { CompleteResult } from '../../lib/protocol/index.js'
import { call, mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import type { Message } from '../helpers/messages.js'

const get = () => getPromptResult([])
const read = ({ uri }: { readonly uri: string }) => readResourceResult({ uri, text: '' })
const colors = ['red', 'green', 'grey']
const completeColor: Completer = value => colors.filter(color => color.startsWith(value))

const paint = (complete: Completer) => definePrompt({
  name: 'paint', arguments: Type.Object({ color: Type.String(), size: Type.Optional(Type.String()) }), get, complete: { color: complete }
})
const files = (complete: Completer) => defineResources({ template: { uriTemplate: 'file:///{dir}/{+path}', name: 'files' }, read, complete: { dir: complete } })

async function connect (t: Test, options: Omit<SuiteOptions, 'info'>, mountOptions: Omit<GenMcpOptions, 'server'> = {}): Promise<TestClient> {
  return createTestClient(await mount(t, { server: createSuite({ info, ...options }), ...mountOptions }))
}

const ofPrompt = (name: string, argument: string, value = '', others: Readonly<Record<string, string>> = {}): CompleteParams =>
  ({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value }, context: { arguments: others } })
const ofResource = (uri: string, variable: string, value = ''): CompleteParams =>
  ({ ref: { type: 'ref/resource', uri }, argument: { name: variable, value }, context: { arguments: {} } })

test('completions are declared where something completes, and are an unknown method elsewhere: CMP-01', async t => {
  const plain = definePrompt({ name: 'plain', get })
  const cases: readonly (readonly [Omit<SuiteOptions, 'info'>, boolean])[] = [
    [{ prompts: [plain], resources: [defineResources({ prefix: 'x://', read })] }, false], [{ prompts: [definePrompts({ prefix: '', list: () => ({ items: [] }), get })] }, false],
    [{ prompts: [plain, paint(completeColor)] }, true], [{ resources: [files(completeColor)] }, true],
    [{ extensions: [{ prompts: () => [] }] }, true], [{ extensions: [{ resources: () => [] }] }, true], [{ extensions: [{ tools: () => [] }] }, false]
  ]
  for (const [options, declared] of cases) {
    const client = await connect(t, options)
    const { result } = await client.request('server/discover', {})
    t.equal(result !== undefined && 'capabilities' in result && 'completions' in result.capabilities, declared)
    const answer = await client.request('completion/complete', ofPrompt('none', 'none'))
    t.match(answer, declared ? { statusCode: 200, error: { code: -32602 } } : { statusCode: 404, error: { code: -32601 } })
  }
})

test('an argument of a prompt is completed by what the client has so far: CMP-03, CMP-04', async t => {
  const client = await connect(t, { prompts: [paint(completeColor)] })
  const { statusCode, result } = await client.request('completion/complete', ofPrompt('paint', 'color', 'gr'))
  t.equal(statusCode, 200)
  t.ok(Value.Check(CompleteResult, result))
  // CMP-09: neither member says how long it may be kept.
  t.strictSame(result, { _meta: result?._meta, resultType: 'complete', completion: { values: ['green', 'grey'] } })
})

test('a variable is completed, of a template named by itself or by one of its URIs: CMP-02', async t => {
  const client = await connect(t, { resources: [defineResources({ prefix: 'x://', read }), files(completeColor)] })
  for (const uri of ['file:///{dir}/{+path}', 'file:///red/a/b']) {
    t.match(await client.request('completion/complete', ofResource(uri, 'dir', 'r')), { result: { completion: { values: ['red'] } } }, uri)
  }
})

test('a completer knows the other arguments and who asks: CMP-08', async t => {
  const client = await connect(t, {
    prompts: [paint((value, { size = 'no' }, { principal = 'nobody' }) => [`${value} ${size} ${principal}`])]
  }, { principal: httpRequest => httpRequest.headers['x-user']?.toString() })
  const answer = await client.request('completion/complete', ofPrompt('paint', 'color', 'a', { size: 'L' }), { headers: { 'x-user': 'ada' } })
  t.match(answer, { result: { completion: { values: ['a L ada'] } } })
  t.match(await client.request('completion/complete', ofPrompt('paint', 'color')), { result: { completion: { values: [' no nobody'] } } })
})

test('no more than 100 values are sent, with how many there are: CMP-03', async t => {
  const client = await connect(t, { prompts: [paint(async value => Array.from({ length: Number(value) }, (_, index) => `${index}`))] })
  const complete = async (count: number) => (await client.request('completion/complete', ofPrompt('paint', 'color', `${count}`))).result
  const values = Array.from({ length: 100 }, (_, index) => `${index}`)
  t.strictSame((await complete(250)), { ...await complete(250), completion: { values, total: 250, hasMore: true } })
  t.strictSame((await complete(101)), { ...await complete(101), completion: { values, total: 101, hasMore: true } })
  t.strictSame((await complete(100)), { ...await complete(100), completion: { values } })
  t.strictSame((await complete(0)), { ...await complete(0), completion: { values: [] } })
})

test('a completer that gives no list of strings is a crash, and nothing of it is sent: CMP-03', async t => {
  for (const given of ['red', [5], ['red', null], { values: ['red'] }, undefined, null]) {
    const client = await connect(t, { prompts: [paint(() => given as unknown as string[])] })
    const answer = await client.request('completion/complete', ofPrompt('paint', 'color'))
    t.match(answer, { statusCode: 500, error: { code: -32603, message: 'Internal error' } }, JSON.stringify(given))
    t.equal(answer.result, undefined)
  }
})

test('what is known and has no completer has no suggestions: CMP-05', async t => {
  const client = await connect(t, {
    prompts: [paint(completeColor), definePrompt({ name: 'free', get }), definePrompts({ prefix: 'stored.', list: () => ({ items: [] }), get })], resources: [files(completeColor)]
  })
  const known = [ofPrompt('paint', 'size'), ofPrompt('free', 'anything'), ofPrompt('stored.a', 'x'), ofResource('file:///{dir}/{+path}', 'path')]
  for (const params of known) t.match(await client.request('completion/complete', params), { result: { completion: { values: [] } } }, JSON.stringify(params))
})

test('a prompt without a schema completes the arguments that its author names', async t => {
  const client = await connect(t, { prompts: [definePrompt({ name: 'free', get, complete: { color: completeColor } })] })
  t.match(await client.request('completion/complete', ofPrompt('free', 'color', 're')), { result: { completion: { values: ['red'] } } })
  t.match(await client.request('completion/complete', ofPrompt('free', 'constructor')), { result: { completion: { values: [] } } })
})

test('what is not known is -32602: CMP-05', async t => {
  const client = await connect(t, { prompts: [paint(completeColor)], resources: [files(completeColor), defineResources({ prefix: 'x://', read })] })
  const unknown = [
    ofPrompt('other', 'color'), ofPrompt('constructor', 'color'), ofPrompt('paint', 'other'), ofPrompt('paint', 'constructor'), ofPrompt('paint', ''),
    ofResource('y://{id}', 'id'), ofResource('', 'id'), ofResource('no uri', 'id'), ofResource('file:///{dir}/{+path}', 'other'), ofResource('file:///a/b', 'toString'), ofResource('x://a', 'id')
  ]
  for (const params of unknown) t.match(await client.request('completion/complete', params), { statusCode: 200, error: { code: -32602 } }, JSON.stringify(params))
  t.match(await client.request('completion/complete', ofPrompt('paint', 'x'.repeat(200))), { error: { data: { issues: [{ path: 'argument.name', message: `is "${'x'.repeat(100)}", which there is not` }] } } })
})

test('a completer that throws is answered with a bare -32603: CMP-05', async t => {
  const client = await connect(t, { prompts: [paint(() => { throw new Error('secret') })] })
  const { statusCode, error } = await client.request('completion/complete', ofPrompt('paint', 'color'))
  t.equal(statusCode, 500)
  t.strictSame(error, { code: -32603, message: 'Internal error' })
})

test('params that are not as the protocol has them are refused, and nobody is asked: CMP-02, CMP-06', async t => {
  let asked = 0
  const app = await mount(t, { server: createSuite({ info, prompts: [paint(() => [`${++asked}`])] }) })
  const ref = { type: 'ref/prompt', name: 'paint' }
  const argument = { name: 'color', value: '' }
  const bad: readonly object[] = [
    {}, { ref }, { argument }, { ref: { type: 'ref/tool', name: 'paint' }, argument }, { ref: { type: 'ref/prompt' }, argument }, { ref: { type: 'ref/resource', name: 'x' }, argument },
    { ref: 'paint', argument }, { ref, argument: { name: 'color' } }, { ref, argument: { value: '' } }, { ref, argument: { name: 'color', value: 5 } },
    { ref, argument, context: { arguments: { size: 5 } } }, { ref, argument, context: 'none' }
  ]
  for (const params of bad) t.match((await call(app, 'completion/complete', params)).json<Message>(), { error: { code: -32602 } }, JSON.stringify(params))
  t.equal(asked, 0)
  t.match((await call(app, 'completion/complete', { ref: { ...ref, title: 'Paint' }, argument })).json<Message>(), { result: { completion: { values: ['1'] } } })
})

test('a hook of the mount can hold back whoever completes too often: CMP-07', async t => {
  let asked = 0
  let left = 2
  const client = await connect(t, { prompts: [paint(() => [`${++asked}`])] }, {
    onRequest: async ({ headers }) => {
      if (headers['mcp-method'] === 'completion/complete' && left-- === 0) throw Object.assign(new Error('Too many'), { statusCode: 429 })
    }
  })
  const answers = []
  for (let index = 0; index < 3; index++) answers.push(await client.request('completion/complete', ofPrompt('paint', 'color')))
  t.strictSame(answers.map(({ statusCode }) => statusCode), [200, 200, 429])
  t.equal(asked, 2)
  t.equal((await client.request('prompts/list', {})).statusCode, 200)
})

test('what extensions find completes too, and each is asked once', async t => {
  let asked = 0
  const resources = () => {
    asked++
    return [files(completeColor)]
  }
  const client = await connect(t, { extensions: [{ resources }, { prompts: () => [paint(completeColor)] }] })
  t.match(await client.request('completion/complete', ofPrompt('paint', 'color', 're')), { result: { completion: { values: ['red'] } } })
  t.equal(asked, 0)
  t.match(await client.request('completion/complete', ofResource('file:///a/b', 'dir', 're')), { result: { completion: { values: ['red'] } } })
  t.equal(asked, 1)
})
