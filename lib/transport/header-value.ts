import { isUtf8 } from 'node:buffer'

const PREFIX = '=?base64?'
const SUFFIX = '?='
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/**
 * The text that a header value stands for, decoded once; undefined if it is malformed. Spaces and tabs around it are not part of it
 * (2026-07-28, Streamable HTTP, Value Encoding).
 */
export function decodeHeaderValue (value: string): string | undefined {
  const text = trim(value)
  if (!isPlain(text)) return undefined
  return isEncoded(text) ? decodeBase64(text.slice(PREFIX.length, -SUFFIX.length)) : text
}

/** A header value that stands for this text: the text itself where that is safe, else Base64 of its UTF-8. */
export function encodeHeaderValue (text: string): string {
  const safe = isPlain(text) && trim(text) === text && !isEncoded(text)
  return safe ? text : `${PREFIX}${Buffer.from(text).toString('base64')}${SUFFIX}`
}

/** A header value without the white space around it. */
export function trim (value: string): string {
  let from = 0
  let to = value.length
  while (from < to && isBlank(value.charCodeAt(from))) from++
  while (to > from && isBlank(value.charCodeAt(to - 1))) to--
  return value.slice(from, to)
}

/** Visible ASCII, space and tab: what a header value may have (RFC 9110, 5.5, without the obsolete bytes). Names are short, and a loop is faster for them than a pattern. */
function isPlain (text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if ((code < 0x20 && code !== 0x09) || code > 0x7E) return false
  }
  return true
}

function isEncoded (text: string): boolean {
  // Prefix and suffix must not share the question mark.
  return text.length >= PREFIX.length + SUFFIX.length && text.startsWith(PREFIX) && text.endsWith(SUFFIX)
}

function decodeBase64 (text: string): string | undefined {
  if (!BASE64.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64')
  // Bits beyond the last byte must be zero, or many texts would mean the same.
  return bytes.toString('base64') === text && isUtf8(bytes) ? bytes.toString() : undefined
}

function isBlank (code: number): boolean {
  return code === 0x20 || code === 0x09
}
