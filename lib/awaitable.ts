import type { Awaitable } from '../types/schema.js'

/**
 * Hands on what some work gives, and stays synchronous where the work was: most requests are answered without a promise. What it throws, or rejects
 * with, goes to `failed`; neither continuation may throw.
 */
export function settle<T> (work: () => Awaitable<T>, done: (value: T) => void, failed: (reason: unknown) => void): void {
  let value: T | Promise<T>
  try {
    value = promiseOr(work())
  } catch (reason) {
    failed(reason)
    return
  }
  if (value instanceof Promise) value.then(done, failed)
  else done(value)
}

/** What comes of a value: at once where it is there. */
export function andThen<T, R> (given: Awaitable<T>, then: (value: T) => Awaitable<R>): Awaitable<R> {
  const value = promiseOr(given)
  return value instanceof Promise ? value.then(then) : then(value)
}

/**
 * A value, or a promise of the language's own. A thenable of somebody else's may call back twice, or at once, or throw: a promise made of it does none
 * of that.
 */
export function promiseOr<T> (given: Awaitable<T>): T | Promise<T> {
  return isThenable(given) && !(given instanceof Promise) ? Promise.resolve(given) : given
}

export function isThenable<T> (value: Awaitable<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
