import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { Throttle } from './throttle.js'
import type { FastifyBaseLogger } from 'fastify'
import type { ToolEntry } from './tool.js'

/** What is made of tools that some clients refuse, whenever they come: they are told of, or with `strict` not taken. */
export class ToolLint {
  readonly #strict: boolean
  /** Those that have been told of. */
  readonly #told = new WeakSet<ToolEntry>()
  /** An extension may make its tools anew for each request. */
  readonly #found = new Throttle()
  /** Of the mount that came last. */
  #log: FastifyBaseLogger | undefined

  constructor (strict: boolean) {
    this.#strict = strict
  }

  /** Throws MCP_ERR_BAD_PROVIDER for a tool that a strict Suite does not take. */
  check (tools: readonly ToolEntry[]): void {
    const warnings = this.#strict ? tools.flatMap(({ warnings }) => warnings) : []
    if (warnings.length > 0) throw new MCP_ERR_BAD_PROVIDER('A strict Suite', `refuses: ${warnings.join('; ')}`)
  }

  /** A mount is told of the tools that there are, and from now on of those that are added. */
  mounted (tools: readonly ToolEntry[], log: FastifyBaseLogger): void {
    this.#log = log
    for (const tool of tools) this.#tell(tool, log)
  }

  /** Without a mount it is told of when there is one. */
  added (tool: ToolEntry): void {
    if (this.#log !== undefined && !this.#told.has(tool)) this.#tell(tool, this.#log)
  }

  /** The tools of an extension that are taken. There is nobody to throw at: the log tells of those that are not. */
  admit (tools: readonly ToolEntry[], log: FastifyBaseLogger): readonly ToolEntry[] {
    return tools.every(({ warnings }) => warnings.length === 0) ? tools : tools.filter(tool => this.#admits(tool, log))
  }

  #admits (tool: ToolEntry, log: FastifyBaseLogger): boolean {
    if (tool.warnings.length === 0) return true
    if (!this.#told.has(tool) && this.#found.allows(tool.key)) {
      if (this.#strict) log.error({ mcp: { lint: true } }, `a strict Suite leaves out what an extension found: ${tool.warnings.join('; ')}`)
      else this.#tell(tool, log)
    }
    this.#told.add(tool)
    return !this.#strict
  }

  #tell (tool: ToolEntry, log: FastifyBaseLogger): void {
    this.#told.add(tool)
    for (const warning of tool.warnings) log.warn({ mcp: { lint: true } }, warning)
  }
}
