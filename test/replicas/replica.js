// A process of its own for the tests here: one replica of a server, with a Redis that all of them share. It does what it is told over IPC, and ends with whoever started it.
import { EventEmitter, once } from 'node:events'
import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import mqemitter from 'mqemitter-redis'
import genMcp, { busSubscriptions, createSuite, defineResources, defineTool, elicitForm, inputRequired, readResourceResult, toolResult } from 'fastify-gen-mcp'

// Task, Order and Report of cluster.ts are what it is given, is told and says.
const { redis: url, name, index, extra } = JSON.parse(process.argv[2])
const report = message => { process.send(message) }

/** Nothing is given up while Redis is away: an MQEmitter that had to give up a subscription would not say so. */
function connect () {
  const redis = new Redis(url, { maxRetriesPerRequest: null, enableAutoPipelining: true, retryStrategy: times => Math.min(times * 20, 200) })
  // The emitter's own close would wait for a Redis that is away.
  app.addHook('onClose', async () => { redis.disconnect() })
  return redis
}

/** Lists of Redis, a stream each, for five minutes. */
function redisEvents (redis) {
  const keyOf = stream => `${name}:${stream}`
  redis.on('error', error => { app.log.warn({ err: error }, 'the store of events is away') })
  return {
    async append (stream, event) {
      await redis.multi().rpush(keyOf(stream), JSON.stringify(event)).pexpire(keyOf(stream), 300_000).exec()
    },
    async after (stream, seq) {
      const events = await redis.lrange(keyOf(stream), 0, -1)
      return seq < events.length && events.length > 0 ? events.slice(seq + 1).map(event => JSON.parse(event)) : undefined
    }
  }
}

const app = Fastify({
  forceCloseConnections: true,
  logger: { level: 'info', stream: { write: line => { report({ type: 'line', line: JSON.parse(line) }) } } }
})
const bus = mqemitter({ subConn: connect(), pubConn: connect() })
// An MQEmitter of Redis tells there what its connections say; without a listener that ends the process.
bus.state.on('error', error => { app.log.warn({ err: error }, 'the bus is away') })
const changes = busSubscriptions({ bus, topic: name })
const orders = new EventEmitter()

const tools = [
  defineTool({ name: 'where', call: () => toolResult.data({ index }) }),
  defineTool({
    name: 'count',
    call (_args, channel) {
      for (const step of [1, 2, 3]) channel.sendProgress(step, 3)
      channel.sendLog('debug', 'details')
      channel.sendLog('info', 'counted')
      channel.sendLog('error', 'nothing left')
      return toolResult.data({ counted: 3 })
    }
  }),
  defineTool({
    name: 'steps',
    async call (_args, channel) {
      let step = 0
      const count = () => { channel.sendProgress(++step) }
      orders.on('step', count)
      channel.defer(() => { orders.off('step', count) })
      channel.sendProgress(0.5)
      await once(orders, 'finish', { signal: channel.signal })
      return toolResult.data({ steps: step })
    }
  }),
  defineTool({
    name: 'wait',
    async call (_args, { signal }) {
      report({ type: 'waiting' })
      await once(signal, 'abort')
      report({ type: 'aborted', cause: signal.reason.cause.cause })
      return toolResult.text('for nobody')
    }
  }),
  defineTool({
    name: 'remove',
    requires: { elicitation: { form: {} } },
    call (_args, channel) {
      const questions = { confirm: elicitForm('Really?', Type.Object({ sure: Type.Boolean() })) }
      const answers = channel.inputResponses(questions)
      if (answers === undefined) return inputRequired(questions, { asked: index })
      return toolResult.text(answers.confirm.action === 'accept' && answers.confirm.content.sure ? 'Gone.' : 'Kept.')
    }
  })
]
const notes = defineResources({ prefix: 'note://', read: ({ uri }) => readResourceResult({ uri, text: '' }) })
const suite = createSuite({ info: { name: 'replica', version: '1.0.0' }, tools, resources: [notes], prompts: [], subscriptions: changes, pageSize: 2 })

await app.register(genMcp, {
  prefix: '/mcp',
  server: suite,
  secrets: ['the secret that all of the replicas share'],
  legacy: { bus, topic: `${name}/sessions`, events: redisEvents(connect()), retry: 50 },
  ...extra
})

const stop = () => { process.exit() }
process.on('disconnect', stop)
process.on('message', order => {
  if (order.type === 'updated') changes.resourceUpdated(order.uri)
  else if (order.type === 'toolsChanged') changes.toolsChanged()
  else if (order.type === 'gauges') report({ type: 'gauges', gauges: app.mcp.mounts[0].gauges() })
  else orders.emit(order.type)
})
try {
  await app.listen({ port: 0, host: '127.0.0.1' })
  report({ type: 'listening', port: app.server.address().port })
} catch (error) {
  report({ type: 'refused', code: error.code, message: error.message })
  // It is to end by itself, since nothing of it is left.
  process.off('disconnect', stop)
  await app.close()
  process.disconnect()
}
