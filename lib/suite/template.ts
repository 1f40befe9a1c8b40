import { MCP_ERR_BAD_PROVIDER } from '../errors.js'

/** The values of a template's variables in one URI. */
export type Vars = Readonly<Record<string, string | readonly string[]>>

/** One variable of an expression. */
interface Variable { readonly name: string, readonly explode: boolean, readonly maxLength: number }
interface Literal { readonly literal: string }
interface Expression { readonly operator: Operator, readonly variables: readonly Variable[] }
type Part = Literal | Expression
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
/** Characters that are looked at before a URI is one that does not fit: of a short one so many, of a long one each so often. */
const MIN_LOOKS = 4_096
const MAX_LOOKS = 4

/**
 * A URI template (RFC 6570, all four levels), read backwards. Where a URI can be read in several ways an earlier variable takes as much as it can, but for a
 * list right behind it.
 */
export class UriTemplate {
  readonly #parts: readonly Part[]
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
    return new Reading(this.#parts, uri).from(0, 0)
  }
}

/** One reading of a URI. What came of a place is kept, and the whole is bounded, so that no URI takes long. */
class Reading {
  readonly #parts: readonly Part[]
  readonly #uri: string
  readonly #known = new Map<number, Vars | undefined>()
  /** Characters that may still be looked at. */
  #left: number

  constructor (parts: readonly Part[], uri: string) {
    this.#parts = parts
    this.#uri = uri
    this.#left = MIN_LOOKS + MAX_LOOKS * uri.length
  }

  /** The variables of this part and those behind it, read from here to the end. */
  from (index: number, at: number): Vars | undefined {
    const part = this.#parts[index]
    if (part === undefined) return at === this.#uri.length ? {} : undefined
    if ('literal' in part) return this.#uri.startsWith(part.literal, at) ? this.from(index + 1, at + part.literal.length) : undefined
    const place = index * (this.#uri.length + 1) + at
    if (!this.#known.has(place)) this.#known.set(place, this.#expression(part, index, at))
    return this.#known.get(place)
  }

  #expression (part: Expression, index: number, at: number): Vars | undefined {
    const limit = this.#limitOf(part, index, at)
    this.#left -= limit - at
    for (const end of this.#endsOf(index, at, limit)) {
      if (--this.#left < 0) return undefined
      const rest = this.from(index + 1, end)
      if (rest === undefined) continue
      this.#left -= end - at
      const vars: Record<string, string | readonly string[]> = {}
      if (read(this.#uri.slice(at, end), part, vars)) return { ...vars, ...rest }
    }
    return undefined
  }

  /** As far as the values of an expression can go. */
  #limitOf ({ operator }: Expression, index: number, at: number): number {
    const begin = this.#uri.startsWith(first[operator], at) ? at + first[operator].length : at
    const rest = this.#uri.slice(begin)
    const ends = [rest.search(excluded[operator])]
    // What may hold everything leaves a query and a fragment to the parts that stand for them.
    if (operator === '+') for (const mark of ['?', '#']) if (this.#parts.slice(index + 1).some(part => begins(part, mark))) ends.push(rest.indexOf(mark))
    return begin + Math.min(...ends.map(end => end === -1 ? rest.length : end))
  }

  /** Where an expression may end: where what stands behind it may begin, what is likelier first. */
  * #endsOf (index: number, at: number, limit: number): Generator<number> {
    const next = this.#parts[index + 1]
    if (next === undefined) {
      if (limit === this.#uri.length) yield limit
    } else if ('literal' in next) {
      yield * this.#backwards(next.literal, at, limit)
    } else if (isGreedy(next)) {
      yield * [...this.#backwards(first[next.operator], at, limit)].reverse()
      // A query may be left out.
      if (isQuery(next)) yield limit
    } else {
      yield * this.#backwards(first[next.operator], at, limit)
    }
  }

  * #backwards (text: string, at: number, limit: number): Generator<number> {
    // Nothing before the value is looked at.
    const value = this.#uri.slice(at, limit + text.length)
    for (let end = value.lastIndexOf(text); end !== -1; end = end === 0 ? -1 : value.lastIndexOf(text, end - 1)) yield at + end
  }
}

/** Whether an expression holds as many values as there are, so that it begins as early as it can. */
function isGreedy (part: Expression): boolean {
  return isQuery(part) || part.operator === ';' || part.variables.some(({ explode }) => explode)
}

function isQuery ({ operator }: Expression): boolean {
  return operator === '?' || operator === '&'
}

/** Whether a query or a fragment begins in a part. */
function begins (part: Part, mark: string): boolean {
  return 'literal' in part ? part.literal.includes(mark) : part.operator === mark
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
function read (text: string, part: Expression, vars: Record<string, string | readonly string[]>): boolean {
  const { operator, variables } = part
  const start = first[operator]
  const query = isQuery(part)
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

function bad (template: string, problem: string): Error {
  return new MCP_ERR_BAD_PROVIDER(`The template ${template}`, problem)
}
