import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { test } from 'tap'
import { steps, stepsOf } from '../runtimes/steps.js'
import { installed, OFFLINE, PATIENCE, root } from './project.js'

t.setTimeout(PATIENCE)

const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly peerDependencies: { readonly fastify: string } }
const oldest = /^>=(\S+) /.exec(peerDependencies.fastify)?.[1] ?? 'unreadable'
const project = await installed(t, `fastify@${oldest}`)
const skip = project === undefined && OFFLINE

test(`the oldest Fastify of the range, ${oldest}, serves JSON, streams, listens and 2025 clients, and bounds a slow reader: case 021`, { skip }, async t => {
  if (project === undefined) throw new Error(OFFLINE)
  await project.copy('test/runtimes/smoke.js')
  const { code, stdout, stderr } = await project.node('smoke.js')
  t.match(stdout, `fastify ${oldest}\n`)
  t.equal(stderr, '')
  t.strictSame(stepsOf(stdout), steps)
  t.equal(code, 0)
})
