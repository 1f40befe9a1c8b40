import { randomBytes } from 'node:crypto'
import { test, type Test } from 'tap'
import { Type } from '@sinclair/typebox'
import {
  createMessage, elicitForm, elicitUrl, getPromptResult, inputRequired, listRoots, listToolsResult, readResourceResult, result, stream, toolResult,
  type Channel, type GenMcpOptions, type InputRequests, type JsonObject, type McpRequest, type RequestOutcome, type TokenSealer
} from 'fastify-gen-mcp'
import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { Value } from '@sinclair/typebox/value'
import { Asking } from '../../lib/channel/asking.js'
import { InputRequiredResult } from '../../lib/protocol/index.js'
import { createKeyRing } from '../../lib/token.js'
import { call, meta, mount } from '../helpers/mount.js'
import { isStream, messagesOf, split, type Message } from '../helpers/messages.js'
import { bareServer, info, toolServer } from '../helpers/servers.js'
import { NOTHING_HELD } from '../helpers/sockets.js'

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const SECRET = 'the first secret, of 32 characters or more'
const secrets = [SECRET]
const everything = { elicitation: { form: {}, url: {} }, sampling: { tools: {}, context: {} }, roots: {} }
const REFUSED = { jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'Invalid or expired requestState' } }

const name = elicitForm('Your name?', Type.Object({ name: Type.String({ minLength: 1 }) }))
const color = elicitForm('Your colour?', Type.Object({ color: Type.Union([Type.Literal('red'), Type.Literal('blue')]) }))
const accept = (content: JsonObject) => ({ action: 'accept', content })
const Round = Type.Object({ round: Type.Number() })

type Handler = (request: McpRequest, channel: Channel) => RequestOutcome<never>

/** A mount of a server that asks, and how often its callbacks have run. */
async function asking (t: Test, handler: Handler, options: Partial<GenMcpOptions> = {}) {
  const runs = { init: 0, handler: 0 }
  const app = await mount(t, {
    secrets,
    ...options,
    server: {
      info,
      capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} },
      init () { runs.init++ },
      handleRequest (request: McpRequest, channel: Channel) {
        runs.handler++
        return handler(request, channel)
      }
    }
  })
  return { app, runs }
}

type App = Parameters<typeof call>[0]
interface Sent { readonly params?: object, readonly method?: string, readonly id?: unknown, readonly user?: string, readonly capabilities?: object }

/** One round: a request that brings back what it is given. */
async function send (app: App, retry: object = {}, { params = { name: 'tool' }, method = 'tools/call', id = 1, user, capabilities = everything }: Sent = {}) {
  const headers = user === undefined ? {} : { 'x-user': user }
  return await call(app, method, { ...params, ...retry }, { id, meta: { [CAPABILITIES]: capabilities }, headers })
}

/** What the server asks in a round. */
async function ask (app: App, retry: object = {}, sent: Sent = {}): Promise<{ readonly requestState: string, readonly inputRequests?: JsonObject }> {
  const { answer: { result } } = await split(await send(app, retry, sent))
  if (result?.['resultType'] !== 'input_required') throw new Error(`The server did not ask: ${JSON.stringify(result)}`)
  return result as unknown as { requestState: string }
}

/** Asks for a name and greets. */
const greeter: Handler = (_request, channel) => {
  const answers = channel.inputResponses({ name })
  if (answers === undefined) return inputRequired({ name }, { round: 1 })
  return result(toolResult.text(answers.name.action === 'accept' ? `Hello ${answers.name.content.name}` : answers.name.action))
}

async function textOf (response: Awaited<ReturnType<typeof send>>): Promise<unknown> {
  const { answer } = await split(response)
  return (answer.result?.['content'] as unknown as { text: string }[] | undefined)?.[0]?.text ?? answer.error
}

// ---- one round, and the next

test('a question is a result that asks to call again, and the answer completes the call', async t => {
  const { app, runs } = await asking(t, greeter)
  const response = await send(app)
  t.equal(response.statusCode, 200)
  t.notOk(isStream(response))
  const { result: asked } = response.json<{ result: { requestState: string } & JsonObject }>()
  // MRTR-03, MRTR-25
  t.strictSame(Object.keys(asked).sort(), ['_meta', 'inputRequests', 'requestState', 'resultType'])
  t.strictSame(asked['inputRequests'], { name: { method: 'elicitation/create', params: name.params } })
  t.ok(Value.Check(InputRequiredResult, asked))

  const { requestState } = asked
  t.equal(await textOf(await send(app, { requestState, inputResponses: { name: accept({ name: 'Ada' }) } }, { id: 2 })), 'Hello Ada')
  t.strictSame(runs, { init: 2, handler: 2 }, 'each round runs from its beginning')
})

