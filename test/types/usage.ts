// Checked by compilers alone, never run: what whoever uses the package may write, and what is refused.
import { EventEmitter } from 'node:events'
import Fastify, { type FastifyRequest } from 'fastify'
import { Type, type Static } from '@sinclair/typebox'
import mqemitter from 'mqemitter'
import genMcp, {
  checkParamHeaders, completeResult, createMessage, defineServer, discoverResult, elicitForm, elicitUrl, fail, getPromptResult, inputRequired, listResourcesResult, listRoots,
  listToolsResult, McpError, messageType, readResourceResult, result, routeRequests, serverInfo, stop, stream, toolResult, withArg,
  type CallToolResult, type Channel, type ErrorReason, type ExchangeEnd, type ExchangeRef, type GenMcpOptions, type McpRequest, type RequestContext, type Server,
  type StandardSchema, type TokenSealer
} from 'fastify-gen-mcp'
import * as moduleServer from './module-server.js'
import { createTestClient, readSse, testExchange } from 'fastify-gen-mcp/testing'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function same<A> () { return <B>(_value: B, _check: Equal<A, B>): void => {} }

const app = Fastify()
type Job = { readonly type: 'progress'; readonly done: number; readonly total: number } | { readonly type: 'finished'; readonly output: string }
declare const queue: { add (ref: ExchangeRef<Job>, args: unknown): Promise<string>; cancel (id: string): Promise<void> }
declare module 'fastify' { interface FastifyRequest { user?: { id: string } } }

// ---- servers

export const jobs = defineServer({
  messages: messageType<Job>(),
  info: { name: 'jobs', version: '1.0.0' },
  capabilities: { tools: {} },
  init: (arg, context) => { same<undefined>()(arg, true); return { user: context.httpRequest.user?.id } },
  handleRequest: {
    'tools/list': () => result(listToolsResult([{ name: 'run', inputSchema: { type: 'object' } }])),
    async 'tools/call' (request, channel, state) {
      same<string | undefined>()(state.user, true)
      const id = await queue.add(channel.ref, request.params.arguments)
      channel.defer(() => queue.cancel(id))
      return stream({ id })
    },
    'subscriptions/listen': (_request, channel) => { channel.acknowledge({}); return stream({ id: '' }) }
  },
  handleMessage (message, channel, state) {
    same<Job>()(message, true)
    same<string>()(state.id, true)
    if (message.type === 'finished') return result(toolResult.text(message.output), { stopReason: 'done' })
    channel.sendProgress(message.done, message.total)
    return stream(state)
  },
  async handleClose (context, state, reason) { context.log.info(reason); await queue.cancel(state.id) },
  handleNotification (notification) { same<string | number>()(notification.params.requestId, true) }
})
same<Server<undefined, { user: string | undefined }, { id: string }, Job>>()(jobs, true)

export const configured = defineServer({
  arg: Type.Object({ greeting: Type.String(), loud: Type.Optional(Type.Boolean()) }),
  setup (fastify, arg) { fastify.log.info(arg.greeting) },
  init (arg, context) { return context.principal === undefined ? stop(new McpError({ kind: 'internal', message: 'who?' })) : { text: arg.greeting } },
  handleRequest (request, _channel, state) {
    switch (request.method) {
      case 'tools/call': return result(toolResult.text(state.text))
      case 'completion/complete': return request.params.ref.type === 'ref/prompt' ? result(completeResult([request.params.ref.name])) : fail('no')
      case 'resources/read': return result(readResourceResult({ uri: request.params.uri, blob: new Uint8Array(1) }, { cache: { scope: 'private', ttlMs: 1 } }))
      case 'prompts/get': return result(getPromptResult([{ role: 'user', content: { type: 'image', data: new Uint8Array(1), mimeType: 'image/png' } }]))
      default: return fail(McpError.unsupportedMethod(request.method))
    }
  }
})
export const annotated = defineServer({
  init: (arg: { readonly table: string }, _context) => arg.table,
  handleRequest: (_request, _channel, state) => result(toolResult.text(state))
})

