import { EventEmitter, once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { test, type Test } from 'tap'
import { createTestClient, type TestClient } from 'fastify-gen-mcp/testing'
import * as ask from '../examples/ask.js'
import * as auth from '../examples/auth.js'
import * as calculator from '../examples/calculator.js'
import * as deploy from '../examples/deploy.js'
import * as jobs from '../examples/jobs.js'
import * as live from '../examples/live.js'
import * as memory from '../examples/memory.js'
import * as progress from '../examples/progress.js'
import { Queue, type Render } from '../examples/queue.js'
import * as quota from '../examples/quota.js'
import * as replicas from '../examples/replicas.js'
import * as roles from '../examples/roles.js'
import { startIfMain } from '../examples/start.js'
import * as streaming from '../examples/streaming.js'
import * as subscribe from '../examples/subscribe.js'
import { callServer, callThroughApp } from '../examples/testing.js'
import * as twoMounts from '../examples/two-mounts.js'
import { open, read, readStream, send } from './legacy/helpers.js'
import type { FastifyInstance } from 'fastify'

const examples = new URL('../examples/', import.meta.url)
const driven = [
  'ask', 'auth', 'calculator', 'deploy', 'jobs', 'live', 'memory', 'progress', 'quota', 'replicas', 'roles', 'streaming', 'subscribe', 'two-mounts'
]

test('every example that builds an app is driven by a test of this file', async t => {
  const files = (await readdir(examples)).filter(file => file.endsWith('.ts'))
  const texts = await Promise.all(files.map(async file => ({ file, text: await readFile(new URL(file, examples), 'utf8') })))
  const built = texts.filter(({ text }) => text.includes('function build (')).map(({ file }) => file.replace('.ts', ''))
  t.same(built.sort(), driven)
  for (const { file, text } of texts.filter(({ file }) => driven.includes(file.replace('.ts', '')))) {
    t.match(text, /startIfMain\(import\.meta\.url, /, `${file} listens when it is run`)
  }
})

test('memory: notes are kept, read, completed, told of, and forgotten when the user agrees', async t => {
  const app = await memory.build()
  const client = connect(t, app)
  const listen = await client.open('subscriptions/listen', { notifications: { resourcesListChanged: true } })
  const told = listen[Symbol.asyncIterator]()
  t.match((await told.next()).value, { params: { notifications: { resourcesListChanged: true } } })

  t.match((await client.request('tools/call', { name: 'remember', arguments: { title: 'No Title', text: '' } })).result, { isError: true, content: [{ text: /\/title must match pattern/ }] })
  const kept = await client.request('tools/call', { name: 'remember', arguments: { title: 'milk', text: 'Buy milk.' } })
  t.match(kept.result, { structuredContent: { notes: 1 }, content: [{ text: '{"notes":1}' }] })
  t.match((await told.next()).value, { method: 'notifications/resources/list_changed' })

  t.match((await client.request('resources/list', {})).result, { resources: [{ uri: 'note://milk', name: 'milk' }] })
  t.match((await client.request('resources/read', { uri: 'note://milk' })).result, { contents: [{ text: 'Buy milk.' }] })
  t.match((await client.request('resources/read', { uri: 'note://bread' })).error, { code: -32602, data: { uri: 'note://bread' } })
  t.match((await client.request('prompts/get', { name: 'summarize', arguments: { title: 'milk' } })).result, { messages: [{ content: { text: 'Summarize: Buy milk.' } }] })
  t.match((await client.request('prompts/get', { name: 'summarize', arguments: { title: 'bread' } })).result, { messages: [{ content: { text: 'Summarize: ' } }] })
  const completion = { ref: { type: 'ref/resource', uri: 'note://{title}' }, argument: { name: 'title', value: 'm' }, context: { arguments: {} } } as const
  t.match((await client.request('completion/complete', completion)).result, { completion: { values: ['milk'] } })

  const forget = async (title: string, really: boolean) => (await client.request('tools/call', { name: 'forget', arguments: { title } }, {
    capabilities: { elicitation: {} }, respond: () => ({ action: 'accept', content: { really } })
  })).result
  t.match(await forget('milk', false), { content: [{ text: 'Kept.' }] })
  t.match(await forget('milk', true), { content: [{ text: 'Forgotten.' }] })
  t.match(await forget('milk', true), { isError: true })
  listen.vanish()
})

test('memory: nobody is asked about a note that is not there, or without being able to say no', async t => {
  const client = connect(t, await memory.build())
  const options = { capabilities: { elicitation: { form: {} } } }
  await client.request('tools/call', { name: 'remember', arguments: { title: 'tea', text: 'Buy tea.' } })
  const forget = { name: 'forget', arguments: { title: 'tea' } }

  t.match((await client.request('tools/call', { name: 'forget', arguments: { title: 'none' } }, options)).result, { resultType: 'complete', isError: true })
  for (const title of ['tea', 'none']) { // before the tool looks for it
    const mute = await client.request('tools/call', { name: 'forget', arguments: { title } })
    t.match(mute, { statusCode: 400, error: { code: -32021, data: { requiredCapabilities: { elicitation: { form: {} } } } } })
  }
  t.match((await client.request('tools/call', forget, options)).result, { resultType: 'input_required', inputRequests: { sure: { params: { message: 'Forget tea?' } } } })
  for (const action of ['decline', 'cancel']) {
    t.match((await client.request('tools/call', forget, { ...options, respond: () => ({ action }) })).result, { content: [{ text: 'Kept.' }] })
  }
  t.match((await client.request('resources/read', { uri: 'note://tea' })).result, { contents: [{ text: 'Buy tea.' }] })
  t.match((await client.request('tools/list', {})).result, { tools: [{ name: 'remember' }, { name: 'forget', annotations: { destructiveHint: true } }] })
  await client.request('tools/call', forget, { ...options, respond: () => ({ action: 'accept', content: { really: true } }) })
  t.match((await client.request('resources/read', { uri: 'note://tea' })).error, { code: -32602 })
})

test('roles: what a caller may not use is not listed, and no different from what is not there: case 089', async t => {
  const app = await roles.build()
  const clerk = connect(t, app, { authorization: 'Bearer clerk-token' })
  const manager = connect(t, app, { authorization: 'Bearer manager-token' })
  t.match(await connect(t, app).request('tools/list', {}), { statusCode: 401, error: { message: 'A bearer token is needed' } })

  const toolNames = async (client: TestClient): Promise<unknown> => {
    const { result } = await client.request('tools/list', {})
    t.match(result, { cacheScope: 'private' }, 'for nobody else to be shown')
    // That of a list, which asks for nothing.
    return (result as unknown as { tools: { name: string }[] }).tools.map(({ name }) => name)
  }
  t.same(await toolNames(clerk), ['order-status'])
  t.same(await toolNames(manager), ['order-status', 'refund'])
  t.match((await clerk.request('resources/list', {})).result, { resources: [] })
  t.match((await manager.request('resources/list', {})).result, { resources: [{ uri: 'report://today' }] })

  // Everything but the time that it came, with the name that was asked for taken out.
  const answerTo = async (asked: string, answer: ReturnType<TestClient['request']>): Promise<unknown> => {
    const { date: _, 'content-length': __, ...headers } = (await answer).headers
    return JSON.parse(JSON.stringify({ ...await answer, headers }).replaceAll(asked, 'asked')) as unknown
  }
  const [hidden, unknown] = await Promise.all(['refund', 'nothing'].map(async name =>
    await answerTo(name, clerk.request('tools/call', { name, arguments: { id: '1' } }))))
  t.match(hidden, { error: { code: -32602, data: { tool: 'asked' } } })
  t.same(hidden, unknown)
  const [secret, missing] = await Promise.all(['report://today', 'report://never'].map(async uri => await answerTo(uri, clerk.request('resources/read', { uri }))))
  t.match(secret, { error: { code: -32602, data: { uri: 'asked' } } })
  t.same(secret, missing)

  t.match((await manager.request('resources/read', { uri: 'report://today' })).result, { contents: [{ text: '2 orders' }] })
  t.match((await manager.request('resources/read', { uri: 'report://never' })).error, { code: -32602 })
  t.match((await clerk.request('tools/call', { name: 'order-status', arguments: { id: '1' } })).result, { content: [{ text: 'open' }] })
  t.match((await manager.request('tools/call', { name: 'refund', arguments: { id: '1' } })).result, { content: [{ text: 'Refunded.' }] })
  t.match((await clerk.request('tools/call', { name: 'order-status', arguments: { id: '1' } })).result, { content: [{ text: 'refunded' }] })
  t.match((await clerk.request('tools/call', { name: 'order-status', arguments: { id: '9' } })).result, { content: [{ text: 'There is no such order.' }] })
})

test('quota: a caller past its calls is answered 429 with Retry-After, and served again later; lists are free: TOOL-31, case 093', async t => {
  const clock = { now: 1_000_000 }
  const app = await quota.build({}, () => clock.now)
  const convert = { name: 'convert', arguments: { euros: 2 } }
  const [ada, bob, nobody] = [connect(t, app, { 'x-api-key': 'key-of-ada' }), connect(t, app, { 'x-api-key': 'key-of-bob' }), connect(t, app)]
  for (let i = 0; i < 2; i++) t.match(await ada.request('tools/call', convert), { statusCode: 200, result: { structuredContent: { dollars: 3 } } })
  clock.now += 18_500
  for (const options of [{}, { progressToken: 1 }]) {
    const refused = await ada.request('tools/call', convert, options)
    t.equal(refused.statusCode, 429)
    t.match(refused.headers, { 'retry-after': '42', 'content-type': /^application\/json/ })
    t.match(refused.error, { code: 429, message: 'Try again in 42 s', data: { retryAfter: 42 } })
  }
  for (let i = 0; i < 5; i++) t.equal((await ada.request('tools/list', {})).statusCode, 200)
  t.equal((await bob.request('tools/call', convert)).statusCode, 200, 'another caller has its own')
  t.same((await Promise.all([1, 2, 3].map(async () => await nobody.request('tools/call', convert)))).map(({ statusCode }) => statusCode).sort(), [200, 200, 429])

  clock.now += 41_500
  t.equal((await ada.request('tools/call', convert)).statusCode, 200)
})

test('quota: each request is one line of the audit, with who, what and how it went: case 091', async t => {
  const lines: { readonly msg: string, readonly ms?: number }[] = []
  const app = await quota.build({ logger: { stream: { write: (line: string) => { lines.push(JSON.parse(line) as typeof lines[number]) } } } })
  const client = connect(t, app, { 'x-api-key': 'key-of-ada' })
  await client.request('tools/list', {})
  for (const euros of [2, -1, 3]) await client.request('tools/call', { name: 'convert', arguments: { euros } })
  const audit = lines.filter(({ msg }) => msg === 'audit')
  const common = { caller: 'ada', method: 'tools/call', name: 'convert', reqId: /./ }
  t.match(audit, [
    { caller: 'ada', method: 'tools/list', outcome: 'complete' },
    { ...common, outcome: 'complete' },
    { ...common, outcome: 'failed' },
    { ...common, outcome: 'MCP_ERR_CUSTOM' }
  ])
  t.equal(audit.length, 4)
  for (const { ms = -1 } of audit) t.ok(ms >= 0 && ms < 60_000)
  t.notMatch(JSON.stringify(audit), 'euros', 'no arguments')
})

test('progress: what a generator yields comes before its answer, as far as the client asked for it', async t => {
  const client = connect(t, await progress.build())
  const call = { name: 'import', arguments: { lines: ['1.50', 'free', '2'] } }
  const all = await client.request('tools/call', call, { progressToken: 'p', logLevel: 'info' })
  t.match(all.headers, { 'content-type': 'text/event-stream' })
  t.match(all.notifications, [
    { method: 'notifications/progress', params: { progressToken: 'p', progress: 1, total: 3, message: '1.50' } },
    { method: 'notifications/message', params: { level: 'warning', data: { line: 2, problem: 'is no price' } } },
    { method: 'notifications/progress', params: { progress: 2, message: 'free' } },
    { method: 'notifications/progress', params: { progress: 3 } }
  ])
  t.equal(all.notifications.length, 4)
  t.match(all.result, { structuredContent: { imported: 2, skipped: 1 } })

  const logs = await client.request('tools/call', call, { logLevel: 'warning' })
  t.same(logs.notifications.map(({ method }) => method), ['notifications/message'])
  const silent = await client.request('tools/call', call, { logLevel: 'error' })
  t.match(silent.headers, { 'content-type': /^application\/json/ })
  t.match(silent.result, { structuredContent: { imported: 2, skipped: 1 } })
})

test('progress: a client that leaves ends the generator, and what it held is given up', async t => {
  const closed = new EventEmitter()
  const store: progress.Store = {
    // The second line takes for ever.
    add: async (line, signal) => {
      if (line === 'second') await once(signal, 'abort').then(() => { throw signal.reason })
      return true
    },
    close: complete => { closed.emit('close', complete) }
  }
  const client = connect(t, await progress.build({}, () => store))
  const complete = once(closed, 'close')
  await client.request('tools/call', { name: 'import', arguments: { lines: ['first'] } })
  t.same(await complete, [true])

  const givenUp = once(closed, 'close')
  const stream = await client.open('tools/call', { name: 'import', arguments: { lines: ['first', 'second'] } }, { progressToken: 1 })
  t.match((await stream[Symbol.asyncIterator]().next()).value, { params: { progress: 1, total: 2 } })
  stream.vanish()
  t.same(await givenUp, [false])
})

test('live: what the API changes is told to those who listen, and so is a tool that comes or goes', async t => {
  const app = await live.build()
  const client = connect(t, app)
  const put = async (url: string, payload: object): Promise<void> => { t.equal((await app.inject({ method: 'PUT', url, payload })).statusCode, 200) }
  const ofTea = await client.open('subscriptions/listen', { notifications: { resourceSubscriptions: ['shop://items/tea'] } })
  const ofLists = await client.open('subscriptions/listen', { notifications: { toolsListChanged: true, resourcesListChanged: true } })
  const [tea, lists] = [ofTea[Symbol.asyncIterator](), ofLists[Symbol.asyncIterator]()]
  t.match((await tea.next()).value, { method: 'notifications/subscriptions/acknowledged', params: { notifications: { resourceSubscriptions: ['shop://items/tea'] } } })
  t.match((await lists.next()).value, { params: { notifications: { toolsListChanged: true, resourcesListChanged: true } } })

  await put('/items/rice', { left: 4 })
  await put('/items/tea', { left: 2 })
  t.match((await tea.next()).value, { method: 'notifications/resources/updated', params: { uri: 'shop://items/tea' } }, 'and nothing of rice')
  t.match((await client.request('resources/read', { uri: 'shop://items/tea' })).result, { contents: [{ text: '2 left' }] })

  const bread = 'Bread%20%26%20Butter'
  await put(`/items/${bread}`, { left: 1 })
  t.match((await lists.next()).value, { method: 'notifications/resources/list_changed' })
  t.match((await client.request('resources/list', {})).result, { resources: [{}, {}, { uri: `shop://items/${bread}`, name: 'Bread & Butter' }] })
  t.match((await client.request('resources/read', { uri: `shop://items/${bread}` })).result, { contents: [{ text: '1 left' }] })
  t.match((await client.request('resources/read', { uri: 'shop://items/none' })).error, { code: -32602 })

  t.match((await client.request('tools/list', {})).result, { tools: { length: 0 } })
  await put('/sale', { open: true })
  t.match((await lists.next()).value, { method: 'notifications/tools/list_changed' })
  t.match((await client.request('tools/list', {})).result, { tools: [{ name: 'discount' }] })
  t.match((await client.request('tools/call', { name: 'discount', arguments: { count: 3 } })).result, { content: [{ text: '15 %' }] })
  await put('/sale', { open: false })
  t.match((await lists.next()).value, { method: 'notifications/tools/list_changed' })
  t.match((await client.request('tools/call', { name: 'discount', arguments: { count: 3 } })).error, { code: -32602 })
})

test('replicas: a session of 2025 is served by two apps, questions, changes and its end included, and by pages: cases 001, 055, 056', async t => {
  const shared = replicas.createShared()
  const [a, b] = [await replicas.build({}, shared), await replicas.build({}, shared)]
  const ports = await Promise.all([a, b].map(async app => {
    t.teardown(async () => { await app.close() })
    return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  })) as [number, number]
  const session = await open(a, '2025-11-25', { capabilities: { elicitation: {} } })
  const standing = await readStream(t, ports[1], session)
  t.match((await session.request('resources/subscribe', { uri: 'table://7' })).json(), { result: {} })

  const book = async (id: number, really: boolean) => {
    const call = await read(t, ports[0], 'POST', session.compose('tools/call', { name: 'book', arguments: { table: '7', name: 'Ada' } }, { id }))
    const question = await call.message()
    t.match(question, { method: 'elicitation/create', params: { message: 'Book table 7 for Ada?' } })
    t.equal((await send(b, { jsonrpc: '2.0', id: question.id, result: { action: 'accept', content: { really } } }, session.headers)).statusCode, 202)
    return await call.message()
  }
  t.match(await book(1, false), { id: 1, result: { content: [{ text: 'Not booked.' }] } })
  t.match(await book(2, true), { id: 2, result: { content: [{ text: 'Booked.' }] } })
  t.match(await standing.message(), { method: 'notifications/resources/updated', params: { uri: 'table://7' } })
  const readTable = { jsonrpc: '2.0', id: 3, method: 'resources/read', params: { uri: 'table://7' } }
  t.match((await send(b, readTable, session.headers)).json(), { result: { contents: [{ text: 'taken' }] } })
  t.equal((await b.inject({ method: 'DELETE', url: '/mcp', headers: session.headers })).statusCode, 204)
  t.equal((await send(a, readTable, session.headers)).statusCode, 404)
  await standing.closed

  const client = connect(t, b)
  const options = { capabilities: { elicitation: {} }, respond: () => ({ action: 'accept', content: { really: true } }) }
  t.match((await client.request('tools/call', { name: 'book', arguments: { table: '8', name: 'Bob' } }, options)).result, { content: [{ text: 'Booked.' }] })
  t.match((await client.request('resources/read', { uri: 'table://9' })).result, { contents: [{ text: 'free' }] })

  const origin = 'https://app.example.com'
  const asked = 'authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-param-region,mcp-protocol-version,mcp-session-id'
  for (const method of ['GET', 'POST', 'DELETE']) {
    const preflight = { origin, 'access-control-request-method': method, 'access-control-request-headers': asked }
    const { statusCode, headers } = await a.inject({ method: 'OPTIONS', url: '/mcp', headers: preflight })
    t.equal(statusCode, 204)
    t.match(headers, { 'access-control-allow-origin': origin, 'access-control-allow-methods': RegExp(method), 'access-control-allow-headers': asked })
  }
  t.match((await open(a, '2025-06-18', { headers: { origin } })).opened.headers, { 'access-control-expose-headers': /mcp-session-id/ })
})

test('calculator: tools are listed and called, and what does not fit is told to the model', async t => {
  const client = connect(t, await calculator.build())
  const { result: listed } = await client.request('tools/list', {})
  t.match(listed, { resultType: 'complete', tools: [{ name: 'add' }, { name: 'multiply' }] })

  const { statusCode, result } = await client.request('tools/call', { name: 'add', arguments: { a: 2, b: 3 } })
  t.equal(statusCode, 200)
  t.match(result, { content: [{ type: 'text', text: '5' }], structuredContent: 5, _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'calculator' } } })

  const unfit = await client.request('tools/call', { name: 'add', arguments: { a: 2, b: 'three' } })
  t.match(unfit.result, { isError: true, content: [{ text: 'a and b must be numbers' }] })
  const unknown = await client.request('tools/call', { name: 'pow', arguments: {} })
  t.match(unknown.error, { code: -32602, data: { tool: 'pow' } })
})

