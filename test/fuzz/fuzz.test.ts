import { test } from 'tap'
import { shootAtHttp2 } from './http2.js'
import { measure, parsers } from './linear.js'
import { shootAtSockets } from './sockets.js'
import { Gallery, shootAt } from './target.js'
import { targets } from './targets/index.js'

/** Always the same, so that what fails here fails again. */
const SEED = 20_260_728
const INPUTS = 2_600
const ON_SOCKETS = 100
const ON_HTTP2 = 300

test('no input breaks the process, a promise of the protocol, or another request: ERR-01, ERR-02, ERR-03, ERR-07, ERR-08, LEG-21, LEG-54', async t => {
  const gallery = await Gallery.open(SEED)
  t.teardown(async () => { await gallery.close() })
  const all = targets(SEED)
  const weights = all.reduce((sum, { weight }) => sum + weight, 0)
  for (const target of all) {
    const { inputs, failure } = await shootAt(gallery, target, Math.ceil(INPUTS * target.weight / weights), SEED)
    t.equal(failure, undefined, `${target.name}: ${inputs} inputs`)
  }
  const { inputs, failure } = await shootAtSockets(gallery, ON_SOCKETS, SEED)
  t.equal(failure, undefined, `sockets: ${inputs} inputs`)
})

test('no input over HTTP/2 does: ERR-01, ERR-02, ERR-03, ERR-07, ERR-08, LEG-21, LEG-54', async t => {
  const gallery = await Gallery.open(SEED, true)
  t.teardown(async () => { await gallery.close() })
  const { inputs, failure } = await shootAtHttp2(gallery, ON_HTTP2, SEED)
  t.equal(failure, undefined, `HTTP/2: ${inputs} inputs`)
  t.ok(inputs >= ON_HTTP2)
})

test('what reads a text of the client\'s takes time that grows as the text does', t => {
  for (const parser of parsers) {
    const { name, small, large, holds } = measure(parser)
    t.ok(holds, name, { small, large })
  }
  t.end()
})
