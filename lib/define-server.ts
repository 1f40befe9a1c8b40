import { Type } from '@sinclair/typebox'
import { McpError } from './errors.js'
import { checkArg } from './options.js'
import { fail } from './outcome.js'
import type { Channel } from '../types/channel.js'
import type { RequestOutcome } from '../types/outcome.js'
import type { McpRequest } from '../types/request.js'
import type { TypeBoxSchema } from '../types/schema.js'
import type { ArgOf, Configurable, Routes, Server, ServerDefinition } from '../types/server.js'

/**
 * A server from its definition, with all types inferred: what `init` gives is what the handler gets, what `stream` was given is what `handleMessage` and
 * `handleClose` get. `handleRequest` is one function or a handler a method.
 */
export function defineServer<S extends TypeBoxSchema | undefined = undefined, Arg = undefined, Base = undefined, Live = never, Msg = never> (
  definition: ServerDefinition<S, Arg, Base, Live, Msg>
): Server<ArgOf<S, Arg>, Base, Live, Msg> & ([S] extends [TypeBoxSchema] ? Configurable : unknown) {
  const { handleRequest } = definition
  const server = { ...definition, handleRequest: typeof handleRequest === 'function' ? handleRequest : routeRequests(handleRequest) }
  // The definition's types are the server's, but for those that only inference needed.
  return server as unknown as Server<ArgOf<S, Arg>, Base, Live, Msg> & ([S] extends [TypeBoxSchema] ? Configurable : unknown)
}

/** Makes the handleRequest of a class or a module from the table that defineServer takes as it is. */
export function routeRequests<Base, Live, Msg> (
  routes: Routes<Base, Live, Msg>
): (request: McpRequest, channel: Channel<Msg>, state: Base) => Promise<RequestOutcome<Live>> {
  type Handler = (request: McpRequest, channel: Channel<Msg>, state: Base) => Promise<RequestOutcome<Live>>
  // A Map, because a method's name comes from the client.
  const handlers = new Map(Object.entries(routes) as [string, Handler][])
  return (request, channel, state) => {
    const handler = handlers.get(request.method)
    // A handler may answer without a promise, and then nobody needs one: the worker takes both.
    return handler === undefined ? fail(McpError.unsupportedMethod(request.method)) as unknown as Promise<RequestOutcome<Live>> : handler(request, channel, state)
  }
}

/** Binds the arg. One that does not fit the server's `arg` schema throws MCP_ERR_BAD_OPTION. */
export function withArg<Arg, Base, Live, Msg> (server: Server<Arg, Base, Live, Msg>, arg: NoInfer<Arg>): Server<undefined, Base, Live, Msg> {
  const { setup, init } = server
  if (server.arg !== undefined) checkArg(server.arg, arg, 'withArg')
  // Made from the server, so that a class instance keeps its methods; its callbacks run on the instance itself, for its private members.
  return Object.freeze({
    ...(server.messages !== undefined && { messages: server.messages }),
    ...(server.info !== undefined && { info: server.info }),
    ...(server.instructions !== undefined && { instructions: server.instructions }),
    ...(server.cache !== undefined && { cache: server.cache }),
    ...(server.capabilities !== undefined && { capabilities: typeof server.capabilities === 'function' ? server.capabilities.bind(server) : server.capabilities }),
    ...(server.buses !== undefined && { buses: server.buses }),
    ...(setup !== undefined && { setup: (fastify: Parameters<typeof setup>[0]) => setup.call(server, fastify, arg) }),
    ...(init !== undefined && { init: (_arg: undefined, context: Parameters<typeof init>[1]) => init.call(server, arg, context) }),
    handleRequest: server.handleRequest.bind(server),
    ...(server.handleNotification !== undefined && { handleNotification: server.handleNotification.bind(server) }),
    ...(server.handleMessage !== undefined && { handleMessage: server.handleMessage.bind(server) }),
    ...(server.handleClose !== undefined && { handleClose: server.handleClose.bind(server) })
  })
}

/** A schema that checks nothing, for messages whose type TypeScript alone knows. */
export function messageType<Msg> (): TypeBoxSchema<Msg> {
  return Type.Unsafe<Msg>(Type.Unknown())
}
