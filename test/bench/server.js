/** The process of one server, and what the bench asks of it. */
import { EventEmitter } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { createBareAsyncFastify, createBareFastify, createBareHttp } from './bare.js'
import { createOurs } from './ours.js'
import { answerCalls } from './process.js'
import { createSuiteOf } from './suite.js'

/** Each gives a port, and a function that counts the listens. */
const kinds = {
  http: createBareHttp,
  fastify: createBareFastify,
  'fastify-async': createBareAsyncFastify,
  ours: createOurs,
  suite: createSuiteOf(1),
  'suite-100': createSuiteOf(100),
  'suite-1000': createSuiteOf(1_000)
}
const changes = new EventEmitter().setMaxListeners(0)
let server

answerCalls({
  /** Its port. */
  async listen (kind) {
    server = await kinds[kind](changes)
    return server.port
  },

  /** CPU time so far, in microseconds. */
  cpu () {
    const { user, system } = process.cpuUsage()
    return user + system
  },

  /** What is in use when all that can be freed has been. */
  async memory () {
    for (let round = 0; round < 3; round++) {
      global.gc()
      await setTimeout(50)
    }
    const { rss, heapUsed, external } = process.memoryUsage()
    return { rss, used: heapUsed + external }
  },

  listens: () => server.listens(),

  /** Tells all listens of a change; the time just before, on the clock that all processes share. */
  change () {
    const at = process.hrtime.bigint()
    changes.emit('changed')
    return String(at)
  }
})
