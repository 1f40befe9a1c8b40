import { andThen } from '../awaitable.js'
import { MCP_ERR_BAD_PROVIDER, MCP_ERR_BAD_RETURN, McpError } from '../errors.js'
import { result, stream } from '../outcome.js'
import {
  Implementation, listPromptsResult, listResourcesResult, listResourceTemplatesResult, listToolsResult, toolResult, type CacheableResult, type ServerCapabilities
} from '../protocol/index.js'
import { Around, SETTLED, type Work as AnyWork } from './around.js'
import { Catalog, type Found } from './catalog.js'
import { complete } from './completion.js'
import { checkDefinition } from './definition.js'
import { callInProcess, isInProcess } from './in-process.js'
import { isExtension } from '../meta-key.js'
import { ToolLint } from './lint.js'
import { listPage, type Listed, type ListSource } from './listing.js'
import { AnyPrompt, findPrompt } from './prompts.js'
import { findResource, ResourcesEntry } from './resources.js'
import { SubscriptionsEntry, type Kind, type Listened } from './subscriptions.js'
import { Throttle } from './throttle.js'
import { ToolEntry, type ToolDefaults } from './tool.js'
import { watchCaller } from './caller.js'
import type { FastifyInstance } from 'fastify'
import type { Channel, MessageBus, RequestContext } from '../../types/channel.js'
import type { CloseReason } from '../../types/exchange.js'
import type { MessageOutcome, RequestOutcome } from '../../types/outcome.js'
import type { Middleware, PromptProvider, ResourceProvider, Suite, SuiteExtension, SuiteOptions, ToolProvider } from '../../types/providers.js'
import type { Awaitable } from '../../types/schema.js'
import type { McpRequest, RequestOf } from '../../types/request.js'
import type { CacheHint, CallToolResult } from '../../types/results.js'

type AnyOutcome = RequestOutcome<Live>
interface Work extends AnyWork { readonly run: () => Awaitable<AnyOutcome> }
/** The state of a stream: whose it is, what that keeps, and the middleware that waits for its end. */
interface Live {
  readonly owner: ToolEntry | SubscriptionsEntry
  readonly state: unknown
  readonly around?: Around
  readonly finished?: true
}
/** Where a provider belongs, and which change it is when it comes or goes. */
interface Place {
  readonly catalog: Catalog<ToolEntry> | Catalog<ResourcesEntry> | Catalog<AnyPrompt>
  readonly kind: Kind
  readonly capability: 'tools' | 'resources' | 'prompts'
  readonly completes?: boolean
}
type AnyProvider = ToolProvider | ResourceProvider | PromptProvider

const OPTIONS = new Set<string>([
  'info', 'instructions', 'capabilities', 'tools', 'resources', 'prompts', 'extensions', 'subscriptions', 'middleware', 'pageSize', 'cache', 'strict',
  'repairArguments', 'maxResultSize'
] satisfies (keyof SuiteOptions)[])

/**
 * A server from providers. What makes no sense throws MCP_ERR_BAD_PROVIDER; what some clients would refuse is a warning at boot, or with `strict` an error.
 */
export function createSuite (options: SuiteOptions): Suite {
  return new SuiteServer(options)
}

class SuiteServer implements Suite {
  readonly info: Implementation
  readonly instructions?: string
  readonly cache?: CacheHint
  readonly capabilities: ServerCapabilities
  readonly buses: readonly MessageBus[]
  readonly #tools: Catalog<ToolEntry>
  readonly #resources: Catalog<ResourcesEntry>
  readonly #prompts: Catalog<AnyPrompt>
  readonly #subscriptions: SubscriptionsEntry | undefined
  readonly #middleware: readonly Middleware[]
  readonly #pageSize: number
  readonly #defaults: ToolDefaults
  readonly #lint: ToolLint
  /** Entries of lists that were left out, and told of. */
  readonly #leftOut = new Throttle()
  /** The list of tools where it is the same for everybody, and the revision of the catalog that it is of. */
  #toolList: { readonly revision: number, readonly result: CacheableResult } | undefined

