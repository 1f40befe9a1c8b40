import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const lib = fileURLToPath(new URL('../lib/', import.meta.url))

/** What the tests are to cover, together: the sources, and not what is built of them for the tests that look at the package. */
const sources = readdirSync(lib, { recursive: true }).map(String).filter(file => file.endsWith('.ts')).map(file => join('lib', file))

export default () => sources
