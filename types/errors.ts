import type { ClientCapabilities } from '../lib/protocol/index.js'

/** Why a client is refused: what `fail` and `McpError` take. Codes and statuses of each are in the README's table. */
export type ErrorReason =
  | { readonly kind: 'unsupportedMethod'; readonly method: string }
  | { readonly kind: 'invalidParams'; readonly message?: string; readonly issues?: readonly { readonly path: string; readonly message: string }[] }
  | { readonly kind: 'unknownTool' | 'promptNotFound'; readonly name: string }
  | { readonly kind: 'resourceNotFound'; readonly uri: string }
  | { readonly kind: 'cursor' | 'requestState' }
  | { readonly kind: 'missingClientCapability'; readonly required: ClientCapabilities }
  | { readonly kind: 'header'; readonly header: string; readonly problem: 'missing' | 'mismatch' | 'malformed' }
  | { readonly kind: 'internal'; readonly message: string }
  /** Another peer's code passed on, or one of the application's own, outside -32768 to -32000. */
  | { readonly kind: 'custom'; readonly rpcCode: number; readonly message: string; readonly data?: unknown; readonly statusCode?: number }
  // Raised by the mount alone.
  | { readonly kind: 'parse' | 'invalidRequest' | 'originForbidden' | 'hostForbidden' | 'mediaType' | 'bodyTooLarge' | 'notAcceptable' }
  | { readonly kind: 'crash' | 'closed' | 'timeout' | 'overflow' }
  | { readonly kind: 'unsupportedVersion'; readonly requested: string; readonly supported: readonly string[] }
  | { readonly kind: 'overloaded' | 'shutdown'; /** seconds */ readonly retryAfter: number }
