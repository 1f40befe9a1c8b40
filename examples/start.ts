import { pathToFileURL } from 'node:url'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'

/** What each example exports. */
export type Build = (options?: FastifyServerOptions) => Promise<FastifyInstance>

/** Makes an example listen if it is the file that node was told to run, and gives its address; undefined if it was imported. */
export async function startIfMain (moduleUrl: string, build: Build): Promise<string | undefined> {
  if (moduleUrl !== pathToFileURL(process.argv[1] ?? '').href) return undefined
  const app = await build({ logger: true })
  return await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })
}
