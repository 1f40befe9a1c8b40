import type { Awaitable } from '../../types/schema.js'

/**
 * Hands on what some work gives, and stays synchronous where the work was: most requests are answered without a promise. What it throws, or rejects
 * with, goes to `failed`; neither continuation may throw.
 */
export function settle<T> (work: () => Awaitable<T>, done: (value: T) => void, failed: (reason: unknown) => void): void {
  let value: Awaitable<T>
  try {
    value = work()
  } catch (reason) {
    failed(reason)
    return
  }
  if (isPromise(value)) value.then(done, failed)
  else done(value)
}

function isPromise<T> (value: Awaitable<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
