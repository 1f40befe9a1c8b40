import { test } from 'tap'
import { elicitForm, elicitUrl, fail, inputRequired, result, stream, toolResult, type ClientCapabilities, type InputRequests } from 'fastify-gen-mcp'
import { declaresExtension, missingCapabilities } from '../lib/client-capabilities.js'
import { call, mount } from './helpers/mount.js'
import { isStream, messagesOf, split } from './helpers/messages.js'
import { toolServer } from './helpers/servers.js'

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const TASKS = 'io.modelcontextprotocol/tasks'

/** What a client may send in the place of capabilities. */
type Declared = Readonly<Record<string, unknown>>

/** A tool that needs a capability of its client. */
function needing (required: ClientCapabilities) {
  return toolServer((_request, channel) => {
    channel.requireCapability(required)
    return result(toolResult.text('done'))
  })
}

async function callWith (app: Parameters<typeof call>[0], declared: Declared) {
  return await call(app, 'tools/call', { name: 'tool' }, { meta: { [CAPABILITIES]: declared } })
}

test('nothing is missing of what was declared', async t => {
  const cases: [declared: ClientCapabilities, required: ClientCapabilities][] = [
    [{}, {}],
    [{ sampling: {} }, {}],
    [{ sampling: {} }, { sampling: {} }],
    [{ sampling: { tools: {} } }, { sampling: {} }],
    [{ sampling: { tools: {}, context: {} } }, { sampling: { context: {}, tools: {} } }],
    [{ roots: {} }, { roots: {} }],
    [{ elicitation: { url: {} } }, { elicitation: {} }],
    [{ extensions: { [TASKS]: { any: 'thing' } } }, { extensions: { [TASKS]: {} } }],
    [{ experimental: { x: {} } }, { experimental: { x: {} } }]
  ]
  for (const [declared, required] of cases) t.equal(missingCapabilities(declared, required), undefined, JSON.stringify([declared, required]))
})

test('what is missing is told with its nesting, and nothing else: CAP-03', async t => {
  const cases: [declared: ClientCapabilities, required: ClientCapabilities, missing: ClientCapabilities][] = [
    [{}, { sampling: {} }, { sampling: {} }],
    [{}, { sampling: { tools: {} } }, { sampling: { tools: {} } }],
    [{ sampling: {} }, { sampling: { tools: {} } }, { sampling: { tools: {} } }],
    [{ sampling: { tools: {} } }, { sampling: { tools: {}, context: {} } }, { sampling: { context: {} } }],
    [{ roots: {} }, { roots: {}, sampling: {} }, { sampling: {} }],
    [{ elicitation: {} }, { elicitation: { form: {}, url: {} } }, { elicitation: { url: {} } }],
    [{ elicitation: { url: {} } }, { elicitation: { form: {}, url: {} } }, { elicitation: { form: {} } }],
    [{}, { extensions: { [TASKS]: {} } }, { extensions: { [TASKS]: {} } }],
    [{ extensions: {} }, { extensions: { [TASKS]: {} } }, { extensions: { [TASKS]: {} } }],
    [{ extensions: { [TASKS]: {} } }, { extensions: { [TASKS]: {}, other: {} } }, { extensions: { other: {} } }]
  ]
  for (const [declared, required, missing] of cases) t.strictSame(missingCapabilities(declared, required), missing, JSON.stringify([declared, required]))
})

test('a bare elicitation means forms, and one that names modes means those: ELI-02', async t => {
  const form = { elicitation: { form: {} } }
  const url = { elicitation: { url: {} } }
  const table: [declared: ClientCapabilities, form: boolean, url: boolean][] = [
    [{}, false, false],
    [{ elicitation: {} }, true, false],
    [{ elicitation: { form: {} } }, true, false],
    [{ elicitation: { url: {} } }, false, true],
    [{ elicitation: { form: {}, url: {} } }, true, true]
  ]
  for (const [declared, hasForm, hasUrl] of table) {
    t.strictSame(missingCapabilities(declared, form), hasForm ? undefined : form, `form: ${JSON.stringify(declared)}`)
    t.strictSame(missingCapabilities(declared, url), hasUrl ? undefined : url, `url: ${JSON.stringify(declared)}`)
  }
})

test('a requirement that is no object requires nothing', async t => {
  t.equal(missingCapabilities({}, { sampling: undefined, roots: false } as unknown as ClientCapabilities), undefined)
  t.equal(missingCapabilities({ sampling: {} }, { sampling: { tools: undefined } } as unknown as ClientCapabilities), undefined)
})

