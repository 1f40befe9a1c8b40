import { readRetry } from '../channel/asking.js'
import { Exchange } from '../channel/exchange.js'
import { decodeRequest, findMethod } from '../decode/decode.js'
import { decodeMeta } from '../decode/meta.js'
import { createMount, type Mount } from '../mount.js'
import { readOptions } from '../options.js'
import { methods, REVISION, type JsonObject } from '../protocol/index.js'
import { forPrincipal } from '../token.js'
import { createCodec, type Codec } from '../transport/codec.js'
import { MemorySink } from './memory-sink.js'
import { composeHeaders, composeParams, sendUntilComplete, type Reply, type Retry } from './message.js'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import type { ExchangeEnd, ExchangeRef } from '../../types/exchange.js'
import type { McpMethod, McpRequest, ParamsOf } from '../../types/request.js'
import type { Server } from '../../types/server.js'
import type { TestExchange, TestRequestOptions } from './types.js'

/**
 * One request against a server, with no HTTP at all, begun before this returns. `setup` is not called, nothing is logged (a crash is the `reason` of
 * `ended`), and `httpRequest` has `headers` and `log` alone. Throws what a mount would refuse before any callback runs: a bad server or arg with
 * MCP_ERR_BAD_OPTION, bad params with McpError.
 */
export function testExchange<Arg, Msg, M extends McpMethod> (
  server: Server<Arg, unknown, unknown, Msg>, method: M, params: ParamsOf<M>, options: TestRequestOptions & { readonly arg?: Arg } = {}
): TestExchange<Msg, M> {
  const { arg, ...rest } = options
  const mount = createMount(readOptions({ server: arg === undefined ? server : [server, arg] }), silent)
  return new RequestInMemory<Msg, M>(mount, method, params, rest)
}

/** What a server gets of one round. */
interface Round { readonly request: McpRequest, readonly params: JsonObject }

/** A request with all its rounds, an exchange each. */
class RequestInMemory<Msg, M extends McpMethod> implements TestExchange<Msg, M> {
  readonly notifications: JsonObject[] = []
  readonly answer: Promise<Reply<M>>
  readonly ended: Promise<ExchangeEnd>
  readonly #mount: Mount
  readonly #codec: Codec
  readonly #options: TestRequestOptions
  // Set by the first round, before the constructor returns.
  #exchange!: Exchange
  #requests = 0

  constructor (mount: Mount, method: M, params: ParamsOf<M>, options: TestRequestOptions) {
    this.#mount = mount
    this.#codec = createCodec(mount.server.info)
    this.#options = options
    const decode = (retry: Retry): Round => this.#decode(method, composeParams(params, options, retry))
    // Here a mistake in the params is thrown; in the first round it would be a rejection.
    let next: Round | undefined = decode({})
    this.answer = sendUntilComplete<M, Reply<M>>(options.respond, async retry => {
      const round = next ?? decode(retry)
      next = undefined
      return await this.#run(round)
    })
    this.ended = this.#whenEnded()
  }

  get ref (): ExchangeRef<Msg> {
    // The worker does not know the type of its server's messages.
    return this.#exchange.worker.ref as ExchangeRef<Msg>
  }

  disconnect (): void {
    if (this.#exchange.worker.over) return
    this.#exchange.sink.abort()
    this.#exchange.worker.close('disconnect')
  }

  #decode (method: M, params: JsonObject): Round {
    // composeParams has put a `_meta` in.
    const meta = decodeMeta(params['_meta'] as JsonObject, REVISION, composeHeaders(method, params, this.#options.headers))
    const request = decodeRequest(findMethod(method), { kind: 'request', id: ++this.#requests, method, params }, params, meta)
    return { request, params }
  }

  async #run ({ request, params }: Round): Promise<Reply<M>> {
    const mount = this.#mount
    const retry = readRetry(request, params, () => forPrincipal(mount.tokens, undefined, 'package'))
    const sink = new MemorySink<M>(this.#codec, { id: request.id, cacheable: methods[request.method].cacheable === true, retried: retry !== undefined }, this.notifications)
    // What a callback may read of it when nobody has sent it.
    const httpRequest = { headers: composeHeaders(request.method, params, this.#options.headers), log: silent } as unknown as FastifyRequest
    this.#exchange = new Exchange({
      mount, request, httpRequest, protocolVersion: REVISION, principal: undefined, retry, onEnded: () => {}, traced: undefined
    }, sink)
    this.#exchange.run()
    return await sink.reply
  }

  async #whenEnded (): Promise<ExchangeEnd> {
    // Of a request that fails the last exchange has ended too; and whoever does not ask for the answer need not handle its failure.
    await this.answer.catch(() => {})
    return await this.#exchange.worker.ref.ended
  }
}

const silent: FastifyBaseLogger = {
  level: 'silent', fatal: log, error: log, warn: log, info: log, debug: log, trace: log, silent: log, child: () => silent
}

function log (): void {}
