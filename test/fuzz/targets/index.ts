import { toolArguments } from './arguments.js'
import { legacyBodies, modernBodies, rawBodies } from './bodies.js'
import { encodings, legacyHeadersTarget, modernHeaders } from './headers.js'
import { cursors, eventIds, ids, requestStates, sessions } from './tokens.js'
import { uris } from './uris.js'
import type { Target } from '../target.js'

/** All that goes through `inject`. The seed is that of the tools' schemas. */
export function targets (seed: number): readonly Target[] {
  return [
    rawBodies, modernBodies, legacyBodies, modernHeaders, legacyHeadersTarget, encodings, ids, cursors, requestStates, sessions, eventIds, uris, toolArguments(seed)
  ]
}
