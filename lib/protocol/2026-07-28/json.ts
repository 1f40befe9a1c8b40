/**
 * Where and how a value is no plain JSON, such as `.items[2] is NaN`; undefined if it is. JSON.stringify would drop such a part or send something else in its
 * place: null for NaN, `{}` for a Map or a promise that nobody awaited.
 */
export function jsonFlaw (value: unknown, ancestors: Set<object> = new Set()): string | undefined {
  if (typeof value !== 'object') return scalarFlaw(value)
  if (value === null) return undefined
  if (ancestors.has(value)) return ' contains itself'

  ancestors.add(value)
  const flaw = Array.isArray(value) ? flawOfItems(value, ancestors) : flawOfMembers(value, ancestors)
  ancestors.delete(value)
  return flaw
}

function scalarFlaw (value: unknown): string | undefined {
  if (typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value)) return undefined
  return ` is ${typeof value === 'number' ? value : typeof value}`
}

function flawOfItems (items: readonly unknown[], ancestors: Set<object>): string | undefined {
  // By index: array methods pass over holes, which are no JSON either.
  for (let index = 0; index < items.length; index++) {
    const flaw = jsonFlaw(items[index], ancestors)
    if (flaw !== undefined) return `[${index}]${flaw}`
  }
  return undefined
}

function flawOfMembers (value: object, ancestors: Set<object>): string | undefined {
  // Some objects inherit no constructor.
  if (!isPlain(value)) return ` is an instance of ${value.constructor?.name}`
  for (const [name, member] of Object.entries(value)) {
    // Left out of the JSON, as if it were not there.
    if (member === undefined) continue
    const flaw = jsonFlaw(member, ancestors)
    if (flaw !== undefined) return `.${name}${flaw}`
  }
  return undefined
}

/** An object literal, of whatever realm, or an object without a prototype. */
function isPlain (value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
