import { test } from 'tap'
import { Registry, type Alive } from '../../lib/worker/registry.js'

/** An exchange that does what it is told, and says what that was. */
function fake (facts: Partial<Alive> = {}) {
  const told: string[] = []
  let leave = () => {}
  const gone = new Promise<void>(resolve => { leave = resolve })
  const alive: Alive = {
    listen: false,
    call: facts.listen !== true,
    streaming: false,
    queuedMessages: 0,
    bufferedBytes: 0,
    sources: 0,
    timers: 0,
    shutdown: now => { told.push(now ? 'shutdown now' : 'shutdown') },
    whenGone: async () => { await gone },
    abandon: () => { told.push('abandon') },
    ...facts
  }
  return { alive, told, leave }
}

test('calls and listens are counted apart', async t => {
  const registry = new Registry()
  const call = fake().alive
  const listen = fake({ listen: true }).alive
  registry.add(call)
  registry.add(listen)
  t.strictSame([registry.calls, registry.listens], [1, 1])

  registry.remove(listen)
  t.strictSame([registry.calls, registry.listens], [1, 0])
  registry.remove(call)
  t.strictSame([registry.calls, registry.listens], [0, 0])
})

test('removing what is not there, or is there no more, counts nothing', async t => {
  const registry = new Registry()
  const listen = fake({ listen: true }).alive
  registry.remove(listen)
  registry.add(listen)
  registry.remove(listen)
  registry.remove(listen)
  t.strictSame([registry.calls, registry.listens], [0, 0])
})

test('gauges add up what all exchanges hold', async t => {
  const registry = new Registry()
  t.strictSame(registry.gauges(), { exchanges: 0, streams: 0, listens: 0, queuedMessages: 0, bufferedBytes: 0, sources: 0, timers: 0 })
  registry.add(fake({ streaming: true, queuedMessages: 2, bufferedBytes: 30, sources: 4, timers: 5 }).alive)
  registry.add(fake({ listen: true, streaming: true, queuedMessages: 1, bufferedBytes: 1, sources: 1, timers: 1 }).alive)
  registry.add(fake().alive)
  t.strictSame(registry.gauges(), { exchanges: 3, streams: 2, listens: 1, queuedMessages: 3, bufferedBytes: 31, sources: 5, timers: 6 })
})

test('a drain of nobody is over at once', async t => {
  await new Registry().drain(60_000)
  t.pass('resolved')
})

test('a drain asks each exchange once, and is over when all have gone', async t => {
  const registry = new Registry()
  const exchanges = [fake(), fake()]
  for (const { alive } of exchanges) registry.add(alive)

  const drained = registry.drain(60_000)
  for (const { leave } of exchanges) leave()
  await drained
  for (const { told } of exchanges) t.strictSame(told, ['shutdown'])
})

// M20
test('what runs is ended when the time of a drain is over', async t => {
  const registry = new Registry()
  const { alive, told, leave } = fake()
  registry.add({ ...alive, shutdown: now => { told.push(String(now)); if (now) leave() } })
  await registry.drain(10)
  t.strictSame(told, ['false', 'true'])
})

test('a drain of what never goes away ends all the same, with the connection dropped', async t => {
  const registry = new Registry()
  const { alive, told } = fake()
  registry.add(alive)
  await registry.drain(10)
  t.strictSame(told, ['shutdown', 'shutdown now', 'abandon'])
})

test('a drain of no time at all asks before it insists', async t => {
  const registry = new Registry()
  const { alive, told, leave } = fake()
  registry.add({ ...alive, shutdown: now => { told.push(String(now)); leave() } })
  await registry.drain(0)
  t.strictSame(told, ['false'])
})
