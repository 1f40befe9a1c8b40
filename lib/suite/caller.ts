import type { RequestContext } from '../../types/channel.js'

/** What of a context says who asks. */
const PERSONAL = new Set<string | symbol>(['httpRequest', 'principal', 'tokens'])

/** A context that notices whether a provider looked at who asks: what it answered then is for this caller alone. */
export function watchCaller<C extends RequestContext> (context: C): { readonly context: C, readonly looked: () => boolean } {
  let looked = false
  const watched = new Proxy(context, {
    get (target, name) {
      if (PERSONAL.has(name)) looked = true
      const value: unknown = Reflect.get(target, name, target)
      // Methods work on the context itself, whose private members a proxy does not have.
      return typeof value === 'function' ? value.bind(target) as unknown : value
    }
  })
  return { context: watched, looked: () => looked }
}