  constructor (options: SuiteOptions) {
    const { tools, resources, prompts, extensions = [], subscriptions, middleware = [], pageSize = Infinity, cache, strict = false } = checkOptions(options)
    this.info = options.info
    if (options.instructions !== undefined) this.instructions = options.instructions
    this.#lint = new ToolLint(strict)
    this.#tools = new Catalog(entries(ToolEntry, tools, 'tools'), findIn(extensions, 'tools', ToolEntry).map(find => this.#admitted(find)))
    this.#resources = new Catalog(entries(ResourcesEntry, resources, 'resources'), findIn(extensions, 'resources', ResourcesEntry))
    this.#prompts = new Catalog(entries<AnyPrompt>(AnyPrompt, prompts, 'prompts'), findIn<AnyPrompt>(extensions, 'prompts', AnyPrompt))
    this.#subscriptions = subscriptions === undefined ? undefined : entries(SubscriptionsEntry, [subscriptions], 'subscriptions')[0]
    this.buses = this.#subscriptions?.buses ?? []
    this.#middleware = middleware
    this.#pageSize = pageSize
    if (cache !== undefined) this.cache = cache
    this.#defaults = { repairArguments: options.repairArguments ?? false, maxResultSize: options.maxResultSize ?? Infinity }
    this.capabilities = Object.freeze(this.#capabilitiesOf(options))
    this.#checkCache(extensions)
    this.#lint.check(this.#tools.own)
  }

  setup ({ log }: FastifyInstance): void {
    this.#lint.mounted(this.#tools.own, log)
    this.#subscriptions?.mounted(log)
  }

  /** Synchronous where nobody has to be waited for: most calls are found at once, and many tools answer at once. */
  handleRequest (request: McpRequest, channel: Channel<unknown>): Awaitable<AnyOutcome> {
    return andThen(this.#prepare(request, channel), work => {
      return this.#middleware.length === 0 || request.method === 'subscriptions/listen' ? work.run() : this.#surround(work, request, channel)
    })
  }

  async #surround (work: Work, request: McpRequest, channel: Channel<unknown>): Promise<AnyOutcome> {
    const around = new Around(this.#middleware, { request, channel: channel as Channel, work, extensions: Object.keys(this.capabilities.extensions ?? {}) })
    const opened = await around.first()
    return opened === undefined ? await this.#settle(around, channel) : this.#hold(opened.live as Live, around, channel)
  }

