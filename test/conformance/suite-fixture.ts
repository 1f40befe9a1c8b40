// By its path: the package.json of this folder hides the name of the package.
import { busSubscriptions, createSuite, type Suite } from '../../lib/index.js'
import { streamOlder } from './older.js'
import { suitePrompts } from './suite-prompts.js'
import { suiteResources } from './suite-resources.js'
import { createSuiteTools } from './suite-tools.js'

/** The server that the conformance suite expects, from providers. */
export function createSuiteFixture (): Suite {
  const changes = busSubscriptions()
  return createSuite({
    info: { name: 'fastify-gen-mcp-conformance-suite', version: '1.0.0' },
    tools: createSuiteTools(changes),
    prompts: suitePrompts,
    resources: suiteResources,
    subscriptions: changes,
    middleware: [async (request, channel, next) => {
      if (request.method === 'tools/list') streamOlder(channel)
      return await next()
    }]
  })
}
