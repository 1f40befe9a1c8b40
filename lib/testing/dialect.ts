import { composeBody, composeHeaders, composeParams, type Retry } from './message.js'
import type { JsonObject } from '../protocol/index.js'
import type { TestRequestOptions } from './types.js'

/** What goes out. */
export interface Outgoing { readonly verb: 'POST' | 'GET' | 'DELETE', readonly headers: Readonly<Record<string, string>>, readonly body?: string }

/** How a client of one revision says what it wants. */
export interface Dialect {
  /** Sends whatever goes before the request. */
  prepare (method: string, params: object, options: TestRequestOptions): Promise<void>
  compose (method: string, params: object, options: TestRequestOptions, retry: Retry): Outgoing
  composeNotification (method: string, params: JsonObject | undefined, options: TestRequestOptions): Outgoing
  /** Takes a message of the server's that came with the answer to a request; false if it is a notification. */
  take (message: JsonObject, options: TestRequestOptions): boolean
  /** The client is done. */
  end (): Promise<void>
}

/** Revision 2026-07-28: each request says all that there is to know of it. */
export class CurrentDialect implements Dialect {
  #requests = 0

  async prepare (): Promise<void> {}

  compose (method: string, params: object, options: TestRequestOptions, retry: Retry): Outgoing {
    const composed = composeParams(params, options, retry)
    return { verb: 'POST', headers: composeHeaders(method, composed, options.headers), body: composeBody(++this.#requests, method, composed) }
  }

  composeNotification (method: string, params: JsonObject | undefined, { headers }: TestRequestOptions): Outgoing {
    return { verb: 'POST', headers: composeHeaders(method, params ?? {}, headers), body: composeBody(undefined, method, params) }
  }

  take (): boolean {
    return false
  }

  async end (): Promise<void> {}
}
