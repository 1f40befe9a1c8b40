/** One event of type `message`. JSON has no raw line breaks, so that one `data` line holds it (WHATWG HTML, Server-sent events). */
export function sseEvent (json: string): string {
  return `data: ${json}\n\n`
}

/** A comment that keeps the connection alive; its blank line keeps simple parsers from joining it to the next event. */
export const SSE_COMMENT = ':\n\n'
