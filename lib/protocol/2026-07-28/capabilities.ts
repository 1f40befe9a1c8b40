import { Type } from '@sinclair/typebox'
import { JsonObject } from './base.js'
import { dictionary, type Wire } from './wire.js'

// A capability is declared by an object: `true`, `null` and arrays declare nothing and are refused.
const flag = Type.Optional(Type.Boolean())
const declared = Type.Optional(JsonObject)

const open = {
  experimental: Type.Optional(dictionary<JsonObject>(JsonObject)),
  extensions: Type.Optional(dictionary<JsonObject>(JsonObject))
}

/** What a client can do, as it says with every request. */
export const ClientCapabilities = Type.Object({
  ...open,
  elicitation: Type.Optional(Type.Object({ form: declared, url: declared })),
  sampling: Type.Optional(Type.Object({ context: declared, tools: declared })),
  roots: declared
})
export interface ClientCapabilities extends Wire<typeof ClientCapabilities> {}

/** What a server can do. */
export const ServerCapabilities = Type.Object({
  ...open,
  tools: Type.Optional(Type.Object({ listChanged: flag })),
  prompts: Type.Optional(Type.Object({ listChanged: flag })),
  resources: Type.Optional(Type.Object({ listChanged: flag, subscribe: flag })),
  completions: declared,
  logging: declared
})
export interface ServerCapabilities extends Wire<typeof ServerCapabilities> {}
