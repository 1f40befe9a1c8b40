import { createDeferred, type Deferred } from '../deferred.js'
import { request as httpRequest, Server, type Agent, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { flattenHeaders, ResponseReader, sendUntilComplete, type Retry } from './message.js'
import type { Outgoing } from './dialect.js'
import type { FastifyInstance } from 'fastify'
import type { JsonObject } from '../protocol/index.js'
import type { McpMethod } from '../../types/request.js'
import type { TestAnswer, TestRequestOptions, TestStream } from './types.js'

/** Where an app is reached. */
export type Address = Pick<RequestOptions, 'host' | 'port' | 'socketPath'>

/** Makes the app listen on a free loopback port, unless it listens already. */
export async function listen (app: FastifyInstance): Promise<Address> {
  if (!(app.server instanceof Server)) throw new Error('A test client opens sockets to apps on plain HTTP/1.1 alone')
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  // It listens, so that there is one.
  if (address === null || typeof address === 'string') return { socketPath: address as string }
  const { address: host, port } = address
  return { host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port }
}

type Head = Awaited<TestStream<McpMethod>['head']>

/** A request over a socket, with all its rounds. */
export class SocketStream<M extends McpMethod> implements TestStream<M> {
  readonly head: Promise<Head>
  readonly answer: Promise<TestAnswer<M>>
  /** Resolves when the first round has been sent, rejects when that failed. */
  readonly sent: Promise<void>
  readonly #target: RequestOptions
  readonly #isTaken: (message: JsonObject) => boolean
  readonly #heads = createQuiet<Head>()
  readonly #sends = createQuiet<void>()
  readonly #notifications: JsonObject[] = []
  #given = 0
  #comments = 0
  #paused = false
  /** Dropped from here. */
  #left = false
  #ended = false
  #failure: Error | undefined
  #waiting: (() => void)[] = []
  #request: ClientRequest | undefined
  #response: IncomingMessage | undefined
  /** Rejects the current round. */
  #abandon: (reason: Error) => void = ignore

  /** `isTaken`: whether a message is somebody else's, and no notification. */
  constructor (
    target: Address & { readonly path: string, readonly agent: Agent }, compose: (retry: Retry) => Outgoing, respond: TestRequestOptions['respond'],
    isTaken: (message: JsonObject) => boolean
  ) {
    this.#target = target
    this.#isTaken = isTaken
    this.head = this.#heads.promise
    this.sent = this.#sends.promise
    this.answer = sendUntilComplete<M, TestAnswer<M>>(respond, async retry => await this.#round(compose(retry)))
    // Whoever does not ask for the answer need not handle its failure, which is an Error: of the socket, of a parser, of `respond`.
    this.answer.then(() => { this.#end() }, (error: Error) => { this.#fail(error) })
  }

  get comments (): number {
    return this.#comments
  }

  [Symbol.asyncIterator] (): AsyncIterator<JsonObject, undefined> {
    // Without `return`, so that a loop that is left leaves the stream as it is.
    return { next: async () => await this.#next() }
  }

  vanish (): void {
    this.#request?.destroy()
    this.#leave('The client vanished')
  }

  reset (): void {
    this.#request?.socket?.resetAndDestroy()
    this.#leave('The client reset the connection')
  }

  halfClose (): void {
    this.#request?.socket?.end()
  }

  pause (): void {
    this.#paused = true
    this.#response?.pause()
    this.#request?.socket?.pause()
  }

  resume (): void {
    this.#paused = false
    this.#request?.socket?.resume()
    this.#response?.resume()
  }

  async #next (): Promise<IteratorResult<JsonObject, undefined>> {
    for (;;) {
      const value = this.#notifications[this.#given]
      if (value !== undefined) {
        this.#given++
        return { value, done: false }
      }
      if (this.#failure !== undefined && !this.#left) throw this.#failure
      if (this.#ended) return { value: undefined, done: true }
      await new Promise<void>(resolve => { this.#waiting.push(resolve) })
    }
  }

  #leave (message: string): void {
    this.#left = true
    // A response that is paused would tell of nothing.
    this.#abandon(new Error(message))
  }

  #end (): void {
    this.#ended = true
    this.#wake()
  }

  #fail (error: Error): void {
    this.#failure = error
    this.#request?.destroy()
    this.#heads.reject(error)
    this.#sends.reject(error)
    this.#end()
  }

  async #round ({ verb, headers, body }: Outgoing): Promise<TestAnswer<M>> {
    if (this.#left) throw new Error('The client has left')
    return await new Promise((resolve, reject) => {
      this.#abandon = reject
      this.#request = httpRequest({ ...this.#target, method: verb, headers: { connection: 'keep-alive', ...headers, ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }) } })
        .on('error', reject)
        .on('finish', this.#sends.resolve)
        .on('response', response => { this.#read(response, resolve, reject) })
        .end(body)
    })
  }

  #read (response: IncomingMessage, resolve: (answer: TestAnswer<M>) => void, reject: (error: Error) => void): void {
    const head: Head = { statusCode: response.statusCode as number, headers: flattenHeaders(response.headers) }
    const reader = new ResponseReader<M>(head.headers['content-type'], message => {
      if (this.#isTaken(message)) return
      this.#notifications.push(message)
      this.#wake()
    }, () => { this.#comments++ })
    // An error that is thrown in a listener would be the process's.
    const attempt = (work: () => void): void => {
      try {
        work()
      } catch (error) {
        reject(error as Error)
      }
    }

    this.#response = response
    this.#heads.resolve(head)
    response
      .on('data', chunk => { attempt(() => { reader.write(chunk) }) })
      .on('end', () => { attempt(() => { resolve({ ...head, notifications: this.#notifications, ...reader.end() }) }) })
      .on('error', reject)
    if (this.#paused) this.pause()
  }

  #wake (): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}

/** One that is never an unhandled rejection. */
function createQuiet<T> (): Deferred<T> {
  const deferred = createDeferred<T>()
  deferred.promise.catch(ignore)
  return deferred
}

function ignore (): void {}
