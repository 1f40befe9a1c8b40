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
import * as memory from '../examples/memory.js'
import { Queue, type Render } from '../examples/queue.js'
import { startIfMain } from '../examples/start.js'
import * as streaming from '../examples/streaming.js'
import * as subscribe from '../examples/subscribe.js'
import { callServer, callThroughApp } from '../examples/testing.js'
import * as twoMounts from '../examples/two-mounts.js'
import type { FastifyInstance } from 'fastify'

const examples = new URL('../examples/', import.meta.url)
const driven = ['ask', 'auth', 'calculator', 'deploy', 'jobs', 'memory', 'streaming', 'subscribe', 'two-mounts']

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

test('deploy: ends are counted, gauges are read, and a foreign web page is refused', async t => {
  const app = await deploy.build()
  const client = connect(t, app)
  await client.request('tools/call', { name: 'add', arguments: { a: 2, b: 3 } })
  await client.request('tools/call', { name: 'pow', arguments: {} })
  t.match((await app.inject('/metrics')).json(), { ended: { 'tools/call result': 1, 'tools/call error': 1 }, now: { exchanges: 0, streams: 0, listens: 0 } })

  const own = await client.request('tools/list', {}, { headers: { origin: 'https://app.example.com' } })
  t.equal(own.statusCode, 200)
  const foreign = await client.request('tools/list', {}, { headers: { origin: 'https://evil.example' } })
  t.equal(foreign.statusCode, 403)
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
