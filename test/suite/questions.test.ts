import { test } from 'tap'
import { Type } from '@sinclair/typebox'
import {
  busSubscriptions, createMessage, createSuite, defineTool, elicitForm, elicitUrl, inputRequired, listRoots, McpError, toolResult, type JsonObject, type JsonValue
} from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { call, mount } from '../helpers/mount.js'
import { isStream, split, type Message } from '../helpers/messages.js'
import { info } from '../helpers/servers.js'
import { stage } from '../helpers/sockets.js'
import { take } from '../helpers/stream.js'
import type { LightMyRequestResponse } from 'fastify'

const description = 'For tests'
const secrets = ['a secret of more than thirty-two characters']
const everything = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }
const meta = { 'io.modelcontextprotocol/clientCapabilities': everything }
const accept = (content: JsonObject) => ({ action: 'accept', content })

const questions = {
  user_name: elicitForm('Your name?', Type.Object({ name: Type.String() })),
  greeting: createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'Greet' } }], maxTokens: 10 }),
  client_roots: listRoots()
}
const responses: Readonly<Record<keyof typeof questions, JsonValue>> = {
  user_name: accept({ name: 'Ada' }),
  greeting: { role: 'assistant', model: 'm', content: { type: 'text', text: 'Hello' } },
  client_roots: { roots: [{ uri: 'file:///home/ada' }] }
}

const greet = defineTool({
  name: 'greet',
  description,
  call (_args, channel) {
    channel.sendProgress(1)
    const answers = channel.inputResponses(questions)
    if (answers === undefined) return inputRequired(questions)
    const { user_name: { action }, greeting: { content }, client_roots: { roots } } = answers
    return toolResult.data({ action, content, roots: roots.length })
  }
})

/** What a round asks, and the state that brings the client back. */
async function asked (response: LightMyRequestResponse): Promise<{ readonly requestState: string, readonly inputRequests: Readonly<Record<string, JsonObject>> }> {
  const { answer: { result } } = await split(response)
  if (result?.['resultType'] !== 'input_required') throw new Error(`The tool did not ask: ${response.payload}`)
  return result as unknown as { requestState: string, inputRequests: Record<string, JsonObject> }
}

for (const progressToken of [undefined, 'p']) {
  const what = progressToken === undefined ? 'as JSON' : 'at the end of its own stream'
  test(`a tool's questions are the answer of its call, ${what}, and the retry with the responses completes it: case 076`, async t => {
    const changes = busSubscriptions()
    const { app, gauges } = await stage(t, createSuite({ info, tools: [greet], subscriptions: changes }), { secrets })
    const client = createTestClient(app)
    t.teardown(async () => { await client.close() })
    const listen = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
    t.match(await take(listen, 1), [{ method: 'notifications/subscriptions/acknowledged' }])
    const before = gauges()

    const send = async (id: number, retry: object) => await call(app, 'tools/call', { name: 'greet', ...retry }, { id, meta: { ...meta, progressToken } })
    const first = await send(1, {})
    const { notifications, answer } = await split(first)
    t.equal(isStream(first), progressToken !== undefined)
    t.strictSame(notifications.map(({ id, method }) => [id, method]), progressToken === undefined ? [] : [[undefined, 'notifications/progress']])
    t.equal(answer.id, 1)
    const { inputRequests, requestState } = await asked(first)
    t.strictSame(Object.entries(inputRequests).map(([key, { method }]) => [key, method]), [
      ['user_name', 'elicitation/create'], ['greeting', 'sampling/createMessage'], ['client_roots', 'roots/list']
    ])
    t.strictSame(gauges(), before, 'the call waits for nothing')

    const second = await split(await send(2, { requestState, inputResponses: responses }))
    t.equal(second.answer.id, 2)
    t.match(second.answer.result, { resultType: 'complete', structuredContent: { action: 'accept', content: { text: 'Hello' }, roots: 1 } })
    changes.toolsChanged()
    t.match(await take(listen, 1), [{ method: 'notifications/tools/list_changed' }], 'nothing of it went out on the listen')
  })
}

