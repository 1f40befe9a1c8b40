// A server that is a module: its exports are the callbacks.
import { fail, McpError, result, routeRequests, stream, toolResult, type CallToolRequest, type Channel, type McpRequest, type RequestContext } from 'fastify-gen-mcp'

export const info = { name: 'module', version: '1.0.0' }
export type Tick = { readonly at: number }
export interface Live { readonly left: number }

export function init (_arg: undefined, context: RequestContext) {
  return { id: context.httpRequest.id }
}

export const handleRequest = routeRequests({
  'tools/call': (request: CallToolRequest, channel: Channel<Tick>, state: { id: string }) => {
    if (request.params.name !== 'tick') return fail({ kind: 'unknownTool', name: request.params.name })
    channel.every(1000, () => ({ at: Date.now() }))
    channel.log.info(state.id)
    return stream({ left: 3 })
  }
})

export function handleMessage (message: Tick, channel: Channel<Tick>, state: Live) {
  channel.sendProgress(message.at)
  return state.left > 0 ? stream({ left: state.left - 1 }) : result(toolResult.text('done'))
}

// What a module exports beside the contract does no harm.
export function other (request: McpRequest) {
  return fail(McpError.unsupportedMethod(request.method))
}
