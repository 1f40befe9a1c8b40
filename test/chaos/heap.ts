import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** The collector, with or without `--expose-gc`. */
function collector (): () => void {
  if (globalThis.gc !== undefined) return globalThis.gc
  setFlagsFromString('--expose-gc')
  // The flag makes the function known to new contexts only.
  return runInNewContext('gc') as () => void
}

const collectNow = collector()

/** Two collections, each when the turn is over: references that are read live on until then. */
export async function collect (): Promise<void> {
  for (let time = 0; time < 2; time++) {
    await delay(20)
    collectNow()
  }
}

/** Bytes of the heap in use: the median of three measurements. */
export async function measureHeap (): Promise<number> {
  const measured: number[] = []
  for (let time = 0; time < 3; time++) {
    await collect()
    measured.push(process.memoryUsage().heapUsed)
  }
  // There are three.
  return measured.sort((a, b) => a - b)[1] as number
}
