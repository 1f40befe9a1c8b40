import { createTestClient, testExchange } from 'fastify-gen-mcp/testing'
import { build, calculator } from './calculator.js'

// #region inject
/** Through the whole app: hooks, headers, statuses. */
export async function callThroughApp () {
  const app = await build()
  const client = createTestClient(app)
  const { statusCode, result } = await client.request('tools/call', { name: 'add', arguments: { a: 2, b: 3 } })
  await client.close()
  await app.close()
  return { statusCode, result }
}
// #endregion

// #region exchange
/** The server alone, without HTTP. */
export async function callServer () {
  const { answer, ended } = testExchange(calculator, 'tools/call', { name: 'add', arguments: { a: 2, b: 3 } })
  return { ...await answer, cause: (await ended).cause }
}
// #endregion
