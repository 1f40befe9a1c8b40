/** What a client takes. */
export interface Accepted { readonly json: boolean, readonly sse: boolean }

const BOTH: Accepted = { json: true, sse: true }
const KEPT = 100
const seen = new Map<string, Accepted>()

/** Reads an Accept header, leniently: none, and one that says nothing, takes both (RFC 9110, 12.5.1). */
export function readAccept (header: string | undefined): Accepted {
  if (header === undefined) return BOTH
  let accepted = seen.get(header)
  if (accepted === undefined) {
    accepted = parse(header)
    // Clients send a handful of these; whoever makes up new ones does not fill the memory.
    if (seen.size < KEPT) seen.set(header, accepted)
  }
  return accepted
}

function parse (header: string): Accepted {
  const ranges = new Map<string, boolean>()
  for (const part of header.toLowerCase().split(',')) {
    const [type = '', ...parameters] = part.split(';').map(text => text.trim())
    if (type.includes('/')) ranges.set(type, !parameters.some(parameter => /^q=0(?:\.0*)?$/.test(parameter)))
  }
  if (ranges.size === 0) return BOTH
  const takes = (type: string, family: string): boolean => ranges.get(type) ?? ranges.get(family) ?? ranges.get('*/*') ?? false
  return { json: takes('application/json', 'application/*'), sse: takes('text/event-stream', 'text/*') }
}