test('tools, prompts and resources may ask: MRTR-01', async t => {
  const { app } = await asking(t, ({ method }, channel) => {
    if (channel.inputResponses({ name }) === undefined) return inputRequired({ name })
    if (method === 'tools/call') return result(toolResult.text('done'))
    return result(method === 'prompts/get' ? getPromptResult([{ role: 'user', content: 'done' }]) : readResourceResult({ uri: 'file:///a', text: 'done' }))
  })
  const respond = () => accept({ name: 'Ada' })
  const client = createTestClient(app, { capabilities: everything, respond })
  t.match(await client.request('tools/call', { name: 'x', arguments: {} }), { result: { content: [{ text: 'done' }] } })
  t.match(await client.request('prompts/get', { name: 'x', arguments: {} }), { result: { messages: [{ content: { text: 'done' } }] } })
  t.match(await client.request('resources/read', { uri: 'file:///a' }), { result: { contents: [{ text: 'done' }], cacheScope: 'private', ttlMs: 0 } })
})

test('a request of any other method that asks is a crash, and the question is not sent: MRTR-01', async t => {
  const { app } = await asking(t, () => inputRequired({ name }) as RequestOutcome<never>)
  const requests: [method: string, params: object][] = [
    ['tools/list', {}], ['prompts/list', {}], ['resources/list', {}], ['resources/templates/list', {}],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'x' }, argument: { name: 'a', value: '' } }]
  ]
  for (const [method, params] of requests) {
    const response = await send(app, {}, { method, params })
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } }, method)
  }
})

test('a resource that asked is kept by nobody, whatever its author says', async t => {
  const { app } = await asking(t, (_request, channel) => {
    if (channel.inputResponses({ name }) === undefined) return inputRequired({ name })
    return result(readResourceResult({ uri: 'file:///a', text: 'x' }, { cache: { scope: 'public', ttlMs: 60_000 } }))
  })
  const sent = { method: 'resources/read', params: { uri: 'file:///a' } }
  const asked = await ask(app, {}, sent)
  t.notOk('cacheScope' in asked)
  const response = await send(app, { requestState: asked.requestState, inputResponses: { name: accept({ name: 'Ada' }) } }, sent)
  t.match(response.json(), { result: { cacheScope: 'private', ttlMs: 0 } })
})

test('a state alone asks to call again: MRTR-24', async t => {
  const { app } = await asking(t, (_request, channel) => {
    const state = channel.requestState(Round)
    return state === undefined ? inputRequired({}, { round: 1 }) : result(toolResult.text(`round ${state.round + 1}`))
  })
  // MRTR-02: it has no inputRequests, so that it has a state.
  const asked = await ask(app)
  t.notOk('inputRequests' in asked)
  t.type(asked.requestState, 'string')
  t.equal(await textOf(await send(app, { requestState: asked.requestState })), 'round 2')
})

test('a question without a state of its own has a requestState all the same: MRTR-02', async t => {
  const { app } = await asking(t, () => inputRequired({}))
  t.type((await ask(app)).requestState, 'string')
})

test('a state is what it was, whatever text is in it: MRTR-25', async t => {
  const Any = Type.Unknown()
  for (const state of ['"quotes" and \\', 'Größe 🎉 \u2028', '', { a: [1, null, { b: true }] }, 0, false, []]) {
    const { app } = await asking(t, (_request, channel) => {
      const back = channel.requestState(Any)
      return back === undefined ? inputRequired({}, state) : result(toolResult.data({ back }))
    })
    const { requestState } = await ask(app)
    t.match((await send(app, { requestState })).json(), { result: { structuredContent: { back: state } } })
  }
})

test('a state that does not fit what the handler expects is refused like a forged one', async t => {
  const { app } = await asking(t, (_request, channel) => {
    channel.requestState(Round)
    return inputRequired({}, { round: 'one' })
  })
  const { requestState } = await ask(app)
  t.strictSame((await send(app, { requestState })).json(), REFUSED)
})

