import { TypeCompiler } from '@sinclair/typebox/compiler'
import t from 'tap'
import { methods, type Method, type MethodName } from '../../lib/protocol/index.js'

const entries = Object.entries(methods) as [MethodName, Method][]
const namesOf = (holds: (method: Method) => unknown) => entries.filter(([, method]) => holds(method)).map(([name]) => name).sort()
const fits = (name: MethodName, params: unknown) => TypeCompiler.Compile(methods[name].params).Check(params)

t.test('a client may send ten requests and one notification', async t => {
  t.strictSame(namesOf(({ kind }) => kind === 'request'), [
    'completion/complete', 'prompts/get', 'prompts/list', 'resources/list', 'resources/read', 'resources/templates/list', 'server/discover',
    'subscriptions/listen', 'tools/call', 'tools/list'
  ])
  t.strictSame(namesOf(({ kind }) => kind === 'notification'), ['notifications/cancelled'])
})

t.test('three methods may ask for input: MRTR-01', async t => {
  t.strictSame(namesOf(({ asks }) => asks), ['prompts/get', 'resources/read', 'tools/call'])
})

t.test('the results of six methods have cache hints: CACHE-01', async t => {
  t.strictSame(namesOf(({ cacheable }) => cacheable), [
    'prompts/list', 'resources/list', 'resources/read', 'resources/templates/list', 'server/discover', 'tools/list'
  ])
})

t.test('three methods have their name in a header', async t => {
  t.strictSame(namesOf(({ name }) => name === 'name'), ['prompts/get', 'tools/call'])
  t.strictSame(namesOf(({ name }) => name === 'uri'), ['resources/read'])
})

t.test('a method belongs to the capability it begins with, discover and listen to none: RPC-16', async t => {
  t.strictSame(namesOf(({ capability }) => capability === undefined), ['notifications/cancelled', 'server/discover', 'subscriptions/listen'])
  for (const [name, { capability }] of entries) {
    if (capability !== undefined) t.ok(capability.startsWith(name.split('/')[0] as string), name)
  }
})

t.test('params are checked without _meta, which is checked on its own', async t => {
  for (const [name, { params }] of entries) t.notOk('_meta' in params.properties, name)
  t.ok(fits('server/discover', {}))
  t.ok(fits('server/discover', { extra: 1 }), 'DSC-03')
})

t.test('params of tools/call have a name and maybe an object of arguments: TOOL-12', async t => {
  t.ok(fits('tools/call', { name: 'find' }))
  t.ok(fits('tools/call', { name: '', arguments: {} }))
  for (const params of [{}, { name: 1 }, { name: 'find', arguments: [] }, { name: 'find', arguments: null }, { name: 'find', arguments: 'x' }, []]) {
    t.notOk(fits('tools/call', params), JSON.stringify(params))
  }
})

t.test('inputResponses is an object or null, whatever is in it', async t => {
  for (const [name, params] of [['tools/call', { name: 'x' }], ['prompts/get', { name: 'x' }], ['resources/read', { uri: 'x' }]] as const) {
    for (const inputResponses of [{}, null, { q: 12345 }]) t.ok(fits(name, { ...params, inputResponses }), name, { inputResponses })
    for (const inputResponses of [[], 1, 'x', true]) t.notOk(fits(name, { ...params, inputResponses }), name, { inputResponses })
  }
})

t.test('requestState is a string: MRTR-07', async t => {
  t.ok(fits('tools/call', { name: 'x', requestState: '' }))
  t.notOk(fits('tools/call', { name: 'x', requestState: {} }))
})

t.test('arguments of a prompt are strings: PRM-04', async t => {
  t.ok(fits('prompts/get', { name: 'x', arguments: { a: '' } }))
  t.notOk(fits('prompts/get', { name: 'x', arguments: { a: 1 } }))
})

t.test('an empty cursor is a cursor, null is none: PAG-05', async t => {
  for (const name of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] as const) {
    t.ok(fits(name, {}))
    t.ok(fits(name, { cursor: '' }))
    t.notOk(fits(name, { cursor: null }))
  }
})

t.test('a reference to complete is a prompt or a template: CMP-02', async t => {
  const argument = { name: 'a', value: '' }
  t.ok(fits('completion/complete', { ref: { type: 'ref/prompt', name: 'x' }, argument }))
  t.ok(fits('completion/complete', { ref: { type: 'ref/resource', uri: 'x' }, argument, context: {} }))
  t.notOk(fits('completion/complete', { ref: { type: 'ref/resource', name: 'x' }, argument }))
  t.notOk(fits('completion/complete', { argument }))
})

t.test('a listen has a filter: SUB-01', async t => {
  t.ok(fits('subscriptions/listen', { notifications: {} }))
  t.notOk(fits('subscriptions/listen', {}))
  t.notOk(fits('subscriptions/listen', { notifications: [] }))
})

t.test('a cancellation names a request', async t => {
  t.ok(fits('notifications/cancelled', { requestId: 0 }))
  t.notOk(fits('notifications/cancelled', { requestId: null }))
})
