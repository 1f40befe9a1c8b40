import fp from 'fastify-plugin'
import { probeBuses } from './bus-probe.js'
import { createJsonParser } from './decode/json.js'
import { MCP_ERR_BAD_OPTION, McpError } from './errors.js'
import { addHealth } from './health.js'
import { warnOfKeepAlive } from './keep-alive.js'
import { serveLegacy } from './legacy/routes.js'
import { createMount, rememberMount, type Mount } from './mount.js'
import { INVALID_REQUEST } from './protocol/index.js'
import { DEFAULT_DRAIN, MAX_TIMEOUT, readOptions, type Registration } from './options.js'
import { createErrorHandler, createLastResort } from './transport/answer-error.js'
import { createCodec } from './transport/codec.js'
import { createGuard } from './transport/guard.js'
import { createPost } from './transport/post.js'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, FastifySchema, HTTPMethods } from 'fastify'
import type { Codec } from './transport/codec.js'
import type { Mount as PublicMount } from '../types/fastify.js'
import type { GenMcpOptions } from '../types/options.js'

const DEFAULT_PATH = '/mcp'
/** What of Fastify's own bound on a close is left for the last answers to leave, in ms. */
const CLOSE_MARGIN = 1_000
/** The lowest Fastify without known advisories that says its own version right. */
const FASTIFY_RANGE = '>=5.12.4 <6'

/**
 * Mounts an MCP server: `fastify.register(genMcp, { prefix: '/mcp', server })`. It may be registered as often as there are servers. What makes no sense
 * rejects `ready()` with MCP_ERR_BAD_OPTION, which names the option.
 */
const plugin: FastifyPluginAsync<GenMcpOptions> = async (fastify, rawOptions) => {
  const registration = readOptions(rawOptions as unknown as Record<string, unknown>)
  const mount = createMount(registration, fastify.log)
  rememberMount(mount)
  mount.otherEra = serveLegacy(fastify, mount, registration.legacy)
  await registration.server.setup?.(fastify, registration.arg)
  probeBuses(fastify, mount)

  const { prefix, path, health, route, server, settings } = registration
  const codec = createCodec(settings.sendServerInfo ? server.info : undefined)
  await fastify.register(async outer => {
    // Fastify turns to the handler outside when what the one inside sends fails.
    outer.setErrorHandler(createLastResort(codec))
    await outer.register(async child => { addRoutes(child, registration, mount, codec) })
    const url = outer.prefix + (path ?? (prefix === '' ? DEFAULT_PATH : ''))
    publish(fastify, { path: url, gauges: () => ({ ...mount.registry.gauges(), busesDown: mount.probe?.down ?? 0 }) }, createDrain(fastify, mount))
  }, { prefix })
  // Beside the mount, so that what answers and refuses there has no say here.
  if (health !== undefined) await fastify.register(async child => { addHealth(child, healthUrls(child, health, registration), mount, route) }, { prefix })
  fastify.addHook('onReady', async () => { warnOfKeepAlive(fastify) })
  fastify.addHook('preClose', async () => {
    // All at once: Fastify runs the hooks one after the other, and bounds them together.
    await Promise.all(mountsOf(fastify).map(async ({ drain }) => { await drain() }))
  })
}

export const genMcp: FastifyPluginAsync<GenMcpOptions> = fp(plugin, { name: 'fastify-gen-mcp', fastify: FASTIFY_RANGE })

function addRoutes (child: FastifyInstance, { route, prefix, path }: Registration, mount: Mount, codec: Codec): void {
  child.removeAllContentTypeParsers()
  child.addContentTypeParser('application/json', { parseAs: 'buffer' }, createJsonParser(child))
  child.setErrorHandler(createErrorHandler(codec))
  child.addHook('onRequest', createGuard(mount.settings, child))

  // `hide` is what generators of API descriptions go by; Fastify's type does not know it.
  const shared = { schema: { hide: true } as FastifySchema, config: { mcp: true }, exposeHeadRoute: false }
  const handler = createPost(mount, codec)
  const others = Object.entries(mount.otherEra?.verbs ?? {})
  const served = ['POST', ...others.map(([verb]) => verb)]
  // A stream that is held open is no handler that has hung. Fastify takes no 0.
  const unbounded = (child.initialConfig as { handlerTimeout?: number }).handlerTimeout === 0 ? {} : { handlerTimeout: MAX_TIMEOUT }
  const refuseVerb = createRefusal(served)
  const refused = child.supportedMethods.filter(method => !served.includes(method))
  for (const url of urlsOf(child, prefix, path)) {
    child.route({ ...route, ...shared, method: 'POST', url, handler })
    for (const [method, handler] of others) child.route({ ...route, ...shared, ...unbounded, method: method as HTTPMethods, url, handler })
    child.route({
      ...shared,
      ...(route.constraints !== undefined && { constraints: route.constraints }),
      method: refused,
      url,
      // As a hook, so that it comes before the body is looked at.
      onRequest: refuseVerb,
      handler: refuseVerb
    })
  }
}

