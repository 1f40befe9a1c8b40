import { setImmediate } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { createSuite, defineTool, toolResult } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

/** Where lines are put; a transaction, say, which is committed or given up. */
export interface Store { add (line: string, signal: AbortSignal): Promise<boolean>, close (complete: boolean): void }

// #region progress
function createImport (open: () => Store) {
  return defineTool({
    name: 'import',
    description: 'Imports prices, one a line.',
    input: Type.Object({ lines: Type.Array(Type.String()) }),
    output: Type.Object({ imported: Type.Integer(), skipped: Type.Integer() }),
    async * call ({ lines }, { signal }) {
      const store = open()
      let imported = 0
      let complete = false
      try {
        for (const [index, line] of lines.entries()) {
          if (await store.add(line, signal)) imported++
          else yield { level: 'warning', data: { line: index + 1, problem: 'is no price' } }
          yield { progress: index + 1, total: lines.length, message: line }
        }
        complete = true
        return toolResult.data({ imported, skipped: lines.length - imported })
      } finally {
        store.close(complete) // a client that leaves ends it here
      }
    }
  })
}
// #endregion

function openMemory (): Store {
  const prices: number[] = []
  return {
    async add (line, signal) {
      const price = await setImmediate(Number(line), { signal })
      return !Number.isNaN(price) && prices.push(price) > 0
    },
    close (complete) { if (!complete) prices.length = 0 }
  }
}

export async function build (options: FastifyServerOptions = {}, open: () => Store = openMemory): Promise<FastifyInstance> {
  const app = Fastify(options)
  await app.register(genMcp, { server: createSuite({ info: { name: 'prices', version: '1.0.0' }, tools: [createImport(open)] }) })
  return app
}

await startIfMain(import.meta.url, build)
