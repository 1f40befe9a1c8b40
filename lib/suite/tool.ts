import { andThen, promiseOr } from '../awaitable.js'
import { MCP_ERR_BAD_PROVIDER, McpError } from '../errors.js'
import { badReturn, fail, isOutcome, result, stream } from '../outcome.js'
import { ClientCapabilities, Tool as ToolSchema, toolResult, type JsonObject, type Tool } from '../protocol/index.js'
import { compileTypeBox } from '../schema.js'
import { checkParamHeaders, checkParamAnnotations } from '../transport/param-headers.js'
import { Arguments } from './arguments.js'
import { checkDefinition, checkFunction, checkName, lintName, pick } from './definition.js'
import { lint, toJsonSchema } from '../json-schema.js'
import { Output } from './output.js'
import { Provider } from './provider.js'
import { checkResult } from './results.js'
import type { TSchema } from '@sinclair/typebox'
import type { TypeCheck } from '@sinclair/typebox/compiler'
import type { FastifyBaseLogger } from 'fastify'
import type { Channel, RequestContext } from '../../types/channel.js'
import type { CloseReason } from '../../types/exchange.js'
import type { RequestOutcome } from '../../types/outcome.js'
import type { LogUpdate, ProgressUpdate, ToolDefinition, ToolProvider } from '../../types/providers.js'
import type { RequestOf } from '../../types/request.js'
import type { CallToolResult } from '../../types/results.js'
import type { Awaitable, TypeBoxSchema } from '../../types/schema.js'

/** A definition whose types nobody needs to know any more. */
type AnyDefinition = ToolDefinition<unknown, unknown, unknown, unknown>
export type ToolAnswer = RequestOutcome<unknown, 'tools/call'>
type Updates = AsyncIterator<ProgressUpdate | LogUpdate, unknown, void>

/** What the Suite holds its tools to where a tool does not say. */
export interface ToolDefaults { readonly repairArguments: boolean, readonly maxResultSize: number }

// A TObject has the phantom members that TypeBoxSchema names.
const capabilitiesCheck = compileTypeBox(ClientCapabilities as unknown as TypeBoxSchema)
const MASKED = 'The tool failed.'

/**
 * A tool, with the types of its arguments, result, state and messages inferred. What makes no sense throws MCP_ERR_BAD_PROVIDER: a name outside the
 * specification's set, a schema that does not compile, an `x-mcp-header` that clients would drop the tool for.
 */
export function defineTool<Args = JsonObject, Out = unknown, Live = never, Msg = never> (definition: ToolDefinition<Args, Out, Live, Msg>): ToolProvider {
  // The entry checks what comes in and goes out, so that the types hold.
  return new ToolEntry(definition as unknown as AnyDefinition) as unknown as ToolProvider
}

/** One tool: how it is listed, and how it is called. */
export class ToolEntry extends Provider {
  readonly key: string
  readonly definition: AnyDefinition
  /** As it is listed. */
  readonly tool: Tool
  /** Right, but not to every client's taste. */
  readonly warnings: readonly string[]
  readonly #owner: string
  readonly #output: Output | undefined
  readonly #arguments: Arguments
  readonly #messages: TypeCheck<TSchema> | undefined

  constructor (definition: AnyDefinition) {
    super(definition)
    checkName('A tool', definition.name)
    const owner = `The tool ${definition.name}`
    checkFunction(owner, 'call', definition.call)
    checkMembers(owner, definition)
    this.#owner = owner
    this.key = definition.name
    this.definition = definition
    this.#arguments = new Arguments(owner, definition.input)
    const { schema } = this.#arguments
    if (schema['type'] !== 'object') throw new MCP_ERR_BAD_PROVIDER(owner, 'has an input that is no object')
    checkParamAnnotations(schema, owner)
    const outputSchema = definition.output === undefined ? undefined : toJsonSchema(definition.output, 'output', owner)
    this.#output = outputSchema && new Output(owner, outputSchema, definition.stripOutput ?? false)
    this.#messages = compileMessages(owner, definition.messages)
    this.tool = Object.freeze({
      ...pick(definition, 'name', 'title', 'description', 'icons', 'annotations', '_meta'),
      inputSchema: schema,
      ...outputSchema !== undefined && { outputSchema }
    })
    checkDefinition(owner, ToolSchema, this.tool)
    this.warnings = [...this.#lint()].map(problem => `${owner} ${problem}`)
  }

  checkHeaders (request: RequestOf<'tools/call'>, { httpRequest }: RequestContext): void {
    checkParamHeaders(this.tool.inputSchema, request, httpRequest)
  }

  /** Calls it: what the client must declare, arguments, the author's code, what that gave. */
  call ({ params }: RequestOf<'tools/call'>, channel: Channel<unknown>, defaults: ToolDefaults): Awaitable<ToolAnswer> {
    const { requires, repairArguments = defaults.repairArguments } = this.definition
    if (requires !== undefined) channel.requireCapability(requires)
    return andThen(this.#arguments.read(params.arguments, repairArguments), read => {
      if (read.ok) return this.#guard(channel, defaults, () => this.definition.call(read.value, channel))
      return result(toolResult.error(`The arguments do not fit:\n${read.issues.map(({ path, message }) => `${path} ${message}`).join('\n')}`))
    })
  }

  handleMessage (message: unknown, channel: Channel<unknown>, live: unknown, defaults: ToolDefaults): Awaitable<ToolAnswer> {
    const { handleMessage } = this.definition
    if (handleMessage === undefined) return stream(live)
    if (this.#messages?.Check(message) === false) {
      channel.log.warn({ mcp: { tool: this.key } }, 'a message that does not fit the tool\'s schema was skipped')
      return stream(live)
    }
    return this.#guard(channel, defaults, () => handleMessage.call(this.definition, message, channel, live))
  }

