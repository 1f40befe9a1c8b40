/** The current revision: this line changes when the next one becomes current. */
export * from './2026-07-28/index.js'
