import { defineServer, listToolsResult, messageType, result, routeRequests, stream, toolResult } from 'fastify-gen-mcp'
import type {
  Awaitable, Channel, ExchangeRef, McpRequest, RequestOf, RequestOutcome, Server, ServerNotification
} from 'fastify-gen-mcp'

/** Who the servers here say they are. */
export const info = { name: 'test-server', version: '1.0.0' }

/** `tools/list` gives one tool, `echo`; `tools/call`, of any tool, gives its arguments back as data. */
export const echo = defineServer({
  info,
  capabilities: { tools: {} },
  handleRequest: {
    'tools/list': () => result(listToolsResult([{ name: 'echo', inputSchema: { type: 'object' } }])),
    'tools/call': ({ params }) => result(toolResult.data(params.arguments))
  }
})

/** The other members of a server. */
export type Rest<Live, Msg> = Omit<Server<undefined, undefined, Live, Msg>, 'handleRequest'>

/** A server of one handler, for `tools/call`, with the capabilities `tools` and `logging`; `rest` adds to it and replaces. */
export function toolServer<Live = never, Msg = never> (
  callTool: (request: RequestOf<'tools/call'>, channel: Channel<Msg>) => Awaitable<RequestOutcome<Live, 'tools/call'>>, rest: Rest<Live, Msg> = {}
): Server<undefined, undefined, Live, Msg> {
  return { info, capabilities: { tools: {}, logging: {} }, handleRequest: routeRequests<undefined, Live, Msg>({ 'tools/call': callTool }), ...rest }
}

/** A server of one handler for whatever method, that says nothing of itself: without `info` all reaches the handler. */
export function bareServer<Live = never, Msg = never> (
  handleRequest: (request: McpRequest, channel: Channel<Msg>) => Awaitable<RequestOutcome<Live>>, rest: Rest<Live, Msg> = {}
): Server<undefined, undefined, Live, Msg> {
  return { handleRequest, ...rest }
}

/** A server that accepts every listen, and the function that sends a change notification to all of them. */
export function createListenServer (): { readonly server: Server, readonly notify: (notification: ServerNotification) => void } {
  const listens = new Set<ExchangeRef<ServerNotification>>()
  const server = defineServer({
    info,
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true } },
    messages: messageType<ServerNotification>(),
    handleRequest: {
      'subscriptions/listen': (_request, channel) => {
        listens.add(channel.ref)
        channel.defer(() => { listens.delete(channel.ref) })
        return stream(undefined)
      }
    },
    handleMessage: (notification, channel) => {
      channel.sendNotification(notification)
      return stream(undefined)
    }
  })
  return { server, notify: notification => { for (const ref of listens) ref.post(notification) } }
}
