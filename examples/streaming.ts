import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, fail, listToolsResult, messageType, result, stream, toolResult, type CallToolRequest, type Channel } from 'fastify-gen-mcp'
import { startIfMain } from './start.js'

const tools = ['count-words', 'read-lines'].map(name => ({ name, inputSchema: { type: 'object' } }))
const chapters = ['one two three', 'four five', 'six']

// #region progress
async function countWords (channel: Channel) {
  let words = 0
  for (const [index, chapter] of chapters.entries()) {
    words += await setImmediate(chapter.split(' ').length, { signal: channel.signal }) // aborts when the client leaves
    channel.sendProgress(index + 1, chapters.length, `chapter ${index + 1}`)
  }
  channel.sendLog('info', { words })
  return result(toolResult.data({ words }))
}
// #endregion

// #region sources
type Line = { readonly text: string } | { readonly end: true }

function readLines (channel: Channel<Line>, path: string) {
  const input = createReadStream(path)
  channel.defer(() => { input.destroy() })
  channel.consume(createInterface({ input }), { next: text => ({ text }), done: () => ({ end: true }) })
  channel.after(60_000, { end: true }) // sources stop with the request, whatever ended it
  return stream({ read: 0 })
}

const reader = defineServer({
  info: { name: 'reader', version: '1.0.0' },
  capabilities: { tools: {}, logging: {} },
  messages: messageType<Line>(),
  handleRequest: {
    'tools/list': () => result(listToolsResult(tools)),
    'tools/call': call
  },
  handleMessage (line, channel, live) {
    if ('end' in line) return result(toolResult.text(`${live.read} lines`))
    const read = live.read + 1
    channel.sendProgress(read, undefined, line.text)
    return stream({ read })
  }
})
// #endregion

function call ({ params: { name } }: CallToolRequest, channel: Channel<Line>) {
  if (name === 'count-words') return countWords(channel)
  if (name === 'read-lines') return readLines(channel, fileURLToPath(import.meta.url))
  return fail({ kind: 'unknownTool', name })
}

export async function build (options: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(options)
  await app.register(genMcp, { server: reader })
  return app
}

await startIfMain(import.meta.url, build)
