/** Suites as they are built and published, with their default settings. */
import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import genMcp, { busSubscriptions, createSuite, defineTool, toolResult } from 'fastify-gen-mcp'
import { info } from './wire.js'

/** Makes an app with one mount of a Suite, which has so many tools. */
export function createSuiteOf (count) {
  return async changes => {
    const subscriptions = busSubscriptions()
    changes.on('changed', () => { subscriptions.toolsChanged() })
    // The one that is called is the last, which a search that goes through them all finds last.
    const others = Array.from({ length: count - 1 }, (_, index) => echoTool(`echo-${index}`))
    const app = Fastify()
    await app.register(genMcp, { server: createSuite({ info, tools: [...others, echoTool('echo')], subscriptions }) })
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { port: app.server.address().port, listens: () => app.mcp.mounts[0].gauges().listens }
  }
}

function echoTool (name) {
  return defineTool({
    name,
    description: 'Answers with the text that it is given',
    input: Type.Object({ text: Type.String() }),
    call: ({ text }) => toolResult.text(text)
  })
}
