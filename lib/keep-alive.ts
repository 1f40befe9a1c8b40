import type { FastifyInstance } from 'fastify'

/** How long common balancers keep an idle connection, in ms. */
const BALANCER_IDLE = 60_000

const warned = new WeakSet<FastifyInstance['server']>()

/** Says, once an app, that a balancer in front of it may send requests on connections that are closed at that moment, and answer 502. */
export function warnOfKeepAlive (fastify: FastifyInstance): void {
  const { server, log } = fastify
  // HTTP/2 has none, whatever the type says.
  const { keepAliveTimeout = 0 } = server as { keepAliveTimeout?: number }
  // Fastify gives `ips` to requests of an app that declares `trustProxy`, and to no others.
  if (warned.has(server) || !fastify.hasRequestDecorator('ips') || keepAliveTimeout <= 0 || keepAliveTimeout > BALANCER_IDLE) return
  warned.add(server)
  log.warn(
    { mcp: { option: 'keepAliveTimeout', keepAliveTimeout } },
    'idle connections are closed while a balancer may still use them: set keepAliveTimeout to more than the idle timeout of the balancer, often 60000 ms'
  )
}