class Counter {
  #calls = 0
  private readonly step: number
  readonly info = { name: 'counter', version: '1.0.0' }
  constructor (step = 1) { this.step = step }
  init (arg: { readonly start: number }, _context: RequestContext) { return { from: arg.start } }
  async handleRequest (request: McpRequest, channel: Channel<number>, state: { from: number }) {
    if (request.method !== 'tools/call') return fail(McpError.unsupportedMethod(request.method))
    this.#calls++
    channel.after(10, this.step)
    return stream({ at: state.from })
  }

  handleMessage (message: number, channel: Channel<number>, live: { at: number }) {
    channel.sendProgress(message, this.#calls)
    return live.at > 3 ? stop() : stream({ at: live.at + message })
  }
}
class Routed {
  handleRequest = routeRequests({ 'tools/list': (_request, _channel: Channel<Job>) => result(listToolsResult([])) })
}
class Declared implements Server<undefined, null, { a: 1 }, Job> {
  handleRequest (_request: McpRequest, channel: Channel<Job>) { channel.ref.post({ type: 'finished', output: '' }); return stream({ a: 1 as const }) }
}

export async function mounting (options: GenMcpOptions, sealer: TokenSealer) {
  await app.register(genMcp, { prefix: '/mcp', server: jobs })
  await app.register(genMcp, {
    server: jobs, path: '/x', legacy: false, logLevel: 'warn', bodyLimit: 1, constraints: { host: 'a' }, onRequest: async () => {}, preHandler: (_request, _reply, done) => done()
  })
  await app.register(genMcp, {
    server: jobs, tokens: sealer, principal: httpRequest => httpRequest.user?.id, onEnd: (end, httpRequest) => { same<ExchangeEnd>()(end, true); httpRequest.log.info(end.cause) }
  })
  await app.register(genMcp, {
    server: jobs,
    limits: { mailbox: 1, onOverflow: 'dropOldest', sendBuffer: 1, maxConcurrent: 1, maxStreams: 1, maxDuration: 1, drain: 1 },
    secrets: ['a'],
    keepAlive: 1,
    streamAfter: 0,
    heartbeat: 1,
    allowedOrigins: 'any',
    allowedHosts: ['a'],
    sendServerInfo: false
  })
  await app.register(genMcp, { server: jobs, allowedOrigins: async (origin, httpRequest) => origin === httpRequest.headers.host })
  const leftover = { prefix: '/mcp', server: configured, greeting: 'hi' }
  await app.register(genMcp, leftover)
  await app.register(genMcp, { server: [configured, { greeting: 'hi' }] })
  await app.register(genMcp, { server: withArg(configured, { greeting: 'hi' }) })
  await app.register(genMcp, { server: withArg(annotated, { table: 'x' }) })
  await app.register(genMcp, { server: moduleServer })
  await app.register(genMcp, { server: withArg(new Counter(), { start: 1 }) })
  await app.register(genMcp, { server: [new Counter(), { start: 1 }] })
  await app.register(genMcp, { server: new Routed() })
  await app.register(genMcp, { server: new Declared() })
  await app.register(genMcp, options)
  await app.register(genMcp, () => options)
  const h2 = Fastify({ http2: true })
  await h2.register(genMcp, { server: jobs })
  // @ts-expect-error an option nobody takes
  await app.register(genMcp, { server: jobs, keepAliv: 1 })
  // @ts-expect-error wants an arg
  await app.register(genMcp, { server: annotated })
  // @ts-expect-error wants an arg
  await app.register(genMcp, { server: new Counter() })
  // @ts-expect-error wrong arg
  withArg(new Counter(), { start: '1' })
  // @ts-expect-error wrong arg
  withArg(configured, { greeting: 1 })
  // @ts-expect-error no callbacks
  await app.register(genMcp, { server: {} })
  // @ts-expect-error wrong callback
  await app.register(genMcp, { server: { handleRequest: (n: number) => fail(String(n)) } })
  const bus = mqemitter()
  await app.register(genMcp, { server: defineServer({ buses: [bus], handleRequest: {} }), health: '/health', busProbe: { timeout: 1, interval: 0 } })
  await app.register(genMcp, { server: { buses: [bus, mqemitter()], handleRequest: () => fail('no') }, busProbe: false })
  app.addHook('onRequest', async httpRequest => { if (httpRequest.routeOptions.config.mcpHealth !== true) throw new Error('who?') })
  // @ts-expect-error no bus
  await app.register(genMcp, { server: { buses: [new EventEmitter()], handleRequest: () => fail('no') } })
  // @ts-expect-error there is no other value
  await app.register(genMcp, { server: jobs, busProbe: true })
  const gauges = app.mcp.mounts[0]?.gauges()
  gauges?.queuedMessages.toFixed()
  gauges?.busesDown.toFixed()
  // @ts-expect-error the list of mounts is nobody's to change
  app.mcp.mounts.push({ path: '/x', gauges: () => { throw new Error('never') } })
}

// ---- sources

export const sources = defineServer({
  messages: messageType<Job>(),
  handleRequest (_request, channel) {
    const bus = mqemitter()
    channel.watch(Promise.resolve(3), done => ({ type: 'progress', done, total: 3 }))
    channel.watch(signal => fetch('x', { signal }), response => ({ type: 'finished', output: response.statusText }), () => ({ type: 'finished', output: '' }))
    channel.consume([1, 2], { next: done => ({ type: 'progress', done, total: 2 }) })
    channel.on(new EventEmitter(), 'x', (n: number) => ({ type: 'progress', done: n, total: 1 }))
    channel.on(new EventEmitter<{ x: [number] }>(), 'x', (n: number) => ({ type: 'progress', done: n, total: 1 }))
    channel.on(new EventTarget(), 'x', (event: Event) => ({ type: 'finished', output: event.type }))
    channel.subscribe(bus, 'a/+', packet => packet.topic === 'x' ? undefined : ({ type: 'finished', output: packet.topic }))
    channel.subscribe(bus, 'a/+', (packet: { topic: string; job: Job }) => packet.job).stop()
    channel.watch(channel.ref.ended, end => ({ type: 'finished', output: end.cause }))
    channel.header('x-a', 'b')
    channel.ref.post({ type: 'finished', output: '' })
    channel.requireCapability({ elicitation: { url: {} } })
    channel.sendNotification({ method: 'notifications/resources/updated', params: { uri: 'a' } })
    channel.sendNotification({ extension: 'com.example/x', method: 'notifications/x', params: { a: 1 } })
    // @ts-expect-error no uri
    channel.sendNotification({ method: 'notifications/resources/updated' })
    // @ts-expect-error wrong message
    channel.ref.post({ type: 'progres' })
    // @ts-expect-error wrong message
    channel.watch(Promise.resolve(3), done => ({ type: 'progress', done: String(done), total: 3 }))
    // @ts-expect-error the arguments of an event are unknown until they are said
    channel.on(new EventEmitter(), 'x', n => ({ type: 'progress', done: n, total: 1 }))
    // @ts-expect-error no such level
    channel.sendLog('loud', 'x')
    return stream({ left: 1 })
  },
  // @ts-expect-error wrong live state
  handleMessage: (_message, _channel, _state) => stream({ left: 'one' })
})

// ---- outcomes

export const wrongResults = defineServer({
  handleRequest: {
    // @ts-expect-error the result of another method
    'tools/call': () => result(listToolsResult([])),
    // @ts-expect-error only three methods may ask for input
    'tools/list': () => inputRequired({}, 1),
    // @ts-expect-error a listen has no result
    'subscriptions/listen': () => result(toolResult.text('x'))
  }
})
// @ts-expect-error the result of another method
routeRequests({ 'prompts/get': () => result(toolResult.text('x')) })
export const wrongMethod = defineServer({
  handleRequest: {
    // @ts-expect-error no such method
    'tools/cal': () => result(toolResult.text('x'))
  }
})
export const wrongStop = defineServer({
  // @ts-expect-error stop is not an outcome of handleRequest
  handleRequest: () => stop()
})
export const wrongObject = defineServer({
  // @ts-expect-error a plain object is no outcome
  handleRequest: () => ({ type: 'result', result: toolResult.text('x') })
})

// ---- asking

declare const numbers: StandardSchema<{ n: number }>

export const remove = defineServer({
  handleRequest: {
    'tools/call' (_request, channel) {
      const questions = {
        confirm: elicitForm('Delete?', Type.Object({ sure: Type.Boolean(), why: Type.Optional(Type.String()) })),
        form: elicitForm('x', numbers),
        page: elicitUrl('x', 'https://x'),
        model: createMessage({ messages: [], maxTokens: 1 }),
        roots: listRoots()
      }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions, { asked: 1 })
      same<'accept' | 'decline' | 'cancel'>()(answers.confirm.action, true)
      const kept = channel.requestState(Type.Object({ asked: Type.Number() }))
      same<number | undefined>()(kept?.asked, true)
      if (answers.form.action === 'accept') answers.form.content.n.toFixed()
      answers.model.model.trim()
      answers.roots.roots.length.toFixed()
      answers.page.action.trim()
      // @ts-expect-error content is there on accept alone
      same<unknown>()(answers.confirm.content, true)
      // @ts-expect-error no such question
      same<unknown>()(answers.other, true)
      if (answers.confirm.action !== 'accept') return result(toolResult.text('kept'))
      same<string | undefined>()(answers.confirm.content.why, true)
      return result(answers.confirm.content.sure ? toolResult.text('gone') : toolResult.text('kept'))
    }
  }
})

