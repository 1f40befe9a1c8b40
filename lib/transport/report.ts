import { isObject } from '../decode/envelope.js'
import { traceEnd, type Traced } from '../observe.js'
import { REVISION } from '../protocol/index.js'
import { settle } from '../awaitable.js'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { McpError } from '../errors.js'
import type { ExchangeEnd } from '../../types/exchange.js'
import type { McpNotification, McpRequest } from '../../types/request.js'

/** An exchange that has ended, and whoever it is told to. */
interface Ended {
  readonly request: McpRequest | McpNotification
  readonly httpRequest: FastifyRequest
  readonly traced: Traced | undefined
  readonly worker: { end (): ExchangeEnd }
}

/** What tells of the end of each exchange: the tracing channel, one line at debug level, and the mount's `onEnd`. Where nobody asks, nothing is made. */
export function createReporter (onEnd: ((end: ExchangeEnd, httpRequest: FastifyRequest) => void) | undefined): (ended: Ended) => void {
  return ({ request, httpRequest, traced, worker }) => {
    const { log } = httpRequest
    const debugging = isDebugging(log)
    if (onEnd === undefined && traced === undefined && !debugging) return
    const end = worker.end()
    if (traced !== undefined) traceEnd(traced, end)
    if (debugging) log.debug({ mcp: describeEnd(end, request) }, 'an MCP exchange ended')
    settle(() => onEnd?.(end, httpRequest), () => {}, err => { log.error({ err }, 'onEnd failed') })
  }
}

/** One line, at debug level, of what was refused before it became an exchange. */
export function reportRefusal ({ log, body, headers }: FastifyRequest, { reason, rpcCode, statusCode }: McpError): void {
  if (!isDebugging(log)) return
  const method = isObject(body) && typeof body['method'] === 'string' ? body['method'].slice(0, 100) : undefined
  log.debug({
    mcp: { method, outcome: 'refused', reason: reason.kind, rpcCode, statusCode, accept: headers.accept, protocolVersion: headers['mcp-protocol-version'] }
  }, 'an MCP request was refused')
}

/**
 * No arguments, states, headers or results: they may hold secrets, and so may a baggage. Of an error its code or name, since a message may quote them.
 */
function describeEnd ({ cause, reason, requestId: _, ...facts }: ExchangeEnd, { meta }: Ended['request']): object {
  const era = facts.protocolVersion === REVISION ? 'modern' : 'legacy'
  return { ...facts, era, client: meta.clientInfo?.name, traceparent: meta.traceparent, outcome: outcomeOf(cause), cause, reason: nameOf(reason) }
}

function outcomeOf (cause: ExchangeEnd['cause']): 'finished' | 'errored' | 'aborted' {
  if (cause === 'result' || cause === 'stop' || cause === 'accepted') return 'finished'
  return cause === 'error' || cause === 'crash' ? 'errored' : 'aborted'
}

function nameOf (reason: unknown): string | undefined {
  if (!(reason instanceof Error)) return undefined
  const { code } = reason as { code?: unknown }
  return typeof code === 'string' ? code : reason.name
}

function isDebugging (log: FastifyBaseLogger): boolean {
  const { isLevelEnabled } = log as { isLevelEnabled?: (level: string) => boolean }
  // An app without a logger has one whose functions are all the same, and do nothing.
  return isLevelEnabled === undefined ? log.debug !== log.error : isLevelEnabled.call(log, 'debug')
}
