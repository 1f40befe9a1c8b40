import { LONG } from './long.js'

/** Ends of lines to readers that go by Unicode; to JSON and to event streams they are none (WHATWG HTML, Server-sent events). */
const UNICODE_ENDS = /[\u0085\u2028\u2029]/
const ALL_UNICODE_ENDS = new RegExp(UNICODE_ENDS, 'g')

/** One event of type `message`. JSON has no raw line breaks, so that one `data` line holds it. A long one is as it is until `escapeEnds` has seen all of it. */
export function sseEvent (json: string): string {
  return `data: ${json.length > LONG ? json : escapeEnds(json)}\n\n`
}

/** Escapes the ends of lines that are none to JSON. */
export function escapeEnds (json: string): string {
  return UNICODE_ENDS.test(json) ? json.replace(ALL_UNICODE_ENDS, escape) : json
}

/** A comment that keeps the connection alive; its blank line keeps simple parsers from joining it to the next event. */
export const SSE_COMMENT = ':\n\n'

/** They stand in strings alone. */
function escape (end: string): string {
  return `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`
}
