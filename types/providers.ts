import type { FastifyRequest } from 'fastify'
import type {
  ClientCapabilities, GetPromptResult, Implementation, JsonValue, Prompt, ReadResourceResult, Resource, ResourceTemplate, ServerCapabilities,
  SubscriptionFilter, Tool
} from '../lib/protocol/index.js'
import type { Channel, MessageBus, RequestContext } from './channel.js'
import type { ErrorOutcome, InputRequiredOutcome, StopOutcome, StreamOutcome } from './outcome.js'
import type { LogLevel, McpRequest, McpResult } from './request.js'
import type { CacheHint, CallToolResult } from './results.js'
import type { Awaitable, DeepReadonly, Schema } from './schema.js'
import type { Server, Streaming } from './server.js'
import type { TemplateVars } from './template-vars.js'

export interface SuiteOptions extends Pick<Server, 'instructions'> {
  readonly info: Implementation
  /** What the providers do not tell; `completions: {}` declares it for providers with `complete` that come later. */
  readonly capabilities?: Pick<ServerCapabilities, 'extensions' | 'experimental' | 'completions'>
  /** An empty list declares the capability, for providers that come later. */
  readonly tools?: readonly ToolProvider[]
  readonly resources?: readonly ResourceProvider[]
  readonly prompts?: readonly PromptProvider[]
  /** Providers found for each request, after those above. */
  readonly extensions?: readonly SuiteExtension[]
  readonly subscriptions?: SubscriptionProvider
  /** Around every request but a listen; the first is outermost. */
  readonly middleware?: readonly Middleware[]
  /** Entries of a list on one page; default: all, but for a provider that pages its own. */
  readonly pageSize?: number
  /** Of lists and discover; default private, 0; 'public' is refused with `access` or extensions. */
  readonly cache?: CacheHint
  /**
   * Refuses tools that some clients cannot take, at boot and when one is added, and leaves out with an error in the log those that an extension finds;
   * default false: each is a warning in the log, once.
   */
  readonly strict?: boolean
  /** Takes a number, boolean, array or object that came as its text for what it says; default false. A tool's own option goes first. */
  readonly repairArguments?: boolean
  /** Bytes of a tool's result as JSON; a larger one becomes a failure that names the limit; default off. A tool's own option goes first. */
  readonly maxResultSize?: number
}

/** A Server made from providers. */
export interface Suite extends Server {
  /**
   * Adds a provider while it runs, after those of its kind, and announces it where the subscription provider can. Throws MCP_ERR_BAD_PROVIDER, also for what
   * needs a capability that was not declared at boot: of its kind, by a list in the options, or `completions`, by `capabilities`.
   */
  add (provider: ToolProvider | ResourceProvider | PromptProvider): void
  /** Removes one, and announces that; false if it was not there. */
  remove (provider: ToolProvider | ResourceProvider | PromptProvider): boolean
  /**
   * Calls a tool in this process, as the caller of `httpRequest`: access, middleware and validation apply. Rejects with McpError; there is nobody to ask
   * and nobody to show progress.
   */
  callTool (name: string, args: unknown, options: { readonly httpRequest: FastifyRequest, readonly signal?: AbortSignal }): Promise<CallToolResult>
}

/** Providers that depend on the request. Each function is called once a request at most, and only when what comes before has not answered. */
export interface SuiteExtension {
  tools? (context: RequestContext): Awaitable<readonly ToolProvider[]>
  resources? (context: RequestContext): Awaitable<readonly ResourceProvider[]>
  prompts? (context: RequestContext): Awaitable<readonly PromptProvider[]>
}

/** `next` resolves with the final result, a streaming tool's too; it rejects with the McpError, or the signal's reason. */
export type Middleware = (request: McpRequest, channel: Channel, next: () => Promise<McpResult>) => Awaitable<McpResult>

/** `access` false: hidden from this caller, not listed and unknown by name; asked each time; default: everyone. */
export interface Guarded { readonly access?: (context: RequestContext) => Awaitable<boolean> }

declare const provider: unique symbol
export interface ToolProvider { readonly [provider]: 'tool' }
export interface ResourceProvider { readonly [provider]: 'resource' }
export interface PromptProvider { readonly [provider]: 'prompt' }
export interface SubscriptionProvider { readonly [provider]: 'subscription' }

export interface ProgressUpdate { readonly progress: number; readonly total?: number; readonly message?: string }
export interface LogUpdate { readonly level: LogLevel; /** JSON */ readonly data: unknown; readonly logger?: string }

/** What a tool answers with: a result as it is, or an outcome. */
export type ToolOutcome<Live, Out> = CallToolResult<DeepReadonly<Out>> | ErrorOutcome | StreamOutcome<Live> | InputRequiredOutcome

