import { McpError } from '../errors.js'
import { missingCapabilities } from '../client-capabilities.js'
import type { Exchange } from './exchange.js'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { ClientCapabilities } from '../protocol/index.js'
import type { RequestContext, TokenSealer } from '../../types/channel.js'
import type { McpNotification, McpRequest } from '../../types/request.js'
import type { Awaitable } from '../../types/schema.js'

/** The read-only part of a channel: what callbacks get that may not send. */
export class Context implements RequestContext {
  readonly #exchange: Exchange

  constructor (exchange: Exchange) {
    this.#exchange = exchange
  }

  get request (): McpRequest | McpNotification { return this.#exchange.request }
  get httpRequest (): FastifyRequest { return this.#exchange.httpRequest }
  get principal (): string | undefined { return this.#exchange.principal }
  get log (): FastifyBaseLogger { return this.#exchange.log }
  get signal (): AbortSignal { return this.#exchange.worker.signal }
  get tokens (): TokenSealer { return this.#exchange.tokens }

  requireCapability (required: ClientCapabilities): void {
    const missing = missingCapabilities(this.#exchange.request.meta.clientCapabilities ?? {}, required)
    if (missing !== undefined) throw new McpError({ kind: 'missingClientCapability', required: missing })
  }

  defer (cleanup: () => Awaitable<void>): void {
    this.#exchange.worker.defer(cleanup)
  }
}
