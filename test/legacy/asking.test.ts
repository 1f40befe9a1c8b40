import { setTimeout as delay } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { test } from 'tap'
import {
  createMessage, createSuite, definePrompt, defineResources, defineTool, elicitForm, elicitUrl, getPromptResult, inputRequired, listRoots, McpError,
  readResourceResult, result, toolResult, type Channel, type InputRequests, type JsonObject, type Server
} from 'fastify-gen-mcp'
import { call as modernCall } from '../helpers/mount.js'
import { info, toolServer } from '../helpers/servers.js'
import { alarms, gate, NOTHING_HELD, openWire, stage, until, within } from '../helpers/sockets.js'
import { messagesIn, open, read, readStream, VERSIONS, type LegacySession, type Reading } from './helpers.js'
import type { Session } from 'fastify-gen-mcp/legacy'
import type { Message } from '../helpers/messages.js'

const BOUND = { timeout: 30_000 }
const TOOL = { name: 'tool', arguments: {} }
const NAME = Type.Object({ name: Type.String() })
const ALL = { elicitation: { form: {}, url: {} }, sampling: { tools: {}, context: {} }, roots: {} }
const accepted = (name: string): JsonObject => ({ action: 'accept', content: { name } })

/** A tool that asks these questions, and answers with the answers. */
function asker (questions: InputRequests): Server {
  return toolServer((_request, channel) => {
    const answers = channel.inputResponses(questions)
    return answers === undefined ? inputRequired(questions) : result(toolResult.data(answers as never))
  })
}

const form = { user: elicitForm('Who are you?', NAME) }

/** A message that asks, as it came; fails the test's promise for what is none. */
function question (message: Message): { readonly id: string, readonly method: string, readonly params: JsonObject } {
  const { id, method, params = {} } = message
  if (typeof id !== 'string' || method === undefined) throw new Error(`Not a question: ${JSON.stringify(message)}`)
  return { id, method, params }
}

async function start (t: Parameters<typeof read>[0], port: number, session: LegacySession, id: string | number = 1): Promise<Reading> {
  return await read(t, port, 'POST', session.compose('tools/call', TOOL, { id }))
}

/** What a call that gave its answers as data was given. */
function dataOf ({ result }: Message): unknown {
  const { content: [{ text }] } = result as unknown as { readonly content: readonly [{ readonly text: string }] }
  return JSON.parse(text)
}

// ---- what is asked, and where

for (const version of ['2025-11-25', '2025-06-18'] as const) {
  test(`${version}: a question is a request on the call's own stream, and its answer completes the call, with no other stream: (LEG-38, LEG-73) case 076`, BOUND, async t => {
    const subject = await stage(t, asker(form))
    const session = await open(subject.app, version, { capabilities: { elicitation: {} } })
    const reading = await start(t, subject.port, session)
    const { id, method, params } = question(await reading.message())
    t.equal(method, 'elicitation/create')
    t.match(params, { message: 'Who are you?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } })
    // LEG-80: a mode is of 2025-11-25.
    t.equal('mode' in params, version === '2025-11-25')
    t.match(subject.gauges(), { exchanges: 1 }, 'it counts as a call that runs')
    const taken = await session.respond(id, accepted('Ann'))
    t.equal(taken.statusCode, 202)
    t.equal(taken.body, '')
    const answer = await reading.message()
    t.equal(answer.id, 1)
    t.strictSame(dataOf(answer), { user: accepted('Ann') })
    await reading.closed
    t.equal(messagesIn(reading.frames).length, 2)
    t.strictSame(subject.gauges(), NOTHING_HELD)
    t.strictSame(alarms(subject.lines), [])
  })
}

test('one handler asks clients of 2026-07-28 in its result, and those of 2025 in requests: (LEG-73) case 076', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
  const first = (await modernCall(subject.app, 'tools/call', TOOL, { meta })).json<Message>()
  t.match(first.result, { resultType: 'input_required', inputRequests: { user: { method: 'elicitation/create' } } })
  const retry = { ...TOOL, requestState: first.result?.['requestState'], inputResponses: { user: accepted('Ann') } }
  const second = (await modernCall(subject.app, 'tools/call', retry, { meta })).json<Message>()
  const session = await open(subject.app, '2025-11-25', { capabilities: { elicitation: {} } })
  const reading = await start(t, subject.port, session)
  await session.respond(question(await reading.message()).id, accepted('Ann'))
  t.strictSame(dataOf(await reading.message()), dataOf(second))
})

test('a question goes on the call\'s own stream although the session has a stream of its own: (LEG-49, LEG-50) case 076', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const session = await open(subject.app, '2025-11-25', { capabilities: { elicitation: {} } })
  const standing = await readStream(t, subject.port, session)
  const reading = await start(t, subject.port, session)
  await session.respond(question(await reading.message()).id, accepted('Ann'))
  t.match(await reading.message(), { id: 1, result: {} })
  t.strictSame(messagesIn(standing.frames), [])
})

