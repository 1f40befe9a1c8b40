import { McpError } from '../errors.js'
import { REVISION } from '../protocol/index.js'
import { decodeHeaderValue, trim } from './header-value.js'
import type { IncomingHttpHeaders } from 'node:http'
import type { KnownMethod } from '../decode/decode.js'

/** The revisions with a handshake. Nobody serves the first, but those who speak it are told so as those who speak the others are. */
export const OLDER_VERSIONS: ReadonlySet<string> = new Set(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])

const VERSION_HEADER = 'mcp-protocol-version'
const METHOD_HEADER = 'mcp-method'
const NAME_HEADER = 'mcp-name'

/** The names as the specification writes them. */
const written = { [VERSION_HEADER]: 'MCP-Protocol-Version', [METHOD_HEADER]: 'Mcp-Method', [NAME_HEADER]: 'Mcp-Name' } as const
type Mirror = keyof typeof written

/**
 * The headers that repeat the body for whoever routes it. The body is what counts: a header that is missing or says something else is refused with 400,
 * -32020 (2026-07-28, Streamable HTTP, Server Validation).
 */
export function checkVersionHeader (headers: IncomingHttpHeaders, version: string): void {
  mirrors(headers, VERSION_HEADER, version)
  if (version !== REVISION) throw unsupported(version)
}

export function checkMethodHeader (headers: IncomingHttpHeaders, method: string): void {
  mirrors(headers, METHOD_HEADER, method)
}

/** Of the methods that have one. A name that is no string is left to the method's schema. */
export function checkNameHeader (headers: IncomingHttpHeaders, { name: member }: KnownMethod, params: Readonly<Record<string, unknown>>): void {
  if (member === undefined) return
  const name = params[member]
  if (typeof name !== 'string') return
  const header = read(headers, NAME_HEADER)
  if (header === undefined) throw problem(NAME_HEADER, 'missing')
  const decoded = decodeHeaderValue(header)
  if (decoded === undefined) throw problem(NAME_HEADER, 'malformed')
  if (decoded !== name) throw problem(NAME_HEADER, 'mismatch')
}

/** Of a notification nothing is required, but what is there must not contradict. */
export function checkNotificationHeaders (headers: IncomingHttpHeaders, method: string, version: string | undefined): void {
  const header = readVersionHeader(headers)
  if (header !== undefined && version !== undefined) mirrors(headers, VERSION_HEADER, version)
  const claimed = version ?? header
  if (claimed !== undefined && claimed !== REVISION) throw unsupported(claimed)
  if (read(headers, METHOD_HEADER) !== undefined) mirrors(headers, METHOD_HEADER, method)
}

/** The version that the header names, if it is there. */
export function readVersionHeader (headers: IncomingHttpHeaders): string | undefined {
  const value = read(headers, VERSION_HEADER)
  return value === undefined ? undefined : trim(value)
}

export function unsupported (requested: string): McpError {
  return new McpError({ kind: 'unsupportedVersion', requested, supported: [REVISION] })
}

export function missingVersion (): McpError {
  return problem(VERSION_HEADER, 'missing')
}

function mirrors (headers: IncomingHttpHeaders, name: Mirror, expected: string): void {
  const value = read(headers, name)
  if (value === expected) return
  if (value === undefined) throw problem(name, 'missing')
  if (trim(value) !== expected) throw problem(name, 'mismatch')
}

function read (headers: IncomingHttpHeaders, name: Mirror): string | undefined {
  // Node joins what is sent twice, so that it is one string, and no longer the body's.
  return headers[name] as string | undefined
}

function problem (name: Mirror, problem: 'missing' | 'mismatch' | 'malformed'): McpError {
  return new McpError({ kind: 'header', header: written[name], problem })
}
