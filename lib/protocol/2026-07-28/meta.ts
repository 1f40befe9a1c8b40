import { Type } from '@sinclair/typebox'
import { Implementation, type JsonObject, LoggingLevel, ProgressToken, RequestId } from './base.js'
import { ClientCapabilities } from './capabilities.js'
import { named, type Wire } from './wire.js'

/** The keys of `_meta` that the revision defines. */
export const metaKeys = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
  serverInfo: 'io.modelcontextprotocol/serverInfo'
} as const

/** The `_meta` of a request: which revision, and who asks with which capabilities. */
export const RequestMetaObject = Type.Object({
  [metaKeys.protocolVersion]: Type.String(),
  'io.modelcontextprotocol/clientCapabilities': named<ClientCapabilities>(ClientCapabilities),
  [metaKeys.clientInfo]: Type.Optional(named<Implementation>(Implementation)),
  [metaKeys.logLevel]: Type.Optional(LoggingLevel),
  progressToken: Type.Optional(ProgressToken),
  traceparent: Type.Optional(Type.String()),
  tracestate: Type.Optional(Type.String()),
  baggage: Type.Optional(Type.String())
})
export interface RequestMetaObject extends Wire<typeof RequestMetaObject> {}

/** The `_meta` of a notification; on a listen stream it says which one. */
export const NotificationMetaObject = Type.Object({
  [metaKeys.subscriptionId]: Type.Optional(RequestId)
})
export interface NotificationMetaObject extends Wire<typeof NotificationMetaObject> {}

/** The `_meta` of a result: who answered, and whatever a server adds. */
export const ResultMetaObject = named<JsonObject>(Type.Object({
  [metaKeys.serverInfo]: Type.Optional(named<Implementation>(Implementation))
}))
export type ResultMetaObject = JsonObject
