/** 2026-07-28, Overview, `_meta`: an optional prefix of dot-separated labels, and a name. */
const LABEL = '[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?'
const NAME = '[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?'
const KEY = new RegExp(`^(?:${LABEL}(?:\\.${LABEL})*/)?(?:${NAME})?$`)
const EXTENSION = new RegExp(`^${LABEL}(?:\\.${LABEL})*/${NAME}$`)
/** The second label of a prefix that is the protocol's own. */
const RESERVED = new RegExp(`^${LABEL}\\.(?:modelcontextprotocol|mcp)(?:\\.${LABEL})*/`)
/** Keys without a prefix that mean something to the protocol. */
const OWN = new Set(['progressToken', 'traceparent', 'tracestate', 'baggage'])
/** Longer than any name that a person gives; the expressions above take a time that grows with the square of the length. */
const MAX_LENGTH = 256

export function isMetaKey (key: string): boolean {
  return key.length <= MAX_LENGTH && KEY.test(key)
}

/** The name of an extension: a key that has a prefix. */
export function isExtension (name: string): boolean {
  return name.length <= MAX_LENGTH && EXTENSION.test(name)
}

/** A key that is for the protocol to give a meaning to. */
export function isReserved (key: string): boolean {
  return OWN.has(key) || (key.length <= MAX_LENGTH && RESERVED.test(key))
}
