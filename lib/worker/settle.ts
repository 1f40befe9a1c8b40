import type { Awaitable } from '../../types/schema.js'

/**
 * Hands on what some work gives, and stays synchronous where the work was: most requests are answered without a promise. What it throws, or rejects
 * with, goes to `failed`; neither continuation may throw.
 */
export function settle<T> (work: () => Awaitable<T>, done: (value: T) => void, failed: (reason: unknown) => void): void {
  let value: T | Promise<T>
  try {
    const given = work()
    // A thenable of somebody else's may call back twice, or at once, or throw: a promise made of it does none of that.
    value = isThenable(given) && !(given instanceof Promise) ? Promise.resolve(given) : given
  } catch (reason) {
    failed(reason)
    return
  }
  if (value instanceof Promise) value.then(done, failed)
  else done(value)
}

function isThenable<T> (value: Awaitable<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