test('tools, prompts and resources of a Suite ask', BOUND, async t => {
  const ask = (channel: Channel): string | undefined => channel.inputResponses(form)?.user.action
  const suite = createSuite({
    info,
    tools: [defineTool({ name: 'tool', call: (_args, channel) => ask(channel) === undefined ? inputRequired(form) : toolResult.text('tool') })],
    prompts: [definePrompt({ name: 'prompt', get: (_args, channel) => ask(channel) === undefined ? inputRequired(form) : getPromptResult([]) })],
    resources: [defineResources({ prefix: 'test://', read: ({ uri }, channel) => ask(channel) === undefined ? inputRequired(form) : readResourceResult([{ uri, text: 'resource' }]) })]
  })
  const subject = await stage(t, suite)
  const session = await open(subject.app, '2025-11-25', { capabilities: { elicitation: {} } })
  for (const [method, params, expected] of [
    ['tools/call', TOOL, { content: [{ text: 'tool' }] }],
    ['prompts/get', { name: 'prompt' }, { messages: [] }],
    ['resources/read', { uri: 'test://a' }, { contents: [{ text: 'resource' }] }]
  ] as const) {
    const reading = await read(t, subject.port, 'POST', session.compose(method, params))
    await session.respond(question(await reading.message()).id, { action: 'decline' })
    t.match(await reading.message(), { id: 1, result: expected }, method)
  }
})

test('2025-11-25: all questions of a round go out together, each of its kind, and a URL has an id (LEG-69, LEG-70, LEG-73)', BOUND, async t => {
  const subject = await stage(t, asker({
    form: form.user,
    url: elicitUrl('Sign in', 'https://example.com/sign-in'),
    model: createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }], maxTokens: 5 }),
    roots: listRoots()
  }))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session)
  const asked = [await reading.message(), await reading.message(), await reading.message(), await reading.message()].map(question)
  t.strictSame(asked.map(({ method }) => method), ['elicitation/create', 'elicitation/create', 'sampling/createMessage', 'roots/list'])
  t.match(asked[1]?.params, { mode: 'url', url: 'https://example.com/sign-in', elicitationId: /^[\w-]{36}$/ })
  t.notOk('elicitationId' in (asked[0]?.params ?? {}))
  t.match(asked[2]?.params, { maxTokens: 5 })
  t.equal(new Set(asked.map(({ id }) => id)).size, 4)
  const answers = [accepted('Ann'), { action: 'accept' }, { role: 'assistant', content: { type: 'text', text: 'hello' }, model: 'm' }, { roots: [{ uri: 'file:///a' }] }]
  // In another order than they were asked.
  for (const index of [3, 1, 0, 2]) {
    t.equal(messagesIn(reading.frames).length, 4, 'not before the last answer')
    await session.respond(asked[index]?.id ?? '', answers[index] as JsonObject)
  }
  t.match(dataOf(await reading.message()), { form: answers[0], url: answers[1], model: answers[2], roots: answers[3] })
  // LEG-67: neither the code nor the notification of URL elicitations is used.
  t.notMatch(JSON.stringify(reading.frames), /-32042|elicitation\/complete/)
})

