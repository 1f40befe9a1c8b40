import { Agent } from 'node:http'
import { REVISION, type JsonObject } from '../protocol/index.js'
import { composeBody, composeHeaders, composeParams, flattenHeaders, ResponseReader, sendUntilComplete, type Retry } from './message.js'
import { listen, SocketStream, type Address, type Outgoing } from './socket.js'
import type { FastifyInstance } from 'fastify'
import type { McpMethod, ParamsOf, ProtocolVersion } from '../../types/request.js'
import type { TestAnswer, TestClient, TestRequestOptions, TestStream } from './types.js'

/**
 * An MCP client of one app, for its tests. `path`: default the app's only mount. `protocolVersion`: for now the current revision alone, which is the
 * default.
 */
export function createTestClient (
  app: FastifyInstance, options: TestRequestOptions & { readonly path?: string, readonly protocolVersion?: ProtocolVersion } = {}
): TestClient {
  const { path, protocolVersion = REVISION, ...defaults } = options
  if (protocolVersion !== REVISION) throw new Error(`A test client speaks ${REVISION} alone, and not ${protocolVersion} yet`)
  return new InjectClient(app, path, defaults)
}

class InjectClient implements TestClient {
  readonly #app: FastifyInstance
  readonly #path: string | undefined
  readonly #defaults: TestRequestOptions
  // Keeps no socket for another request, which a server that closes would break; to the server each looks like one that stays.
  readonly #agent = new Agent({ keepAlive: false })
  readonly #streams = new Set<SocketStream<McpMethod>>()
  #address: Promise<Address> | undefined
  #requests = 0

  constructor (app: FastifyInstance, path: string | undefined, defaults: TestRequestOptions) {
    this.#app = app
    this.#path = path
    this.#defaults = defaults
  }

  async request<M extends McpMethod> (method: M, params: ParamsOf<M>, options: TestRequestOptions = {}): Promise<TestAnswer<M>> {
    const merged = this.#merge(options)
    const notifications: JsonObject[] = []
    return await sendUntilComplete<M, TestAnswer<M>>(merged.respond, async retry => {
      const { statusCode, headers, rawPayload } = await this.#inject(this.#compose(method, params, merged, retry))
      const reader = new ResponseReader<M>(headers['content-type'], notification => { notifications.push(notification) })
      reader.write(rawPayload)
      return { statusCode, headers, notifications, ...reader.end() }
    })
  }

  async open<M extends McpMethod> (method: M, params: ParamsOf<M>, options: TestRequestOptions = {}): Promise<TestStream<M>> {
    const merged = this.#merge(options)
    const path = await this.#findPath()
    this.#address ??= listen(this.#app)
    const target = { ...await this.#address, path, agent: this.#agent }
    const stream = new SocketStream<M>(target, retry => this.#compose(method, params, merged, retry), merged.respond)
    this.#streams.add(stream)
    const forget = (): void => { this.#streams.delete(stream) }
    stream.answer.then(forget, forget)
    await stream.sent
    return stream
  }

  async notify (method: string, params?: JsonObject): Promise<{ readonly statusCode: number }> {
    const headers = composeHeaders(method, params ?? {}, this.#defaults.headers)
    const { statusCode } = await this.#inject({ headers, body: composeBody(undefined, method, params) })
    return { statusCode }
  }

  async close (): Promise<void> {
    const streams = [...this.#streams]
    for (const stream of streams) stream.vanish()
    await Promise.allSettled(streams.map(async stream => await stream.answer))
  }

  #merge (options: TestRequestOptions): TestRequestOptions {
    return { ...this.#defaults, ...options, headers: { ...lowerCase(this.#defaults.headers), ...lowerCase(options.headers) } }
  }

  #compose (method: McpMethod, params: object, options: TestRequestOptions, retry: Retry): Outgoing {
    const composed = composeParams(params, options, retry)
    return { headers: composeHeaders(method, composed, options.headers), body: composeBody(++this.#requests, method, composed) }
  }

  async #inject ({ headers, body }: Outgoing): Promise<{ readonly statusCode: number, readonly headers: Record<string, string>, readonly rawPayload: Buffer }> {
    const response = await this.#app.inject({ method: 'POST', url: await this.#findPath(), headers, payload: body })
    return { statusCode: response.statusCode, headers: flattenHeaders(response.headers), rawPayload: response.rawPayload }
  }

  async #findPath (): Promise<string> {
    if (this.#path !== undefined) return this.#path
    // Mounts are known when their plugins have been loaded.
    await this.#app.ready()
    const mounts = this.#app.hasDecorator('mcp') ? this.#app.mcp.mounts : []
    const [mount] = mounts
    if (mount === undefined) throw new Error('The app has no MCP mount on this instance: register the plugin first, or give the client its path')
    if (mounts.length > 1) throw new Error(`The app has several MCP mounts, at ${mounts.map(({ path }) => path).join(', ')}: give the client the path of one`)
    return mount.path
  }
}

function lowerCase (headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}
