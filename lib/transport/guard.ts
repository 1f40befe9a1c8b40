import { McpError } from '../errors.js'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Settings } from '../options.js'

const LOOPBACK_NAMES = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * The hook that refuses a foreign Origin or Host, whatever the verb and before any hook of the mount: without it any web page could drive a server on the
 * user's machine (2026-07-28, Streamable HTTP, Security).
 */
export function createGuard ({ allowedOrigins, allowedHosts }: Settings, fastify: FastifyInstance): onRequestHookHandler {
  const isHostAllowed = createHostCheck(allowedHosts, fastify)
  /** What was allowed last is what nearly every request says. */
  let usual: string | undefined

  return (httpRequest, _reply, done) => {
    const { origin } = httpRequest.headers
    const host = hostOf(httpRequest)
    if (host !== usual || usual === undefined) {
      if (!isHostAllowed(host, httpRequest)) return done(refuse(httpRequest, 'hostForbidden', { host, option: 'allowedHosts' }))
      usual = host
    }
    if (origin === undefined || allowedOrigins === 'any') return done()
    if (typeof allowedOrigins !== 'function') return done(isListed(origin, allowedOrigins) ? undefined : refuse(httpRequest, 'originForbidden', { origin, option: 'allowedOrigins' }))

    Promise.resolve().then(async () => await allowedOrigins(origin, httpRequest)).then(allowed => {
      done(allowed === true ? undefined : refuse(httpRequest, 'originForbidden', { origin, option: 'allowedOrigins' }))
    }, done)
  }
}

function refuse (httpRequest: FastifyRequest, kind: 'originForbidden' | 'hostForbidden', facts: object): McpError {
  // Nearly always an option that was forgotten, so that whoever runs the app must see it.
  httpRequest.log.warn({ mcp: { refused: kind, ...facts } }, 'an MCP request was refused')
  return new McpError({ kind })
}

function isListed (origin: string, allowed: 'loopback' | readonly string[]): boolean {
  return allowed === 'loopback' ? isLoopbackOrigin(origin) : allowed.includes(origin)
}

function isLoopbackOrigin (origin: string): boolean {
  if (!URL.canParse(origin)) return false
  const url = new URL(origin)
  // The serialised form and nothing else: no path, no user, no second value.
  return url.origin === origin && LOOPBACK_NAMES.has(url.hostname)
}

/** A request without a Host, as HTTP/1.0 knows them, passes: no browser sends one. */
function createHostCheck (allowed: Settings['allowedHosts'], fastify: FastifyInstance): (host: string | undefined, httpRequest: FastifyRequest) => boolean {
  if (allowed === 'any') return () => true
  if (allowed !== 'loopback') {
    const hosts = new Set(allowed.map(host => host.toLowerCase()))
    return host => host === undefined || hosts.has(host.toLowerCase()) || hosts.has(nameOf(host))
  }
  let open: boolean | undefined
  return (host, httpRequest) => {
    if (host === undefined || LOOPBACK_NAMES.has(nameOf(host))) return true
    if (open !== undefined) return open
    const now = !isLocalOnly(fastify) || isBehindProxy(httpRequest)
    // What the server listens on is known when it does.
    if (fastify.server.listening) open = now
    return now
  }
}

function hostOf ({ raw: { headers } }: FastifyRequest): string | undefined {
  return headers.host ?? headers[':authority'] as string | undefined
}

/** The host without its port, in lower case. */
function nameOf (host: string): string {
  const colon = host.lastIndexOf(':')
  const port = colon > host.lastIndexOf(']') && /^\d*$/.test(host.slice(colon + 1))
  return (port ? host.slice(0, colon) : host).toLowerCase()
}

/** Listening on loopback addresses alone, or not at all (inject). A Unix socket is reached by no browser. */
function isLocalOnly ({ server }: FastifyInstance): boolean {
  const address = server.listening ? server.address() : null
  if (address === null) return true
  return typeof address === 'object' && (address.address === '::1' || address.address.startsWith('127.'))
}

/** Fastify gives `ips` to requests of an app that declares `trustProxy`, and to no others. */
function isBehindProxy ({ ips }: FastifyRequest): boolean {
  return ips !== undefined
}
