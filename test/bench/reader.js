/** Tells from the bytes of one connection, which is asked for one response at a time, when the response is complete. */

const HEAD_END = Buffer.from('\r\n\r\n')
/** Of Content-Length, however its letters are written. */
const LENGTH = Buffer.from('ength: ')
const LAST_CHUNK = Buffer.from('\r\n0\r\n\r\n')

/** Takes what is read, and is true at the end of each response: by its length, or by the chunk of length zero. */
export function createReader () {
  let kept
  let missing
  let inBody = false

  return chunk => {
    let bytes = kept === undefined ? chunk : Buffer.concat([kept, chunk])
    if (!inBody) {
      const head = bytes.indexOf(HEAD_END)
      inBody = head !== -1
      if (inBody) {
        missing = readLength(bytes.subarray(0, head))
        bytes = bytes.subarray(missing === undefined ? head : head + HEAD_END.length)
      }
    }
    const complete = inBody && (missing === undefined ? endsChunked(bytes) : (missing -= bytes.length) <= 0)
    if (complete) inBody = false
    kept = complete ? undefined : rest(bytes, inBody, missing)
    return complete
  }
}

/** What must be seen again with the next chunk, copied, since the memory is read into again. */
function rest (bytes, inBody, missing) {
  if (!inBody) return Buffer.from(bytes)
  return missing === undefined ? Buffer.from(bytes.subarray(-LAST_CHUNK.length)) : undefined
}

/** Events begin with `data:`, so that these bytes at the end are no part of one. */
function endsChunked (bytes) {
  return bytes.length >= LAST_CHUNK.length && bytes.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)
}

function readLength (head) {
  if (head.latin1Slice(9, 12) !== '200') throw new Error(`The server answered ${head.latin1Slice()}`)
  const name = head.indexOf(LENGTH)
  if (name === -1) return undefined
  let length = 0
  for (let at = name + LENGTH.length; head[at] >= 0x30 && head[at] <= 0x39; at++) length = length * 10 + head[at] - 0x30
  return length
}
