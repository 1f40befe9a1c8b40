import { Type } from '@sinclair/typebox'
import { Implementation, RequestId } from './base.js'
import { metaKeys, NotificationMetaObject } from './meta.js'
import { complete } from './result.js'
import { named, type Wire } from './wire.js'

const flag = Type.Optional(Type.Boolean())

/** What a listen asks for, and what it is granted; `false` is the same as absent. */
export const SubscriptionFilter = Type.Object({
  toolsListChanged: flag,
  promptsListChanged: flag,
  resourcesListChanged: flag,
  resourceSubscriptions: Type.Optional(Type.Array(Type.String()))
})
export interface SubscriptionFilter extends Wire<typeof SubscriptionFilter> {}

/** The notification that each flag of a filter asks for. */
export const listChanges = {
  toolsListChanged: 'notifications/tools/list_changed',
  promptsListChanged: 'notifications/prompts/list_changed',
  resourcesListChanged: 'notifications/resources/list_changed'
} as const

/** What of the filter is honoured. */
export const SubscriptionsAcknowledgedNotificationParams = Type.Object({
  _meta: Type.Optional(named<NotificationMetaObject>(NotificationMetaObject)),
  notifications: named<SubscriptionFilter>(SubscriptionFilter)
})
export interface SubscriptionsAcknowledgedNotificationParams extends Wire<typeof SubscriptionsAcknowledgedNotificationParams> {}

/** The first message of a listen stream. */
export const SubscriptionsAcknowledgedNotification = Type.Object({
  jsonrpc: Type.Literal('2.0'),
  method: Type.Literal('notifications/subscriptions/acknowledged'),
  params: named<SubscriptionsAcknowledgedNotificationParams>(SubscriptionsAcknowledgedNotificationParams)
})
export interface SubscriptionsAcknowledgedNotification extends Wire<typeof SubscriptionsAcknowledgedNotification> {}

/** The `_meta` of the result that ends a listen: its subscription, and maybe the server. */
export const SubscriptionsListenResultMetaObject = Type.Object({
  [metaKeys.subscriptionId]: RequestId,
  [metaKeys.serverInfo]: Type.Optional(named<Implementation>(Implementation))
})
export interface SubscriptionsListenResultMetaObject extends Wire<typeof SubscriptionsListenResultMetaObject> {}

/** The last message of a listen that the server ended. */
export const SubscriptionsListenResult = Type.Object({
  ...complete,
  _meta: named<SubscriptionsListenResultMetaObject>(SubscriptionsListenResultMetaObject)
})
export interface SubscriptionsListenResult extends Wire<typeof SubscriptionsListenResult> {}
