import { isSchema } from '../json-schema.js'
import { itemSchema } from './definition.js'
import type { JsonSchema } from '../protocol/index.js'

/** Numbers as JSON writes them: whatever else reads as one would not come out again as it was sent. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const INTEGER = /^-?\d+$/
/** Arrays and objects within one another: as many as a body may have. */
const MAX_DEPTH = 256

/**
 * A copy of a value in which a text that stands where the schema wants a number, boolean, array or object is what the text says, where nothing is lost by it.
 * Where a text is right it stays.
 */
export function repair (schema: JsonSchema, value: unknown): unknown {
  const read = typeof value === 'string' ? readText(schema, value) : value
  if (Array.isArray(read)) return read.map((item, index) => repairAs(itemSchema(schema, index), item))
  const { properties } = schema
  if (!isSchema(read) || !isSchema(properties)) return read
  return Object.fromEntries(Object.entries(read).map(([name, member]) => {
    return [name, repairAs(Object.hasOwn(properties, name) ? properties[name] : undefined, member)]
  }))
}

function repairAs (schema: unknown, value: unknown): unknown {
  return isSchema(schema) ? repair(schema, value) : value
}

function readText ({ type }: JsonSchema, text: string): unknown {
  switch (type) {
    case 'integer':
    case 'number': return NUMBER.test(text) && isExact(text) ? Number(text) : text
    case 'boolean': return text === 'true' ? true : text === 'false' ? false : text
    case 'array': return parse(text, Array.isArray)
    case 'object': return parse(text, isSchema)
    default: return text
  }
}

/** Whether a number holds all that its text says. */
function isExact (text: string): boolean {
  const number = Number(text)
  if (INTEGER.test(text)) return Number.isSafeInteger(number)
  const digits = text.replace(/[eE].*/, '').replace(/[-.]/g, '').replace(/^0+/, '')
  // Fifteen digits go into a number and come out again, unless it is too large or too small.
  return digits === '' || (digits.length <= 15 && Math.abs(number) > 1e-300 && Math.abs(number) < 1e300)
}

function parse (text: string, fits: (value: unknown) => boolean): unknown {
  try {
    const value: unknown = JSON.parse(text, withoutPrototypes)
    return fits(value) && isShallow(value, MAX_DEPTH) ? value : text
  } catch {
    return text
  }
}

/** A body comes without the keys that would change a prototype, and so must a text in it. */
function withoutPrototypes (key: string, value: unknown): unknown {
  const dangerous = key === '__proto__' || (key === 'constructor' && isSchema(value) && Object.hasOwn(value, 'prototype'))
  return dangerous ? undefined : value
}

function isShallow (value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every(member => isShallow(member, levels - 1))
}
