import type { FastifyInstance } from 'fastify'
import type { Implementation, ServerCapabilities } from '../lib/protocol/index.js'
import type { Channel, MessageBus, RequestContext } from './channel.js'
import type { CloseReason } from './exchange.js'
import type { MessageOutcome, RequestOutcome, StopOutcome } from './outcome.js'
import type { McpMethod, McpNotification, McpRequest, RequestOf } from './request.js'
import type { CacheHint } from './results.js'
import type { Awaitable, TypeBoxSchema } from './schema.js'

/**
 * What a mount serves: made by defineServer, or any class instance or module namespace of this shape.
 *
 * The callbacks of one exchange never overlap: each is awaited before the next. `Base` is the state that `init` returns, for the handler; `Live` the
 * state of `stream(live)`, for everything after. Both are shared by reference, so return a new state rather than change the old one. A throw of an
 * McpError answers with it; anything else thrown, and a return outside the union, is a crash: logged once, answered with a bare -32603.
 */
export interface Server<Arg = undefined, Base = unknown, Live = unknown, Msg = unknown> {
  /** Checks the leftover options or the bound arg at boot. */
  readonly arg?: TypeBoxSchema
  /** Checks what `subscribe` yields (what does not fit is skipped and logged); other sources are trusted. */
  readonly messages?: TypeBoxSchema
  /** With it the core answers `server/discover` itself, refuses methods that `capabilities` does not open, and names the server on results. */
  readonly info?: Implementation
  readonly instructions?: string
  /** Of the answer to `server/discover` that the core gives; default private, 0. */
  readonly cache?: CacheHint
  /** Default `{}`. A function is called once a request, first; what it throws is treated as a throw of `init`. */
  readonly capabilities?: ServerCapabilities | ((context: RequestContext) => Awaitable<ServerCapabilities>)
  /** Message buses that it cannot do without: see the option `busProbe`. Read when `setup` has run. */
  readonly buses?: readonly MessageBus[]
  /** Called once a mount, before `ready()` resolves; a throw rejects `ready()`. */
  setup? (fastify: FastifyInstance, arg: Arg): Awaitable<void>
  /** Called once an exchange, before the handler. `stop(reason)` is answered as `fail(reason)` is, and nothing else runs. */
  init? (arg: Arg, context: RequestContext): Awaitable<Base | StopOutcome>
  /** Called once a request. If the client leaves meanwhile it runs on with `channel.signal` aborted, and its return is discarded but for `stream(live)`. */
  handleRequest (request: McpRequest, channel: Channel<Msg>, state: Base): Awaitable<RequestOutcome<Live>>
  /** Called once a notification that the revision defines, after `init`; others are accepted and dropped. The client gets 202 when it has settled. */
  handleNotification? (notification: McpNotification, context: RequestContext, state: Base): Awaitable<void>
  /** Called after `stream(live)` once a message, in order. Left out, messages are dropped. */
  handleMessage? (message: Msg, channel: Channel<Msg>, live: Live): Awaitable<MessageOutcome<Live>>
  /** Called at most once, if there is a live state and the exchange was closed instead of answered. A throw is logged. */
  handleClose? (context: RequestContext, live: Live, reason: CloseReason): Awaitable<void>
}

/** A server that checks its arg: a mount may take it from its own options. */
export interface Configurable { readonly arg: TypeBoxSchema }

/** A handler a method; a method that is not listed is answered 404, -32601. */
export type Routes<Base, Live, Msg> = {
  readonly [M in McpMethod]?: (request: RequestOf<M>, channel: Channel<Msg>, state: Base) => Awaitable<RequestOutcome<Live, M>>
}

/** What a server, a tool or a subscription handler does with a stream once it is open. */
export interface Streaming<Live, Msg, Outcome> {
  readonly messages?: TypeBoxSchema<Msg>
  readonly handleMessage?: (message: NoInfer<Msg>, channel: Channel<NoInfer<Msg>>, live: NoInfer<Live>) => Awaitable<Outcome>
  readonly handleClose?: (context: RequestContext, live: NoInfer<Live>, reason: CloseReason) => Awaitable<void>
}

/** A Server whose types are inferred: Arg from `arg` or init, Base from init, Live from handleRequest, Msg from `messages`. */
export interface ServerDefinition<S, Arg, Base, Live, Msg>
  extends Pick<Server, 'info' | 'instructions' | 'cache' | 'capabilities' | 'buses'>, Streaming<Live, Msg, MessageOutcome<NoInfer<Live>>> {
  readonly arg?: S
  readonly setup?: (fastify: FastifyInstance, arg: NoInfer<ArgOf<S, Arg>>) => Awaitable<void>
  readonly init?: (arg: ArgOf<S, Arg>, context: RequestContext) => Awaitable<Base | StopOutcome>
  readonly handleRequest: Routes<NoInfer<Base>, Live, NoInfer<Msg>>
    | ((request: McpRequest, channel: Channel<NoInfer<Msg>>, state: NoInfer<Base>) => Awaitable<RequestOutcome<Live>>)
  readonly handleNotification?: (notification: McpNotification, context: RequestContext, state: NoInfer<Base>) => Awaitable<void>
}

export type ArgOf<S, Arg> = [S] extends [TypeBoxSchema<infer T>] ? T : Arg
