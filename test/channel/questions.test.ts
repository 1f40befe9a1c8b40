import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { createMessage, elicitForm, elicitUrl, listRoots, type CreateMessageParams, type InputRequest, type JsonObject, type JsonValue } from 'fastify-gen-mcp'
import { needsOf, readAnswer } from '../../lib/channel/questions.js'
import { InputRequest as InputRequestSchema } from '../../lib/protocol/index.js'

const answers = (question: InputRequest, response: unknown): boolean => readAnswer(question, response as JsonValue) !== undefined
const accept = (content: unknown) => ({ action: 'accept', content })
const text = (words: string) => ({ type: 'text', text: words }) as const
const message = (role: 'user' | 'assistant', content: unknown) => ({ role, content }) as CreateMessageParams['messages'][number]
const use = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} })
const used = (toolUseId: string) => ({ type: 'tool_result', toolUseId, content: [text('seen')] })

function refuses (t: Test, work: () => unknown, name: string): void {
  t.throws(work, { code: 'MCP_ERR_BAD_PROVIDER' }, name)
}

function ask (messages: readonly CreateMessageParams['messages'][number][]): InputRequest {
  return createMessage({ messages, maxTokens: 10 })
}

/** Which of many responses answer a question. */
function check (t: Test, question: InputRequest, good: readonly unknown[], bad: readonly unknown[]): void {
  for (const response of good) t.equal(answers(question, response), true, JSON.stringify(response))
  for (const response of bad) t.equal(answers(question, response), false, JSON.stringify(response))
}

// ---- forms