function createRefusal (served: readonly string[]): (httpRequest: FastifyRequest, reply: FastifyReply) => Promise<void> {
  return async (_httpRequest, reply) => {
    reply.header('allow', served.join(', '))
    throw new McpError({ kind: 'custom', rpcCode: INVALID_REQUEST, message: `Method not allowed: use ${served.join(', ')}`, statusCode: 405 })
  }
}

/** The paths to serve: with and without a trailing slash, where the app's router does not take one for the other. */
function urlsOf (child: FastifyInstance, prefix: string, path: string | undefined): string[] {
  // Fastify itself serves the prefix in both spellings.
  if (path === undefined && prefix !== '') return ['/']
  const url = (path ?? DEFAULT_PATH).replace(/\/+$/, '')
  const { ignoreTrailingSlash, routerOptions } = child.initialConfig
  return url === '' ? ['/'] : (routerOptions?.ignoreTrailingSlash ?? ignoreTrailingSlash) === true ? [url] : [url, `${url}/`]
}

function healthUrls (child: FastifyInstance, health: string, { prefix, path }: Registration): readonly string[] {
  const { caseSensitive, routerOptions } = child.initialConfig
  const asRouted = (url: string): string => (routerOptions?.caseSensitive ?? caseSensitive) === false ? url.toLowerCase() : url
  const urls = urlsOf(child, prefix, health)
  const taken = urlsOf(child, prefix, path).map(asRouted)
  if (urls.some(url => taken.includes(asRouted(url)))) throw new MCP_ERR_BAD_OPTION('health', 'must be another path than that of the mount')
  return urls
}

/** What ends a mount, once, however often it is called. */
function createDrain ({ initialConfig, log }: FastifyInstance, mount: Mount): () => Promise<void> {
  const { drain } = mount.settings.limits
  // Fastify fills it in.
  const pluginTimeout = initialConfig.pluginTimeout as number
  // Fastify gives up on a close that takes as long as a plugin may take to start.
  const bound = pluginTimeout === 0 ? drain : Math.max(0, Math.min(drain, pluginTimeout - CLOSE_MARGIN))
  if (bound < drain && drain !== DEFAULT_DRAIN) log.warn({ mcp: { option: 'limits.drain', drain, bound } }, 'the shutdown of an MCP mount is bounded by the pluginTimeout of the app')
  let drained: Promise<void> | undefined
  return async () => {
    mount.draining = true
    mount.probe?.stop()
    drained ??= mount.registry.drain(bound)
    await drained
  }
}

/** The mounts of an app, each with the instance that registered it. */
const published = new WeakMap<FastifyInstance['server'], readonly Published[]>()
interface Published { readonly instance: FastifyInstance, readonly mount: PublicMount, readonly drain: () => Promise<void> }

function mountsOf ({ server }: FastifyInstance): readonly Published[] {
  return published.get(server) ?? []
}

/** Makes the mount known as one of `fastify.mcp.mounts`, on its instance and those above it. */
function publish (instance: FastifyInstance, mount: PublicMount, drain: () => Promise<void>): void {
  published.set(instance.server, [...mountsOf(instance), { instance, mount, drain }])
  if (instance.hasDecorator('mcp')) return
  instance.decorate('mcp', {
    getter (this: FastifyInstance) {
      // Fastify makes an instance's scopes from the instance itself.
      return { mounts: mountsOf(this).filter(({ instance }) => instance === this || Object.prototype.isPrototypeOf.call(this, instance)).map(({ mount }) => mount) }
    }
  })
}
