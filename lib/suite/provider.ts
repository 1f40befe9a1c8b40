import type { RequestContext } from '../../types/channel.js'
import type { Guarded } from '../../types/providers.js'
import type { Awaitable } from '../../types/schema.js'

/** What all providers have in common. */
export abstract class Provider {
  /** What a cursor and a double registration know it by. */
  abstract readonly key: string
  readonly access: Guarded['access']

  constructor ({ access }: Guarded) {
    this.access = access
  }

  /** Whether this caller may know of it. */
  isVisible (context: RequestContext): Awaitable<boolean> {
    return this.access === undefined || isTrue(this.access(context))
  }
}

async function isTrue (answer: Awaitable<boolean>): Promise<boolean> {
  // Only true opens: a forgotten return does not.
  return await answer === true
}
