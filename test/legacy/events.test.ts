import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { memoryEvents, type EventStore } from 'fastify-gen-mcp/legacy'
import { createStreamName, idField, readEventId, retryField } from '../../lib/legacy/event-id.js'
import { jitter } from '../../lib/legacy/jitter.js'

/** Puts so many events of so many characters into a stream. */
async function fill (store: EventStore, stream: string, count: number, { from = 0, size = 1 } = {}): Promise<void> {
  for (let seq = from; seq < from + count; seq++) await store.append(stream, { seq, data: 'x'.repeat(size), last: false })
}

async function numbers (store: EventStore, stream: string, seq: number): Promise<number[] | undefined> {
  return (await store.after(stream, seq))?.map(event => event.seq)
}

test('events of a stream come back in order, and of that stream alone (LEG-54)', async t => {
  const store = memoryEvents()
  await store.append('a', { seq: 0, data: '', last: false })
  await store.append('b', { seq: 0, data: 'b', last: true })
  await store.append('a', { seq: 1, data: 'a', last: true })
  t.strictSame(await store.after('a', -1), [{ seq: 0, data: '', last: false }, { seq: 1, data: 'a', last: true }])
  t.strictSame(await store.after('a', 0), [{ seq: 1, data: 'a', last: true }])
  t.strictSame(await store.after('b', -1), [{ seq: 0, data: 'b', last: true }])
})

test('what is not known, or was not sent yet, is not the same as nothing (LEG-55)', async t => {
  const store = memoryEvents()
  await fill(store, 'a', 3)
  t.strictSame(await numbers(store, 'a', 2), [])
  t.equal(await numbers(store, 'a', 3), undefined)
  t.equal(await numbers(store, 'b', -1), undefined)
  t.equal(await numbers(store, '__proto__', -1), undefined)
})

test('of each stream the last events are kept, by their number (LEG-56)', async t => {
  const store = memoryEvents({ maxEvents: 3 })
  await fill(store, 'a', 5)
  await fill(store, 'b', 3)
  t.strictSame(await numbers(store, 'a', 1), [2, 3, 4])
  t.equal(await numbers(store, 'a', 0), undefined, 'event 1 is gone')
  t.strictSame(await numbers(store, 'b', -1), [0, 1, 2])
  const byDefault = memoryEvents()
  await fill(byDefault, 'a', 1_001)
  t.equal((await byDefault.after('a', 0))?.length, 1_000)
  t.equal(await byDefault.after('a', -1), undefined)
})

test('of all streams so much is kept, and the one that was quiet longest goes first (LEG-56)', async t => {
  // An event is counted with what holds it.
  const store = memoryEvents({ maxBytes: 3 * (100 + 64) })
  await fill(store, 'a', 1, { size: 100 })
  await fill(store, 'b', 1, { size: 100 })
  await fill(store, 'a', 1, { from: 1, size: 100 })
  await fill(store, 'c', 1, { size: 100 })
  t.equal(await numbers(store, 'b', -1), undefined)
  t.strictSame(await numbers(store, 'a', -1), [0, 1])
  t.strictSame(await numbers(store, 'c', -1), [0])
  // What was dropped counts no more.
  await fill(store, 'd', 1, { size: 100 })
  t.equal(await numbers(store, 'a', -1), undefined)
  await fill(store, 'e', 1, { size: 100 })
  for (const stream of ['c', 'd', 'e']) t.strictSame(await numbers(store, stream, -1), [0], stream)
})

test('an event that is larger than all that may be kept is not kept, and pushes out nothing of others (LEG-56)', async t => {
  const store = memoryEvents({ maxBytes: 1_000 })
  await fill(store, 'small', 1)
  await fill(store, 'large', 1, { size: 2_000 })
  t.equal(await numbers(store, 'large', -1), undefined)
  await fill(store, 'large', 1, { from: 1 })
  t.equal(await numbers(store, 'large', -1), undefined, 'event 0 is gone')
  t.strictSame(await numbers(store, 'large', 0), [1])
  t.strictSame(await numbers(store, 'small', -1), [0])
})

test('a stream that drops its oldest events counts them no more (LEG-56)', async t => {
  const store = memoryEvents({ maxEvents: 2, maxBytes: 3 * (100 + 64) })
  await fill(store, 'a', 100, { size: 100 })
  await fill(store, 'b', 1, { size: 100 })
  t.strictSame(await numbers(store, 'a', 97), [98, 99])
  t.strictSame(await numbers(store, 'b', -1), [0])
})

test('a stream is forgotten so long after its last event (LEG-56)', async t => {
  const store = memoryEvents({ maxAge: 40 })
  await fill(store, 'a', 1)
  await fill(store, 'b', 1)
  await delay(25)
  await fill(store, 'b', 1, { from: 1 })
  await delay(25)
  t.equal(await numbers(store, 'a', -1), undefined)
  t.strictSame(await numbers(store, 'b', -1), [0, 1])
  await delay(50)
  t.equal(await numbers(store, 'b', -1), undefined)
})

// ---- ids

test('an event id names its stream and its place, and nothing else is one (LEG-52)', t => {
  const names = Array.from({ length: 1_000 }, createStreamName)
  t.equal(new Set(names).size, names.length)
  t.ok(names.every(name => /^[\w-]{22}$/.test(name)))
  const name = createStreamName()
  t.equal(idField(name, 12), `id: ${name}_12\n`)
  t.strictSame(readEventId(`${name}_12`), { standing: false, stream: name, seq: 12 })
  t.strictSame(readEventId(`.${name}_0`), { standing: true, stream: name, seq: 0 })
  const places = ['', '-1', '1.5', '1e3', '1'.repeat(16), '1\n'].map(place => `${name}_${place}`)
  for (const bad of ['', 'zzz', name, ...places, `x${name}_1`, `..${name}_1`, ` ${name}_1`]) t.equal(readEventId(bad), undefined, JSON.stringify(bad))
  t.equal(retryField(5), 'retry: 5\n\n')
  t.end()
})

test('an age is spread by a tenth, and never longer than a timer can be: case 012', t => {
  const ages = Array.from({ length: 1_000 }, () => jitter(1_000))
  t.ok(ages.every(age => age >= 900 && age <= 1_100))
  t.ok(Math.max(...ages) - Math.min(...ages) > 100, 'they differ')
  t.ok(Array.from({ length: 100 }, () => jitter(2_147_483_647)).every(age => age <= 2_147_483_647))
  t.end()
})
