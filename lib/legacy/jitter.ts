import { MAX_TIMEOUT } from '../options.js'

/** Give or take a tenth, so that streams which began together do not end together. */
export function jitter (ms: number): number {
  return Math.min(MAX_TIMEOUT, ms * (0.9 + Math.random() / 5))
}
