import type { ProtocolVersion, RequestId } from './request.js'

/** Why an exchange was closed rather than answered. `closed`: by `channel.close()`. */
export type CloseReason = 'disconnect' | 'closed' | 'crash' | 'shutdown' | 'timeout' | 'overflow'

/** How an exchange ended: what `ref.ended`, `onEnd` and the tracing channels tell. */
export interface ExchangeEnd {
  readonly cause: 'result' | 'error' | 'stop' | 'accepted' | CloseReason
  /** The stopReason, the reason of stop, the McpError, or what was thrown. */
  readonly reason: unknown
  readonly method: string
  /** The tool, prompt or URI asked for. */
  readonly name: string | undefined
  readonly protocolVersion: ProtocolVersion
  /** null for a notification. */
  readonly requestId: RequestId | null
  /** What the client was answered, or would have been. */
  readonly statusCode: number
  readonly streamed: boolean
  /** Messages written, the answer included, comments not. */
  readonly events: number
  /** Bytes of the body handed to the connection, comments included. */
  readonly bytes: number
  /** Messages posted and never handled. */
  readonly undelivered: number
  readonly durationMs: number
}

/** Reaches one exchange in this process, for whoever was handed it; inert after the end. */
export interface ExchangeRef<Msg> {
  /** Random and unique, also across processes. */
  readonly id: string
  /** Puts a message into the mailbox. Never throws and never runs a callback synchronously. */
  post (message: Msg): 'queued' | 'closed' | 'overflow'
  /** Resolves once, last of all but `onEnd`, and never rejects. */
  readonly ended: Promise<ExchangeEnd>
}
