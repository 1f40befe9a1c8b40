import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { test } from 'tap'
import { isOffline } from '../package/project.js'
import { findNode, majors } from './find-node.js'
import { steps, stepsOf } from './steps.js'

const run = promisify(execFile)
const here = dirname(fileURLToPath(import.meta.url))
// A Node may have to be downloaded.
t.setTimeout(600_000)

if (!existsSync(join(here, '../../dist/lib/index.js'))) throw new Error('dist is missing: these tests run the built package, so run "npm run build" first')

for (const major of majors) {
  const node = await findNode(major).catch((error: unknown) => {
    if (isOffline(error)) return undefined
    throw error
  })
  const skip = node === undefined && `Node ${major} is not here, and the registry is out of reach`

  test(`a mount serves JSON, streams, listens and 2025 clients on Node ${major}, and closes`, { skip }, async t => {
    const { stdout, stderr } = await run(node?.path ?? 'node', [join(here, 'smoke.js')], { env: { ...process.env, NODE_OPTIONS: '' } })
    t.match(stdout, `node ${node?.version}, fastify 5.`)
    t.strictSame(stepsOf(stdout), steps)
    t.equal(stderr, '', 'no warning either')
  })
}
