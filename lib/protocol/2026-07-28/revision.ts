/** The revision that this folder describes. */
export const REVISION = '2026-07-28'
