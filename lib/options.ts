import { MCP_ERR_BAD_OPTION } from './errors.js'
import { Implementation, ServerCapabilities } from './protocol/index.js'
import { isExtension } from './meta-key.js'
import { compileTypeBox, firstProblem } from './schema.js'
import type { FastifyRequest, RouteShorthandOptions } from 'fastify'
import type { TSchema } from '@sinclair/typebox'
import type { AnyServer } from './worker/job.js'
import type { TokenSealer } from '../types/channel.js'
import type { ExchangeEnd } from '../types/exchange.js'
import type { GenMcpOptions, Limits } from '../types/options.js'
import type { CacheHint } from '../types/results.js'
import type { TypeBoxSchema } from '../types/schema.js'

/** The mount's own options, checked and filled in. */
export interface Settings {
  readonly allowedOrigins: NonNullable<GenMcpOptions['allowedOrigins']> | 'loopback'
  readonly allowedHosts: NonNullable<GenMcpOptions['allowedHosts']> | 'loopback'
  readonly keepAlive: number
  readonly streamAfter: number
  readonly heartbeat: number
  readonly principal: ((httpRequest: FastifyRequest) => string | undefined) | undefined
  readonly secrets: readonly string[] | undefined
  readonly tokens: TokenSealer | undefined
  readonly limits: Required<Limits> & { /** seconds */ readonly retryAfter: number }
  readonly sendServerInfo: boolean
  /** Undefined: no bus is probed. */
  readonly busProbe: ProbeSettings | undefined
  readonly onEnd: ((end: ExchangeEnd, httpRequest: FastifyRequest) => void) | undefined
}

export type ProbeSettings = Required<Exclude<NonNullable<GenMcpOptions['busProbe']>, false>>

/** All that a registration says. */
export interface Registration {
  readonly prefix: string
  readonly path: string | undefined
  readonly health: string | undefined
  readonly route: Pick<RouteShorthandOptions, 'bodyLimit' | 'constraints' | 'onRequest' | 'preHandler' | 'logLevel' | 'logSerializers'>
  readonly server: AnyServer
  readonly arg: unknown
  /** As it was given: what serves older revisions reads it. */
  readonly legacy: unknown
  readonly settings: Settings
}

type Raw = Readonly<Record<string, unknown>>
/** What is wrong with a value, or undefined. */
export type Check = (value: unknown) => string | undefined

const MIN_SECRET = 32
export const DEFAULT_DRAIN = 10_000
const CALLBACKS = ['setup', 'init', 'handleNotification', 'handleMessage', 'handleClose'] as const
/** The longest a timer of Node's can be. */
export const MAX_TIMEOUT = 2_147_483_647