test('calculator: run by itself it listens, and the curl line that it prints is answered', async t => {
  const file = new URL('calculator.ts', examples)
  const app = await calculator.build()
  t.teardown(async () => { await app.close() })
  t.equal(await startIfMain(file.href, async () => app), undefined, 'imported it does not listen')

  const { argv: [, ownFile = ''], env: { PORT: ownPort } } = process
  t.teardown(() => {
    process.argv[1] = ownFile
    if (ownPort === undefined) delete process.env['PORT']
    else process.env['PORT'] = ownPort
  })
  process.argv[1] = fileURLToPath(file)
  process.env['PORT'] = '0'
  const address = await startIfMain(file.href, async () => app)
  const { url, ...init } = readCurl(calculator.curl(`${address}/mcp`))
  const response = await fetch(url, { method: 'POST', ...init })
  t.equal(response.status, 200)
  t.match(await response.json(), { id: 1, result: { structuredContent: 5 } })
})

test('jobs: a job reports progress to the request that ordered it, and its output is the answer', async t => {
  const queue = new Queue(async page => `page ${page}`)
  const client = connect(t, await jobs.build({}, queue))
  const { headers, notifications, result } = await client.request('tools/call', { name: 'render', arguments: { pages: 2 } }, { progressToken: 'p' })
  t.match(headers, { 'content-type': 'text/event-stream' })
  t.match(notifications, [{ params: { progressToken: 'p', progress: 1, total: 2 } }, { params: { progress: 2, total: 2 } }])
  t.match(result, { content: [{ text: 'page 1\npage 2' }] })
  t.equal(queue.length, 0)
})

