import { randomBytes } from 'node:crypto'

/** 128 bits, as 22 characters of base64url. */
const RANDOM_BYTES = 16
const EVENT_ID = /^(\.?)([\w-]{22})_(\d{1,15})$/

/** A name for a stream that no other has and nobody can guess. */
export function createStreamName (): string {
  return randomBytes(RANDOM_BYTES).toString('base64url')
}

/** The field that says how long to wait before coming back, in ms. */
export function retryField (ms: number): string {
  return `retry: ${ms}\n\n`
}

/** The field that names an event: its stream, and its place there. GET streams, of which nothing is kept, begin with a dot. */
export function idField (stream: string, seq: number): string {
  return `id: ${stream}_${seq}\n`
}

/** What an event id names; undefined if it is none of ours. */
export function readEventId (id: string): { readonly standing: boolean, readonly stream: string, readonly seq: number } | undefined {
  const [, dot, stream, seq] = EVENT_ID.exec(id) ?? []
  return stream === undefined ? undefined : { standing: dot === '.', stream, seq: Number(seq) }
}
