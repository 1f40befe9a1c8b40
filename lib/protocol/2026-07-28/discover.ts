import { Type } from '@sinclair/typebox'
import { ServerCapabilities } from './capabilities.js'
import { cacheable } from './result.js'
import { named, type Wire } from './wire.js'

/** What a client learns of a server before it asks for anything. */
export const DiscoverResult = Type.Object({
  ...cacheable,
  supportedVersions: Type.Array(Type.String()),
  capabilities: named<ServerCapabilities>(ServerCapabilities),
  instructions: Type.Optional(Type.String())
})
export interface DiscoverResult extends Wire<typeof DiscoverResult> {}