test('jobs: a job that fails is a tool error', async t => {
  const queue = new Queue(async () => { throw new Error('no paper') })
  const client = connect(t, await jobs.build({}, queue))
  const { result } = await client.request('tools/call', { name: 'render', arguments: { pages: 1 } })
  t.match(result, { isError: true, content: [{ text: 'Error: no paper' }] })
})

test('jobs: a client that leaves cancels its job, and the next job goes on', async t => {
  const rendering = new EventEmitter()
  const render: Render = async (page, signal) => {
    if (page === 1) return 'page 1'
    rendering.emit('second', signal)
    return await new Promise((_resolve, reject) => { signal.addEventListener('abort', () => { reject(signal.reason) }) })
  }
  const queue = new Queue(render)
  const client = connect(t, await jobs.build({}, queue))
  const second = once(rendering, 'second')
  const stream = await client.open('tools/call', { name: 'render', arguments: { pages: 2 } }, { progressToken: 1 })
  const { value: progress } = await stream[Symbol.asyncIterator]().next()
  t.match(progress, { params: { progress: 1, total: 2 } })
  const [signal] = await second as [AbortSignal]
  const waiting = client.request('tools/call', { name: 'render', arguments: { pages: 1 } })
  stream.vanish()
  await aborted(signal)
  t.match((await waiting).result, { content: [{ text: 'page 1' }] })
})

