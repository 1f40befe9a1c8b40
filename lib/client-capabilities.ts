import { isObject } from './decode/envelope.js'
import type { ClientCapabilities, JsonObject } from './protocol/index.js'

/**
 * The part of `required` that `declared` lacks, or undefined. A capability counts as declared when its value is an object; a bare `elicitation: {}`
 * means forms (2026-07-28, Elicitation, Capabilities).
 */
export function missingCapabilities (declared: ClientCapabilities, required: ClientCapabilities): ClientCapabilities | undefined {
  const missing: Record<string, unknown> = {}
  for (const [name, wanted] of Object.entries(required)) {
    if (!isObject(wanted)) continue
    const lacks = missingMembers(read(declared, name), wanted, name === 'elicitation')
    if (lacks !== undefined) missing[name] = lacks
  }
  // Built from members of `required`, so it is of its type.
  return Object.keys(missing).length === 0 ? undefined : missing as ClientCapabilities
}

/** Whether a client declared an extension. */
export function declaresExtension ({ extensions }: ClientCapabilities, extension: string): boolean {
  return isObject(extensions) && isObject(read(extensions, extension))
}

function missingMembers (declared: unknown, wanted: JsonObject, elicitation: boolean): JsonObject | undefined {
  if (!isObject(declared)) return wanted
  const lacks = Object.entries(wanted).filter(([name, value]) => {
    if (!isObject(value) || isObject(read(declared, name))) return false
    return !(elicitation && name === 'form' && !isObject(read(declared, 'url')))
  })
  return lacks.length === 0 ? undefined : Object.fromEntries(lacks)
}

/** An own member: names come from clients and authors, and `constructor` is one too. */
function read (object: object, name: string): unknown {
  return Object.hasOwn(object, name) ? (object as Record<string, unknown>)[name] : undefined
}
