import { MCP_ERR_BAD_PROVIDER } from '../errors.js'

/** The values of a template's variables in one URI. */
export type Vars = Readonly<Record<string, string | readonly string[]>>

/** One variable of an expression. */
interface Variable { readonly name: string, readonly explode: boolean, readonly maxLength: number }
interface Literal { readonly literal: string }
interface Expression { readonly operator: Operator, readonly variables: readonly Variable[] }
type Operator = '' | '+' | '#' | '.' | '/' | ';' | '?' | '&'

/** What stands before the first value of an expression, and between two (RFC 6570, Appendix A). */
const first: Readonly<Record<Operator, string>> = { '': '', '+': '', '#': '#', '.': '.', '/': '/', ';': ';', '?': '?', '&': '&' }
const separator: Readonly<Record<Operator, string>> = { '': ',', '+': ',', '#': ',', '.': '.', '/': '/', ';': ';', '?': '&', '&': '&' }

/** What the values of an expression cannot hold: of a simple one the reserved characters that end a part of a URI. */
const excluded: Readonly<Record<Operator, RegExp>> = {
  '': /[/?#]/, '+': /[^\s\S]/, '#': /[^\s\S]/, '.': /[/?#]/, '/': /[?#]/, ';': /[/?#]/, '?': /#/, '&': /#/
}
/** The longest URI that is looked at. */
const MAX_URI = 8_192

/** A URI template (RFC 6570, all four levels), read backwards: the variables of a URI, in one pass over it and without going back. */
export class UriTemplate {
  readonly #parts: readonly (Literal | Expression)[]
  readonly names: readonly string[]
  /** What every URI of it begins with, in its normal form. */
  readonly prefix: string

  /** Throws MCP_ERR_BAD_PROVIDER for what is no template, and for one that names a variable twice. */
  constructor (text: string) {
    this.#parts = [...parse(text)]
    const [begin] = this.#parts
    this.prefix = begin !== undefined && 'literal' in begin ? begin.literal : ''
    this.names = this.#parts.flatMap(part => 'variables' in part ? part.variables.map(({ name }) => name) : [])
    if (new Set(this.names).size < this.names.length) throw bad(text, 'names a variable twice')
  }

  /** The variables of a URI in its normal form, decoded once; undefined if it does not fit. */
  match (uri: string): Vars | undefined {
    const vars: Record<string, string | readonly string[]> = {}
    let rest = uri
    for (const [index, part] of this.#parts.entries()) {
      if ('literal' in part) {
        if (!rest.startsWith(part.literal)) return undefined
        rest = rest.slice(part.literal.length)
        continue
      }
      const end = this.#endOf(rest, index)
      if (end === -1 || !read(rest.slice(0, end), part, vars)) return undefined
      rest = rest.slice(end)
    }
    return rest === '' ? vars : undefined
  }

  /** Where the text of an expression ends: where what stands behind it begins. */
  #endOf (rest: string, index: number): number {
    const next = this.#parts[index + 1]
    if (next === undefined) return rest.length
    if ('literal' in next) return index + 2 === this.#parts.length ? lastIndex(rest, next.literal) : rest.indexOf(next.literal)
    // Of two expressions side by side the first takes all, unless the second begins with a character of its own.
    const start = first[next.operator]
    const at = start === '' ? -1 : rest.indexOf(start)
    return at === -1 ? rest.length : at
  }
}

/**
 * A URI as templates and prefixes are compared with it: what is not ASCII is escaped, escapes are in upper case, and what needs no escape has none
 * (RFC 3986, 6.2.2). Undefined for what is no absolute URI, and for an escape that is cut short.
 */
export function normalizeUri (uri: string): string | undefined {
  if (uri.length > MAX_URI || !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(uri) || /[\s\p{Cc}]|%(?![0-9A-Fa-f]{2})/u.test(uri)) return undefined
  try {
    return normalize(uri)
  } catch {
    // Half of a surrogate pair is no character.
    return undefined
  }
}