test('calls that ask at the same time have ids of their own, and each gets its own answer (LEG-70)', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const readings = await Promise.all([1, 2, 3].map(async id => await start(t, subject.port, session, id)))
  const asked = await Promise.all(readings.map(async reading => question(await reading.message()).id))
  t.equal(new Set(asked).size, 3)
  for (const index of [2, 0, 1]) await session.respond(asked[index] as string, accepted(`number ${index}`))
  for (const [index, reading] of readings.entries()) {
    const answer = await reading.message()
    t.equal(answer.id, index + 1)
    t.strictSame(dataOf(answer), { user: accepted(`number ${index}`) })
  }
})

// ---- who is not asked

for (const version of VERSIONS) {
  test(`${version}: a client that did not declare a kind is not asked, and the call fails (LEG-07, LEG-69)`, BOUND, async t => {
    for (const [questions, capabilities] of [
      [form, {}], [form, { sampling: {}, roots: {} }], [{ roots: listRoots() }, { elicitation: {} }],
      [{ model: createMessage({ messages: [], maxTokens: 1 }) }, { elicitation: {}, roots: {} }],
      [{ url: elicitUrl('Sign in', 'https://example.com') }, { elicitation: {} }],
      ...(version === '2025-11-25' ? [] : [[{ url: elicitUrl('Sign in', 'https://example.com') }, ALL] as const]),
      ...(version === '2025-03-26' ? [[form, ALL] as const] : [])
    ] as const) {
      const subject = await stage(t, asker(questions), { listen: false })
      const session = await open(subject.app, version, { capabilities })
      const answer = await session.request('tools/call', TOOL)
      t.match(answer.json(), { id: 1, error: { code: -32600, message: /capabilit/i } }, JSON.stringify([Object.keys(questions), capabilities]))
      t.strictSame(subject.gauges(), NOTHING_HELD)
    }
  })
}

test('without a session, or without a stream to ask on, the call fails with an error that says so (LEG-73)', BOUND, async t => {
  const again = await stage(t, toolServer(() => inputRequired({}, 1)), { listen: false, legacy: { sessions: false } })
  const none = await open(again.app)
  t.match((await none.request('tools/call', TOOL)).json(), { error: { code: -32603, message: /more than 8 times/ } })
  const undeclared = await stage(t, asker(form), { listen: false, legacy: { sessions: false } })
  t.match((await (await open(undeclared.app, '2025-11-25', { capabilities: ALL })).request('tools/call', TOOL)).json(), { error: { code: -32600 } }, 'what a client can do is not known')

  const subject = await stage(t, asker(form), { listen: false })
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const answer = await session.request('tools/call', TOOL, { headers: { accept: 'application/json' } })
  t.equal(answer.statusCode, 200)
  t.match(answer.json(), { error: { code: -32603, message: 'The request needs input from the client, which has no session or takes no event stream' } })
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a client that was lost before the call was a stream is not asked (LEG-41)', BOUND, async t => {
  const started = gate()
  const go = gate()
  const subject = await stage(t, toolServer(async (_request, channel) => {
    const answers = channel.inputResponses(form)
    started.open()
    await go.promise
    return answers === undefined ? inputRequired(form) : result(toolResult.text('done'))
  }))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const wire = await openWire(t, subject.port)
  wire.send(session.compose('tools/call', TOOL))
  await started.promise
  wire.socket.resetAndDestroy()
  await wire.closed
  await delay(10)
  go.open()
  await subject.ended(2)
  await until(() => subject.gauges().exchanges === 0)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

// ---- answers that are none

test('an answer that comes twice, late, from nowhere, or from another session is accepted and ignored (LEG-70, LEG-72)', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const other = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session)
  const { id } = question(await reading.message())
  t.equal((await other.respond(id, accepted('Mallory'))).statusCode, 202)
  t.equal((await session.respond('unknown', accepted('Mallory'))).statusCode, 202)
  t.equal((await session.post({ jsonrpc: '2.0', id: 'unknown', error: { code: 1, message: 'no' } })).statusCode, 202)
  t.equal(messagesIn(reading.frames).length, 1, 'it waits still')
  const answers = await Promise.all([session.respond(id, accepted('Ann')), session.respond(id, accepted('Bob'))])
  t.strictSame(answers.map(({ statusCode, body }) => [statusCode, body]), [[202, ''], [202, '']])
  t.strictSame(dataOf(await reading.message()), { user: accepted('Ann') })
  t.equal((await session.respond(id, accepted('Carl'))).statusCode, 202)
  await reading.closed
  t.equal(messagesIn(reading.frames).length, 2)
})

