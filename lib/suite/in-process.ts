import { createDeferred } from '../deferred.js'
import { McpError } from '../errors.js'
import { Exchange } from '../channel/exchange.js'
import { mountOf } from '../mount.js'
import { REVISION } from '../protocol/index.js'
import { isSchema } from '../json-schema.js'
import type { JsonObject } from '../protocol/index.js'
import type { Ending, Sink } from '../worker/sink.js'
import type { Suite } from '../../types/providers.js'
import type { McpRequest, RequestOf } from '../../types/request.js'
import type { CallToolResult } from '../../types/results.js'

const requests = new WeakSet<object>()

/** Whether a request was made here: there are no headers that repeat what is in it. */
export function isInProcess (request: McpRequest): boolean {
  return requests.has(request)
}

/** Calls a tool without HTTP, as the caller of a request that the app is serving. */
export async function callInProcess (suite: Suite, name: string, args: unknown, { httpRequest, signal }: Parameters<Suite['callTool']>[2]): Promise<CallToolResult> {
  if (!isSchema(args)) throw new McpError({ kind: 'invalidParams', issues: [{ path: 'arguments', message: 'must be an object' }] })
  signal?.throwIfAborted()
  const mount = mountOf(suite, httpRequest.log)
  const sink = new ResultSink()
  const request: RequestOf<'tools/call'> = Object.freeze({
    method: 'tools/call',
    id: 0,
    // It has been looked at, and is not sent: what it holds is the caller's affair.
    params: Object.freeze({ name, arguments: args as JsonObject }),
    meta: Object.freeze({ protocolVersion: REVISION, clientCapabilities: {}, extra: {} })
  })
  requests.add(request)
  const exchange = new Exchange({
    mount,
    request,
    httpRequest,
    protocolVersion: REVISION,
    principal: mount.settings.principal?.(httpRequest),
    retry: undefined,
    traced: undefined,
    onEnded: () => {}
  }, sink)
  const leave = (): void => {
    exchange.worker.close('disconnect')
    sink.leave(signal?.reason)
  }
  signal?.addEventListener('abort', leave, { once: true })
  exchange.run()
  try {
    return await sink.result
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

/** Takes the answer, and nothing else: there is nobody to tell of progress. */
export class ResultSink implements Sink {
  readonly #answer = createDeferred<CallToolResult>()
  readonly streaming = false
  readonly statusCode = 200
  readonly events = 0
  readonly bytes = 0
  readonly bufferedBytes = 0
  readonly leaving = false
  readonly timers = 0

  get result (): Promise<CallToolResult> {
    return this.#answer.promise
  }

  leave (reason: unknown): void {
    this.#answer.reject(reason)
  }

  open (): boolean { return false }
  notify (): boolean { return false }
  progress (): void {}
  header (): boolean { return true }
  async drained (): Promise<void> {}
  async whenFlushed (): Promise<void> {}
  abort (): void {}

  end (ending: Ending): void {
    if (ending.type === 'error') return this.#answer.reject(ending.error)
    if (ending.type !== 'result') return
    // A call is answered with a tool's result, or with the wish to be called again, which nobody here can grant.
    const result = ending.result as CallToolResult | { readonly resultType: 'input_required' }
    if (result.resultType === 'input_required') this.#answer.reject(new McpError({ kind: 'missingClientCapability', required: { elicitation: {} } }))
    else this.#answer.resolve(result as CallToolResult)
  }
}
