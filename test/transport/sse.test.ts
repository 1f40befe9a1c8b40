import { test } from 'tap'
import { result, toolResult } from 'fastify-gen-mcp'
import { readSse } from '../../lib/testing/sse.js'
import { SSE_COMMENT, sseEvent } from '../../lib/transport/sse.js'
import { call, mount } from '../helpers/mount.js'
import { toolServer } from '../helpers/servers.js'
import type { SseEvent } from '../../lib/testing/sse.js'

const text = 'a\nb\r\nc\rd\u2028e\u2029f 😀 größe\u0000: data: x\n\nid: 5'

async function eventsOf (body: string): Promise<SseEvent[]> {
  const events = []
  for await (const event of readSse((async function * () { yield body })())) events.push(event)
  return events
}

test('an event is one line of data, of the default type: HTTP-20', async t => {
  const event = sseEvent(JSON.stringify({ text }))
  t.match(event, /^data: [^\r\n]*\n\n$/)
  t.strictSame(await eventsOf(event), [{ event: 'message', data: { text } }])
})

test('what some readers of lines take for the end of one is no part of an event as it is: HTTP-20', async t => {
  const ends = 'a\u0085b\u2028c\u2029d'
  const event = sseEvent(JSON.stringify({ [ends]: ends }))
  t.notMatch(event, /[\u0085\u2028\u2029]/)
  t.strictSame(await eventsOf(event), [{ event: 'message', data: { [ends]: ends } }])
})

test('a comment is no event, and does not run into the next: HTTP-18', async t => {
  t.strictSame(await eventsOf(`${SSE_COMMENT}${sseEvent('1')}${SSE_COMMENT}${sseEvent('2')}`), [{ event: 'message', data: 1 }, { event: 'message', data: 2 }])
})

test('what a tool says comes through a stream unchanged, one message an event: HTTP-20, RPC-01', async t => {
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      channel.sendLog('info', { text })
      return result(toolResult.text(text))
    })
  })
  const response = await call(app, 'tools/call', { name: 'x' }, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } })
  t.equal(response.headers['content-type'], 'text/event-stream')
  const events = await eventsOf(response.body)
  t.match(events, [
    { event: 'message', data: { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: { text } } } },
    { event: 'message', data: { jsonrpc: '2.0', id: 1, result: { resultType: 'complete', content: [{ type: 'text', text }] } } }
  ])
  t.equal(events.length, 2)
})

test('a stream cannot be resumed: its events have no ids, and a Last-Event-ID starts a fresh request: HTTP-09, HTTP-19', async t => {
  let calls = 0
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      channel.startStream()
      channel.sendProgress(1)
      return result(toolResult.data(++calls))
    })
  })
  for (const lastEventId of [undefined, '5', '']) {
    const response = await call(app, 'tools/call', { name: 'x' }, { meta: { progressToken: 1 }, headers: { 'last-event-id': lastEventId } })
    t.equal(response.headers['content-type'], 'text/event-stream')
    for (const line of response.body.split('\n')) t.match(line, /^(?:data: .+)?$/)
    const events = await eventsOf(response.body)
    t.match(events, [{ data: { method: 'notifications/progress' } }, { data: { result: { structuredContent: calls } } }])
    for (const event of events) t.notOk('id' in event)
  }
  t.equal(calls, 3)
})