test('names that every object has are not thereby declared', async t => {
  for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
    // As JSON has them: members like any other.
    const required = JSON.parse(`{"extensions":{"${name}":{}}}`) as ClientCapabilities
    t.strictSame(JSON.stringify(missingCapabilities({ extensions: {} }, required)), JSON.stringify(required), name)
    t.notOk(declaresExtension({ extensions: {} }, name), name)
    t.notOk(declaresExtension({}, name), name)
  }
})

test('an extension is declared by an object', async t => {
  t.ok(declaresExtension({ extensions: { a: {} } }, 'a'))
  const declares = (extensions: unknown) => declaresExtension({ extensions } as ClientCapabilities, 'a')
  for (const value of [null, true, false, [], 'x', 1]) {
    t.notOk(declares({ a: value }), `a: ${JSON.stringify(value)}`)
    t.notOk(declares(value), `all of them: ${JSON.stringify(value)}`)
  }
})

test('a call that needs what the client did not declare is answered 400, -32021, with an object: CAP-02', async t => {
  const app = await mount(t, { server: needing({ sampling: { tools: {} }, roots: {} }) })
  const response = await callWith(app, { roots: {} })
  t.equal(response.statusCode, 400)
  // CAP-03: what is declared is not in it.
  t.strictSame(response.json(), {
    jsonrpc: '2.0',
    id: 1,
    error: {
      code: -32021, message: 'The client does not declare a capability that this request needs', data: { requiredCapabilities: { sampling: { tools: {} } } }
    }
  })
  t.match((await callWith(app, { roots: {}, sampling: { tools: {} } })).json(), { result: { content: [{ text: 'done' }] } })
})

test('capabilities are those of this request, not of an earlier one: CAP-01', async t => {
  const app = await mount(t, { server: needing({ roots: {} }) })
  for (const [declared, statusCode] of [[{}, 400], [{ roots: {} }, 200], [{}, 400]] as const) t.equal((await callWith(app, declared)).statusCode, statusCode)
})

test('a capability is declared by an object and by nothing else: CAP-07', async t => {
  const [roots, tools] = [await mount(t, { server: needing({ roots: {} }) }), await mount(t, { server: needing({ sampling: { tools: {} } }) })]
  for (const value of [{}, { x: 1 }, null, true, false, [], 'x', 1]) {
    const statusCode = typeof value === 'object' && value !== null && !Array.isArray(value) ? 200 : 400
    t.equal((await callWith(roots, { roots: value })).statusCode, statusCode, `roots: ${JSON.stringify(value)}`)
    t.equal((await callWith(tools, { sampling: { tools: value } })).statusCode, statusCode, `sampling.tools: ${JSON.stringify(value)}`)
  }
})

test('a server capability that is missing is -32601, never -32021: CAP-04', async t => {
  const app = await mount(t, { server: needing({ roots: {} }) })
  for (const method of ['prompts/list', 'completion/complete', 'resources/list']) {
    const response = await call(app, method)
    t.equal(response.statusCode, 404)
    t.match(response.json(), { error: { code: -32601 } }, method)
  }
})

test('a need that is found when the stream is open is its last event: CAP-05', async t => {
  const asks: [requests: InputRequests, missing: ClientCapabilities][] = [
    [{ a: elicitForm('?', { type: 'object' }) }, { elicitation: { form: {} } }],
    [{ a: elicitUrl('?', 'https://example.com') }, { elicitation: { url: {} } }]
  ]
  for (const [requests, missing] of asks) {
    const app = await mount(t, {
      server: toolServer((_request, channel) => {
        channel.sendProgress(1)
        return inputRequired(requests)
      })
    })
    const response = await call(app, 'tools/call', { name: 'tool' }, { meta: { progressToken: 'p' } })
    t.equal(response.statusCode, 200)
    t.ok(isStream(response))
    const { notifications, answer } = await split(response)
    t.equal(notifications.length, 1)
    t.strictSame(answer.error?.data, { requiredCapabilities: missing })
    t.equal(answer.error?.code, -32021)
  }
})

test('requireCapability does in handleMessage and init what it does in a handler', async t => {
  const streaming = toolServer<string, string>((_request, { ref }) => {
    ref.post('go')
    return stream('live')
  }, {
    handleMessage (_message, channel) {
      channel.requireCapability({ roots: {} })
      return fail('not reached')
    }
  })
  const [answer] = await messagesOf(await callWith(await mount(t, { server: streaming }), {}))
  t.match(answer, { error: { code: -32021, data: { requiredCapabilities: { roots: {} } } } })

  let handled = 0
  const initial = toolServer(() => {
    handled++
    return fail('not reached')
  }, {
    init (_arg, context) {
      context.requireCapability({ roots: {} })
      return undefined
    }
  })
  const response = await callWith(await mount(t, { server: initial }), {})
  t.equal(response.statusCode, 400)
  t.match(response.json(), { error: { code: -32021 } })
  t.equal(handled, 0)
})
