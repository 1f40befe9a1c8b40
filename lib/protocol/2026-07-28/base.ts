import { Type, type Static } from '@sinclair/typebox'
import { named, oneOf, type Wire } from './wire.js'

export type { Wire } from './wire.js'

/** What JSON can say. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject
/** A JSON object. */
export type JsonObject = { readonly [key: string]: JsonValue }
/** A JSON Schema, of whatever dialect. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** Any object, but no array and no null: what is inside came through JSON.parse, or goes through JSON.stringify. */
export const JsonObject = named<JsonObject>(Type.Object({}))
/** Any JSON value, checked at its surface for the same reason. */
export const JsonValue = named<JsonValue>(
  Type.Union([Type.Null(), Type.Boolean(), Type.Number(), Type.String(), Type.Array(Type.Unknown()), JsonObject])
)
/** Any object; whether it is a sound schema is for a validator to say. */
export const JsonSchema = named<JsonSchema>(Type.Object({}))
export { JsonValue as JSONValue, JsonObject as JSONObject }

const idNumber = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })

/** A string or an integer; integers that JavaScript cannot send back unchanged are refused. */
export const RequestId = Type.Union([Type.String(), idNumber])
export type RequestId = Wire<typeof RequestId>

/** What a request is told apart by in progress notifications. */
export const ProgressToken = Type.Union([Type.String(), idNumber])
export type ProgressToken = Wire<typeof ProgressToken>

/** Where a list goes on; opaque to the client. */
export const Cursor = Type.String()
export type Cursor = Static<typeof Cursor>

/** Who speaks in a message. */
export const Role = oneOf('user', 'assistant')
export type Role = Static<typeof Role>

/** How much a log message matters, from least to most. */
export const LoggingLevel = oneOf('debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency')
export type LoggingLevel = Static<typeof LoggingLevel>

/** The `_meta` of anything that is neither a request nor a notification nor a result. */
export const MetaObject = JsonObject
export type MetaObject = JsonObject

/** A picture that a client may show. */
export const Icon = Type.Object({
  src: Type.String(),
  mimeType: Type.Optional(Type.String()),
  sizes: Type.Optional(Type.Array(Type.String())),
  theme: Type.Optional(oneOf('light', 'dark'))
})
export interface Icon extends Wire<typeof Icon> {}

/** Hints on who content is for, how much it matters and how old it is. */
export const Annotations = Type.Object({
  audience: Type.Optional(Type.Array(Role)),
  priority: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  lastModified: Type.Optional(Type.String())
})
export interface Annotations extends Wire<typeof Annotations> {}

/** A name for programs and a title for people: the members of whatever is listed. */
export const baseMetadata = {
  name: Type.String(),
  title: Type.Optional(Type.String())
}

/** The members that tools, resources, templates and prompts have in common. */
export const described = {
  ...baseMetadata,
  description: Type.Optional(Type.String()),
  icons: Type.Optional(Type.Array(named<Icon>(Icon))),
  _meta: Type.Optional(MetaObject)
}

/** The program at one end: name, version and how to show it. */
export const Implementation = Type.Object({
  ...baseMetadata,
  version: Type.String(),
  description: Type.Optional(Type.String()),
  websiteUrl: Type.Optional(Type.String()),
  icons: Type.Optional(Type.Array(named<Icon>(Icon)))
})
export interface Implementation extends Wire<typeof Implementation> {}
