import rateLimit from '@fastify/rate-limit'
import { test } from 'tap'
import { createSuite, defineTool, definePrompt, getPromptResult, toolResult, type Middleware } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { info } from '../helpers/servers.js'
import { stage } from '../helpers/sockets.js'
import { failed, serveTools, textOf } from '../helpers/tools.js'

const description = 'For tests'
const WINDOW = 60_000

/** The time of the process, which goes on when told. */
function stopClock (t: { intercept: (object: DateConstructor, name: 'now', descriptor: { value: () => number }) => unknown }) {
  let now = Date.now()
  t.intercept(Date, 'now', { value: () => now })
  return { advance (ms: number) { now += ms } }
}

test('calls over the limit of @fastify/rate-limit are refused with 429 and do not run, until the time is over: TOOL-31, CMP-07', async t => {
  const clock = stopClock(t)
  const ran: string[] = []
  const count = defineTool({ name: 'count', description, call: () => toolResult.text(`${ran.push('call')}`) })
  const paint = definePrompt({ name: 'paint', get: () => getPromptResult([]), complete: { color: () => [`${ran.push('complete')}`] } })
  const user = ({ headers }: { readonly headers: Readonly<Record<string, unknown>> }) => String(headers['x-user'])
  const { app } = await stage(t, createSuite({ info, tools: [count], prompts: [paint] }), {
    listen: false,
    before: async app => {
      await app.register(rateLimit, {
        max: 2, timeWindow: WINDOW, keyGenerator: user, allowList: ({ headers }) => !['tools/call', 'completion/complete'].includes(String(headers['mcp-method']))
      })
    }
  })
  const client = createTestClient(app)
  const send = {
    call: async (name: string) => await client.request('tools/call', { name: 'count', arguments: {} }, { headers: { 'x-user': name } }),
    complete: async (name: string) => await client.request(
      'completion/complete', { ref: { type: 'ref/prompt', name: 'paint' }, argument: { name: 'color', value: '' }, context: { arguments: {} } }, { headers: { 'x-user': name } }
    )
  }
  for (const [what, ask] of Object.entries(send)) {
    ran.length = 0
    const answers = [await ask('ada'), await ask('ada'), await ask('ada')]
    t.strictSame(answers.map(({ statusCode }) => statusCode), [200, 200, 429], what)
    t.match(answers[2], { error: { code: -32603 }, headers: { 'retry-after': '60' } })
    t.equal((await ask('bob')).statusCode, 200, 'another caller has a limit of its own')
    t.equal((await client.request('tools/list', {}, { headers: { 'x-user': 'ada' } })).statusCode, 200, 'other methods are not counted')
    t.strictSame(ran, [what, what, what])

    clock.advance(WINDOW)
    t.equal((await ask('ada')).statusCode, 200)
    t.equal(ran.length, 4)
    clock.advance(WINDOW)
  }
})

test('middleware can refuse one tool to who calls it too often, in words that a model may read: TOOL-31', async t => {
  const clock = stopClock(t)
  const calls = new Map<string, readonly number[]>()
  const once: Middleware = async (request, _channel, next) => {
    if (request.method !== 'tools/call' || request.params.name !== 'dear') return await next()
    const recent = (calls.get('dear') ?? []).filter(at => at + WINDOW > Date.now())
    if (recent.length > 0) return toolResult.error('Once a minute: try again later.')
    calls.set('dear', [...recent, Date.now()])
    return await next()
  }
  let ran = 0
  const { call } = await serveTools(t, [
    defineTool({ name: 'dear', description, call: () => toolResult.text(`${++ran}`) }), defineTool({ name: 'cheap', description, call: () => toolResult.text('cheap') })
  ], { middleware: [once] })
  t.equal(textOf(await call('dear')), '1')
  const refused = await call('dear')
  t.ok(failed(refused))
  t.equal(textOf(refused), 'Once a minute: try again later.')
  t.equal(textOf(await call('cheap')), 'cheap')
  t.equal(ran, 1)
  clock.advance(WINDOW)
  t.equal(textOf(await call('dear')), '2')
})
