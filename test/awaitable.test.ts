import { test } from 'tap'
import { settle } from '../lib/awaitable.js'

function record () {
  const seen: unknown[] = []
  return {
    seen,
    done: (value: unknown) => { seen.push(['done', value]) },
    failed: (reason: unknown) => { seen.push(['failed', reason]) }
  }
}

async function turn () {
  await new Promise(resolve => { setImmediate(resolve) })
}

test('a value is handed on in the same turn', async t => {
  const { seen, done, failed } = record()
  settle(() => 1, done, failed)
  t.strictSame(seen, [['done', 1]])
})

test('values that are no promises are handed on as they are', async t => {
  for (const value of [undefined, null, 0, '', {}, { then: 'no function' }, () => {}]) {
    const { seen, done, failed } = record()
    settle(() => value, done, failed)
    t.strictSame(seen, [['done', value]])
  }
})

test('a throw goes to the other continuation in the same turn', async t => {
  const { seen, done, failed } = record()
  const error = new Error('broken')
  settle(() => { throw error }, done, failed)
  t.strictSame(seen, [['failed', error]])
})

test('a promise is waited for', async t => {
  const { seen, done, failed } = record()
  settle(async () => 1, done, failed)
  t.strictSame(seen, [])
  await turn()
  t.strictSame(seen, [['done', 1]])
})

test('a rejection goes to the other continuation, and is handled', async t => {
  const { seen, done, failed } = record()
  const error = new Error('broken')
  settle(async () => { throw error }, done, failed)
  t.strictSame(seen, [])
  await turn()
  t.strictSame(seen, [['failed', error]])
})

test('a thenable of another maker is waited for like a promise', async t => {
  const { seen, done, failed } = record()
  const thenable = { then: (resolve: (value: number) => void) => { resolve(2) } }
  // Callbacks are typed to return promises; a query builder that is only thenable is returned all the same.
  settle(() => thenable as unknown as Promise<number>, done, failed)
  t.strictSame(seen, [])
  await turn()
  t.strictSame(seen, [['done', 2]])
})
