/** What the plugin is measured against: the same answers by hand, on node:http and on Fastify. */
import { createServer } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import Fastify from 'fastify'
import { EVENTS_A_CALL, serverInfo, streamHead, SUBSCRIPTION_ID } from './wire.js'

/** A node:http server that does nothing but parse the body and answer; connections are kept for as long as Fastify keeps them. */
export async function createBareHttp (changes) {
  const server = createServer({ keepAliveTimeout: 72_000 }, (request, response) => {
    const chunks = []
    request.on('data', chunk => { chunks.push(chunk) })
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString())
      if (isStream(body)) return answerStream(body, response, changes)
      const json = JSON.stringify(echo(body))
      response.writeHead(200, { 'cache-control': 'no-store', 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(json) })
      response.end(json)
    })
  })
  await new Promise(resolve => { server.listen(0, '127.0.0.1', resolve) })
  return { port: server.address().port, listens: () => countListens(changes) }
}

/** A Fastify route whose handler is an async function. */
export async function createBareAsyncFastify (changes) {
  const app = Fastify()
  app.post('/mcp', async ({ body }, reply) => {
    reply.header('cache-control', 'no-store')
    return echo(body)
  })
  return await listenOn(app, changes)
}

/** A Fastify route; its streams take the response out of Fastify's hands. */
export async function createBareFastify (changes) {
  const app = Fastify()
  app.post('/mcp', (request, reply) => {
    const { body } = request
    if (isStream(body)) {
      reply.hijack()
      answerStream(body, reply.raw, changes)
      return
    }
    // The header that the plugin sets too, so that the bytes are the same.
    reply.header('cache-control', 'no-store').send(echo(body))
  })
  return await listenOn(app, changes)
}

async function listenOn (app, changes) {
  await app.listen({ port: 0, host: '127.0.0.1' })
  return { port: app.server.address().port, listens: () => countListens(changes) }
}

function countListens (changes) {
  return changes.listenerCount('changed')
}

function isStream ({ method, params }) {
  return method !== 'tools/call' || params.name.startsWith('progress')
}

function echo ({ id, params: { arguments: { text } } }) {
  return { jsonrpc: '2.0', id, result: result(text) }
}

function result (text) {
  return { resultType: 'complete', content: [{ type: 'text', text }], _meta: serverInfo }
}

function answerStream (body, response, changes) {
  response.writeHead(200, streamHead)
  if (body.method === 'subscriptions/listen') listen(body, response, changes)
  else if (body.params.name === 'progress') progress(body, response)
  else pacedProgress(body, response)
}

function progress ({ id, params }, response) {
  const { progressToken } = params._meta
  for (let at = 1; at <= EVENTS_A_CALL; at++) writeProgress(response, progressToken, at)
  response.end(event({ jsonrpc: '2.0', id, result: result(params.arguments.text) }))
}

async function pacedProgress ({ id, params }, response) {
  const { progressToken } = params._meta
  for (let at = 1; at <= EVENTS_A_CALL; at++) {
    writeProgress(response, progressToken, at)
    await setImmediate()
  }
  response.end(event({ jsonrpc: '2.0', id, result: result(params.arguments.text) }))
}

function writeProgress (response, progressToken, progress) {
  response.write(event({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress, total: EVENTS_A_CALL } }))
}

function listen ({ id, params: { notifications } }, response, changes) {
  const _meta = { [SUBSCRIPTION_ID]: id }
  response.write(event({ jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params: { _meta, notifications } }))
  const changed = () => { response.write(event({ jsonrpc: '2.0', method: 'notifications/tools/list_changed', params: { _meta } })) }
  changes.on('changed', changed)
  response.on('close', () => { changes.off('changed', changed) })
}

function event (message) {
  return `data: ${JSON.stringify(message)}\n\n`
}