test('a question may follow notifications, and then ends the stream: MRTR-27', async t => {
  const app = await mount(t, {
    server: toolServer<string, string>((_request, channel) => {
      channel.sendProgress(1)
      channel.ref.post('ask')
      return stream('live')
    }, { handleMessage: () => inputRequired({ name }) })
  })
  const messages = await messagesOf(await call(app, 'tools/call', { name: 'tool' }, { meta: { progressToken: 'p', [CAPABILITIES]: everything } }))
  t.match(messages, [{ method: 'notifications/progress' }, { id: 1, result: { resultType: 'input_required', inputRequests: { name: {} } } }])
})

test('answers and questions need no HTTP to be tested', async t => {
  const options = { capabilities: everything, respond: () => accept({ name: 'Ada' }) }
  const exchange = testExchange(bareServer(greeter), 'tools/call', { name: 'tool', arguments: {} }, options)
  t.match(await exchange.answer, { result: { content: [{ text: 'Hello Ada' }] } })
})

// ---- several rounds

/** Asks one thing after the other. */
const twoSteps: Handler = (_request, channel) => {
  const first = channel.inputResponses({ name })
  if (first === undefined) return inputRequired({ name })
  const second = channel.inputResponses({ color })
  if (second === undefined) return inputRequired({ color })
  return result(toolResult.data([first, second]))
}

test('answers of earlier rounds are kept, and each round has a state of its own: MRTR-23', async t => {
  const { app } = await asking(t, twoSteps)
  const one = await ask(app)
  t.strictSame(Object.keys(one.inputRequests ?? {}), ['name'])
  const two = await ask(app, { requestState: one.requestState, inputResponses: { name: accept({ name: 'Ada' }) } })
  t.strictSame(Object.keys(two.inputRequests ?? {}), ['color'])
  t.not(one.requestState, two.requestState)
  const response = await send(app, { requestState: two.requestState, inputResponses: { color: accept({ color: 'red' }) } })
  t.match(response.json(), { result: { structuredContent: [{ name: { content: { name: 'Ada' } } }, { color: { content: { color: 'red' } } }] } })
})

test('a client that answers by function is asked until nothing is open', async t => {
  const { app } = await asking(t, twoSteps)
  const asked: string[] = []
  const respond = (key: string) => {
    asked.push(key)
    return accept(key === 'name' ? { name: 'Ada' } : { color: 'red' })
  }
  const client = createTestClient(app, { capabilities: everything, respond })
  t.match(await client.request('tools/call', { name: 'tool', arguments: {} }), { result: { structuredContent: Array } })
  t.strictSame(asked, ['name', 'color'])
})

test('only what is open is asked again: MRTR-19', async t => {
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses({ name, color })
    return answers === undefined ? inputRequired({ name, color }) : result(toolResult.data(answers))
  })
  const one = await ask(app)
  t.strictSame(Object.keys(one.inputRequests ?? {}), ['name', 'color'])
  const two = await ask(app, { requestState: one.requestState, inputResponses: { color: accept({ color: 'red' }), nobody: accept({ asked: true }) } })
  t.strictSame(Object.keys(two.inputRequests ?? {}), ['name'])
  const three = await ask(app, { requestState: two.requestState })
  t.strictSame(Object.keys(three.inputRequests ?? {}), ['name'], 'nothing was answered')
  t.match((await send(app, { requestState: three.requestState, inputResponses: { name: accept({ name: 'Ada' }) } })).json(), {
    result: { structuredContent: { name: { content: { name: 'Ada' } }, color: { content: { color: 'red' } } } }
  })
})

test('an answer that the handler has not come to yet is kept for it', async t => {
  const { app } = await asking(t, (_request, channel) => {
    const first = channel.inputResponses({ name })
    if (first === undefined) return inputRequired({ name, color })
    if (channel.requestState(Type.Unknown()) !== 2) return inputRequired({}, 2)
    return channel.inputResponses({ color }) === undefined ? result(toolResult.text('lost')) : result(toolResult.text('kept'))
  })
  const one = await ask(app)
  const two = await ask(app, { requestState: one.requestState, inputResponses: { name: accept({ name: 'Ada' }), color: accept({ color: 'red' }) } })
  t.equal(await textOf(await send(app, { requestState: two.requestState })), 'kept')
})