test('another principal answers nothing, with the id of the session or without (LEG-74)', BOUND, async t => {
  const subject = await stage(t, asker(form), { principal: ({ headers }) => headers.authorization })
  const ann = await open(subject.app, '2025-11-25', { capabilities: ALL, headers: { authorization: 'ann' } })
  const mallory = await open(subject.app, '2025-11-25', { capabilities: ALL, headers: { authorization: 'mallory' } })
  const reading = await start(t, subject.port, ann)
  const { id } = question(await reading.message())
  t.equal((await mallory.respond(id, accepted('Mallory'))).statusCode, 202)
  t.equal((await ann.post({ jsonrpc: '2.0', id, result: accepted('Mallory') }, { authorization: 'mallory' })).statusCode, 404)
  t.equal(messagesIn(reading.frames).length, 1)
  await ann.respond(id, accepted('Ann'))
  t.strictSame(dataOf(await reading.message()), { user: accepted('Ann') })
})

test('a client that answers with an error, or with what is none, fails the call with its words; the others are withdrawn', BOUND, async t => {
  const subject = await stage(t, asker({ one: form.user, two: elicitForm('And you?', NAME) }))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  for (const [answer, said] of [
    [{ error: { code: -1, message: 'the user has gone' } }, 'the user has gone'], [{ error: { code: -1, message: 'x'.repeat(600) } }, 'x'.repeat(500)],
    [{ error: 'no' }, 'no reason given'], [{ result: 'text' }, 'no reason given']
  ] as const) {
    const reading = await start(t, subject.port, session)
    const [one, two] = [question(await reading.message()), question(await reading.message())]
    t.equal((await session.post({ jsonrpc: '2.0', id: one.id, ...answer })).statusCode, 202)
    t.match(await reading.message(), { method: 'notifications/cancelled', params: { requestId: two.id } })
    t.strictSame(await reading.message(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: `The client did not answer "one": ${said}` } })
    await reading.closed
    t.equal((await session.respond(two.id, accepted('Ann'))).statusCode, 202)
  }
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('an answer that does not fit is asked for again, and no more than 8 times', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const patient = await start(t, subject.port, session, 1)
  await session.respond(question(await patient.message()).id, { action: 'perhaps' })
  await session.respond(question(await patient.message()).id, accepted('Ann'))
  t.strictSame(dataOf(await patient.message()), { user: accepted('Ann') })

  const reading = await start(t, subject.port, session, 2)
  for (let round = 0; round < 8; round++) await session.respond(question(await reading.message()).id, { action: 'accept', content: { name: 1 } })
  t.strictSame(await reading.message(), { jsonrpc: '2.0', id: 2, error: { code: -32603, message: 'The request asked for input more than 8 times' } })
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a client that never answers fails the call in time, and is told that nobody waits (LEG-71)', BOUND, async t => {
  const subject = await stage(t, asker({ one: form.user, two: elicitForm('And you?', NAME) }), { legacy: { answerTimeout: 50 } })
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session)
  const [one, two] = [question(await reading.message()), question(await reading.message())]
  // One of two is not enough.
  await session.respond(one.id, accepted('Ann'))
  t.match(await reading.message(), { method: 'notifications/cancelled', params: { requestId: two.id, reason: /time/ } })
  t.strictSame(await reading.message(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'The client did not answer in time' } })
  await reading.closed
  t.equal((await session.respond(two.id, accepted('Ann'))).statusCode, 202)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

// ---- rounds