// ---- helpers and tests of whoever uses it

export async function more (httpRequest: FastifyRequest) {
  const called: CallToolResult = toolResult.data({ a: 1 })
  checkParamHeaders(
    { type: 'object' },
    { method: 'tools/call', id: 1, params: { name: 'x', arguments: {} }, meta: { protocolVersion: '2026-07-28', clientCapabilities: {}, extra: {} } },
    httpRequest
  )
  const client = createTestClient(app)
  const answer = await client.request('tools/call', { name: 'hello', arguments: { name: 'x' } }, { respond: () => ({ action: 'accept', content: { sure: true } }) })
  if (answer.result?.resultType === 'complete') answer.result.content.length.toFixed()
  const live = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true } })
  for await (const notification of live) { same<boolean>()(notification['method'] === 'x', true); live.vanish() }
  const exchange = testExchange(jobs, 'tools/call', { name: 'run', arguments: {} })
  exchange.ref.post({ type: 'finished', output: 'x' })
  // @ts-expect-error wrong message
  exchange.ref.post({ type: 'x' })
  const counting = testExchange(new Counter(), 'tools/call', { name: 'run', arguments: {} }, { arg: { start: 1 } })
  counting.ref.post(1)
  // @ts-expect-error params of another method
  testExchange(jobs, 'tools/call', { uri: 'x' })
  for await (const event of readSse(process.stdin)) same<string>()(event.event, true)
  return [called, listResourcesResult([]), discoverResult({ tools: {} }), serverInfo({ name: 'a', version: '1' })]
}
export const config = Type.Object({ a: Type.String() })
export type Config = Static<typeof config>
export const reason: ErrorReason = { kind: 'custom', rpcCode: -31000, message: 'x', data: { a: 1 } }
// @ts-expect-error a kind without what it is about
export const halfReason: ErrorReason = { kind: 'unknownTool' }
