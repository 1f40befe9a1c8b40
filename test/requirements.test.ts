import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

const here = dirname(fileURLToPath(import.meta.url))
const requirements = join(here, '../../shared/protocol/requirements.md')

/** The sections that this package answers for so far, by their numbers. */
const sections = new Set([
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 34, 36
])

/** What no test can show, and why. */
const exceptions: Readonly<Record<string, string>> = {
  'ELI-06': 'what a form asks for is up to its author: elicitForm says in its documentation what that must not be',
  'ELI-11': 'whoever serves the page checks who opens it: the package gives its URL away, and never sees it opened',
  'ELI-13': 'what a page is for is up to its author: the package asks for no authorization by one',
  'ELI-14': 'what a page obtains, and what an author calls with a token of the client, does not pass through the package',
  'MRTR-13': 'no state serves once of itself: which one must, and the store that remembers it, is its author\'s',
  'SEC-09': 'no test can tell the time of a comparison: tokens are opened by AES-GCM, whose tag OpenSSL compares in constant time',
  'SUB-18': 'after an abrupt loss nobody is left to see that there was no response',
  'XPH-16': 'the package is no gateway: it forwards no request'
}

test('every MUST of the protocol that this package answers for is cited by a test', t => {
  if (!existsSync(requirements)) {
    t.comment('the list of requirements is not part of the package')
    return t.end()
  }
  const musts = readMusts(readFileSync(requirements, 'utf8'))
  t.ok(musts.length > 100, 'the list has been read')

  const cited = new Set(testFiles(here).flatMap(file => readFileSync(file, 'utf8').match(/\b[A-Z]+-\d\d\b/g) ?? []))
  const missing = musts.filter(id => !cited.has(id) && !Object.hasOwn(exceptions, id))
  t.strictSame(missing, [])
  t.strictSame(Object.keys(exceptions).filter(id => cited.has(id) || !musts.includes(id)), [], 'no exception is stale')
  t.end()
})

function readMusts (text: string): string[] {
  const musts: string[] = []
  let section = 0
  for (const line of text.split('\n')) {
    section = Number(/^## (\d+)\./.exec(line)?.[1] ?? section)
    const id = /^- \*\*([A-Z]+-\d\d) · MUST\*\*/.exec(line)?.[1]
    if (id !== undefined && sections.has(section)) musts.push(id)
  }
  return musts
}

function testFiles (folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : testFiles(path)
    return entry.name.endsWith('.test.ts') && path !== fileURLToPath(import.meta.url) ? [path] : []
  })
}