/** Whether a `file:` URI leads out of where it begins, however that is escaped (RFC 3986, 5.2.4). */
export function traverses (uri: string): boolean {
  if (!/^file:/i.test(uri)) return false
  const decoded = decode(uri)
  return decoded === undefined || decoded.includes('\0') || decoded.split(/[/\\?#:]/).includes('..')
}

function normalize (text: string): string {
  return text
    .replace(/[^\0-\x7f]+/g, encodeURIComponent)
    .replace(/%[0-9A-Fa-f]{2}/g, escape => {
      const character = String.fromCharCode(parseInt(escape.slice(1), 16))
      return /[A-Za-z0-9._~-]/.test(character) ? character : escape.toUpperCase()
    })
}

function * parse (text: string): Generator<Literal | Expression> {
  // Literals and expressions in turn: split keeps what its group matched.
  for (const [index, part] of text.split(/\{([^{}]*)\}/).entries()) {
    if (index % 2 === 1) yield parseExpression(text, part)
    else if (/[{}]/.test(part)) throw bad(text, 'has a brace that is not closed')
    else if (/\p{Cs}/u.test(part)) throw bad(text, 'has half of a surrogate pair')
    else if (part !== '') yield { literal: normalize(part) }
  }
}

function parseExpression (text: string, expression: string): Expression {
  const [, operator, list] = /^([+#./;?&]?)(.+)$/.exec(expression) ?? []
  if (operator === undefined || list === undefined) throw bad(text, `has the expression {${expression}}`)
  const variables = list.split(',').map(variable => {
    const [, name, explode, length] = /^((?:\w|%[0-9A-Fa-f]{2})(?:[\w.]|%[0-9A-Fa-f]{2})*)(?:(\*)|:([1-9]\d{0,3}))?$/.exec(variable) ?? []
    if (name === undefined) throw bad(text, `has the variable ${variable}`)
    return { name, explode: explode !== undefined, maxLength: length === undefined ? Infinity : Number(length) }
  })
  // The expression above allows nothing else.
  return { operator: operator as Operator, variables }
}

/** Reads the values of one expression; false if the text is none. */
function read (text: string, { operator, variables }: Expression, vars: Record<string, string | readonly string[]>): boolean {
  const start = first[operator]
  const query = operator === '?' || operator === '&'
  // Only a query may be left out: the types of other variables say that they are there.
  if (text === '' && query) return true
  if (!text.startsWith(start) || excluded[operator].test(text.slice(start.length))) return false
  const values = text.slice(start.length).split(separator[operator])
  if (!query && operator !== ';') return readOrdered(values, separator[operator], variables, vars)
  return readNamed(values, variables, vars) && (query || variables.every(({ name }) => Object.hasOwn(vars, name)))
}

function readNamed (values: readonly string[], variables: readonly Variable[], vars: Record<string, string | readonly string[]>): boolean {
  for (const pair of values) {
    const [name = '', ...rest] = pair.split('=')
    const variable = variables.find(variable => variable.name === name)
    const value = decode(rest.join('='))
    if (variable === undefined || value === undefined) return false
    // The list of this name, if there is one, was made here.
    const known = Object.hasOwn(vars, name)
    if (known && variable.explode) (vars[name] as string[]).push(value)
    else if (known || lengthOf(value) > variable.maxLength) return false
    else vars[name] = variable.explode ? [value] : value
  }
  return true
}

function readOrdered (texts: readonly string[], by: string, variables: readonly Variable[], vars: Record<string, string | readonly string[]>): boolean {
  const last = variables.length - 1
  for (const [index, { name, explode, maxLength }] of variables.entries()) {
    // The last takes what is left: a list where it is one, else a value with the separator in it.
    const own = index === last ? texts.slice(index) : texts.slice(index, index + 1)
    if (own.length === 0) return false
    const decoded = own.map(decode)
    if (decoded.includes(undefined)) return false
    const value = explode ? decoded as string[] : decoded.join(by)
    if (typeof value === 'string' && (lengthOf(value) > maxLength || (by === '/' && own.length > 1))) return false
    vars[name] = value
  }
  return true
}

function decode (text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** In characters, of which some are two units of a string. */
function lengthOf (text: string): number {
  return [...text].length
}

function lastIndex (text: string, ending: string): number {
  return text.endsWith(ending) ? text.length - ending.length : -1
}

function bad (template: string, problem: string): Error {
  return new MCP_ERR_BAD_PROVIDER(`The template ${template}`, problem)
}
