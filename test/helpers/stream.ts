import type { JsonObject } from 'fastify-gen-mcp'

/** The next notifications of a stream, as many as asked for; throws if it ends before. What comes after them stays in the stream. */
export async function take (stream: AsyncIterable<JsonObject>, count: number): Promise<JsonObject[]> {
  const taken: JsonObject[] = []
  const iterator = stream[Symbol.asyncIterator]()
  while (taken.length < count) {
    const { value, done } = await iterator.next()
    if (done === true) throw new Error(`The stream ended after ${taken.length} notifications`)
    taken.push(value)
  }
  return taken
}

/** All that is left of a stream. */
export async function takeAll (stream: AsyncIterable<JsonObject>): Promise<JsonObject[]> {
  const taken: JsonObject[] = []
  for await (const notification of stream) taken.push(notification)
  return taken
}
