/** Characters from which on a text is long: sent in parts, since as a whole it would be copied again and again on its way to the socket. */
export const LONG = 1_048_576

/** Characters of a part. */
const PART = 65_536

/** The bytes of a text, part by part as they are asked for. */
export function * bytesOf (text: string): Generator<Buffer, void, undefined> {
  for (let at = 0; at < text.length;) {
    let end = at + PART
    // Half a pair of surrogates has no bytes.
    if (isHighSurrogate(text.charCodeAt(end - 1))) end++
    yield Buffer.from(text.slice(at, end))
    at = end
  }
}

/** False also of NaN, which is what lies behind the end. */
function isHighSurrogate (code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}
