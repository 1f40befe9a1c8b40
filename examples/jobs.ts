import { setTimeout } from 'node:timers/promises'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, fail, listToolsResult, messageType, result, stream, toolResult } from 'fastify-gen-mcp'
import { Queue, type JobEvent } from './queue.js'
import { startIfMain } from './start.js'

const inputSchema = { type: 'object', properties: { pages: { type: 'integer', minimum: 1 } }, required: ['pages'] }

// #region jobs
function createJobs (queue: Queue) {
  return defineServer({
    info: { name: 'jobs', version: '1.0.0' },
    capabilities: { tools: {} },
    messages: messageType<JobEvent>(),
    handleRequest: {
      'tools/list': () => result(listToolsResult([{ name: 'render', description: 'Renders a document', inputSchema }])),
      'tools/call' ({ params: { name, arguments: { pages } } }, channel) {
        if (name !== 'render') return fail({ kind: 'unknownTool', name })
        if (typeof pages !== 'number') return result(toolResult.error('pages must be a number'))
        return stream({ jobId: queue.add(pages, channel.ref) }) // the queue posts to the ref
      }
    },
    handleMessage (event, channel, live) {
      if ('output' in event) return result(toolResult.text(event.output))
      if ('error' in event) return result(toolResult.error(event.error))
      channel.sendProgress(event.done, event.total)
      return stream(live)
    },
    handleClose ({ log }, { jobId }, reason) { // nobody waits for this job any more
      log.info({ jobId, reason }, 'job cancelled')
      queue.cancel(jobId)
    }
  })
}
// #endregion

const render = async (page: number, signal: AbortSignal): Promise<string> => await setTimeout(500, `page ${page}`, { signal })

export async function build (options: FastifyServerOptions = {}, queue: Queue = new Queue(render)): Promise<FastifyInstance> {
  const app = Fastify(options)
  await app.register(genMcp, { server: createJobs(queue) })
  return app
}

await startIfMain(import.meta.url, build)
