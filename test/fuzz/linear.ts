import { createKeyRing } from '../../lib/token.js'
import { createJsonParser } from '../../lib/decode/json.js'
import { normalizeUri, traverses, UriTemplate } from '../../lib/suite/template.js'
import { readAccept } from '../../lib/transport/accept.js'
import { decodeHeaderValue, encodeHeaderValue } from '../../lib/transport/header-value.js'
import { readEventId } from '../../lib/legacy/event-id.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** What reads a text of whatever length, and the texts that are worst for it. */
interface Parser {
  readonly name: string
  /** Of the shorter text. */
  readonly size: number
  readonly read: (text: string) => unknown
  readonly texts: Readonly<Record<string, (length: number) => string>>
}

export interface Growth { readonly name: string, readonly small: number, readonly large: number, readonly holds: boolean }

/** Four times the text may take four times as long, and twice as much again for what else the machine does; what grows as the square takes sixteen times. */
const FACTOR = 4
const MOST = 12
/** Times below this are noise, in ms; what grows as the square takes more of each of the longer texts. */
const FLOOR = 60
const TRIES = 5
const REPEATS = 2

const repeat = (piece: string, begin = '', end = '') => (length: number): string => begin + piece.repeat(Math.max(0,
  Math.ceil((length - begin.length - end.length) / piece.length))) + end
const ring = createKeyRing(['a secret of at least thirty-two characters'])
const template = (text: string): Parser['read'] => {
  const made = new UriTemplate(text)
  return uri => made.match(uri)
}
const TEMPLATES = ['x:{a}-{b}-{c}-{d}', 'x:{+a}{+b}{+c}', 'x:{a,b,c}{d}{e}', 'x:{a*}{b*}{c*}', 'x:{;a*}{?b*}{&c*}', 'x:{/a*}{/b*}', 'x:{.a*}.{b}',
  'x:{+a}/{+b}/{+c}', 'x:{?q*}{#f}']

/** What was read last. */
export let parsed: unknown
// It remembers the first of them.
for (let index = 0; index < 200; index++) readAccept(`fill/${index}`)
// What comes behind it is JSON.parse's time.
const noParser = (_request: unknown, text: string, done: (error: Error | null, body: unknown) => void): void => { done(null, text.length) }
const parser = createJsonParser({ getDefaultJsonParser: () => noParser } as unknown as FastifyInstance)
const depth = (text: string): unknown => parser.call({} as FastifyInstance, { headers: {}, method: 'POST' } as FastifyRequest, Buffer.from(text),
  (_error, body) => { parsed = body })

export const parsers: readonly Parser[] = [
  {
    name: 'depth of a body',
    size: 100_000,
    read: depth,
    texts: {
      open: repeat('['), pairs: repeat('[]'), strings: repeat('"\\"[",'), backslashes: repeat('\\', '"'), plain: repeat('1,')
    }
  },
  {
    name: 'header value',
    size: 100_000,
    read: decodeHeaderValue,
    texts: {
      blanks: repeat(' ', 'a', 'a'), tabs: repeat('\t'), encoded: repeat('QUJD', '=?base64?', '?='), signs: repeat('=', '=?base64?', '?='), marks: repeat('?=')
    }
  },
  { name: 'header value, written', size: 100_000, read: encodeHeaderValue, texts: { plain: repeat('a'), blanks: repeat(' ', 'a', 'a'), astral: repeat('é') } },
  {
    name: 'accept',
    size: 10_000,
    read: readAccept,
    texts: {
      commas: repeat(','), semicolons: repeat(';'), blanks: repeat(' ', 'a/b;', ';q=0'), ranges: repeat('a/b,'), zeros: repeat('0', 'a/b;q=0.', 'x')
    }
  },
  {
    name: 'cursor',
    size: 100_000,
    read: text => ring.open('cursor', text),
    texts: {
      letters: repeat('A'), padding: repeat('='), blanks: repeat(' '), own: length => ring.seal('cursor', 'x'.repeat(length))
    }
  },
  {
    name: 'event id',
    size: 100_000,
    read: readEventId,
    texts: {
      letters: repeat('A'), underscores: repeat('_'), digits: repeat('1', 'AAAAAAAAAAAAAAAAAAAAAA_')
    }
  },
  // Longer ones are not looked at.
  {
    name: 'URI',
    size: 2_000,
    read: text => [normalizeUri(text), traverses(text)],
    texts: {
      escapes: repeat('%2e', 'file:///'), dots: repeat('/..', 'file:///'), letters: repeat('é', 'x:'), cut: repeat('a', 'x:', '%')
    }
  },
  ...TEMPLATES.map((text): Parser => ({
    name: `template ${text}`,
    size: 2_000,
    read: template(text),
    texts: Object.fromEntries(['-', 'a', '/', ',', '.', ';a=1', '&b=1', '?b', '%41', '#', 'a-', 'a,',
      ';a'].flatMap((piece): [string, (length: number) => string][] => [[piece, repeat(piece, 'x:')], [`${piece} bad`, repeat(piece, 'x:', '%ff')]]))
  }))
]

/** How the time of one parser grows with its text, at its worst. */
export function measure ({ name, size, read, texts }: Parser): Growth {
  let worst: Growth = { name, small: 0, large: 0, holds: true }
  for (const [what, make] of Object.entries(texts)) {
    let growth: Growth | undefined
    // A machine that is busy makes one look slow, though not every time.
    for (let attempt = 0; attempt < TRIES && growth?.holds !== true; attempt++) {
      const [small, large] = [quickest(read, make, size), quickest(read, make, size * FACTOR)]
      growth = { name: `${name}: ${what}`, small, large, holds: large <= Math.max(FLOOR, small * MOST) }
    }
    if (growth !== undefined && (!growth.holds || (worst.holds && growth.large > worst.large))) worst = growth
  }
  return worst
}

function quickest (read: Parser['read'], make: (length: number) => string, length: number): number {
  let best = Infinity
  for (let run = 0; run < REPEATS; run++) {
    // In one piece, as it comes from a socket.
    const text = Buffer.from(make(length)).toString()
    // Of the processor, which others may keep busy.
    const began = process.cpuUsage()
    // Kept, so that the work is not left out.
    parsed = read(text)
    best = Math.min(best, process.cpuUsage(began).user / 1000)
  }
  return best
}
