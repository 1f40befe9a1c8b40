import { Value } from '@sinclair/typebox/value'
import { isObject } from '../decode/envelope.js'
import { ClientCapabilities, Implementation, metaKeys, type JsonObject } from '../protocol/index.js'
import { isLegacyVersion, LATEST } from './era.js'
import { translateCapabilities, translateInfo } from './translate.js'
import { invalid } from './visit.js'
import type { DiscoverResult } from '../protocol/index.js'
import type { LegacyVersion, Session } from '../../types/legacy.js'

/** Of a server that does not say who it is, where these revisions want to know. */
const NOBODY: Implementation = { name: 'server', version: '0.0.0' }

/** What an `initialize` asks for, as the session to be; throws McpError 'invalidParams'. Another version than ours gets the latest of ours. */
export function readInitialize (params: unknown, principal: string | undefined): Session {
  const { protocolVersion, capabilities, clientInfo } = isObject(params) ? params : {}
  if (typeof protocolVersion !== 'string') throw invalid('params.protocolVersion', 'must be a string')
  if (!isObject(capabilities)) throw invalid('params.capabilities', 'must be an object')
  if (!isObject(clientInfo) || typeof clientInfo['name'] !== 'string' || typeof clientInfo['version'] !== 'string') throw invalid('params.clientInfo', 'must be an object with name and version')
  const version = isLegacyVersion(protocolVersion) ? protocolVersion : LATEST
  const { name, version: clientVersion } = clientInfo
  return {
    protocolVersion: version,
    clientInfo: Value.Check(Implementation, clientInfo) ? clientInfo as unknown as Implementation : { name, version: clientVersion },
    clientCapabilities: readCapabilities(version, capabilities),
    principal
  }
}

/** What `initialize` is answered with, from what `server/discover` is (2025-11-25, Lifecycle, Initialization). */
export function initializeResult (version: LegacyVersion, { capabilities, instructions, _meta }: DiscoverResult, info: Implementation | undefined, sessions: boolean): object {
  const said = (_meta as JsonObject | undefined)?.[metaKeys.serverInfo]
  return {
    protocolVersion: version,
    capabilities: translateCapabilities(capabilities, sessions),
    serverInfo: translateInfo(version, info ?? (isObject(said) ? said as unknown as Implementation : NOBODY)),
    ...(instructions !== undefined && { instructions })
  }
}

/** What a client declared, as far as its revision has it; anything that is no object declares nothing. */
function readCapabilities (version: LegacyVersion, declared: JsonObject): ClientCapabilities {
  const { elicitation, sampling, roots, experimental, extensions } = declared
  const latest = version === '2025-11-25'
  const capabilities: { [name: string]: unknown } = {
    ...(version !== '2025-03-26' && isObject(elicitation) && { elicitation: latest ? elicitation : {} }),
    ...(isObject(sampling) && { sampling: latest ? sampling : {} }),
    ...(isObject(roots) && { roots }),
    ...(isObject(experimental) && { experimental }),
    ...(isObject(extensions) && { extensions })
  }
  return Value.Check(ClientCapabilities, capabilities) ? capabilities as ClientCapabilities : dropMembers(capabilities)
}

/** The kinds alone, where what a client said of them makes no sense. */
function dropMembers (capabilities: { readonly [name: string]: unknown }): ClientCapabilities {
  return Object.fromEntries(Object.keys(capabilities).filter(name => name !== 'experimental' && name !== 'extensions').map(name => [name, {}]))
}
