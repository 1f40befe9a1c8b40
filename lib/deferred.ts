/** A promise and what settles it; `Promise.withResolvers` is not in every Node that this package runs on. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (reason: unknown) => void
}

export function createDeferred<T> (): Deferred<T> {
  let settle: Pick<Deferred<T>, 'resolve' | 'reject'> | undefined
  const promise = new Promise<T>((resolve, reject) => { settle = { resolve, reject } })
  // The executor has run by now.
  return { promise, ...settle as Pick<Deferred<T>, 'resolve' | 'reject'> }
}
