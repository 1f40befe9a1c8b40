import { Type, type TSchema } from '@sinclair/typebox'
import { LoggingLevel, ProgressToken, RequestId } from './base.js'
import { NotificationMetaObject } from './meta.js'
import { named, type Wire } from './wire.js'

const meta = { _meta: Type.Optional(named<NotificationMetaObject>(NotificationMetaObject)) }

const message = <Method extends string, Params extends TSchema>(method: Method, params: Params) =>
  Type.Object({ jsonrpc: Type.Literal('2.0'), method: Type.Literal(method), params })

/** The params of a notification that has none of its own. */
export const NotificationParams = Type.Object(meta)
export interface NotificationParams extends Wire<typeof NotificationParams> {}

const noParams = Type.Optional(named<NotificationParams>(NotificationParams))

/** Which request is no longer wanted, and why. */
export const CancelledNotificationParams = Type.Object({ ...meta, requestId: RequestId, reason: Type.Optional(Type.String()) })
export interface CancelledNotificationParams extends Wire<typeof CancelledNotificationParams> {}

/** The one notification that a client may send; over HTTP it has no effect. */
export const CancelledNotification = message('notifications/cancelled', named<CancelledNotificationParams>(CancelledNotificationParams))
export interface CancelledNotification extends Wire<typeof CancelledNotification> {}

/** How far a request has come; `progress` rises with each. */
export const ProgressNotificationParams = Type.Object({
  ...meta,
  progressToken: ProgressToken,
  progress: Type.Number(),
  total: Type.Optional(Type.Number()),
  message: Type.Optional(Type.String())
})
export interface ProgressNotificationParams extends Wire<typeof ProgressNotificationParams> {}

/** Progress, on the stream of the request it belongs to. */
export const ProgressNotification = message('notifications/progress', named<ProgressNotificationParams>(ProgressNotificationParams))
export interface ProgressNotification extends Wire<typeof ProgressNotification> {}

/** One log message; `data` is any JSON. */
export const LoggingMessageNotificationParams = Type.Object({
  ...meta,
  level: LoggingLevel,
  logger: Type.Optional(Type.String()),
  data: Type.Unknown()
})
export interface LoggingMessageNotificationParams extends Wire<typeof LoggingMessageNotificationParams> {}

/** A log message, on the stream of the request it belongs to. */
export const LoggingMessageNotification = message('notifications/message', named<LoggingMessageNotificationParams>(LoggingMessageNotificationParams))
export interface LoggingMessageNotification extends Wire<typeof LoggingMessageNotification> {}

/** The list of tools has changed. */
export const ToolListChangedNotification = message('notifications/tools/list_changed', noParams)
export interface ToolListChangedNotification extends Wire<typeof ToolListChangedNotification> {}

/** The list of prompts has changed. */
export const PromptListChangedNotification = message('notifications/prompts/list_changed', noParams)
export interface PromptListChangedNotification extends Wire<typeof PromptListChangedNotification> {}

/** The list of resources has changed. */
export const ResourceListChangedNotification = message('notifications/resources/list_changed', noParams)
export interface ResourceListChangedNotification extends Wire<typeof ResourceListChangedNotification> {}

/** Which resource has changed. */
export const ResourceUpdatedNotificationParams = Type.Object({ ...meta, uri: Type.String() })
export interface ResourceUpdatedNotificationParams extends Wire<typeof ResourceUpdatedNotificationParams> {}

/** A resource that was subscribed to, or one below it, has changed. */
export const ResourceUpdatedNotification = message(
  'notifications/resources/updated', named<ResourceUpdatedNotificationParams>(ResourceUpdatedNotificationParams)
)
export interface ResourceUpdatedNotification extends Wire<typeof ResourceUpdatedNotification> {}
