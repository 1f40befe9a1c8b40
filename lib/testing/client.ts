import { Agent } from 'node:http'
import { REVISION, type JsonObject } from '../protocol/index.js'
import { CurrentDialect, type Dialect, type Outgoing } from './dialect.js'
import { flattenHeaders, ResponseReader, sendUntilComplete } from './message.js'
import { SessionDialect } from './session-dialect.js'
import { listen, SocketStream, type Address } from './socket.js'
import type { FastifyInstance } from 'fastify'
import type { McpMethod, ParamsOf, ProtocolVersion } from '../../types/request.js'
import type { TestAnswer, TestClient, TestRequestOptions, TestStream } from './types.js'

/**
 * An MCP client of one app, for its tests. `path`: default the app's only mount. `protocolVersion`: default 2026-07-28.
 *
 * A client of a 2025 revision opens a session before its first request, with the capabilities that are given here; `close` ends it. A log level is set for
 * the session, `open('subscriptions/listen')` is the stream of a GET, after a `resources/subscribe` for each URI, and the key that `respond` gets is the id of
 * the server's request, which is answered as an unknown method where there is no `respond`.
 */
export function createTestClient (
  app: FastifyInstance, options: TestRequestOptions & { readonly path?: string, readonly protocolVersion?: ProtocolVersion } = {}
): TestClient {
  const { path, protocolVersion = REVISION, ...defaults } = options
  return new InjectClient(app, path, protocolVersion, { ...defaults, headers: lowerCase(defaults.headers) })
}

class InjectClient implements TestClient {
  readonly #app: FastifyInstance
  readonly #path: string | undefined
  readonly #defaults: TestRequestOptions
  // Keeps no socket for another request, which a server that closes would break; to the server each looks like one that stays.
  readonly #agent = new Agent({ keepAlive: false })
  readonly #streams = new Set<SocketStream<McpMethod>>()
  #address: Promise<Address> | undefined
  readonly #dialect: Dialect

  constructor (app: FastifyInstance, path: string | undefined, version: ProtocolVersion, defaults: TestRequestOptions) {
    this.#app = app
    this.#path = path
    this.#defaults = defaults
    this.#dialect = version === REVISION
      ? new CurrentDialect()
      : new SessionDialect(version, defaults, async outgoing => {
        const { statusCode, headers, body } = await this.#inject(outgoing)
        const chunks: Uint8Array[] = []
        for await (const chunk of body) chunks.push(chunk)
        return { statusCode, headers, text: Buffer.concat(chunks).toString() }
      })
  }

  async request<M extends McpMethod> (method: M, params: ParamsOf<M>, options: TestRequestOptions = {}): Promise<TestAnswer<M>> {
    const merged = this.#merge(options)
    const notifications: JsonObject[] = []
    await this.#dialect.prepare(method, params, merged)
    return await sendUntilComplete<M, TestAnswer<M>>(merged.respond, async retry => {
      const { statusCode, headers, body } = await this.#inject(this.#dialect.compose(method, params, merged, retry))
      const reader = new ResponseReader<M>(headers['content-type'], message => { if (!this.#dialect.take(message, merged)) notifications.push(message) })
      for await (const chunk of body) reader.write(chunk)
      return { statusCode, headers, notifications, ...reader.end() }
    })
  }

  async open<M extends McpMethod> (method: M, params: ParamsOf<M>, options: TestRequestOptions = {}): Promise<TestStream<M>> {
    const merged = this.#merge(options)
    const path = await this.#findPath()
    await this.#dialect.prepare(method, params, merged)
    this.#address ??= listen(this.#app)
    const target = { ...await this.#address, path, agent: this.#agent }
    const stream = new SocketStream<M>(target, retry => this.#dialect.compose(method, params, merged, retry), merged.respond, message => this.#dialect.take(message, merged))
    this.#streams.add(stream)
    const forget = (): void => { this.#streams.delete(stream) }
    stream.answer.then(forget, forget)
    await stream.sent
    return stream
  }

  async notify (method: string, params?: JsonObject): Promise<{ readonly statusCode: number }> {
    await this.#dialect.prepare(method, {}, this.#defaults)
    const { statusCode } = await this.#inject(this.#dialect.composeNotification(method, params, this.#defaults))
    return { statusCode }
  }

  async close (): Promise<void> {
    const streams = [...this.#streams]
    for (const stream of streams) stream.vanish()
    await Promise.allSettled(streams.map(async stream => await stream.answer))
    await this.#dialect.end()
  }

  #merge (options: TestRequestOptions): TestRequestOptions {
    return { ...this.#defaults, ...options, headers: { ...this.#defaults.headers, ...lowerCase(options.headers) } }
  }

  async #inject ({ verb, headers, body }: Outgoing): Promise<{ readonly statusCode: number, readonly headers: Record<string, string>, readonly body: AsyncIterable<Uint8Array> }> {
    const response = await this.#app.inject({ method: verb, url: await this.#findPath(), headers, ...(body !== undefined && { payload: body }), payloadAsStream: true })
    return { statusCode: response.statusCode, headers: flattenHeaders(response.headers), body: response.stream() }
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
