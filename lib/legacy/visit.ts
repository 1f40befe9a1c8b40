import { isObject } from '../decode/envelope.js'
import { decodeNotificationMeta } from '../decode/meta.js'
import { McpError } from '../errors.js'
import { INVALID_REQUEST } from '../protocol/index.js'
import { readVersionHeader } from '../transport/headers.js'
import { ASSUMED, isLegacyVersion, LEGACY_VERSIONS, SESSION_HEADER } from './era.js'
import { keyOf, lendSealer } from './session.js'
import type { FastifyRequest } from 'fastify'
import type { Exchange } from '../channel/exchange.js'
import type { Mount } from '../mount.js'
import type { Session, SessionController } from '../../types/legacy.js'
import type { LogLevel, RequestMeta } from '../../types/request.js'
import type { LegacySettings } from './options.js'
import type { OutputSettings } from './output.js'
import type { Sessions } from './sessions.js'
import type { Pulse } from '../transport/pulse.js'

/** The 2025 half of a mount. */
export interface Legacy {
  readonly mount: Mount
  readonly settings: LegacySettings
  /** Undefined where none are kept. */
  readonly sessions: Sessions | undefined
  readonly output: OutputSettings
  /** Of open GET streams: whose session has ended is looked for. */
  readonly checks: Pulse
  readonly onEnded: (exchange: Exchange) => void
}

/** Where an HTTP request comes from: a session, or, where none are kept, what its header says. */
export interface Visit {
  readonly session: Session
  readonly opened: Opened | undefined
}

/** A session that is open. */
export interface Opened { readonly id: string, readonly key: string, readonly controller: SessionController, readonly sessions: Sessions }

/** The least that a client is sent which never said (2025-11-25, Logging: the server may decide). */
const DEFAULT_LEVEL: LogLevel = 'info'
const NO_CAPABILITIES = Object.freeze({})
/** Who calls where no session knows it. */
const ANYBODY: Session['clientInfo'] = Object.freeze({ name: '', version: '' })

/** Finds the session of a request; throws 400 without an id or for a version that is none of ours, and 404 for an id that is nobody's, or somebody else's. */
export async function enter ({ mount, settings, sessions }: Legacy, httpRequest: FastifyRequest): Promise<Visit> {
  const { headers } = httpRequest
  const version = readVersionHeader(headers)
  const principal = mount.settings.principal?.(httpRequest)
  if (settings.sessions === undefined || sessions === undefined) {
    checkVersion(version)
    return { session: { protocolVersion: isLegacyVersion(version) ? version : ASSUMED, clientInfo: ANYBODY, clientCapabilities: NO_CAPABILITIES, principal }, opened: undefined }
  }

  const id = headers[SESSION_HEADER]
  if (typeof id !== 'string' || id === '') throw refuse(400, 'Header Mcp-Session-Id is missing: open a session with initialize')
  lendSealer(mount, httpRequest, principal)
  const session = await findSession(settings.sessions, id, principal, httpRequest)
  // Whose it is stays unsaid.
  if (session === undefined) throw refuse(404, 'Session not found: open another with initialize')
  checkVersion(version)
  return { session, opened: { id, key: keyOf(id), controller: settings.sessions, sessions } }
}

/** The session of this id; undefined if it is nobody's, or somebody else's. */
export async function findSession (controller: SessionController, id: string, principal: string | undefined, httpRequest: FastifyRequest): Promise<Session | undefined> {
  const session = await controller.fetch(id, httpRequest)
  return session?.principal === principal ? session : undefined
}

/** What a handler is told of a request of this session. */
export function metaOf ({ session: { protocolVersion, clientCapabilities, clientInfo, logLevel }, opened }: Visit, params: unknown, { headers }: FastifyRequest): RequestMeta {
  const meta = isObject(params) ? params['_meta'] : undefined
  return Object.freeze({
    ...decodeNotificationMeta(meta, headers),
    protocolVersion,
    clientCapabilities,
    ...(clientInfo !== ANYBODY && { clientInfo }),
    logLevel: logLevel ?? opened?.sessions.find(opened.key)?.logLevel ?? DEFAULT_LEVEL
  }) as RequestMeta
}

/** Params that do not fit, and where. */
export function invalid (path: string, message: string): McpError {
  return new McpError({ kind: 'invalidParams', issues: [{ path, message }] })
}

/** A refusal that says why. */
export function refuse (statusCode: number, message: string, data?: object): McpError {
  return new McpError({ kind: 'custom', rpcCode: INVALID_REQUEST, message, statusCode, ...(data !== undefined && { data }) })
}

/** 2025-11-25, Transports, Protocol Version Header. One of ours that was not agreed on changes nothing. */
function checkVersion (version: string | undefined): void {
  if (version !== undefined && !isLegacyVersion(version)) throw refuse(400, `Unsupported protocol version: use ${LEGACY_VERSIONS.join(', ')}`, { supported: [...LEGACY_VERSIONS] })
}
