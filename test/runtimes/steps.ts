/** What smoke.js does, in its order. */
export const steps = [
  'a JSON call',
  'a refusal',
  'a stream with progress',
  'a producer that waits for its reader, over a socket and without one',
  'a slow reader is bounded',
  'a 2025 client: initialize, a call, and the GET stream',
  'a client of the testing export',
  'required, it is the same and can be registered as it is',
  'a listen, which close() ends with its result'
]

/** The steps that held. */
export function stepsOf (stdout: string): string[] {
  return stdout.split('\n').filter(line => line.startsWith('ok ')).map(line => line.slice(3))
}