test('a form asks with its mode, a message and the schema: ELI-01', async t => {
  const question = elicitForm('Who are you?', Type.Object({ name: Type.String() }))
  t.strictSame({ ...question }, {
    method: 'elicitation/create',
    params: { mode: 'form', message: 'Who are you?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } }
  })
  // MRTR-03: the protocol's form of a question, with neither id nor version.
  t.ok(Value.Check(InputRequestSchema, question))
  t.ok(Object.isFrozen(question))
})

test('an accepted form is answered by content that fits: ELI-16', async t => {
  const question = elicitForm('?', Type.Object({
    name: Type.String({ minLength: 2, maxLength: 3 }),
    mail: Type.Optional(Type.String({ format: 'email' })),
    age: Type.Optional(Type.Integer({ minimum: 18 })),
    sure: Type.Optional(Type.Boolean()),
    size: Type.Optional(Type.Union([Type.Literal('S'), Type.Literal('L')])),
    tags: Type.Optional(Type.Array(Type.Union([Type.Literal('a'), Type.Literal('b')]), { minItems: 1, maxItems: 1 }))
  }))
  check(t, question, [
    accept({ name: 'Ada' }), accept({ name: 'Ada', mail: 'a@example.com', age: 18, sure: false, size: 'S', tags: ['a'] }),
    { action: 'decline' }, { action: 'cancel' }, { ...accept({ name: 'Ada' }), extra: true }
  ], [
    accept({ name: 'A' }), accept({ name: 'Adas' }), accept({}),
    ...[{ mail: 'no' }, { age: 17 }, { age: 18.5 }, { sure: 'yes' }, { size: 'M' }].map(field => accept({ name: 'Ada', ...field })),
    ...[[], ['a', 'b'], ['c'], 'a'].map(tags => accept({ name: 'Ada', tags })),
    // ELI-15
    { action: 'accept' }, accept(null), accept(undefined), accept([]), accept('x'), { action: 'agree' }, {}, null, undefined, 5, 'accept', []
  ])
})

test('numbers of a form are any finite numbers', async t => {
  const question = elicitForm('?', Type.Object({ n: Type.Number() }))
  check(t, question, [accept({ n: 0.5 }), accept({ n: -1e9 })], [accept({ n: NaN }), accept({ n: Infinity }), accept({ n: '1' }), accept({ n: null })])
})

test('choices with titles are answered by their constants', async t => {
  const titles = [{ const: 'a', title: 'Option A' }, { const: 'b', title: 'Option B' }]
  const properties = { one: { type: 'string', oneOf: titles }, many: { type: 'array', items: { anyOf: titles } } }
  check(t, elicitForm('?', { type: 'object', properties }),
    [accept({ one: 'a', many: ['b', 'a'] }), accept({ many: [] })],
    [accept({ one: 'Option A' }), accept({ many: ['c'] }), accept({ many: 'a' })])
})

test('content of a form is flat: what was not asked for may be there, but not nested', async t => {
  const question = elicitForm('?', Type.Object({ a: Type.Optional(Type.String()) }))
  check(t, question, [accept({ b: 'x' })], [accept({ b: { c: 1 } }), accept({ b: null }), accept({ b: [{}] })])
})

test('a constraint that a form cannot express is refused, or held against the answer all the same: MRTR-22', async t => {
  // A schema that says what a form cannot say must not be weakened to what it can.
  for (const field of [Type.String({ pattern: '^[a-z]+$' }), Type.Integer({ exclusiveMinimum: 0 }), Type.Number({ multipleOf: 5 })]) {
    let strict: InputRequest | undefined
    try {
      strict = elicitForm('?', Type.Object({ field }))
    } catch {}
    for (const value of ['A1', -3]) t.notOk(strict !== undefined && answers(strict, accept({ field: value })), `${JSON.stringify(field)} by ${value}`)
  }
})

// ---- pages

test('a page asks with its mode, a message and the URL, and nothing else: ELI-08', async t => {
  // ELI-01
  for (const url of ['https://example.com/connect?id=1', new URL('https://example.com/connect?id=1')]) {
    const question = elicitUrl('Connect your account', url)
    t.equal(question.method, 'elicitation/create')
    t.strictSame(question.params, { mode: 'url', message: 'Connect your account', url: 'https://example.com/connect?id=1' })
    t.ok(Value.Check(InputRequestSchema, question))
  }
  t.strictSame(elicitUrl('Here', 'http://localhost:3000/').params['url'], 'http://localhost:3000/')
})

test('what is no http or https URL is refused: ELI-08', async t => {
  const others = ['javascript:alert(1)', ' javascript:x', 'data:text/html,x', 'file:///etc/passwd', 'ftp://example.com', 'about:blank']
  for (const url of ['', 'x', '/path', 'example.com', 'https://', ...others]) refuses(t, () => elicitUrl('Go', url), url)
})

test('a URL with credentials in it is refused: ELI-09', async t => {
  for (const url of ['https://user:password@example.com/', 'https://token@example.com/']) refuses(t, () => elicitUrl('Go', url), url)
})

test('a page is answered by what the user did, which says nothing of what is done there: ELI-15', async t => {
  check(t, elicitUrl('Go', 'https://example.com'),
    [{ action: 'accept' }, { action: 'decline' }, { action: 'cancel' }],
    [{}, null, 'accept', { action: 'done' }, { action: null }, { content: {} }])
})

// ---- sampling

test('a message to the model asks with what it was given: SMP-03', async t => {
  const params: CreateMessageParams = {
    messages: [message('user', text('Hi')), message('assistant', [text('Hello'), text('again')])],
    maxTokens: 100,
    systemPrompt: 'Be kind.',
    modelPreferences: { hints: [{ name: 'small' }], costPriority: 0, speedPriority: 0.5, intelligencePriority: 1 },
    temperature: 0.5,
    stopSequences: ['.'],
    metadata: { any: 'thing' },
    includeContext: 'none'
  }
  const question = createMessage(params)
  t.strictSame({ ...question }, { method: 'sampling/createMessage', params })
  t.ok(Value.Check(InputRequestSchema, question))
})

test('params that are none are refused: SMP-03', async t => {
  const cases: { readonly [name: string]: unknown } = {
    'no messages': { maxTokens: 1 },
    'no maxTokens': { messages: [] },
    'half a token': { messages: [], maxTokens: 1.5 },
    'another role': { messages: [message('system' as 'user', text('x'))], maxTokens: 1 },
    // SMP-06
    'a block of no kind': { messages: [message('user', { type: 'video', data: '' })], maxTokens: 1 },
    'a text block without text': { messages: [message('user', { type: 'text' })], maxTokens: 1 },
    'content that is bare text': { messages: [message('user', 'x')], maxTokens: 1 },
    // SMP-10
    'a priority above one': { messages: [], maxTokens: 1, modelPreferences: { costPriority: 1.1 } },
    'a context of no kind': { messages: [], maxTokens: 1, includeContext: 'everything' },
    'a choice of no kind': { messages: [], maxTokens: 1, toolChoice: { mode: 'maybe' } },
    nothing: undefined
  }
  for (const [name, params] of Object.entries(cases)) refuses(t, () => createMessage(params as CreateMessageParams), name)
  const misfit = { messages: [], maxTokens: 'x' } as unknown as CreateMessageParams
  t.throws(() => createMessage(misfit), { message: /createMessage.*maxTokens/ }, 'and the place is named')
})

test('tool results stand alone in a message of the user: SMP-07', async t => {
  const before = [message('user', text('Look')), message('assistant', [use('1')])]
  t.ok(ask([...before, message('user', [used('1')]), message('assistant', text('Seen'))]))
  t.ok(ask([...before, message('user', used('1'))]), 'also as one block')
  refuses(t, () => ask([...before, message('user', [used('1'), text('and')])]), 'with text after it')
  refuses(t, () => ask([...before, message('user', [text('and'), used('1')])]), 'with text before it')
  refuses(t, () => ask([...before, message('assistant', [used('1')])]), 'of the assistant')
})

test('each use of a tool is answered in the next message, once: SMP-08', async t => {
  const uses = message('assistant', [text('I look'), use('1'), use('2')])
  t.ok(ask([uses, message('user', [used('2'), used('1')])]), 'in any order')
  refuses(t, () => ask([uses, message('user', [used('1')])]), 'one is missing')
  refuses(t, () => ask([uses, message('user', [used('1'), used('2'), used('3')])]), 'one too many')
  refuses(t, () => ask([uses, message('user', [used('1'), used('1')])]), 'one twice')
  refuses(t, () => ask([uses, message('user', text('never mind'))]), 'not answered')
  refuses(t, () => ask([uses]), 'at the end')
  refuses(t, () => ask([uses, message('assistant', text('x')), message('user', [used('1'), used('2')])]), 'not in the next message')
  refuses(t, () => ask([message('user', [used('1')])]), 'a result of no use')
  refuses(t, () => ask([message('user', [use('1')]), message('user', [used('1')])]), 'a use of the user\'s')
})

test('ids of uses that look alike when they are joined are not the same: SMP-08', async t => {
  refuses(t, () => ask([message('assistant', [use('1\n2')]), message('user', [used('1'), used('2')])]), 'one use, two results')
})

test('a message of the model is answered by one: SMP-11', async t => {
  const answer = { role: 'assistant', content: text('Paris'), model: 'm' }
  check(t, ask([]), [
    ...[{}, { content: [text('a'), text('b')] }, { stopReason: 'of its own' }, { content: use('1') }, { extra: 1 }].map(over => ({ ...answer, ...over }))
  ], [
    {}, null, undefined, 'Paris', [], { role: 'assistant', content: text('x') }, accept({}),
    ...[{ role: 'system' }, { content: 'Paris' }, { content: [5] }, { content: undefined }, { model: 5 }, { stopReason: 5 }].map(over => ({ ...answer, ...over }))
  ])
})

// ---- roots

test('roots are asked for with nothing: ROOT-02', async t => {
  const question = listRoots()
  t.strictSame({ ...question }, { method: 'roots/list', params: {} })
  t.ok(Value.Check(InputRequestSchema, question))
  check(t, question, [
    { roots: [] }, { roots: [{ uri: 'file:///home', name: 'home' }, { uri: 'file://host/share' }] }, { roots: [{ uri: 'file:///a', _meta: {} }], extra: 1 }
  ], [
    {}, null, undefined, [], { roots: {} }, { roots: ['file:///a'] }, { roots: [{ name: 'x' }] }, { roots: [{ uri: 'file:///a', name: 5 }] },
    ...['https://example.com', 'FILE:///a', ' file:///a', 'x\nfile:///a', 5].map(uri => ({ roots: [{ uri: 'file:///a' }, { uri }] }))
  ])
})

// ---- what a question needs

test('each question needs the capability of its kind, and of its parts: MRTR-05', async t => {
  const sampling = (more: Partial<CreateMessageParams>) => needsOf(createMessage({ messages: [], maxTokens: 1, ...more }))
  t.strictSame(needsOf(elicitForm('?', { type: 'object' })), { elicitation: { form: {} } })
  t.strictSame(needsOf(elicitUrl('?', 'https://example.com')), { elicitation: { url: {} } })
  t.strictSame(needsOf(listRoots()), { roots: {} })
  t.strictSame(sampling({}), { sampling: {} })
  // SMP-04
  t.strictSame(sampling({ tools: [] }), { sampling: { tools: {} } })
  t.strictSame(sampling({ toolChoice: {} }), { sampling: { tools: {} } })
  // SMP-05
  t.strictSame(sampling({ includeContext: 'none' }), { sampling: {} })
  for (const includeContext of ['thisServer', 'allServers'] as const) t.strictSame(sampling({ includeContext }), { sampling: { context: {} } })
  t.strictSame(sampling({ includeContext: 'allServers', tools: [] }), { sampling: { tools: {}, context: {} } })
})

test('a form that says no mode is a form', async t => {
  const bare = { method: 'elicitation/create', params: { message: '?', requestedSchema: { type: 'object', properties: {} } } as JsonObject } as InputRequest
  t.strictSame(needsOf(bare), { elicitation: { form: {} } })
  check(t, bare, [accept({})], [{ action: 'accept' }])
})

test('what is no question needs nothing that could be declared, and nothing answers it', async t => {
  for (const method of ['tools/call', 'constructor', '']) {
    const made = { method, params: {} } as unknown as InputRequest
    t.equal(needsOf(made), undefined)
    t.equal(answers(made, {}), false)
  }
})