const isFunction: Check = value => typeof value === 'function' ? undefined : 'must be a function'
const isBoolean: Check = value => typeof value === 'boolean' ? undefined : 'must be a boolean'
const isString: Check = value => typeof value === 'string' ? undefined : 'must be a string'
export const isDuration: Check = value => isInteger(value, 0, MAX_TIMEOUT) ? undefined : `must be a whole number of milliseconds from 0 to ${MAX_TIMEOUT}`
export const isTimeLimit: Check = value => isInteger(value, 1, MAX_TIMEOUT) ? undefined : `must be a whole number of milliseconds from 1 to ${MAX_TIMEOUT}`
export const isCount: Check = value => isInteger(value, 1, Number.MAX_SAFE_INTEGER) ? undefined : 'must be a whole number from 1'
const isPath: Check = value => typeof value === 'string' && /^\/[^:*?#\s]*$/.test(value) ? undefined : 'must begin with / and have no parameter, wildcard or query'
const isHook: Check = value => [value].flat().every(hook => typeof hook === 'function') ? undefined : 'must be a function, or a list of functions'
const isOptions: Check = value => typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'must be an object'
const isAnything: Check = () => undefined

/** Every option of ours, with what it may be. `server` is looked at apart. */
const options: Readonly<Record<keyof GenMcpOptions | 'prefix' | 'logLevel' | 'logSerializers', Check>> = {
  server: isAnything,
  prefix: isString,
  path: isPath,
  bodyLimit: isCount,
  constraints: value => typeof value === 'object' && value !== null ? undefined : 'must be an object',
  onRequest: isHook,
  preHandler: isHook,
  logLevel: isAnything,
  logSerializers: isAnything,
  allowedOrigins: value => value === 'any' || typeof value === 'function' ? undefined : checkList(value, isOrigin, 'an origin such as https://app.example.com'),
  allowedHosts: value => value === 'any' ? undefined : checkList(value, isHost, 'a host name, with or without a port'),
  keepAlive: isDuration,
  streamAfter: isDuration,
  heartbeat: isDuration,
  principal: isFunction,
  secrets: checkSecrets,
  tokens: value => isSealer(value) ? undefined : 'must have the functions seal and open',
  limits: isOptions,
  // Read by what serves it.
  legacy: isAnything,
  sendServerInfo: isBoolean,
  health: isPath,
  busProbe: value => value === false || isOptions(value) === undefined ? undefined : 'must be false or an object',
  onEnd: isFunction
}

const limits: Readonly<Record<keyof Limits, Check>> = {
  mailbox: isCount,
  onOverflow: value => value === 'end' || value === 'dropOldest' || value === 'dropNewest' ? undefined : "must be 'end', 'dropOldest' or 'dropNewest'",
  sendBuffer: isCount,
  maxConcurrent: isCount,
  maxStreams: isCount,
  maxDuration: isTimeLimit,
  drain: isDuration
}

const probe: Readonly<Record<keyof ProbeSettings, Check>> = { timeout: isTimeLimit, interval: isDuration }

/** Reads what was given to `register`, or throws MCP_ERR_BAD_OPTION with the path of the option. */
export function readOptions (raw: Raw): Registration {
  checkAll(options, raw, '')
  if (raw['secrets'] !== undefined && raw['tokens'] !== undefined) throw new MCP_ERR_BAD_OPTION('tokens', 'is instead of secrets: give one of them')
  // Each option has been checked on the line above, so that this is what it says.
  const given = raw as unknown as GenMcpOptions & Registration['route'] & { readonly prefix?: string }
  const { prefix = '', path, health, bodyLimit, constraints, onRequest, preHandler, logLevel, logSerializers } = given
  return {
    prefix,
    path,
    health,
    // Fastify's options are Fastify's to check; an undefined one would count as given.
    route: omitUndefined({ bodyLimit, constraints, onRequest, preHandler, logLevel, logSerializers }) as Registration['route'],
    ...readServer(raw),
    legacy: raw['legacy'],
    settings: fillIn(given)
  }
}

function fillIn (given: GenMcpOptions): Settings {
  checkOnly(limits, (given.limits ?? {}) as Raw, 'limits.')
  const { drain = DEFAULT_DRAIN } = given.limits ?? {}
  return {
    allowedOrigins: given.allowedOrigins ?? 'loopback',
    allowedHosts: given.allowedHosts ?? 'loopback',
    keepAlive: given.keepAlive ?? 15_000,
    streamAfter: given.streamAfter ?? 10_000,
    heartbeat: given.heartbeat ?? 0,
    principal: given.principal,
    secrets: given.secrets,
    tokens: given.tokens,
    limits: {
      mailbox: 1_000,
      onOverflow: 'end',
      sendBuffer: 1_048_576,
      maxConcurrent: Infinity,
      maxStreams: Infinity,
      maxDuration: Infinity,
      drain,
      retryAfter: Math.max(1, Math.ceil(drain / 1000)),
      ...omitUndefined(given.limits ?? {})
    },
    sendServerInfo: given.sendServerInfo ?? true,
    busProbe: readProbe(given.busProbe),
    onEnd: given.onEnd
  }
}

function readProbe (given: GenMcpOptions['busProbe'] = {}): ProbeSettings | undefined {
  if (given === false) return undefined
  checkOnly(probe, given, 'busProbe.')
  return { timeout: given.timeout ?? 5_000, interval: given.interval ?? 30_000 }
}

// ---- the server and its arg

function readServer (raw: Raw): { readonly server: AnyServer, readonly arg: unknown } {
  const bound: readonly unknown[] | undefined = Array.isArray(raw['server']) ? raw['server'] : undefined
  const leftover = Object.keys(raw).filter(name => !Object.hasOwn(options, name))
  const server = bound === undefined ? checkServer(raw['server'], 'server') : checkServer(bound[0], 'server[0]')

  if (bound !== undefined || server.arg === undefined) {
    if (leftover[0] !== undefined) throw new MCP_ERR_BAD_OPTION(leftover[0], 'is not known')
    if (bound !== undefined && server.arg !== undefined) checkArg(server.arg, bound[1], 'server[1]')
    return { server, arg: bound?.[1] }
  }
  const { properties } = server.arg as { properties?: object }
  const stranger = properties === undefined ? undefined : leftover.find(name => !Object.hasOwn(properties, name))
  if (stranger !== undefined) throw new MCP_ERR_BAD_OPTION(stranger, 'is known neither to the mount nor to the arg of its server')
  const arg = Object.fromEntries(leftover.map(name => [name, raw[name]]))
  checkArg(server.arg, arg, '')
  return { server, arg }
}

function checkServer (value: unknown, path: string): AnyServer {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) throw new MCP_ERR_BAD_OPTION(path, 'must be a server: an object with handleRequest')
  const server = value as Record<string, unknown>
  if (typeof server['handleRequest'] !== 'function') throw new MCP_ERR_BAD_OPTION(`${path}.handleRequest`, 'must be a function')
  for (const callback of CALLBACKS) {
    if (server[callback] !== undefined && typeof server[callback] !== 'function') throw new MCP_ERR_BAD_OPTION(`${path}.${callback}`, 'must be a function')
  }
  const instructions = server['instructions'] === undefined ? undefined : isString(server['instructions'])
  if (instructions !== undefined) throw new MCP_ERR_BAD_OPTION(`${path}.instructions`, instructions)
  if (server['cache'] !== undefined && !isCacheHint(server['cache'])) throw new MCP_ERR_BAD_OPTION(`${path}.cache`, "must be { scope: 'public' | 'private', ttlMs: a whole number of milliseconds }")
  checkWire(Implementation, server['info'], `${path}.info`)
  if (typeof server['capabilities'] !== 'function') {
    checkWire(ServerCapabilities, server['capabilities'], `${path}.capabilities`)
    checkExtensions(server['capabilities'] as ServerCapabilities | undefined, `${path}.capabilities.extensions`)
  }
  checkBuses(server['buses'], `${path}.buses`)
  for (const name of ['arg', 'messages']) checkTypeBox(server[name], `${path}.${name}`)
  // The callbacks are there; what they take and give is the author's promise, which the worker holds against the contract at each return.
  return value as AnyServer
}