export interface ToolDefinition<Args, Out, Live, Msg>
  extends Guarded, Omit<Tool, 'inputSchema' | 'outputSchema'>, Streaming<Live, Msg, ToolOutcome<NoInfer<Live>, NoInfer<Out>>> {
  /** Default: no arguments. */
  readonly input?: Schema<Args>
  /** A result that does not fit is logged and answered with isError. */
  readonly output?: Schema<Out>
  /** Leave out of the structured content what `output` does not name; default false. */
  readonly stripOutput?: boolean
  /** Of the client; asked before `call`. */
  readonly requires?: ClientCapabilities
  readonly repairArguments?: boolean
  readonly maxResultSize?: number
  /**
   * Arguments that fit `input`, as sent, or as a Standard Schema parsed them. A throw that is no McpError is logged and answered with isError and a bare text.
   * An `async function *` yields progress and logs, each sent before the next is asked for, and returns the result; a close calls its `return()`.
   */
  readonly call: (args: NoInfer<Args>, channel: Channel<NoInfer<Msg>>) =>
    Awaitable<ToolOutcome<Live, NoInfer<Out>>> | AsyncGenerator<ProgressUpdate | LogUpdate, ToolOutcome<never, NoInfer<Out>>, void>
}

/** Suggests values of one argument or variable, given the others. */
export type Completer = (value: string, others: Readonly<Record<string, string>>, context: RequestContext) => Awaitable<readonly string[]>
/** `nextCursor` is sealed for the client and comes back as it was. An item that no client could take is left out, with an error in the log. */
export interface Page<T> { readonly items: readonly T[]; readonly nextCursor?: JsonValue }
/** What a read answers with; null: there is no such thing here. */
export type ReadOutcome<R> = R | ErrorOutcome | InputRequiredOutcome | null

/** The resources under one prefix, by default the template's beginning; the first whose prefix and template fit is read. */
export interface ResourcesDefinition<T extends string> extends Guarded {
  readonly prefix?: string
  readonly template?: ResourceTemplate & { readonly uriTemplate: T }
  readonly list?: (cursor: JsonValue | undefined, context: RequestContext) => Awaitable<Page<Resource>>
  readonly read: (target: { readonly uri: string; readonly vars: TemplateVars<T> }, channel: Channel) => Awaitable<ReadOutcome<ReadResourceResult>>
  readonly complete?: { readonly [K in keyof TemplateVars<T>]?: Completer }
}

/** One prompt; its arguments are strings, and a missing required one is -32602. */
export interface PromptDefinition<Args> extends Guarded, Omit<Prompt, 'arguments'> {
  readonly arguments?: Schema<Args>
  readonly get: (args: NoInfer<Args>, channel: Channel) => Awaitable<ReadOutcome<GetPromptResult>>
  readonly complete?: { readonly [K in keyof NoInfer<Args>]?: Completer }
}

/** The prompts under one prefix, from a store. */
export interface PromptsDefinition extends Guarded {
  readonly prefix: string
  readonly list: (cursor: JsonValue | undefined, context: RequestContext) => Awaitable<Page<Prompt>>
  readonly get: (name: string, args: Readonly<Record<string, string>>, channel: Channel) => Awaitable<ReadOutcome<GetPromptResult>>
}

/** Serves listens, under the listen rules. `kinds`: what it can tell of. */
export interface SubscriptionsDefinition<Live, Msg> extends Guarded, Streaming<Live, Msg, StreamOutcome<NoInfer<Live>> | ErrorOutcome | StopOutcome> {
  readonly kinds: readonly (keyof SubscriptionFilter)[]
  readonly subscribe: (filter: SubscriptionFilter, channel: Channel<NoInfer<Msg>>) => Awaitable<StreamOutcome<Live> | ErrorOutcome>
}

/** Keep it, give it to the Suite, call it when something changed. `principal`: only that caller's listens. */
export interface BusSubscriptions extends SubscriptionProvider {
  toolsChanged (to?: { readonly principal?: string }): void
  promptsChanged (to?: { readonly principal?: string }): void
  resourcesChanged (to?: { readonly principal?: string }): void
  resourceUpdated (uri: string, to?: { readonly principal?: string }): void
}

export interface BusSubscriptionsOptions {
  /**
   * Default: one in this process. A listen is acknowledged when the bus has confirmed the subscription: when `on` has called `done`, or the promise that it
   * returned has resolved; an `on` that declares one or two parameters and returns no promise has done so on return. A bus that fails, or says nothing for
   * 5 s, is logged, and the listen acknowledged all the same.
   */
  readonly bus?: MessageBus
  /** Keeps Suites on one bus apart; default 'mcp'. */
  readonly topic?: string
}
