// Answers one call with much text; a process of its own, so that its memory is its own and its loop may stand still.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import Fastify from 'fastify'
import genMcp, { createSuite, defineServer, defineTool, result, toolResult, type ToolProvider } from 'fastify-gen-mcp'
import { onTold, readRole, Resident, say } from './process.js'
import type { AddressInfo } from 'node:net'

/** What it is told to be, and what it answers with when it is asked what came of it. */
export interface Role { readonly suite: boolean, readonly bytes: number, readonly maxResultSize?: number }
export interface Took {
  /** Bytes: before, and the most meanwhile. */
  readonly before: number
  readonly most: number
  /** The longest that the event loop stood still, in ms. */
  readonly delay: number
}

const { suite, bytes, maxResultSize } = readRole<Role>()
const resident = new Resident()
const delay = monitorEventLoopDelay({ resolution: 1 })
const LINE = 'What a tool reads from a file or a table, line after line of it. '
let before = 0

/** Made anew in each call, as that of a tool would be. */
function text (name: string): string {
  return name === 'large' ? LINE.repeat(Math.ceil(bytes / LINE.length)).slice(0, bytes) : 'small'
}

function createTool (name: string): ToolProvider {
  return defineTool({ name, description: 'Answers with text', call: () => toolResult.text(text(name)) })
}

const info = { name: 'load', version: '1.0.0' }
const server = suite
  ? createSuite({ info, tools: ['large', 'small'].map(createTool), ...(maxResultSize !== undefined && { maxResultSize }) })
  : defineServer({ info, capabilities: { tools: {} }, handleRequest: { 'tools/call': ({ params: { name } }) => result(toolResult.text(text(name))) } })

const app = Fastify()
await app.register(genMcp, { prefix: '/mcp', server })
await app.listen({ port: 0, host: '127.0.0.1' })
onTold<'begin' | 'end'>(message => {
  if (message === 'begin') {
    before = resident.mark()
    delay.enable()
    say({ begun: true })
  } else {
    say({ before, most: resident.most(), delay: delay.max / 1e6 } satisfies Took)
  }
})
say({ port: (app.server.address() as AddressInfo).port })