test('a new answer replaces the one before, and one that does not fit does not', async t => {
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses({ name })
    if (answers === undefined) return inputRequired({ name }, 1)
    return channel.requestState(Type.Number()) === 1 ? inputRequired({ name }, 2) : result(toolResult.data(answers))
  })
  const one = await ask(app)
  const two = await ask(app, { requestState: one.requestState, inputResponses: { name: accept({ name: 'Ada' }) } })
  t.notOk('inputRequests' in two, 'it is answered')
  const cases: [inputResponses: object, kept: string][] = [
    [{}, 'Ada'], [{ name: accept({ name: 'Bob' }) }, 'Bob'], [{ name: accept({ name: 5 }) }, 'Ada'], [{ name: null }, 'Ada']
  ]
  for (const [inputResponses, kept] of cases) {
    const response = await send(app, { requestState: two.requestState, inputResponses })
    t.match(response.json(), { result: { structuredContent: { name: { content: { name: kept } } } } })
  }
})

test('a question that changed under its key is asked again: MRTR-22', async t => {
  let question = name
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses({ q: question })
    return answers === undefined ? inputRequired({ q: question }) : inputRequired({}, 'answered')
  })
  const one = await ask(app)
  const two = await ask(app, { requestState: one.requestState, inputResponses: { q: accept({ name: 'Ada' }) } })
  t.notOk('inputRequests' in two)
  question = elicitForm('Your name, in full?', Type.Object({ name: Type.String({ minLength: 10 }) }))
  t.match((await ask(app, { requestState: two.requestState })).inputRequests, { q: { params: { message: 'Your name, in full?' } } })
})

test('effects after the last question happen once: MRTR-26', async t => {
  let effects = 0
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses({ name, color })
    if (answers === undefined) return inputRequired({ name, color })
    effects++
    return result(toolResult.text('done'))
  })
  const one = await ask(app)
  const two = await ask(app, { requestState: one.requestState, inputResponses: { name: accept({ name: 'Ada' }) } })
  t.equal(effects, 0)
  await send(app, { requestState: two.requestState, inputResponses: { color: accept({ color: 'red' }) } })
  t.equal(effects, 1)
})

// ---- what a client may answer

test('an answer that does not fit is asked for again, and never used: MRTR-17', async t => {
  const { app } = await asking(t, greeter)
  const { requestState } = await ask(app)
  const responses: unknown[] = [
    // MRTR-22, ELI-15, ELI-16
    12345, 'Ada', null, true, [], {}, { action: 'yes' }, { action: 'accept' }, { action: 'accept', content: null }, { action: 'accept', content: [] },
    { content: { name: 'Ada' } }, { action: 'ACCEPT', content: { name: 'Ada' } },
    ...[{}, { name: '' }, { name: 5 }, { name: { first: 'Ada' } }, { Name: 'Ada' }, { name: null }].map(accept)
  ]
  for (const response of responses) {
    const asked = await ask(app, { requestState, inputResponses: { name: response } })
    t.strictSame(Object.keys(asked.inputRequests ?? {}), ['name'], JSON.stringify(response))
  }
})

test('accept, decline and cancel reach the handler: ELI-15', async t => {
  const { app } = await asking(t, greeter)
  const { requestState } = await ask(app)
  t.equal(await textOf(await send(app, { requestState, inputResponses: { name: accept({ name: 'Ada' }) } })), 'Hello Ada')
  for (const action of ['decline', 'cancel']) t.equal(await textOf(await send(app, { requestState, inputResponses: { name: { action } } })), action)
})

test('answers of the wrong form as a whole are refused, and none at all is no answer: MRTR-17', async t => {
  const { app, runs } = await asking(t, greeter)
  const { requestState } = await ask(app)
  for (const inputResponses of [[], 'x', 5, true]) {
    const response = await send(app, { requestState, inputResponses })
    t.equal(response.statusCode, 200)
    t.match(response.json(), { error: { code: -32602 } }, JSON.stringify(inputResponses))
  }
  t.equal(runs.handler, 1)
  for (const inputResponses of [null, {}]) t.strictSame(Object.keys((await ask(app, { requestState, inputResponses })).inputRequests ?? {}), ['name'])
  t.strictSame(Object.keys((await ask(app, { inputResponses: null })).inputRequests ?? {}), ['name'], 'nor without a state')
})

test('keys and members that nobody asked for are ignored: MRTR-18', async t => {
  const { app } = await asking(t, greeter)
  const { requestState } = await ask(app)
  const inputResponses = JSON.parse(`{
    "name": { "action": "accept", "content": { "name": "Ada" }, "extra": 1 },
    "other": { "action": "accept" }, "toString": 5, "hasOwnProperty": null,
    "constructor": { "prototype": { "polluted": true } }, "__proto__": { "polluted": true }
  }`) as object
  t.equal(await textOf(await send(app, { requestState, inputResponses })), 'Hello Ada')
  t.notOk('polluted' in {})
})

