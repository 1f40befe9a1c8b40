import type { McpError } from '../errors.js'
import type { JsonObject } from '../protocol/index.js'
import type { RequestId } from '../../types/request.js'

/** How the response ends. `complete`: a listen's own result; `silent`: with no further message. */
export type Ending =
  | { readonly type: 'result', readonly result: object }
  | { readonly type: 'error', readonly error: McpError }
  | { readonly type: 'complete' }
  | { readonly type: 'accepted' }
  | { readonly type: 'silent' }

/** Where the output of one exchange goes: the relay; in tests an array. */
export interface Sink {
  readonly streaming: boolean
  readonly statusCode: number
  readonly events: number
  readonly bytes: number
  readonly bufferedBytes: number
  /** The answer has been given, and is not all with the system yet. */
  readonly leaving: boolean
  readonly timers: number
  /** Opens the stream, if that has not happened; false where the client takes JSON only, or it is over. */
  open (): boolean
  /** Sends progress on the open stream. */
  progress (token: RequestId, progress: number, total: number | undefined, message: string | undefined): void
  /** Sends a notification, and opens the stream for it; false if there can be none. Throws, with nothing opened, what is no JSON. */
  notify (method: string, params: JsonObject | undefined): boolean
  /** The last message. Throws, with nothing written, what the result's own JSON throws. */
  end (ending: Ending): void
  /** The client is gone, or must go: nothing more is written. */
  abort (): void
  /** Sets a header that Node takes; false once the head has left. */
  header (name: string, value: string): boolean
  /** Resolves when the socket takes more, or is closed. */
  drained (): Promise<void>
  /** Resolves when the response has left, or the client has. */
  whenFlushed (): Promise<void>
}