test('streaming: progress and a log come before the answer, if the client asked for them', async t => {
  const client = connect(t, await streaming.build())
  const { notifications, result } = await client.request('tools/call', { name: 'count-words', arguments: {} }, { progressToken: 7, logLevel: 'info' })
  t.match(notifications, [
    { method: 'notifications/progress', params: { progressToken: 7, progress: 1, total: 3, message: 'chapter 1' } },
    { params: { progress: 2 } },
    { params: { progress: 3 } },
    { method: 'notifications/message', params: { level: 'info', data: { words: 6 } } }
  ])
  t.match(result, { structuredContent: { words: 6 } })

  const silent = await client.request('tools/call', { name: 'count-words', arguments: {} })
  t.match(silent.headers, { 'content-type': /^application\/json/ })
  t.same(silent.notifications, [])
})

test('streaming: a source feeds the mailbox line by line', async t => {
  const client = connect(t, await streaming.build())
  const { notifications, result } = await client.request('tools/call', { name: 'read-lines', arguments: {} }, { progressToken: 7 })
  const lines = (await readFile(new URL('streaming.ts', examples), 'utf8')).trimEnd().split('\n')
  t.ok(notifications.length > 10)
  t.match(result, { content: [{ text: `${notifications.length} lines` }] })
  t.match(notifications[0], { params: { progress: 1, message: lines[0] } })
})

