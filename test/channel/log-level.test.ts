import { test, type Test } from 'tap'
import { Value } from '@sinclair/typebox/value'
import { result, toolResult, type JsonValue, type LogLevel } from 'fastify-gen-mcp'
import { isLogged } from '../../lib/channel/log-level.js'
import { LoggingMessageNotification } from '../../lib/protocol/index.js'
import { call, mount } from '../helpers/mount.js'
import { isStream, messagesOf, split } from '../helpers/messages.js'
import { bareServer, toolServer } from '../helpers/servers.js'
import type { FastifyInstance } from 'fastify'

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'
const levels: readonly LogLevel[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

/** A tool that logs one message of each level, and tells what came of it. */
const chatty = toolServer((_request, channel) => result(toolResult.data(levels.map(level => channel.sendLog(level, level)))))

/** The messages of one call. */
async function messagesAt (app: FastifyInstance, level?: LogLevel) {
  return await messagesOf(await call(app, 'tools/call', { name: 'tool' }, { meta: level === undefined ? {} : { [LOG_LEVEL]: level } }))
}

/** The message that a tool logs, at level 'info', of a thing. */
async function logged (t: Test, data: unknown, logger?: string) {
  const [message] = await messagesAt(await mount(t, { server: logging(data, logger) }), 'info')
  return message
}

/** A tool that logs one thing. */
function logging (data: unknown, logger?: string) {
  return toolServer((_request, channel) => {
    channel.sendLog('info', data, logger)
    return result(toolResult.text('done'))
  })
}

test('levels stand in the order of syslog: LOG-04', async t => {
  for (const [severity, level] of levels.entries()) {
    for (const [least, wanted] of levels.entries()) t.equal(isLogged(level, wanted), severity >= least, `${level} for ${wanted}`)
  }
})

test('a level that does not exist is never logged, and lets nothing through', async t => {
  for (const name of ['verbose', '', 'Error', 'constructor', '__proto__']) {
    for (const level of levels) {
      t.notOk(isLogged(name as LogLevel, level))
      t.notOk(isLogged(level, name as LogLevel))
    }
    t.notOk(isLogged(name as LogLevel, name as LogLevel))
  }
})

test('messages at the level that the request names, or above it, are sent: LOG-04', async t => {
  const app = await mount(t, { server: chatty })
  for (const [least, wanted] of levels.entries()) {
    const { notifications, answer } = await split(await call(app, 'tools/call', { name: 'tool' }, { meta: { [LOG_LEVEL]: wanted } }))
    t.strictSame(notifications.map(({ params }) => params?.['level']), levels.slice(least))
    t.strictSame(answer.result?.['structuredContent'], levels.map((_, severity) => severity >= least ? 'sent' : 'filtered'))
  }
})

test('a request that names no level gets no messages, and its answer stays JSON: LOG-03', async t => {
  const response = await call(await mount(t, { server: chatty }), 'tools/call', { name: 'tool' })
  t.notOk(isStream(response))
  t.strictSame(response.json().result.structuredContent, levels.map(() => 'filtered'))
})

test('messages go out ahead of the answer, on the stream of the request that asked: LOG-05', async t => {
  const app = await mount(t, { server: chatty })
  const [all, none, few] = await Promise.all([messagesAt(app, 'debug'), messagesAt(app), messagesAt(app, 'alert')])
  t.strictSame([all.length, none.length, few.length], [9, 1, 3])
  for (const messages of [all, none, few]) t.ok(messages.at(-1)?.result)
  // LOG-10: the level of an earlier request is not kept.
  t.equal((await messagesAt(app)).length, 1)
})

test('a level that does not exist is refused: LOG-06', async t => {
  const app = await mount(t, { server: chatty })
  for (const level of ['verbose', '', 'ERROR', 0, null, {}]) {
    const response = await call(app, 'tools/call', { name: 'tool' }, { meta: { [LOG_LEVEL]: level } })
    t.equal(response.statusCode, 400)
    t.match(response.json(), { error: { code: -32602 } }, JSON.stringify(level))
  }
})

test('a server that does not declare logging sends no messages: LOG-02', async t => {
  const { capabilities: _, ...rest } = chatty
  const quiet = { ...rest, capabilities: { tools: {} } }
  const response = await call(await mount(t, { server: quiet }), 'tools/call', { name: 'tool' }, { meta: { [LOG_LEVEL]: 'debug' } })
  t.notOk(isStream(response))
  const app = await mount(t, { server: { ...rest, capabilities: () => ({ tools: {}, logging: {} }) } })
  t.equal((await messagesAt(app, 'alert')).length, 3, 'one that declares it for this request does')
  t.match((await call(app, 'server/discover')).json(), { result: { capabilities: { logging: {} } } })
})

test('a server that declares nothing to us speaks for itself', async t => {
  const app = await mount(t, {
    server: bareServer((_request, channel) => {
      channel.sendLog('alert', 'x')
      return result(toolResult.text('done'))
    })
  })
  t.equal((await messagesAt(app, 'debug')).length, 2)
})

test('a message has its level, its data as it is, and its logger: LOG-07', async t => {
  const values: JsonValue[] = ['text', '', 0, -1.5, true, false, null, [], {}, { a: [null, { b: 'ü' }] }]
  for (const data of values) {
    for (const logger of [undefined, 'db', '']) {
      const message = await logged(t, data, logger)
      t.strictSame(message, { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data, ...(logger !== undefined && { logger }) } })
      t.ok(Value.Check(LoggingMessageNotification, message))
    }
  }
})

test('data that has no JSON goes out as text', async t => {
  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  const cases: [data: unknown, text: RegExp][] = [
    [undefined, /^undefined$/], [1n, /^1$/], [Symbol('s'), /^Symbol\(s\)$/], [() => 'x', /'x'/], [cycle, /./], [{ big: 1n }, /./]
  ]
  for (const [data, text] of cases) t.match(await logged(t, data), { params: { data: text } })
})

test('data that JSON would turn into something else goes out as text', async t => {
  const cases: [data: unknown, text: RegExp][] = [[NaN, /^NaN$/], [-Infinity, /^-Infinity$/], [new Error('out of paper'), /out of paper/]]
  for (const [data, text] of cases) t.match(await logged(t, data), { params: { data: text } })
})

test('a client that takes JSON alone gets no messages', async t => {
  const jsonOnly = { meta: { [LOG_LEVEL]: 'debug' }, headers: { accept: 'application/json' } }
  const response = await call(await mount(t, { server: chatty }), 'tools/call', { name: 'tool' }, jsonOnly)
  t.strictSame(response.json().result.structuredContent, levels.map(() => 'filtered'))
})
