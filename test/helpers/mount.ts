import Fastify from 'fastify'
import genMcp, { type GenMcpOptions } from 'fastify-gen-mcp'
import { composeHeaders } from '../../lib/testing/message.js'
import type { FastifyInstance, FastifyServerOptions, InjectOptions, LightMyRequestResponse } from 'fastify'
import type { JsonObject } from 'fastify-gen-mcp'
import type { Test } from 'tap'

/** What may be given to `register`: ours, Fastify's `prefix`, and the leftover options of a server with an arg. */
export type MountOptions = GenMcpOptions & { readonly prefix?: string, readonly [leftover: string]: unknown }

/** A Fastify app that is ready, with one mount at `/mcp` unless `prefix` says otherwise; the end of the test closes it. */
export async function mount (t: Test, options: MountOptions, fastifyOptions: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = Fastify(fastifyOptions)
  t.teardown(async () => { await app.close() })
  await app.register(genMcp, { prefix: '/mcp', ...options })
  await app.ready()
  return app
}

/** What `call` sends that is not as it should be. A member that is undefined is left out of what is sent. */
export interface Overrides {
  /** Default: 1. */
  readonly id?: unknown
  /** Members of `_meta`. */
  readonly meta?: Readonly<Record<string, unknown>>
  /** Default: all that the protocol asks for. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Members of the body; a string or bytes: the whole body as it is. */
  readonly body?: Readonly<Record<string, unknown>> | string | Buffer
  /** Default: `/mcp`. */
  readonly url?: string
}

/** A raw POST through `inject`, with the right headers and `_meta` but for the overrides, and with nothing read into the response. */
export async function call (app: FastifyInstance, method: string, params: object = {}, overrides: Overrides = {}): Promise<LightMyRequestResponse> {
  const { meta: metaOverrides, headers, body, url = '/mcp' } = overrides
  const whole = typeof body === 'string' || Buffer.isBuffer(body)
  const request = { jsonrpc: '2.0', id: 'id' in overrides ? overrides.id : 1, method, params: { ...params, _meta: meta(metaOverrides) }, ...(whole ? {} : body) }
  // JSON has no member that is undefined.
  const injected: InjectOptions = { method: 'POST', url, headers: replaceHeaders(composeHeaders(method, params as JsonObject), headers), payload: whole ? body : JSON.stringify(request) }
  return await app.inject(injected)
}

/** The `_meta` of a request, but for the members given. */
export function meta (over: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {}, ...over }
}

function replaceHeaders (headers: Record<string, string>, over: Overrides['headers'] = {}): Record<string, string> {
  const replaced = { ...headers, ...Object.fromEntries(Object.entries(over).map(([name, value]) => [name.toLowerCase(), value])) }
  return Object.fromEntries(Object.entries(replaced).flatMap(([name, value]) => value === undefined ? [] : [[name, value]]))
}