test('streaming: an unknown tool is refused', async t => {
  const client = connect(t, await streaming.build())
  t.match((await client.request('tools/list', {})).result, { tools: [{ name: 'count-words' }, { name: 'read-lines' }] })
  t.match((await client.request('tools/call', { name: 'sing', arguments: {} })).error, { code: -32602 })
})

test('auth: without a token the mount answers 401 and the rest of the app stays public', async t => {
  const app = await auth.build()
  const client = connect(t, app)
  const stranger = await client.request('tools/call', { name: 'whoami', arguments: {} })
  t.match(stranger, { statusCode: 401, headers: { 'www-authenticate': 'Bearer' }, error: { code: -32600, message: 'A bearer token is needed' } })
  const wrong = await client.request('tools/list', {}, { headers: { authorization: 'Bearer token-of-eve' } })
  t.equal(wrong.statusCode, 401)
  t.match((await app.inject('/health')).json(), { ok: true })
})

test('auth: a tool sees the user that a hook found, the principal and the headers, as JSON and in a stream (field case 090)', async t => {
  const client = connect(t, await auth.build(), { authorization: 'Bearer token-of-ada', 'x-tenant': 'acme' })
  const json = await client.request('tools/call', { name: 'whoami', arguments: {} })
  t.match(json.headers, { 'content-type': /^application\/json/ })
  t.match(json.result, { structuredContent: { name: 'Ada', principal: 'u1', tenant: 'acme' } })

  const sse = await client.request('tools/call', { name: 'whoami', arguments: {} }, { progressToken: 1, headers: { authorization: 'bearer token-of-bob' } })
  t.match(sse.headers, { 'content-type': 'text/event-stream' })
  t.match(sse.result, { structuredContent: { name: 'Bob', principal: 'u2', tenant: 'acme' } })
})