test('a handler may keep a state between rounds, be called again without a question, and send before it asks', BOUND, async t => {
  const subject = await stage(t, toolServer((_request, channel) => {
    const state = channel.requestState(Type.Number()) ?? 0
    channel.sendProgress(state + 1)
    if (state === 0) return inputRequired({}, 1)
    if (state === 1) return channel.inputResponses(form) === undefined ? inputRequired(form, 1) : inputRequired({}, 2)
    return result(toolResult.data({ state, answers: channel.inputResponses(form) } as never))
  }))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', { ...TOOL, _meta: { progressToken: 'p' } }))
  t.match([await reading.message(), await reading.message()], [{ params: { progress: 1 } }, { params: { progress: 2 } }])
  await session.respond(question(await reading.message()).id, accepted('Ann'))
  t.match([await reading.message(), await reading.message()], [{ params: { progress: 2 } }, { params: { progress: 3 } }])
  t.strictSame(dataOf(await reading.message()), { state: 2, answers: { user: accepted('Ann') } })
  t.strictSame(subject.ends.map(({ cause, method }) => `${method} ${cause}`), ['server/discover result', ...Array.from({ length: 4 }, () => 'tools/call result')])
})

for (const [name, thrown, expected] of [
  ['an error of its own', new McpError({ kind: 'internal', message: 'no' }), { code: -32603, message: 'no' }],
  ['anything', new Error('secret'), { code: -32603, message: 'Internal error' }]
] as const) {
  test(`a handler that throws in its second round fails the call: ${name}`, BOUND, async t => {
    const subject = await stage(t, toolServer((_request, channel) => {
      if (channel.inputResponses(form) === undefined) return inputRequired(form)
      throw thrown
    }))
    const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
    const reading = await start(t, subject.port, session)
    await session.respond(question(await reading.message()).id, accepted('Ann'))
    t.strictSame(await reading.message(), { jsonrpc: '2.0', id: 1, error: expected })
    await reading.closed
    t.strictSame(subject.gauges(), NOTHING_HELD)
  })
}

test('a state that has expired while the client thought fails the call', BOUND, async t => {
  const sessions = new Map<string, Session>()
  const subject = await stage(t, asker(form), {
    tokens: { seal: () => 'sealed', open: () => ({ ok: false, reason: 'expired' }) },
    legacy: {
      sessions: {
        create (session) {
          sessions.set('session', session)
          return 'session'
        },
        fetch: id => sessions.get(id)
      }
    }
  })
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session)
  await session.respond(question(await reading.message()).id, accepted('Ann'))
  t.match(await reading.message(), { id: 1, error: { code: -32602 } })
  await reading.closed
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

test('a call that waits for its client counts as one that runs, and its id is not free (LEG-44)', BOUND, async t => {
  const subject = await stage(t, asker(form), { limits: { maxConcurrent: 1 } })
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session)
  const { id } = question(await reading.message())
  t.match(subject.gauges(), { exchanges: 1, streams: 1, timers: 2, listens: 0, queuedMessages: 0, sources: 0 })
  t.match((await session.request('tools/call', TOOL, { id: 2 })), { statusCode: 503 })
  await session.respond(id, accepted('Ann'))
  await reading.message()
  t.match((await session.request('ping', undefined, { id: 1 })).json(), { result: {} })
})

test('a second request with the id of one that runs is refused, and the first is answered (LEG-44)', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session, 'x')
  const { id } = question(await reading.message())
  const refused = await session.request('tools/call', TOOL, { id: 'x' })
  t.match(refused, { statusCode: 400 })
  t.match(refused.json(), { id: 'x', error: { code: -32600 } })
  const other = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const second = await start(t, subject.port, other, 'x')
  await other.respond(question(await second.message()).id, accepted('Bob'))
  t.strictSame(dataOf(await second.message()), { user: accepted('Bob') }, 'in another session it is another id')
  await session.respond(id, accepted('Ann'))
  t.strictSame(dataOf(await reading.message()), { user: accepted('Ann') })
})

// ---- connections

test('a question that was lost with its connection is read on, and its answer completes the call (LEG-41, LEG-53)', BOUND, async t => {
  const go = gate()
  const subject = await stage(t, toolServer(async (_request, channel) => {
    channel.startStream()
    const answers = channel.inputResponses(form)
    if (answers !== undefined) return result(toolResult.data(answers as never))
    await go.promise
    return inputRequired(form)
  }))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const first = await start(t, subject.port, session)
  const { id: seen } = await first.next()
  await first.drop()
  await until(() => subject.gauges().timers === 0)
  go.open()
  await until(() => subject.ends.length === 2)
  const second = await readStream(t, subject.port, session, seen)
  const { id } = question(await second.message())
  await second.drop()
  await session.respond(id, accepted('Ann'))
  const third = await readStream(t, subject.port, session, second.frames.at(-1)?.id)
  t.strictSame(dataOf(await third.message()), { user: accepted('Ann') })
})

