import { isSchema } from '../json-schema.js'
import type { JsonSchema } from '../protocol/index.js'

/** Numbers as JSON writes them: whatever else reads as one would not come out again as it was sent. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/**
 * A copy of a value in which a text that stands where the schema wants a number, boolean, array or object is what the text says, where nothing is lost by it.
 * Where a text is right it stays.
 */
export function repair (schema: JsonSchema, value: unknown): unknown {
  const read = typeof value === 'string' ? readText(schema, value) : value
  if (Array.isArray(read)) return isSchema(schema['items']) ? read.map(item => repair(schema['items'] as JsonSchema, item)) : read
  const { properties } = schema
  if (!isSchema(read) || !isSchema(properties)) return read
  return Object.fromEntries(Object.entries(read).map(([name, member]) => {
    const child = Object.hasOwn(properties, name) ? properties[name] : undefined
    return [name, isSchema(child) ? repair(child, member) : member]
  }))
}

function readText ({ type }: JsonSchema, text: string): unknown {
  switch (type) {
    case 'integer':
    case 'number': {
      const number = NUMBER.test(text) ? Number(text) : NaN
      return Number.isFinite(number) && (Number.isSafeInteger(number) || !Number.isInteger(number)) ? number : text
    }
    case 'boolean': return text === 'true' ? true : text === 'false' ? false : text
    case 'array': return parse(text, Array.isArray)
    case 'object': return parse(text, isSchema)
    default: return text
  }
}

function parse (text: string, fits: (value: unknown) => boolean): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return fits(value) ? value : text
  } catch {
    return text
  }
}