test('two mounts: each serves what it was bound to, beside the API that shares their data', async t => {
  const app = await twoMounts.build()
  const readers = connect(t, app, {}, '/mcp')
  const writers = connect(t, app, {}, '/admin/mcp')
  t.same(app.mcp.mounts.map(({ path }) => path), ['/mcp', '/admin/mcp'])

  t.match((await readers.request('tools/list', {})).result, { tools: { length: 1 } })
  t.match((await writers.request('tools/list', {})).result, { tools: { length: 2 } })
  t.match((await readers.request('tools/call', { name: 'write-note', arguments: { id: '2', text: 'Run' } })).error, { code: -32602 })
  t.match((await writers.request('tools/call', { name: 'write-note', arguments: { id: '2', text: 'Run' } })).result, { content: [{ text: 'Written.' }] })
  t.match((await readers.request('tools/call', { name: 'read-note', arguments: { id: '2' } })).result, { content: [{ text: 'Run' }] })
  t.same((await app.inject('/notes')).json(), { 1: 'Buy milk', 2: 'Run' })
})

test('subscribe: a change in the API reaches those who listen for that resource', async t => {
  const app = await subscribe.build()
  const client = connect(t, app)
  t.match((await client.request('resources/list', {})).result, { resources: [{ uri: 'note://1' }] })
  t.match((await client.request('resources/read', { uri: 'note://404' })).error, { code: -32602, data: { uri: 'note://404' } })

  const stream = await client.open('subscriptions/listen', { notifications: { resourceSubscriptions: ['note://1'], toolsListChanged: true } })
  const notifications = stream[Symbol.asyncIterator]()
  const { value: acknowledged } = await notifications.next()
  t.match(acknowledged, { method: 'notifications/subscriptions/acknowledged', params: { notifications: { resourceSubscriptions: ['note://1'] } } })
  t.notMatch(acknowledged, { params: { notifications: { toolsListChanged: true } } }, 'which the server does not offer')
  await app.inject({ method: 'PUT', url: '/notes/2', payload: { text: 'for nobody' } })
  await app.inject({ method: 'PUT', url: '/notes/1', payload: { text: 'Buy bread' } })
  t.match((await notifications.next()).value, { method: 'notifications/resources/updated', params: { uri: 'note://1' } })
  t.match((await client.request('resources/read', { uri: 'note://1' })).result, { contents: [{ text: 'Buy bread' }] })
})

