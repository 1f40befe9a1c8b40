import type { EventStore, StoredEvent } from '../../types/legacy.js'

/** A stream as it is kept; the first event that is still there is number `first`. */
interface Kept { readonly events: StoredEvent[], first: number, bytes: number, touched: number }

/**
 * Keeps events in this process: per stream the last `maxEvents` (default 1,000), of all streams together `maxBytes` of JSON (default 16 MiB), each stream
 * for `maxAge` ms after its last event (default 300,000). What is over goes, the stream that was quiet longest first.
 */
export function memoryEvents (options: { readonly maxEvents?: number, readonly maxBytes?: number, readonly maxAge?: number } = {}): EventStore {
  const { maxEvents = 1_000, maxBytes = 16_777_216, maxAge = 300_000 } = options
  /** In the order of their last events. */
  const streams = new Map<string, Kept>()
  let bytes = 0

  function forget (name: string, kept: Kept): void {
    streams.delete(name)
    bytes -= kept.bytes
  }

  function expire (): void {
    const now = Date.now()
    for (const [name, kept] of streams) {
      if (kept.touched + maxAge > now && bytes <= maxBytes) return
      forget(name, kept)
    }
  }

  return {
    append (name, event) {
      const kept = streams.get(name) ?? { events: [], first: event.seq, bytes: 0, touched: 0 }
      streams.delete(name)
      streams.set(name, kept)
      kept.touched = Date.now()
      kept.events.push(event)
      kept.bytes += sizeOf(event)
      bytes += sizeOf(event)
      if (kept.events.length > maxEvents) {
        const [dropped] = kept.events.splice(0, 1) as [StoredEvent]
        kept.first++
        kept.bytes -= sizeOf(dropped)
        bytes -= sizeOf(dropped)
      }
      // One stream that is too much by itself does not push out those of all others.
      if (kept.bytes > maxBytes) forget(name, kept)
      expire()
    },

    after (name, seq) {
      expire()
      const kept = streams.get(name)
      // An event that was never sent is as unknown as one that is gone.
      if (kept === undefined || seq + 1 < kept.first || seq >= kept.first + kept.events.length) return undefined
      return kept.events.slice(Math.max(0, seq + 1 - kept.first))
    }
  }
}

/** Characters of JSON, and what holds an event. */
function sizeOf ({ data }: StoredEvent): number {
  return data.length + 64
}
