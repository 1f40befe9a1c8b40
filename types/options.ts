import type { FastifyRequest, RouteShorthandOptions } from 'fastify'
import type { TokenSealer } from './channel.js'
import type { ExchangeEnd } from './exchange.js'
import type { LegacyOptions } from './legacy.js'
import type { Awaitable } from './schema.js'
import type { Configurable, Server } from './server.js'

/** `bodyLimit`, `constraints`, `onRequest`, `preHandler` are Fastify's, for this mount alone. Times are in ms. */
export interface GenMcpOptions extends Pick<RouteShorthandOptions, 'bodyLimit' | 'constraints' | 'onRequest' | 'preHandler'> {
  /** One that wants an arg and declares no schema needs it bound; the tuple binds without the type check. */
  readonly server: Server | (Server<unknown> & Configurable) | readonly [server: Server<unknown>, arg: unknown]
  /** Default: the prefix itself, '/mcp' without one; answers with and without a trailing slash. */
  readonly path?: string
  /** Default: loopback origins and no other; a request without Origin passes. */
  readonly allowedOrigins?: 'any' | readonly string[] | ((origin: string, httpRequest: FastifyRequest) => Awaitable<boolean>)
  /** Default: loopback names where we listen on loopback without `trustProxy`, else any. */
  readonly allowedHosts?: 'any' | readonly string[]
  /** Quiet time before an SSE comment; default 15_000; 0: none. */
  readonly keepAlive?: number
  /** How long a silent call stays JSON before it becomes a stream; default 10_000; 0: it never does. */
  readonly streamAfter?: number
  /** Between automatic progress of a silent call that has a token, a little below 0 and rising; default 0: none. */
  readonly heartbeat?: number
  /** Who calls; binds request state, cursors, tokens, sessions; default: nobody is told apart. Called once an exchange. */
  readonly principal?: (httpRequest: FastifyRequest) => string | undefined
  /** Key ring, at least 32 characters each: the first seals, all open; default: a random one, and a warning when it first seals. */
  readonly secrets?: readonly string[]
  /** Instead of `secrets`. */
  readonly tokens?: TokenSealer
  readonly limits?: Limits
  /** 2025 clients on this mount; default true. */
  readonly legacy?: boolean | LegacyOptions
  /** Stamp `info` on results that name no server; default true. */
  readonly sendServerInfo?: boolean
  /**
   * A path below the prefix, as `path` is, that tells a balancer or an orchestrator whether to send requests here; default: none. GET and HEAD answer 200
   * `{"status":"ok"}`, or 503 with "busDown" while a bus is down and with "draining" while the mount drains, where Fastify itself answers 503 unless
   * `return503OnClosing` is false. Neither the mount's hooks and constraints nor its checks of Origin and Host apply; hooks of the surrounding instance do, and
   * know it by `routeOptions.config.mcpHealth`. The mount's own path rejects `ready()` with MCP_ERR_BAD_OPTION.
   */
  readonly health?: string
  /**
   * Whether messages come through is asked of the server's `buses` and of `legacy.bus`, by messages to oneself; false: never. At boot, nothing back within
   * `timeout` (default 5_000; at boot less than the app's `pluginTimeout`) rejects `ready()` with MCP_ERR_BUS_DOWN. Later, each `interval` (default 30_000; 0: only
   * at boot), one that goes down or comes back is logged, and counted in the gauge `busesDown` meanwhile.
   */
  readonly busProbe?: { readonly timeout?: number; readonly interval?: number } | false
  /** Once an exchange, last of all; a throw is logged. */
  readonly onEnd?: (end: ExchangeEnd, httpRequest: FastifyRequest) => void
}

export interface Limits {
  /** Messages queued for one exchange; default 1_000. */
  readonly mailbox?: number
  /** What a full mailbox does: 'end' ends the exchange with cause 'overflow', the others drop a message and count it; default 'end'. */
  readonly onOverflow?: 'end' | 'dropOldest' | 'dropNewest'
  /** Bytes unsent after the event loop could flush, the answer not counted; default 1_048_576. Past it the connection is dropped. */
  readonly sendBuffer?: number
  /** Requests at a time, listens not counted; default off. Past it: 503 with Retry-After. */
  readonly maxConcurrent?: number
  /** Listens at a time; default off. Past it: 503 with Retry-After. */
  readonly maxStreams?: number
  /** Of a request, listens excepted; default off. Past it: -32603, in a 200. */
  readonly maxDuration?: number
  /** Of a shutdown; default 10_000. At most a second less than the app's `pluginTimeout`, which is Fastify's bound on `close()`. */
  readonly drain?: number
}