/** 2026-07-28, Versioning, Extensions: the grammar of `_meta` keys, with a prefix. */
function checkExtensions (capabilities: ServerCapabilities | undefined, path: string): void {
  const stranger = Object.keys(capabilities?.extensions ?? {}).find(name => !isExtension(name))
  if (stranger !== undefined) throw new MCP_ERR_BAD_OPTION(`${path}.${stranger}`, 'must have a prefix, as com.example/name has')
}

function checkBuses (buses: unknown, path: string): void {
  if (buses === undefined) return
  if (!Array.isArray(buses)) throw new MCP_ERR_BAD_OPTION(path, 'must be a list')
  for (const [at, bus] of buses.entries()) {
    const problem = isBus(bus)
    if (problem !== undefined) throw new MCP_ERR_BAD_OPTION(`${path}[${at}]`, problem)
  }
}

function checkWire (schema: TSchema, value: unknown, path: string): void {
  if (value === undefined) return
  const check = compileTypeBox(schema as unknown as TypeBoxSchema)
  if (check.Check(value)) return
  const problem = firstProblem(check, value)
  throw new MCP_ERR_BAD_OPTION(`${path}${toPath(problem.path)}`, problem.message)
}

function checkTypeBox (schema: unknown, path: string): void {
  if (schema === undefined) return
  try {
    compileTypeBox(schema as TypeBoxSchema)
  } catch (cause) {
    throw Object.assign(new MCP_ERR_BAD_OPTION(path, 'must be a TypeBox schema'), { cause })
  }
}

