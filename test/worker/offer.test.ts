import { test } from 'tap'
import { createOffer } from '../../lib/worker/offer.js'
import type { ServerCapabilities } from 'fastify-gen-mcp'

const methodsOf = {
  tools: ['tools/list', 'tools/call'],
  prompts: ['prompts/list', 'prompts/get'],
  resources: ['resources/list', 'resources/templates/list', 'resources/read'],
  completions: ['completion/complete']
} as const

test('a declared capability opens its methods and no others', async t => {
  for (const capability of Object.keys(methodsOf)) {
    const offer = createOffer({}, { [capability]: {} } as ServerCapabilities)
    for (const [other, methods] of Object.entries(methodsOf)) {
      for (const method of methods) t.equal(offer.opens(method), other === capability, `${capability}: ${method}`)
    }
  }
})

test('methods of no capability are open to everybody', async t => {
  const offer = createOffer({}, {})
  for (const method of ['server/discover', 'subscriptions/listen', 'toString', '__proto__']) t.ok(offer.opens(method), method)
})

test('discover tells of the capabilities, and of instructions if there are any', async t => {
  const capabilities = { tools: { listChanged: true } }
  t.match(createOffer({ instructions: 'Be kind.' }, capabilities).discover, { capabilities, instructions: 'Be kind.', cacheScope: 'private', ttlMs: 0 })
  t.notOk('instructions' in createOffer({}, capabilities).discover)
  t.match(createOffer({ cache: { scope: 'public', ttlMs: 5 } }, capabilities).discover, { cacheScope: 'public', ttlMs: 5 })
})

test('logging is on if it is declared', async t => {
  t.equal(createOffer({}, {}).logging, false)
  t.equal(createOffer({}, { logging: {} }).logging, true)
})

test('a filter is cut to what the declared capabilities stand for', async t => {
  const all = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ['file:///a'] }
  const honours = (capabilities: ServerCapabilities) => createOffer({}, capabilities).honours(all)

  t.strictSame(honours({}), {})
  t.strictSame(honours({ tools: {}, prompts: {}, resources: {} }), {}, 'a capability alone promises no notification')
  t.strictSame(honours({ tools: { listChanged: false }, resources: { subscribe: false } }), {})
  t.strictSame(honours({ tools: { listChanged: true } }), { toolsListChanged: true })
  t.strictSame(honours({ prompts: { listChanged: true } }), { promptsListChanged: true })
  t.strictSame(honours({ resources: { listChanged: true } }), { resourcesListChanged: true })
  t.strictSame(honours({ resources: { subscribe: true } }), { resourceSubscriptions: ['file:///a'] })
})

test('what was not asked for is not honoured, whatever is declared', async t => {
  const offer = createOffer({}, { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true } })
  t.strictSame(offer.honours({}), {})
  t.strictSame(offer.honours({ toolsListChanged: false, promptsListChanged: false, resourcesListChanged: false }), {})
})
