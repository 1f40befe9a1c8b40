import type { ContentBlock, ResultBase } from '../lib/protocol/2026-07-28/index.js'

declare const structured: unique symbol

/** What a tool answers. `Out`: undefined without structured content, never for a failure, which fits every tool. */
export interface CallToolResult<Out = unknown> extends ResultBase {
  readonly content: readonly ContentBlock[]
  readonly structuredContent?: Out
  /** The tool failed, and the model may read why in `content`. */
  readonly isError?: boolean
  /** Never there: it holds a tool to the type of its output, in which optional members alone would hold nothing. */
  readonly [structured]?: () => Out
}

/** How long, in ms, and by whom a result may be kept: `public` is for everybody, so it must not depend on who asks. */
export interface CacheHint { readonly scope: 'public' | 'private'; readonly ttlMs: number }

export interface ReadOptions {
  /** default: private, 0 */
  readonly cache?: CacheHint
}

export interface ListOptions extends ReadOptions {
  /** Where the next page begins; left out on the last page. */
  readonly nextCursor?: string
}

/** What builders take: bytes where the wire has Base64. */
export type WithBytes<T> = T extends unknown
  ? { readonly [K in keyof T]: K extends 'data' | 'blob' ? T[K] | Uint8Array : K extends 'resource' ? WithBytes<T[K]> : T[K] }
  : never