/** Holds an arg against its server's schema, or throws MCP_ERR_BAD_OPTION with the path of what does not fit. */
export function checkArg (schema: TypeBoxSchema, arg: unknown, path: string): void {
  const check = compileTypeBox(schema)
  if (check.Check(arg)) return
  const problem = firstProblem(check, arg)
  throw new MCP_ERR_BAD_OPTION(`${path}${toPath(problem.path)}`.replace(/^\./, '') || 'arg', problem.message)
}

/** '/limits/drain' as '.limits.drain'. */
function toPath (pointer: string): string {
  return pointer === '/' ? '' : pointer.replaceAll('/', '.')
}

// ---- single values

/** Of options that are all ours. */
export function checkOnly (checks: Readonly<Record<string, Check>>, values: Raw, prefix: string): void {
  checkAll(checks, values, prefix)
  const unknown = Object.keys(values).find(name => !Object.hasOwn(checks, name))
  if (unknown !== undefined) throw new MCP_ERR_BAD_OPTION(`${prefix}${unknown}`, 'is not known')
}

function checkAll (checks: Readonly<Record<string, Check>>, values: Raw, prefix: string): void {
  for (const [name, check] of Object.entries(checks)) {
    const problem = values[name] === undefined ? undefined : check(values[name])
    if (problem !== undefined) throw new MCP_ERR_BAD_OPTION(`${prefix}${name}`, problem)
  }
}

function checkList (value: unknown, fits: (item: string) => boolean, what: string): string | undefined {
  if (!Array.isArray(value)) return "must be 'any' or a list"
  const misfit: unknown = value.find((item: unknown) => typeof item !== 'string' || !fits(item))
  return misfit === undefined ? undefined : `has ${JSON.stringify(misfit)}, which is not ${what}`
}

function checkSecrets (value: unknown): string | undefined {
  if (!Array.isArray(value) || value.length === 0) return 'must be a list of at least one secret'
  // The secrets themselves stay out of the message.
  const short = value.findIndex((secret: unknown) => typeof secret !== 'string' || secret.length < MIN_SECRET)
  return short === -1 ? undefined : `has at [${short}] a secret of less than ${MIN_SECRET} characters`
}

/** As browsers send it: the serialised form, or `null`, which is then allowed by name. */
function isOrigin (text: string): boolean {
  if (text === 'null') return true
  if (!URL.canParse(text)) return false
  const { origin, protocol, host } = new URL(text)
  return origin === 'null' ? text === `${protocol}//${host}` : text === origin
}

function isHost (text: string): boolean {
  return /^(?:\[[0-9a-f:.]+\]|[0-9a-z_.-]+)(?::\d+)?$/i.test(text)
}

function isSealer (value: unknown): boolean {
  const { seal, open } = (value ?? {}) as Partial<TokenSealer>
  return typeof seal === 'function' && typeof open === 'function'
}

export const isBus: Check = value => hasFunctions(value, 'on', 'removeListener', 'emit') ? undefined : 'must have the functions on, removeListener and emit'

export function hasFunctions (value: unknown, ...names: readonly string[]): boolean {
  return typeof value === 'object' && value !== null && names.every(name => typeof (value as Record<string, unknown>)[name] === 'function')
}

function isCacheHint (value: unknown): boolean {
  const { scope, ttlMs } = (value ?? {}) as Partial<CacheHint>
  return (scope === 'public' || scope === 'private') && isInteger(ttlMs, 0, Number.MAX_SAFE_INTEGER)
}

function isInteger (value: unknown, from: number, to: number): boolean {
  return Number.isInteger(value) && (value as number) >= from && (value as number) <= to
}

function omitUndefined<T extends object> (object: T): Partial<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Partial<T>
}
