import { createSuite } from 'fastify-gen-mcp'
import { createTestClient, type TestAnswer, type TestRequestOptions } from 'fastify-gen-mcp/testing'
import { info } from './servers.js'
import { stage, type Line } from './sockets.js'
import type { FastifyInstance } from 'fastify'
import type { JsonObject, ListToolsResult, SuiteOptions, Tool, ToolProvider } from 'fastify-gen-mcp'
import type { Test } from 'tap'

/** A Suite of tools on a mount at /mcp, and a client of it. */
export interface ServedTools {
  readonly app: FastifyInstance
  /** Every line of the log, from debug on. */
  readonly lines: readonly Line[]
  call (name: string, args?: JsonObject, options?: TestRequestOptions): Promise<TestAnswer<'tools/call'>>
  list (): Promise<readonly Tool[]>
}

export async function serveTools (t: Test, tools: readonly ToolProvider[], options: Partial<SuiteOptions> = {}): Promise<ServedTools> {
  const { app, lines } = await stage(t, createSuite({ info, tools, ...options }), { listen: false })
  const client = createTestClient(app)
  return {
    app,
    lines,
    call: async (name, args = {}, requestOptions) => await client.request('tools/call', { name, arguments: args }, requestOptions),
    list: async () => ((await client.request('tools/list', {})).result as ListToolsResult).tools
  }
}

/** The texts that a call was answered with, a line each. */
export function textOf ({ result }: TestAnswer<'tools/call'>): string {
  const { content = [] } = (result ?? {}) as { readonly content?: readonly { readonly type: string, readonly text?: string }[] }
  return content.map(({ text = '' }) => text).join('\n')
}

/** Whether a call was answered with a failure that a model may read. */
export function failed ({ statusCode, result }: TestAnswer<'tools/call'>): boolean {
  return statusCode === 200 && (result as { readonly isError?: boolean } | undefined)?.isError === true
}
