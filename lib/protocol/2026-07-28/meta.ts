import { Type } from '@sinclair/typebox'
import { Implementation, type JsonObject, LoggingLevel, ProgressToken, RequestId } from './base.js'
import { ClientCapabilities } from './capabilities.js'
import { named, type Wire } from './wire.js'

/** The `_meta` of a request: which revision, and who asks with which capabilities. */
export const RequestMetaObject = Type.Object({
  'io.modelcontextprotocol/protocolVersion': Type.String(),
  'io.modelcontextprotocol/clientCapabilities': named<ClientCapabilities>(ClientCapabilities),
  'io.modelcontextprotocol/clientInfo': Type.Optional(named<Implementation>(Implementation)),
  'io.modelcontextprotocol/logLevel': Type.Optional(LoggingLevel),
  progressToken: Type.Optional(ProgressToken),
  traceparent: Type.Optional(Type.String()),
  tracestate: Type.Optional(Type.String()),
  baggage: Type.Optional(Type.String())
})
export interface RequestMetaObject extends Wire<typeof RequestMetaObject> {}

/** The `_meta` of a notification; on a listen stream it says which one. */
export const NotificationMetaObject = Type.Object({
  'io.modelcontextprotocol/subscriptionId': Type.Optional(RequestId)
})
export interface NotificationMetaObject extends Wire<typeof NotificationMetaObject> {}

/** The `_meta` of a result: who answered, and whatever a server adds. */
export const ResultMetaObject = named<JsonObject>(Type.Object({
  'io.modelcontextprotocol/serverInfo': Type.Optional(named<Implementation>(Implementation))
}))
export type ResultMetaObject = JsonObject
