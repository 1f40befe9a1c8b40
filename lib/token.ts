import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { JsonValue } from './protocol/index.js'
import type { TokenSealer } from '../types/channel.js'

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = KEY_ID_BYTES + NONCE_BYTES
const DEFAULT_MAX_AGE = 1_200_000

interface Key { readonly id: Buffer, readonly key: Buffer }
type Opened = ReturnType<TokenSealer['open']>

const INVALID: Opened = { ok: false, reason: 'invalid' }
const EXPIRED: Opened = { ok: false, reason: 'expired' }

/**
 * A sealer over a ring of secrets: the first seals, all open. A token is key id, nonce, ciphertext and tag, as base64url; its purpose is authenticated
 * and not in it.
 */
export function createKeyRing (secrets: readonly [string, ...string[]]): TokenSealer {
  const keys = secrets.map(deriveKey)
  const first = keys[0] as Key

  return {
    seal (purpose, value, options) {
      const expires = Date.now() + (options?.maxAge ?? DEFAULT_MAX_AGE)
      // Infinity has no JSON: null, which never comes. What is no time at all has come already.
      const text = JSON.stringify([expires === Infinity ? null : expires || 0, value])
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, first.key, nonce).setAAD(Buffer.from(purpose))
      return Buffer.concat([first.id, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64url')
    },

    open (purpose, token) {
      // It comes from a client, and through an author.
      if (typeof token !== 'string') return INVALID
      const bytes = Buffer.from(token, 'base64url')
      // Buffer.from skips what is not base64url, so that many texts would open as one token.
      if (bytes.length < HEAD_BYTES + TAG_BYTES || bytes.toString('base64url') !== token) return INVALID
      for (const { id, key } of keys) {
        if (!id.equals(bytes.subarray(0, KEY_ID_BYTES))) continue
        const text = decipher(key, purpose, bytes)
        if (text !== undefined) return readPayload(text)
      }
      return INVALID
    }
  }
}

/** A ring of one random secret, known to this process alone; `onFirstSeal` is called when something depends on it. */
export function createRandomKeyRing (onFirstSeal: () => void): TokenSealer {
  const ring = createKeyRing([randomBytes(KEY_BYTES).toString('hex')])
  let warned = false
  return {
    seal (purpose, value, options) {
      if (!warned) onFirstSeal()
      warned = true
      return ring.seal(purpose, value, options)
    },
    open: ring.open
  }
}

/**
 * The same sealer for one caller: what it sealed opens for that caller alone. Nobody (undefined) is a caller too. `owner` keeps what the package seals
 * apart from what authors seal, whatever they call its purpose.
 */
export function forPrincipal (sealer: TokenSealer, principal: string | undefined, owner: 'package' | 'author' = 'author'): TokenSealer {
  const bound = (purpose: string): string => JSON.stringify([owner, purpose, principal ?? null])
  return {
    seal: (purpose, value, options) => sealer.seal(bound(purpose), value, options),
    open: (purpose, token) => sealer.open(bound(purpose), token)
  }
}

function deriveKey (secret: string): Key {
  const derive = (info: string, length: number): Buffer => Buffer.from(hkdfSync('sha256', secret, '', `fastify-gen-mcp ${info}`, length))
  return { id: derive('key id', KEY_ID_BYTES), key: derive('key', KEY_BYTES) }
}

function decipher (key: Buffer, purpose: string, bytes: Buffer): string | undefined {
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(KEY_ID_BYTES, HEAD_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(purpose))
    .setAuthTag(bytes.subarray(-TAG_BYTES))
  const text = decipher.update(bytes.subarray(HEAD_BYTES, -TAG_BYTES))
  try {
    return Buffer.concat([text, decipher.final()]).toString()
  } catch {
    // final() throws on a tag that does not fit: forged, of another purpose, or of another key with the same id.
    return undefined
  }
}

function readPayload (text: string): Opened {
  // What was deciphered is what seal() wrote.
  const [expires, value] = JSON.parse(text) as [number | null, JsonValue]
  return expires === null || Date.now() < expires ? { ok: true, value } : EXPIRED
}
