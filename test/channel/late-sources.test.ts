import { test } from 'tap'
import { result, toolResult, type Channel } from 'fastify-gen-mcp'
import { toolServer } from '../helpers/servers.js'
import { call, mount } from '../helpers/mount.js'

test('a source that is made when the exchange is over neither subscribes nor unsubscribes: a bus may count who listens', async t => {
  const channels: Channel[] = []
  const app = await mount(t, {
    server: toolServer((_request, channel) => {
      channels.push(channel)
      return result(toolResult.text('done'))
    })
  })
  await call(app, 'tools/call', { name: 'tool', arguments: {} })
  const calls: string[] = []
  const note = (name: string) => (): void => { calls.push(name) }
  const [channel] = channels
  channel?.subscribe({ on: note('on'), removeListener: note('removeListener'), emit: note('emit') }, 'topic', () => undefined).stop()
  channel?.on({ on: note('on'), off: note('off') }, 'event', () => undefined).stop()
  t.equal(channels.length, 1)
  t.strictSame(calls, [])
})
