/** The longest a timer of Node's can be. */
const MAX_TIMEOUT = 2_147_483_647

/** Give or take a tenth, so that streams which began together do not end together. */
export function jitter (ms: number): number {
  return Math.min(MAX_TIMEOUT, ms * (0.9 + Math.random() / 5))
}