test('answers to what was never asked are ignored, with a state or without: MRTR-29', async t => {
  const { app } = await asking(t, () => result(toolResult.text('plain')))
  for (const retry of [{ inputResponses: { name: accept({ name: 'Ada' }) } }, { inputResponses: null }, { inputResponses: {} }]) {
    t.equal(await textOf(await send(app, retry)), 'plain')
  }
})

test('an answer may come before its question, and counts like any other', async t => {
  const { app } = await asking(t, greeter)
  t.equal(await textOf(await send(app, { inputResponses: { name: accept({ name: 'Ada' }) } })), 'Hello Ada')
})

test('questions named like members of every object are asked and answered', async t => {
  const requests: InputRequests = { constructor: name, toString: color, valueOf: listRoots() }
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses(requests)
    return answers === undefined ? inputRequired(requests) : result(toolResult.data(answers))
  })
  const one = await ask(app)
  t.strictSame(Object.keys(one.inputRequests ?? {}), ['constructor', 'toString', 'valueOf'])
  const inputResponses = { constructor: accept({ name: 'Ada' }), toString: accept({ color: 'red' }), valueOf: { roots: [] } }
  t.match((await send(app, { requestState: one.requestState, inputResponses })).json(), { result: { structuredContent: inputResponses } })
})

test('no questions are answered at once', async t => {
  const { app } = await asking(t, (_request, channel) => result(toolResult.data(channel.inputResponses({}))))
  t.match((await send(app)).json(), { result: { structuredContent: {} } })
})

// ---- the state in other hands

test('a state sealed by one instance opens on another that has the secret: MRTR-16', async t => {
  // STL-02
  const [one, two] = [await asking(t, greeter), await asking(t, greeter, { secrets: ['a newer secret, of 32 characters or more', SECRET] })]
  const { requestState } = await ask(one.app)
  t.equal(await textOf(await send(two.app, { requestState, inputResponses: { name: accept({ name: 'Ada' }) } })), 'Hello Ada')
  t.strictSame(one.runs, { init: 1, handler: 1 })
})

test('a mount without a secret says so when it first seals, and its states open nowhere else: MRTR-16', async t => {
  const lines: string[] = []
  const logger = { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } }
  const app = await mount(t, { server: bareServer(greeter) }, { logger })
  t.strictSame(lines, [])
  const { requestState } = await ask(app)
  await ask(app)
  t.equal(lines.length, 1)
  t.match(lines[0], /secret/)
  t.equal(await textOf(await send(app, { requestState, inputResponses: { name: accept({ name: 'Ada' }) } })), 'Hello Ada')
  const other = await mount(t, { server: bareServer(greeter) })
  t.strictSame((await send(other, { requestState })).json(), REFUSED)
})

