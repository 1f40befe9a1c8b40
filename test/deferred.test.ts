import { test } from 'tap'
import { createDeferred } from '../lib/deferred.js'

test('a deferred promise is settled by whoever holds it, and once', async t => {
  const kept = createDeferred<number>()
  kept.resolve(1)
  kept.reject(new Error('too late'))
  t.equal(await kept.promise, 1)
  const broken = createDeferred<number>()
  broken.reject(new Error('no'))
  broken.resolve(1)
  await t.rejects(broken.promise, { message: 'no' })
})
