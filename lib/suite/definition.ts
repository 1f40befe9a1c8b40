import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { isMetaKey, isReserved } from '../meta-key.js'
import { compileTypeBox, firstProblem } from '../schema.js'
import type { TSchema } from '@sinclair/typebox'
import type { Icon, JsonSchema } from '../protocol/index.js'
import type { TypeBoxSchema } from '../../types/schema.js'

/** 2026-07-28, Tools, Tool Names. */
const NAME = /^[A-Za-z0-9_.-]{1,128}$/
/** What some clients take: shorter, and without dots. */
const NARROW_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** What is listed, whether it was defined or a store gave it. */
interface Listed { readonly icons?: readonly Icon[], readonly _meta?: object }

/** Throws MCP_ERR_BAD_PROVIDER unless a definition, as it is listed, is what the revision's schema says. */
export function checkDefinition (owner: string, schema: TSchema, definition: Listed): void {
  const flaw = flawOfListed(schema, definition)
  if (flaw !== undefined) throw new MCP_ERR_BAD_PROVIDER(owner, flaw)
}

/** What is wrong with what is listed, if anything. */
export function flawOfListed (schema: TSchema, listed: Listed): string | undefined {
  // A TSchema has the phantom members that TypeBoxSchema names.
  const check = compileTypeBox(schema as unknown as TypeBoxSchema)
  if (!check.Check(listed)) {
    const { path, message } = firstProblem(check, listed)
    return `does not fit: ${path} ${message}`
  }
  return iconFlaw(listed.icons) ?? metaFlaw(listed._meta)
}

export function iconFlaw (icons: readonly Icon[] = []): string | undefined {
  const bad = icons.find(({ src }) => !/^(?:https?:\/\/|data:[^,]*;base64,)/i.test(src))
  return bad && `has the icon ${bad.src}, which is neither an http URL nor Base64 data`
}

function metaFlaw (meta: object = {}): string | undefined {
  for (const key of Object.keys(meta)) {
    if (!isMetaKey(key)) return `has the _meta key ${JSON.stringify(key)}, which is no valid key`
    if (isReserved(key)) return `has the _meta key ${key}, which is reserved for the protocol`
  }
  return isJson(meta) ? undefined : 'has a _meta that is no JSON'
}

function isJson (value: object): boolean {
  try {
    JSON.stringify(value, (_key, member: unknown) => {
      // JSON has null in its place.
      if (typeof member === 'number' && !Number.isFinite(member)) throw new TypeError(`${member} is no JSON`)
      return member
    })
    return true
  } catch {
    // Nor is a cycle or a BigInt.
    return false
  }
}

/** Throws MCP_ERR_BAD_PROVIDER for a name outside the specification's set. */
export function checkName (owner: string, name: unknown): void {
  if (typeof name !== 'string' || !NAME.test(name)) throw new MCP_ERR_BAD_PROVIDER(owner, 'must have a name of 1 to 128 characters of A-Z a-z 0-9 _ - .')
}

export function checkFunction (owner: string, name: string, value: unknown): void {
  if (typeof value !== 'function') throw new MCP_ERR_BAD_PROVIDER(owner, `must have the function ${name}`)
}

/** What some clients make of a name. */
export function * lintName (name: string): Generator<string> {
  if (!NARROW_NAME.test(name)) yield 'has a name with a dot or of more than 64 characters, which some clients refuse'
}

/** The schema of one place of an array: a tuple has one for each of its first. */
export function itemSchema ({ prefixItems, items }: JsonSchema, index: number): unknown {
  return Array.isArray(prefixItems) && index < prefixItems.length ? prefixItems[index] as unknown : items
}

/** The members of an object that are given. */
export function pick<T extends object, K extends keyof T> (object: T, ...keys: readonly K[]): Pick<T, K> {
  // Keys that are not there are left out, as optional members are.
  return Object.fromEntries(keys.filter(key => object[key] !== undefined).map(key => [key, object[key]])) as Pick<T, K>
}