test('forged, expired, foreign and mismatched states are answered alike, and no callback runs: MRTR-08', async t => {
  let now = Date.now()
  t.intercept(Date, 'now', { value: () => now })
  const options = { principal: ({ headers }: { headers: Readonly<Record<string, unknown>> }) => headers['x-user']?.toString() }
  const { app, runs } = await asking(t, greeter, options)
  const sent = { params: { name: 'tool', arguments: { a: 1, b: [2, { c: 3 }] } }, user: 'alice' }
  const { requestState } = await ask(app, {}, sent)
  const foreign = (await ask((await asking(t, greeter, { ...options, secrets: ['a foreign secret, of 32 characters or more'] })).app, {}, sent)).requestState
  const other = (await ask(app, {}, { ...sent, params: { name: 'other', arguments: sent.params.arguments } })).requestState
  const answers = { name: accept({ name: 'Ada' }) }
  Object.assign(runs, { init: 0, handler: 0 })

  const refuses = async (what: string, state: unknown, over: Sent = {}) => {
    const response = await send(app, { requestState: state, inputResponses: answers }, { ...sent, ...over })
    t.equal(response.statusCode, 200)
    // MRTR-09
    t.strictSame(response.json(), REFUSED, what)
  }
  // MRTR-07: whatever a client sends is a state that does not open.
  for (const state of ['', 'x', '{"round":1}', 'A'.repeat(500_000), randomBytes(80).toString('base64url'), '\0', 'é']) {
    await refuses(JSON.stringify(state.slice(0, 20)), state)
  }
  const bytes = Buffer.from(requestState, 'base64url')
  for (let at = 0; at < bytes.length; at += 7) {
    const forged = Buffer.from(bytes)
    forged[at] = bytes[at] as number ^ 1
    await refuses(`byte ${at} flipped`, forged.toString('base64url'))
  }
  await refuses('cut', requestState.slice(0, -4))
  await refuses('padded', `${requestState}=`)
  await refuses('sealed with another secret', foreign)
  // MRTR-10, ELI-12
  await refuses('of another principal', requestState, { user: 'bob' })
  await refuses('of another principal, by nobody', requestState, { user: '' })
  // MRTR-12
  await refuses('of another tool', other)
  await refuses('for another tool', requestState, { params: { ...sent.params, name: 'other' } })
  const { a, b } = sent.params.arguments
  for (const changed of [undefined, {}, { a }, { a: 2, b }, { a: '1', b }, { a, b, d: null }, { a, b: [{ c: 3 }, 2] }, { a, b: [2, { c: 4 }] }]) {
    await refuses(`with other arguments: ${JSON.stringify(changed)}`, requestState, { params: { name: 'tool', arguments: changed } })
  }
  await refuses('for another method', requestState, { method: 'prompts/get', params: { name: 'tool', arguments: {} } })
  await refuses('for a resource', requestState, { method: 'resources/read', params: { uri: 'tool' } })
  // MRTR-11
  now += 1_200_000
  await refuses('expired', requestState)
  t.strictSame(runs, { init: 0, handler: 0 })

  now -= 1
  t.equal(await textOf(await send(app, { requestState, inputResponses: answers }, sent)), 'Hello Ada', 'it was a good one all along')
})

test('a state that is no text is refused: MRTR-07', async t => {
  const { app, runs } = await asking(t, greeter)
  for (const requestState of [null, 5, {}, [], true]) {
    t.match((await send(app, { requestState })).json(), { error: { code: -32602 } }, JSON.stringify(requestState))
  }
  t.equal(runs.handler, 0)
})

test('a state is verified where none was ever asked for: MRTR-14', async t => {
  const { app, runs } = await asking(t, () => result(toolResult.text('plain')))
  for (const sent of [{}, { method: 'prompts/get', params: { name: 'x' } }, { method: 'resources/read', params: { uri: 'file:///a' } }]) {
    t.strictSame((await send(app, { requestState: 'x' }, sent)).json(), REFUSED)
  }
  t.equal(runs.handler, 0)
})

test('a method that cannot ask reads no state', async t => {
  const { app } = await asking(t, () => result(listToolsResult([])))
  const response = await send(app, { requestState: 'x', inputResponses: 5 }, { method: 'tools/list', params: {} })
  t.match(response.json(), { result: { tools: [] } })
})

test('the id, the _meta and the order of arguments may differ in the next round: MRTR-21', async t => {
  const { app } = await asking(t, greeter)
  const { requestState } = await ask(app, {}, { id: 1, params: { name: 'tool', arguments: { a: 1, b: { c: [1], d: 2 } } } })
  const params = { name: 'tool', arguments: { b: { d: 2, c: [1] }, a: 1 }, requestState, inputResponses: { name: accept({ name: 'Ada' }) } }
  const response = await call(app, 'tools/call', params, {
    id: 'another', meta: { [CAPABILITIES]: {}, 'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' }, progressToken: 9, mine: true }
  })
  t.equal(await textOf(response), 'Hello Ada', 'with what is answered there is no need of capabilities')
  t.equal((await split(response)).answer.id, 'another')
})

test('each round is judged by its own capabilities: MRTR-21', async t => {
  const { app } = await asking(t, twoSteps)
  const one = await ask(app)
  const response = await send(app, { requestState: one.requestState, inputResponses: { name: accept({ name: 'Ada' }) } }, { capabilities: {} })
  t.equal(response.statusCode, 400)
  t.match(response.json(), { error: { code: -32021, data: { requiredCapabilities: { elicitation: { form: {} } } } } })
})

