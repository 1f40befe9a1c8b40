import { result, routeRequests, toolResult, type RequestContext, type RequestOf } from 'fastify-gen-mcp'
import type { Channel } from 'fastify-gen-mcp'

// A server that is a module: `import * as server from './module-server.js'`.

export const info = { name: 'module', version: '1.0.0' }
export const capabilities = { tools: {} }

export function init (arg: { readonly greeting: string } | undefined, { principal = 'nobody' }: RequestContext) {
  return { greeting: `${arg?.greeting ?? 'Hello'}, ${principal}` }
}

export const handleRequest = routeRequests({
  'tools/call': (_request: RequestOf<'tools/call'>, _channel: Channel, state: { readonly greeting: string }) => result(toolResult.text(state.greeting))
})
