import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { createSuite, defineTool, McpError, toolResult, type Middleware } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

const keys = new Map([['key-of-ada', 'ada'], ['key-of-bob', 'bob']])

// #region quota
/** So many calls of tools a minute for each caller; lists are free. */
function createQuota (limit: number, now: () => number): Middleware {
  let calls = new Map<string, number>() // several replicas count in a store that they share
  let endsAt = 0
  return async ({ method }, channel, next) => {
    if (method !== 'tools/call') return await next()
    if (now() >= endsAt) [calls, endsAt] = [new Map(), now() + 60_000]
    const caller = channel.principal ?? channel.httpRequest.ip
    const count = calls.get(caller) ?? 0
    if (count >= limit) {
      const retryAfter = Math.ceil((endsAt - now()) / 1000)
      channel.header('retry-after', String(retryAfter))
      throw new McpError({ kind: 'custom', rpcCode: 429, statusCode: 429, message: `Try again in ${retryAfter} s`, data: { retryAfter } })
    }
    calls.set(caller, count + 1)
    return await next()
  }
}
// #endregion

// #region audit
const audit: Middleware = async ({ method, params }, { log, principal }, next) => {
  const start = performance.now()
  let outcome = 'crash' // a throw that is no McpError
  try {
    const value = await next()
    outcome = 'isError' in value && value.isError ? 'failed' : value.resultType
    return value
  } catch (error) {
    if (error instanceof McpError) outcome = error.code
    throw error
  } finally {
    log.info({ caller: principal, method, name: 'name' in params ? params.name : undefined, outcome, ms: performance.now() - start }, 'audit')
  }
}
// #endregion

const convert = defineTool({
  name: 'convert',
  description: 'Euros to dollars.',
  input: Type.Object({ euros: Type.Number() }),
  call: ({ euros }) => euros < 0 ? toolResult.error('Nobody pays less than nothing.') : toolResult.data({ dollars: euros * 1.5 })
})

export async function build (options: FastifyServerOptions = {}, now: () => number = Date.now): Promise<FastifyInstance> {
  const app = Fastify(options)
  const server = createSuite({ info: { name: 'rates', version: '1.0.0' }, tools: [convert], middleware: [audit, createQuota(2, now)] })
  await app.register(genMcp, { server, principal: ({ headers }) => keys.get(String(headers['x-api-key'])) })
  return app
}

await startIfMain(import.meta.url, build)