test('each round passes the mount\'s hooks and checks anew: MRTR-21', async t => {
  const { app, runs } = await asking(t, greeter, {
    onRequest ({ headers }, _reply, done) {
      done(headers['x-user'] === 'banned' ? Object.assign(new Error('no'), { statusCode: 401 }) : undefined)
    }
  })
  const { requestState } = await ask(app)
  t.equal((await send(app, { requestState }, { user: 'banned' })).statusCode, 401)
  t.equal((await call(app, 'tools/call', { name: 'tool', requestState }, { headers: { 'mcp-name': 'other' } })).statusCode, 400)
  t.equal(runs.handler, 1)
})

test('a state does not tell what is in it: MRTR-15', async t => {
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses({ name })
    return answers === undefined ? inputRequired({ name }, { secret: 'hunter2-hunter2' }) : inputRequired({ color }, { secret: 'hunter2-hunter2' })
  })
  const one = await ask(app)
  const two = await ask(app, { requestState: one.requestState, inputResponses: { name: accept({ name: 'Ada Lovelace' }) } })
  for (const { requestState } of [one, two]) {
    const bytes = Buffer.from(requestState, 'base64url')
    for (const text of ['hunter2', 'secret', 'Lovelace', 'tool']) t.notOk(bytes.includes(text) || requestState.includes(text), text)
  }
})

test('what a handler seals for a purpose of its own is no state, whatever the purpose is called', async t => {
  const forge = (value: (tokens: TokenSealer) => string): Handler => (request, channel) => {
    if (request.method === 'tools/call' && request.params.name === 'seal') return result(toolResult.text(value(channel.tokens)))
    return greeter(request, channel)
  }
  for (const value of [{ mine: true }, 5, null, 'text', [], ['x', {}, {}]]) {
    const { app } = await asking(t, forge(tokens => tokens.seal('requestState', value)))
    const token = await textOf(await send(app, {}, { params: { name: 'seal' } }))
    const response = await send(app, { requestState: token })
    t.equal(response.statusCode, 200)
    t.strictSame(response.json(), REFUSED, JSON.stringify(value))
  }
})

test('arguments that JSON cannot write back are other arguments', async t => {
  const { app, runs } = await asking(t, greeter)
  const { requestState } = await ask(app, {}, { params: { name: 'tool', arguments: { limit: null } } })
  const params = { name: 'tool', arguments: { limit: 'HUGE' }, requestState, inputResponses: { name: accept({ name: 'Ada' }) }, _meta: meta() }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }).replace('"HUGE"', '1e400')
  t.strictSame((await call(app, 'tools/call', { name: 'tool' }, { body })).json(), REFUSED, 'a limit of Infinity is not one of null')
  t.equal(runs.handler, 1)
})

test('a sealer of the mount\'s own is used as it is', async t => {
  const purposes: string[] = []
  const ring = createKeyRing([SECRET])
  const tokens: TokenSealer = {
    seal (purpose, value, options) {
      purposes.push(purpose)
      return ring.seal(purpose, value, options)
    },
    open: (purpose, token) => ring.open(purpose, token)
  }
  const app = await mount(t, { server: bareServer(greeter), tokens, principal: () => 'alice' })
  const { requestState } = await ask(app)
  t.equal(purposes.length, 1)
  t.match(purposes[0], /alice/, 'the principal is in the purpose')
  t.equal(await textOf(await send(app, { requestState, inputResponses: { name: accept({ name: 'Ada' }) } })), 'Hello Ada')
})

test('nothing is held for a client that never answers: MRTR-20', async t => {
  const { app } = await asking(t, greeter)
  for (let round = 0; round < 20; round++) await ask(app)
  t.strictSame(app.mcp.mounts[0]?.gauges(), NOTHING_HELD)
})

// ---- bounds and mistakes of authors

test('a state of 16 KiB is sealed, and one byte more is a crash: MRTR-28', async t => {
  const stateOf = (bytes: number) => asking(t, () => inputRequired({}, 'ü'.repeat((bytes - 2) / 2)))
  t.type((await ask((await stateOf(16_384)).app)).requestState, 'string')
  const response = await send((await stateOf(16_386)).app)
  t.equal(response.statusCode, 500)
  t.match(response.json(), { error: { code: -32603, message: 'Internal error' } })
})

test('answers cannot blow a state up past what a client can send back: MRTR-28', async t => {
  const { app } = await asking(t, twoSteps)
  const one = await ask(app)
  // All of it is members that nobody asked for.
  const padded = { ...accept({ name: 'Ada', padding: 'x'.repeat(400_000) }), more: 'x'.repeat(400_000) }
  const two = await ask(app, { requestState: one.requestState, inputResponses: { name: padded } })
  t.ok(two.requestState.length < 100_000, `${two.requestState.length} characters`)
})

