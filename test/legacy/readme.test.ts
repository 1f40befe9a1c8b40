import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { readLegacyOptions } from '../../lib/legacy/options.js'

const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')

test('the README lists each option of legacy, with the default that a mount has', async t => {
  const rows = new Map([...readme.matchAll(/^\| `legacy\.(\w+)` \| ([^|]+) \|/gm)].map(([, name, value]) => [name, value]))
  const settings = readLegacyOptions(true)
  t.ok(settings)
  t.strictSame([...rows.keys()].sort(), Object.keys(settings ?? {}).sort())
  for (const [name, value] of Object.entries(settings ?? {})) {
    if (typeof value === 'number' || typeof value === 'string') t.equal(rows.get(name), String(value), name)
  }
})

test('the README says what several replicas need, and what is not served: LEG-88, LEG-89, LEG-91', async t => {
  const [, section = ''] = readme.split('\n## Clients of 2025\n')
  const [text = ''] = section.split('\n## ')
  for (const said of [/no sticky sessions/, /`EventStore`/, /`bus`/, /2024-11-05 \(HTTP\+SSE/, /tasks/, /\.well-known\/oauth-authorization-server/, /`resource_metadata`/]) t.match(text, said)
})
