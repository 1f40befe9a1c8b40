/**
 * Where and how a value is no plain JSON, such as `.items[2] is NaN`; undefined if it is. JSON.stringify would drop such a part or send something else in its
 * place: null for NaN, `{}` for a Map or a promise that nobody awaited. With `bigints` those are none.
 */
export function jsonFlaw (value: unknown, bigints = false, ancestors: Set<object> = new Set()): string | undefined {
  if (typeof value !== 'object') return bigints && typeof value === 'bigint' ? undefined : scalarFlaw(value)
  if (value === null) return undefined
  if (ancestors.has(value)) return ' contains itself'

  ancestors.add(value)
  const flaw = Array.isArray(value) ? flawOfItems(value, bigints, ancestors) : flawOfMembers(value, bigints, ancestors)
  ancestors.delete(value)
  return flaw
}

function scalarFlaw (value: unknown): string | undefined {
  if (typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)) return undefined
  return ` is ${typeof value === 'number' ? value : typeof value}`
}

function flawOfItems (items: readonly unknown[], bigints: boolean, ancestors: Set<object>): string | undefined {
  // By index: array methods pass over holes, which are no JSON either.
  for (let index = 0; index < items.length; index++) {
    const flaw = jsonFlaw(items[index], bigints, ancestors)
    if (flaw !== undefined) return `[${index}]${flaw}`
  }
  return undefined
}

function flawOfMembers (value: object, bigints: boolean, ancestors: Set<object>): string | undefined {
  // Some objects inherit no constructor.
  if (!isPlain(value)) return ` is an instance of ${value.constructor?.name}`
  for (const [name, member] of Object.entries(value)) {
    // Left out of the JSON, as if it were not there.
    if (member === undefined) continue
    const flaw = jsonFlaw(member, bigints, ancestors)
    if (flaw !== undefined) return `.${name}${flaw}`
  }
  return undefined
}

/** An object literal, of whatever realm, or an object without a prototype. */
function isPlain (value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** The value with the decimal text of each bigint in its place. It has no other flaw. */
export function toDecimals (value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (Array.isArray(value)) return value.map(toDecimals)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toDecimals(member)]))
}