  /** A result, if it keeps the promise of the output; else a failure. */
  hold (given: CallToolResult, log: FastifyBaseLogger): CallToolResult {
    return this.#output === undefined ? given : this.#output.check(given, log)
  }

  async handleClose (context: RequestContext, live: unknown, reason: CloseReason): Promise<void> {
    await this.definition.handleClose?.(context, live, reason)
  }

  /** What the author's code throws stays in the log, unless it is an McpError, and what it gives is held against the contract. */
  #guard (channel: Channel<unknown>, defaults: ToolDefaults, work: () => unknown): Awaitable<ToolAnswer> {
    let answer: unknown
    try {
      answer = promiseOr(work())
    } catch (error) {
      return this.#thrown(error, channel)
    }
    return answer instanceof Promise || isGenerator(answer) ? this.#await(answer, channel, defaults) : this.#check(answer, channel, defaults)
  }

  async #await (work: Promise<unknown> | Updates, channel: Channel<unknown>, defaults: ToolDefaults): Promise<ToolAnswer> {
    let answer: unknown
    try {
      answer = await work
      if (isGenerator(answer)) answer = await this.#consume(answer, channel)
    } catch (error) {
      return this.#thrown(error, channel)
    }
    return this.#check(answer, channel, defaults)
  }

  #thrown (error: unknown, { signal, log }: Channel<unknown>): ToolAnswer {
    if (error instanceof McpError) return fail(error)
    // Whatever stops for a client that has gone is no fault.
    if (!signal.aborted) log.error({ err: error, mcp: { tool: this.key } }, 'a tool threw')
    return result(toolResult.error(MASKED))
  }

  #check (answer: unknown, { log }: Channel<unknown>, defaults: ToolDefaults): ToolAnswer {
    if (isOutcome(answer) && answer.type !== 'result') {
      if (answer.type === 'stop') throw badReturn(`${this.#owner}: its callback`, answer)
      return answer
    }
    const given: unknown = isOutcome(answer) && answer.type === 'result' ? answer.result : answer
    checkResult(`${this.#owner}: its callback`, 'tools/call', given, answer)
    const sent = this.hold(given as CallToolResult, log)
    const { maxResultSize = defaults.maxResultSize } = this.definition
    if (maxResultSize !== Infinity && Buffer.byteLength(JSON.stringify(sent)) > maxResultSize) {
      return result(toolResult.error(`The result is larger than ${maxResultSize} bytes, which is as much as this tool may answer.`))
    }
    return result(sent)
  }

  /** Sends what a generator yields, each before the next is asked for; gives what it returns. A close ends it, and so does a yield that makes no sense. */
  async #consume (updates: Updates, channel: Channel<unknown>): Promise<unknown> {
    const stop = (): void => {
      // Nobody waits for a generator that was closed: what its own end throws is to be seen here.
      updates.return?.(undefined).catch((error: unknown) => { channel.log.error({ err: error, mcp: { tool: this.key } }, 'a tool that was closed threw') })
    }
    channel.signal.addEventListener('abort', stop, { once: true })
    if (channel.signal.aborted) stop()
    try {
      for (;;) {
        const { done, value } = await updates.next()
        if (done === true) return value
        if ('level' in value) channel.sendLog(value.level, value.data, value.logger)
        else channel.sendProgress(value.progress, value.total, value.message)
        await channel.drained()
      }
    } catch (error) {
      stop()
      throw error
    }
  }

  * #lint (): Generator<string> {
    yield * lintName(this.tool.name)
    if (this.tool.description === undefined) yield 'has no description'
    for (const problem of lint(this.tool.inputSchema)) yield `has an input that ${problem}`
    if (this.tool.outputSchema !== undefined) for (const problem of lint(this.tool.outputSchema)) yield `has an output that ${problem}`
  }
}

/** What else a definition has, that is of use only later. */
function checkMembers (owner: string, definition: AnyDefinition): void {
  const { handleMessage, handleClose, requires, maxResultSize } = definition
  for (const [name, callback] of Object.entries({ handleMessage, handleClose })) if (callback !== undefined) checkFunction(owner, name, callback)
  for (const name of ['stripOutput', 'repairArguments'] as const) {
    if (definition[name] !== undefined && typeof definition[name] !== 'boolean') throw new MCP_ERR_BAD_PROVIDER(owner, `must have true or false as ${name}`)
  }
  if (requires !== undefined && !capabilitiesCheck.Check(requires)) throw new MCP_ERR_BAD_PROVIDER(owner, 'must have client capabilities as requires')
  if (maxResultSize !== undefined && maxResultSize !== Infinity && !(Number.isInteger(maxResultSize) && maxResultSize > 0)) {
    throw new MCP_ERR_BAD_PROVIDER(owner, 'must have a whole number of bytes as maxResultSize')
  }
  // The protocol's names, under which a schema would hold nothing.
  for (const name of ['input', 'output']) if (`${name}Schema` in definition) throw new MCP_ERR_BAD_PROVIDER(owner, `has an ${name}Schema: give it as ${name}`)
}

function compileMessages (owner: string, messages: TypeBoxSchema | undefined): TypeCheck<TSchema> | undefined {
  try {
    return messages && compileTypeBox(messages)
  } catch (cause) {
    throw Object.assign(new MCP_ERR_BAD_PROVIDER(owner, 'must have a TypeBox schema as messages'), { cause })
  }
}

function isGenerator (answer: unknown): answer is Updates {
  return typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer && 'next' in answer
}