test('ask: the file is removed once the user has confirmed, and kept otherwise', async t => {
  const client = connect(t, await ask.build())
  const options = { capabilities: { elicitation: { form: {} } } }
  const remove = { name: 'remove', arguments: { path: '/a.txt' } }

  const asked = await client.request('tools/call', remove, options)
  t.match(asked.result, { resultType: 'input_required', inputRequests: { confirm: { method: 'elicitation/create', params: { message: 'Delete /a.txt?' } } } })

  const declined = await client.request('tools/call', remove, { ...options, respond: () => ({ action: 'decline' }) })
  t.match(declined.result, { content: [{ text: 'Kept.' }] })
  const confirmed = await client.request('tools/call', remove, { ...options, respond: () => ({ action: 'accept', content: { sure: true } }) })
  t.match(confirmed.result, { content: [{ text: 'Gone.' }] })
  const again = await client.request('tools/call', remove, options)
  t.match(again.result, { isError: true, content: [{ text: 'There is no such file.' }] })
})

test('ask: a client that cannot show forms is told what it lacks', async t => {
  const client = connect(t, await ask.build())
  const { statusCode, error } = await client.request('tools/call', { name: 'remove', arguments: { path: '/a.txt' } })
  t.equal(statusCode, 400)
  t.match(error, { code: -32021, data: { requiredCapabilities: { elicitation: { form: {} } } } })
})