test('each question has a key of its own, and keeps it from round to round: MRTR-04', async t => {
  const app = await mount(t, { server: createSuite({ info, tools: [greet] }), secrets })
  const first = await call(app, 'tools/call', { name: 'greet' }, { meta })
  const one = await asked(first)
  const keys = Object.keys(questions)
  t.strictSame(Object.keys(one.inputRequests), keys)
  // In the text itself: a parser would show one of two that share a key.
  for (const key of keys) t.equal(first.payload.split(`${JSON.stringify(key)}:{"method":`).length - 1, 1, key)
  t.equal(new Set(Object.values(one.inputRequests).map(question => JSON.stringify(question))).size, keys.length)

  let { requestState } = one
  for (const [index, key] of keys.slice(0, -1).entries()) {
    const inputResponses = { [key]: responses[key as keyof typeof questions] }
    const next = await asked(await call(app, 'tools/call', { name: 'greet', requestState, inputResponses }, { meta }))
    const open = keys.slice(index + 1)
    t.strictSame(Object.keys(next.inputRequests), open)
    for (const other of open) t.strictSame(next.inputRequests[other], one.inputRequests[other], other)
    requestState = next.requestState
  }
})

test('of a page the tool learns what the user did, and nothing else that a client sends with it', async t => {
  const seen: unknown[] = []
  const connect = defineTool({
    name: 'connect',
    description,
    call (_args, channel) {
      const page = { page: elicitUrl('Connect your account', 'https://example.com/connect/7f3a') }
      const answers = channel.inputResponses(page)
      if (answers === undefined) return inputRequired(page)
      seen.push(answers.page)
      return toolResult.text(answers.page.action)
    }
  })
  const app = await mount(t, { server: createSuite({ info, tools: [connect] }), secrets })
  const { inputRequests, requestState } = await asked(await call(app, 'tools/call', { name: 'connect' }, { meta }))
  t.strictSame(inputRequests, { page: { method: 'elicitation/create', params: { mode: 'url', message: 'Connect your account', url: 'https://example.com/connect/7f3a' } } })
  const page = { action: 'accept', content: { access_token: 'secret' }, access_token: 'secret', _meta: { token: 'secret' } }
  const response = await call(app, 'tools/call', { name: 'connect', requestState, inputResponses: { page } }, { meta })
  t.strictSame(seen, [{ action: 'accept' }])
  t.notMatch(response.payload, 'secret')
})

test('a tool can make its state serve once, on every instance', async t => {
  const used = new Set<string>()
  const paid: string[] = []
  const Payment = Type.Object({ nonce: Type.String() })
  const sure = { sure: elicitForm('Pay?', Type.Object({ sure: Type.Boolean() })) }
  const pay = defineTool({
    name: 'pay',
    description,
    call (_args, channel) {
      const state = channel.requestState(Payment)
      if (state === undefined || channel.inputResponses(sure) === undefined) return inputRequired(sure, { nonce: String(channel.request.id) })
      if (used.size === used.add(state.nonce).size) throw new McpError({ kind: 'requestState' })
      paid.push(state.nonce)
      return toolResult.text('Paid')
    }
  })
  const [one, two] = [await mount(t, { server: createSuite({ info, tools: [pay] }), secrets }), await mount(t, { server: createSuite({ info, tools: [pay] }), secrets })]
  const { requestState } = await asked(await call(one, 'tools/call', { name: 'pay' }, { id: 7, meta }))
  const retry = { name: 'pay', requestState, inputResponses: { sure: accept({ sure: true }) } }
  t.match((await call(two, 'tools/call', retry, { meta })).json<Message>(), { result: { content: [{ text: 'Paid' }] } })
  for (const app of [one, two]) {
    const response = await call(app, 'tools/call', retry, { meta })
    t.equal(response.statusCode, 200)
    t.strictSame(response.json<Message>().error, { code: -32602, message: 'Invalid or expired requestState' })
  }
  t.strictSame(paid, ['7'])
})
