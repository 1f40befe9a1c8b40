import type { JsonObject } from '../lib/protocol/index.js'

declare const response: unique symbol

/** A question to the client, made by `elicitForm`, `elicitUrl`, `createMessage` or `listRoots`. */
export interface InputRequest<Response = unknown> { readonly method: string; readonly params: JsonObject; readonly [response]: Response }
/** Your keys; the same key for the same question in every round. */
export type InputRequests = { readonly [key: string]: InputRequest }
export type InputResponses<Q extends InputRequests> = { readonly [K in keyof Q]: Q[K] extends InputRequest<infer R> ? R : never }
export type FormResponse<Content> = { readonly action: 'accept'; readonly content: Content } | { readonly action: 'decline' | 'cancel' }