test('deploy: ends are counted, gauges are read, probes answered, and a foreign host or web page is refused', async t => {
  const app = await deploy.build()
  const host = 'api.example.com'
  const client = connect(t, app, { host })
  await client.request('tools/call', { name: 'add', arguments: { a: 2, b: 3 } })
  await client.request('tools/call', { name: 'pow', arguments: {} })
  t.match((await app.inject('/metrics')).json(), { ended: { 'tools/call result': 1, 'tools/call error': 1 }, now: { exchanges: 0, streams: 0, listens: 0 } })
  t.match(await app.inject({ url: '/health', headers: { host: '10.0.0.7' } }), { statusCode: 200, body: '{"status":"ok"}' })

  const own = await client.request('tools/list', {}, { headers: { origin: 'https://app.example.com' } })
  t.equal(own.statusCode, 200)
  for (const headers of [{ host, origin: 'https://evil.example' }, { host: 'evil.example' }]) {
    const foreign = await client.request('tools/list', {}, { headers })
    t.equal(foreign.statusCode, 403)
  }
})

test('testing: a server is called through its app, and alone', async t => {
  t.match(await callThroughApp(), { statusCode: 200, result: { structuredContent: 5 } })
  t.match(await callServer(), { cause: 'result', result: { structuredContent: 5 } })
})

function connect (t: Test, app: FastifyInstance, headers: Record<string, string> = {}, path?: string): TestClient {
  const client = createTestClient(app, { headers, ...(path !== undefined && { path }) })
  t.teardown(async () => {
    await client.close()
    await app.close()
  })
  return client
}

async function aborted (signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

/** What a curl line of the calculator's would send. */
function readCurl (line: string): { readonly url: string, readonly headers: Record<string, string>, readonly body: string } {
  const url = /curl -s (\S+)/.exec(line)?.[1] ?? ''
  const headers = [...line.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name = '', value = '']) => [name, value] as const)
  return { url, headers: Object.fromEntries(headers), body: /-d '([^']+)'/.exec(line)?.[1] ?? '' }
}
