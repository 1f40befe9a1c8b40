import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { openWire, post, within } from '../helpers/sockets.js'

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`the deployment of the README ends by itself after ${signal}, whatever connections there are: case 079`, { timeout: 90_000 }, async t => {
    const example = fileURLToPath(new URL('../../examples/deploy.ts', import.meta.url))
    const child = spawn(process.execPath, [...process.execArgv, example], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, PORT: '0' } })
    t.teardown(() => { child.kill('SIGKILL') })
    const exited = once(child, 'exit')
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    let port: string | undefined
    while (port === undefined) {
      const { value, done } = await within(lines.next(), 'the address', 60_000)
      if (done === true) throw new Error('It ended before it listened')
      port = /listening at http:\/\/127\.0\.0\.1:(\d+)/.exec(value)?.[1]
    }

    const unused = await openWire(t, Number(port))
    const idle = await openWire(t, Number(port))
    idle.send(post('tools/call', { name: 'add', arguments: { a: 2, b: 3 } }, { headers: { host: 'api.example.com' } }))
    await within(idle.received('"structuredContent":5'), 'the answer', 60_000)
    child.kill(signal)
    t.same(await within(exited, 'the exit', 60_000), [0, null])
    await Promise.all([unused.closed, idle.closed])
  })
}