test('a state that is no JSON is a crash', async t => {
  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  for (const state of [1n, cycle, () => {}, Symbol('s')]) {
    const { app } = await asking(t, () => inputRequired({}, state))
    const response = await send(app)
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  }
})

test('a question that no function of ours made is a crash', async t => {
  for (const question of [{ method: 'tools/call', params: {} }, undefined]) {
    const requests = { a: question } as unknown as InputRequests
    const { app } = await asking(t, (_request, channel) => {
      t.equal(channel.inputResponses(requests), undefined, 'nothing answers it')
      return inputRequired(requests)
    })
    const response = await send(app, { inputResponses: { a: accept({}) } })
    t.equal(response.statusCode, 500)
    t.strictSame(response.json(), { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'Internal error' } })
  }
})

test('what the client cannot be asked is 400, -32021, with what is missing: MRTR-06', async t => {
  const questions: [question: InputRequests[string], capabilities: object, missing: object][] = [
    [name, {}, { elicitation: { form: {} } }],
    [name, { elicitation: { url: {} } }, { elicitation: { form: {} } }],
    // ELI-03
    [elicitUrl('Go', 'https://example.com/1'), { elicitation: {} }, { elicitation: { url: {} } }],
    [elicitUrl('Go', 'https://example.com/1'), {}, { elicitation: { url: {} } }],
    // SMP-02
    [createMessage({ messages: [], maxTokens: 1 }), {}, { sampling: {} }],
    // SMP-04
    [createMessage({ messages: [], maxTokens: 1, tools: [] }), { sampling: {} }, { sampling: { tools: {} } }],
    [createMessage({ messages: [], maxTokens: 1, toolChoice: { mode: 'none' } }), { sampling: {} }, { sampling: { tools: {} } }],
    [createMessage({ messages: [], maxTokens: 1, includeContext: 'allServers' }), { sampling: { tools: {} } }, { sampling: { context: {} } }],
    // ROOT-01
    [listRoots(), { elicitation: {} }, { roots: {} }]
  ]
  for (const [question, capabilities, missing] of questions) {
    const { app } = await asking(t, () => inputRequired({ q: question }))
    const response = await send(app, {}, { capabilities })
    t.equal(response.statusCode, 400)
    // MRTR-05: the question itself is not sent.
    t.strictSame(response.json<Message>().error, {
      code: -32021, message: 'The client does not declare a capability that this request needs', data: { requiredCapabilities: missing }
    })
    const able = await send(app, {}, { capabilities: everything })
    t.match(able.json(), { result: { resultType: 'input_required', inputRequests: { q: { method: question.method, params: question.params } } } })
  }
})

test('each kind of answer reaches its handler', async t => {
  const requests = { form: name, url: elicitUrl('Go', 'https://example.com/1'), model: createMessage({ messages: [], maxTokens: 1 }), roots: listRoots() }
  const { app } = await asking(t, (_request, channel) => {
    const answers = channel.inputResponses(requests)
    return answers === undefined ? inputRequired(requests) : result(toolResult.data(answers))
  })
  const answers: Record<string, JsonObject> = {
    form: accept({ name: 'Ada' }),
    url: { action: 'accept' },
    model: { role: 'assistant', content: { type: 'text', text: 'Hi' }, model: 'm' },
    roots: { roots: [{ uri: 'file:///a' }] }
  }
  const client = createTestClient(app, { capabilities: everything, respond: key => answers[key] ?? null })
  t.match(await client.request('tools/call', { name: 'tool', arguments: {} }), { result: { structuredContent: answers } })
})

test('answers that are larger than what can be kept for the next round are the client\'s mistake', async t => {
  const questions = { roots: listRoots() }
  const asking = new Asking(
    { method: 'tools/call', id: 1, params: { name: 'x', arguments: {} }, meta: { protocolVersion: '2026-07-28', clientCapabilities: { roots: {} }, extra: {} } },
    createKeyRing(['x'.repeat(32)]),
    { kept: {}, asked: [], given: { roots: { roots: [{ uri: `file:///${'x'.repeat(70_000)}` }] } } }
  )
  t.ok(asking.inputResponses(questions))
  t.throws(() => asking.result(inputRequired({}, 1)), { code: 'MCP_ERR_INVALID_PARAMS', statusCode: 200 })
})