  handleMessage (message: unknown, channel: Channel<unknown>, live: Live): Awaitable<MessageOutcome<Live>> {
    const { owner, state, around, finished } = live
    // Before whatever else is in the mailbox, which may have been too full for the message that says so.
    if (around?.isSettled === true) return this.#settle(around, channel)
    if (finished === true) return stream(live)
    const handled = owner instanceof SubscriptionsEntry ? owner.handleMessage(message, channel, state as Listened) : owner.handleMessage(message, channel, state, this.#defaults)
    return andThen<MessageOutcome<unknown>, MessageOutcome<Live>>(handled, outcome => {
      if (outcome.type === 'stream') return stream(outcome.state === state ? live : { ...live, state: outcome.state })
      if (around === undefined || outcome.type === 'stop') return outcome
      around.finish(outcome)
      return stream({ ...live, finished: true })
    })
  }

  async handleClose (context: RequestContext, { owner, state, around }: Live, reason: CloseReason): Promise<void> {
    await around?.abort(context.signal.reason)
    if (owner instanceof SubscriptionsEntry) await owner.handleClose(context, state as Listened, reason)
    else await owner.handleClose(context, state, reason)
  }

  async callTool (...[name, args, options]: Parameters<Suite['callTool']>): Promise<CallToolResult> {
    return await callInProcess(this, name, args, options)
  }

  add (provider: AnyProvider): void {
    const { catalog, kind, capability, completes } = this.#placeOf(provider)
    if (this.capabilities[capability] === undefined) {
      throw new MCP_ERR_BAD_PROVIDER('A provider', `cannot be added: give createSuite the option ${capability}, if only an empty list`)
    }
    // Clients have been told what there is.
    if (completes === true && this.capabilities.completions === undefined) {
      throw new MCP_ERR_BAD_PROVIDER('A provider that completes', 'cannot be added: give createSuite the option capabilities with completions, if only {}')
    }
    if (provider instanceof ToolEntry) this.#lint.check([provider])
    // The catalog was chosen by what the provider is.
    catalog.add(provider as never)
    if (provider instanceof ToolEntry) this.#lint.added(provider)
    this.#subscriptions?.announce(kind)
  }

  remove (provider: AnyProvider): boolean {
    const { catalog, kind } = this.#placeOf(provider)
    const removed = catalog.remove(provider as never)
    if (removed) this.#subscriptions?.announce(kind)
    return removed
  }

  // ---- each method

  /** Finds what is asked for, or throws McpError; what comes back answers. */
  #prepare (request: McpRequest, channel: Channel<unknown>): Awaitable<Work> {
    switch (request.method) {
      case 'tools/call': return this.#prepareCall(request, channel)
      case 'tools/list': return { run: async () => await this.#listTools(request, channel) }
      case 'resources/list': return { run: async () => await this.#list(this.#resources, request, channel, sourcesOf, ({ uri }) => uri, listResourcesResult) }
      case 'resources/templates/list': return { run: async () => await this.#list(this.#resources, request, channel, templatesOf, ({ uriTemplate }) => uriTemplate, listResourceTemplatesResult) }
      case 'resources/read': return this.#prepareRead(request, channel)
      case 'prompts/list': return { run: async () => await this.#list(this.#prompts, request, channel, promptsOf, ({ name }) => name, listPromptsResult) }
      case 'prompts/get': return this.#prepareGet(request, channel)
      case 'completion/complete': return { run: async () => await complete(request, channel, this.#prompts, this.#resources) }
      case 'subscriptions/listen': return { run: async () => await this.#listen(request, channel) }
      case 'server/discover': throw McpError.unsupportedMethod(request.method)
    }
  }

  #prepareCall (request: RequestOf<'tools/call'>, channel: Channel<unknown>): Awaitable<Work> {
    return andThen(this.#tools.find(request.params.name, channel), tool => this.#callOf(tool, request, channel))
  }

  #callOf (tool: ToolEntry | undefined, request: RequestOf<'tools/call'>, channel: Channel<unknown>): Work {
    if (tool === undefined) throw new McpError({ kind: 'unknownTool', name: request.params.name })
    if (!isInProcess(request)) tool.checkHeaders(request, channel)
    return {
      tool,
      run: () => andThen(tool.call(request, channel, this.#defaults), outcome => outcome.type === 'stream' ? stream({ owner: tool, state: outcome.state }) : outcome)
    }
  }

  async #prepareRead ({ params: { uri } }: RequestOf<'resources/read'>, channel: Channel<unknown>): Promise<Work> {
    const { entry, vars, personal } = await findResource(this.#resources, uri, channel)
    return { run: async () => await entry.read(uri, vars, channel as Channel, personal) }
  }

  async #prepareGet ({ params: { name, arguments: sent } }: RequestOf<'prompts/get'>, channel: Channel<unknown>): Promise<Work> {
    const entry = await findPrompt(this.#prompts, name, channel)
    return { run: async () => await entry.get(name, sent, channel as Channel) }
  }

  async #listTools (request: RequestOf<'tools/list'>, channel: Channel<unknown>): Promise<AnyOutcome> {
    const catalog = this.#tools
    if (!catalog.isPublic || this.#pageSize !== Infinity || request.params.cursor !== undefined) {
      return await this.#list(catalog, request, channel, toolsOf, ({ name }) => name, listToolsResult)
    }
    if (this.#toolList?.revision !== catalog.revision) {
      // Frozen, so that its JSON is made once.
      this.#toolList = { revision: catalog.revision, result: Object.freeze(listToolsResult(catalog.own.map(({ tool }) => tool), this.#hint(false))) }
    }
    return result(this.#toolList.result as ReturnType<typeof listToolsResult>)
  }

  async #list<P extends ToolEntry | ResourcesEntry | AnyPrompt, T, R extends CacheableResult> (
    catalog: Catalog<P>, request: RequestOf<'tools/list' | 'resources/list' | 'resources/templates/list' | 'prompts/list'>, channel: Channel<unknown>,
    sources: (providers: readonly P[], context: RequestContext, leftOut: Throttle) => readonly ListSource<T>[], idOf: (item: T) => string,
    build: (items: readonly T[], options: { readonly nextCursor?: string, readonly cache?: CacheHint }) => R
  ): Promise<AnyOutcome> {
    const { context, looked } = watchCaller<RequestContext>(channel)
    const visible = await catalog.visible(channel)
    const listed = sources(visible, context, this.#leftOut)
    const { cursor } = request.params
    const { items, nextCursor }: Listed<T> = await listPage(listed, idOf, channel, cursor, this.#pageSize)
    // All pages have one scope (2026-07-28, Caching), and nobody knows whether a page that comes later will look at who asks.
    const mayLook = (cursor ?? nextCursor) !== undefined && listed.some(({ asks }) => asks)
    return result(build(items, { ...nextCursor !== undefined && { nextCursor }, ...this.#hint(!catalog.isPublic || looked() || mayLook) }) as never)
  }

  async #listen (request: RequestOf<'subscriptions/listen'>, channel: Channel<unknown>): Promise<AnyOutcome> {
    const owner = this.#subscriptions
    if (owner === undefined) throw McpError.unsupportedMethod(request.method)
    const outcome = await owner.subscribe(request, channel, this.#resources)
    return outcome.type === 'stream' ? stream({ owner, state: outcome.state }) : outcome
  }

  // ---- around them

  /** The stream is open while its middleware waits: that it has said what it says comes as a message. */
  #hold (live: Live, around: Around, channel: Channel<unknown>): AnyOutcome {
    around.whenSettled(() => { if (!channel.closed) channel.ref.post(SETTLED) })
    return stream({ ...live, around })
  }

  /** What middleware says in the end. What it throws is masked as what a tool throws; of other methods it is a crash, as a bad return always is. */
  async #settle (around: Around, channel: Channel<unknown>): Promise<RequestOutcome<never>> {
    try {
      return await around.outcome
    } catch (error) {
      if (channel.request.method !== 'tools/call' || error instanceof MCP_ERR_BAD_RETURN) throw error
      if (!channel.signal.aborted) channel.log.error({ err: error, mcp: { middleware: true } }, 'a middleware threw')
      return result(toolResult.error('The tool failed.'))
    }
  }

  #hint (personal: boolean): { readonly cache?: CacheHint } {
    if (this.cache === undefined) return {}
    return { cache: personal ? { ...this.cache, scope: 'private' } : this.cache }
  }

  #placeOf (provider: unknown): Place {
    if (provider instanceof ToolEntry) return { catalog: this.#tools, kind: 'toolsListChanged', capability: 'tools' }
    if (provider instanceof ResourcesEntry) return { catalog: this.#resources, kind: 'resourcesListChanged', capability: 'resources', completes: provider.completes }
    if (provider instanceof AnyPrompt) return { catalog: this.#prompts, kind: 'promptsListChanged', capability: 'prompts', completes: provider.completes }
    throw new MCP_ERR_BAD_PROVIDER('A provider', 'was given that no define function made')
  }

  #admitted (find: Found<ToolEntry>): Found<ToolEntry> {
    return async context => this.#lint.admit(await find(context), context.log)
  }

  #capabilitiesOf ({ tools, resources, prompts, extensions = [], capabilities }: SuiteOptions): ServerCapabilities {
    const kinds = this.#subscriptions?.kinds
    const found = (kind: keyof SuiteExtension): boolean => extensions.some(extension => extension[kind] !== undefined)
    const completes = this.#prompts.own.some(({ completes }) => completes) || this.#resources.own.some(({ completes }) => completes)
    return {
      ...capabilities,
      logging: {},
      ...(tools !== undefined || found('tools')) && { tools: kinds?.has('toolsListChanged') === true ? { listChanged: true } : {} },
      ...(prompts !== undefined || found('prompts')) && { prompts: kinds?.has('promptsListChanged') === true ? { listChanged: true } : {} },
      ...(resources !== undefined || found('resources')) && {
        resources: {
          ...kinds?.has('resourcesListChanged') === true && { listChanged: true },
          ...kinds?.has('resourceSubscriptions') === true && { subscribe: true }
        }
      },
      // What extensions find may complete too.
      ...(completes || found('prompts') || found('resources')) && { completions: {} }
    }
  }

  #checkCache (extensions: readonly SuiteExtension[]): void {
    if (this.cache?.scope !== 'public') return
    const guarded = [this.#tools, this.#resources, this.#prompts].some(catalog => !catalog.isPublic)
    if (guarded || extensions.length > 0) throw new MCP_ERR_BAD_PROVIDER('createSuite', "was given the cache scope 'public' together with access or extensions: lists that depend on the caller are private")
  }
}

// ---- what a list is made of

const toolsOf = (tools: readonly ToolEntry[]): readonly ListSource<ToolEntry['tool']>[] => tools.map(({ key, tool }) => ({ key, list: () => ({ items: [tool] }) }))
const sourcesOf = (entries: readonly ResourcesEntry[], context: RequestContext, leftOut: Throttle) => entries.map(entry => entry.source(context, leftOut))
const promptsOf = (entries: readonly AnyPrompt[], context: RequestContext, leftOut: Throttle) => entries.map(entry => entry.source(context, leftOut))
const templatesOf = (entries: readonly ResourcesEntry[]): readonly ListSource<NonNullable<ResourcesEntry['template']>>[] =>
  entries.flatMap(({ key, template }) => template === undefined ? [] : [{ key, list: () => ({ items: [template] }) }])

// ---- what createSuite is given

function checkOptions (options: SuiteOptions): SuiteOptions {
  const stranger = Object.keys(options).find(name => !OPTIONS.has(name))
  if (stranger !== undefined) throw new MCP_ERR_BAD_PROVIDER('createSuite', `was given the option ${stranger}, which is not known`)
  checkDefinition('createSuite: info', Implementation, options.info)
  const { pageSize, maxResultSize, middleware, cache } = options
  for (const [name, value] of Object.entries({ pageSize, maxResultSize })) {
    if (value !== undefined && !(Number.isInteger(value) && value > 0)) throw new MCP_ERR_BAD_PROVIDER('createSuite', `was given a ${name} that is no whole number from 1`)
  }
  if (middleware?.some(around => typeof around !== 'function') === true) throw new MCP_ERR_BAD_PROVIDER('createSuite', 'was given a middleware that is no function')
  if (cache !== undefined && !((cache.scope === 'public' || cache.scope === 'private') && Number.isInteger(cache.ttlMs) && cache.ttlMs >= 0)) {
    throw new MCP_ERR_BAD_PROVIDER('createSuite', "was given a cache that is no { scope: 'public' | 'private', ttlMs: whole number }")
  }
  for (const id of Object.keys(options.capabilities?.extensions ?? {})) {
    if (!isExtension(id)) throw new MCP_ERR_BAD_PROVIDER('createSuite', `was given the extension ${id}, whose identifier has no prefix`)
  }
  return options
}

type EntryClass<E> = abstract new (...args: never[]) => E

function entries<E> (type: EntryClass<E>, providers: readonly unknown[] | undefined, option: string): readonly E[] {
  for (const provider of providers ?? []) {
    if (!(provider instanceof type)) throw new MCP_ERR_BAD_PROVIDER('createSuite', `was given in ${option} what no define function of that kind made`)
  }
  // Each has been looked at.
  return (providers ?? []) as readonly E[]
}

/** Where an extension is asked: once a request, however often that looks. */
function findIn<E> (extensions: readonly SuiteExtension[], kind: keyof SuiteExtension, type: EntryClass<E>): readonly Found<E & never>[] {
  return extensions.flatMap(extension => {
    if (extension[kind] === undefined) return []
    const asked = new WeakMap<object, Promise<readonly (E & never)[]>>()
    return [async (context: RequestContext) => {
      const known = asked.get(context.request)
      if (known !== undefined) return await known
      // Each has been looked at.
      const found = (async () => entries(type, await extension[kind]?.(context), `an extension's ${kind}`) as readonly (E & never)[])()
      asked.set(context.request, found)
      return await found
    }]
  })
}