test('a head that Node refuses is told to the client, and nobody waits for its answer', BOUND, async t => {
  let bad = false
  const subject = await stage(t, asker(form), {
    listen: false,
    before (app) {
      app.addHook('onSend', (_request, reply, payload, next) => {
        if (bad) reply.header('x-bad', 'a\nb')
        next(null, payload)
      })
    }
  })
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  bad = true
  const answer = await within(session.request('tools/call', TOOL), 'the answer')
  t.equal(answer.statusCode, 500)
  t.strictSame(answer.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

// ---- the end

test('the end of the session, and a cancellation, end a call that waits, without an answer', BOUND, async t => {
  const subject = await stage(t, asker(form))
  for (const how of ['delete', 'cancel'] as const) {
    const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
    const reading = await start(t, subject.port, session)
    const { id } = question(await reading.message())
    if (how === 'delete') t.equal((await session.delete()).statusCode, 204)
    else t.equal((await session.notify('notifications/cancelled', { requestId: 1, reason: 'enough' })).statusCode, 202)
    await reading.closed
    t.ok(reading.response.complete)
    t.equal(messagesIn(reading.frames).length, 1)
    t.equal((await session.respond(id, accepted('Ann'))).statusCode, how === 'delete' ? 404 : 202)
    t.strictSame(subject.gauges(), NOTHING_HELD)
  }
  t.match(subject.lines.filter(({ msg }) => msg === 'an MCP request was cancelled'), [{}, { mcp: { method: 'tools/call', reason: 'enough' } }])
})

test('a shutdown does not wait for a client that is to answer', BOUND, async t => {
  const subject = await stage(t, asker(form))
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await start(t, subject.port, session)
  const lost = await start(t, subject.port, session, 2)
  question(await reading.message())
  question(await lost.message())
  await lost.drop()
  await until(() => subject.gauges().timers === 3)
  const started = performance.now()
  const closed = subject.app.close()
  t.match(await reading.message(), { id: 1, error: { code: -32603 } })
  await reading.closed
  await closed
  t.ok(performance.now() - started < 2_000)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})

for (const [name, asked] of [['a question', form], ['none', {}]] as const) {
  test(`a call that asks while a shutdown waits for it is ended: with ${name}`, BOUND, async t => {
    const go = gate()
    const started = gate()
    let rounds = 0
    const subject = await stage(t, toolServer(async (_request, channel) => {
      channel.startStream()
      rounds++
      started.open()
      await go.promise
      return inputRequired(asked, rounds)
    }))
    const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
    const reading = await start(t, subject.port, session)
    await started.promise
    const closing = performance.now()
    const closed = subject.app.close()
    await delay(20)
    go.open()
    t.match(await within(reading.message(), 'the answer', 3_000), { id: 1, error: { code: -32603, message: /shut/i } })
    await closed
    t.ok(performance.now() - closing < 3_000)
    t.equal(rounds, 1)
    t.strictSame(subject.gauges(), NOTHING_HELD)
  })
}

test('a shutdown drops a call that waits for a client which does not read', BOUND, async t => {
  const subject = await stage(t, toolServer((_request, channel) => {
    for (let n = 1; n <= 200; n++) channel.sendProgress(n, undefined, 'x'.repeat(100_000))
    return channel.inputResponses(form) === undefined ? inputRequired(form) : result(toolResult.text('done'))
  }), { limits: { drain: 50, sendBuffer: 100_000_000 } })
  const session = await open(subject.app, '2025-11-25', { capabilities: ALL })
  const reading = await read(t, subject.port, 'POST', session.compose('tools/call', { ...TOOL, _meta: { progressToken: 'p' } }))
  reading.stall()
  await until(() => subject.gauges().timers === 2)
  await within(subject.app.close(), 'the end of the app', 5_000)
  reading.goOn()
  await reading.closed
  t.equal(reading.response.complete, false)
  t.strictSame(subject.gauges(), NOTHING_HELD)
})
