import { Type } from '@sinclair/typebox'
import { complete } from './result.js'
import type { Wire } from './wire.js'

/** The most values that one completion may carry. */
export const MAX_COMPLETION_VALUES = 100

/** Suggestions for one argument. */
export const CompleteResult = Type.Object({
  ...complete,
  completion: Type.Object({
    values: Type.Array(Type.String(), { maxItems: MAX_COMPLETION_VALUES }),
    total: Type.Optional(Type.Integer()),
    hasMore: Type.Optional(Type.Boolean())
  })
})
export interface CompleteResult extends Wire<typeof CompleteResult> {}
