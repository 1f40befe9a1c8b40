import assert from 'node:assert/strict'
import type { FastifyRequest } from 'fastify'
import type { Awaitable } from '../../types/schema.js'
import type { Session, SessionController } from '../../types/legacy.js'

/** Nothing is read of it but by controllers that say so. */
const httpRequest = { headers: {} } as FastifyRequest
const alice: Session = { protocolVersion: '2025-11-25', clientInfo: { name: 'client', version: '1.0.0' }, clientCapabilities: { elicitation: {}, roots: { listChanged: true } }, principal: 'alice' }
const nobody: Session = { protocolVersion: '2025-03-26', clientInfo: { name: 'other', version: '0' }, clientCapabilities: {}, principal: undefined }

/** 128 bits as base64url. */
const MIN_ID = 22
const MAX_ID = 4_096
const strangers = ['', 'a', '0'.repeat(32), '!~'.repeat(40), 'x'.repeat(20_000), '../../etc/passwd', '__proto__', 'constructor']

const tests: Readonly<Record<string, (controller: SessionController) => Promise<void>>> = {
  async 'gives back what it was given' (controller) {
    for (const session of [alice, nobody]) assert.deepEqual(pick(await controller.fetch(await controller.create(session, httpRequest), httpRequest)), pick(session))
  },

  async 'gives ids of visible ASCII, long enough to be guessed by nobody and short enough for a header' (controller) {
    const id = await controller.create(alice, httpRequest)
    assert.match(id, /^[\x21-\x7E]+$/)
    assert.ok(id.length >= MIN_ID && id.length <= MAX_ID, `the id has ${id.length} characters`)
  },

  async 'gives each session an id of its own' (controller) {
    const ids = await Promise.all(Array.from({ length: 100 }, async () => await controller.create(alice, httpRequest)))
    assert.equal(new Set(ids).size, ids.length)
  },

  async 'knows no id that it did not give, and rejects none' (controller) {
    const id = await controller.create(alice, httpRequest)
    for (const stranger of [...strangers, id.slice(0, -1), `${id}a`, id.slice(1)]) assert.equal(await controller.fetch(stranger, httpRequest), undefined, JSON.stringify(stranger.slice(0, 50)))
  },

  async 'keeps sessions apart that are opened at the same time' (controller) {
    const sessions = Array.from({ length: 20 }, (_, index): Session => ({ ...alice, principal: `user ${index}` }))
    const ids = await Promise.all(sessions.map(async session => await controller.create(session, httpRequest)))
    const fetched = await Promise.all(ids.map(async id => await controller.fetch(id, httpRequest)))
    assert.deepEqual(fetched.map(session => session?.principal), sessions.map(({ principal }) => principal))
  },

  async 'answers two requests of one session at the same time' (controller) {
    const id = await controller.create(alice, httpRequest)
    const [one, other] = await Promise.all([controller.fetch(id, httpRequest), controller.fetch(id, httpRequest)])
    assert.deepEqual(pick(one), pick(other))
  },

  async 'keeps a log level and subscriptions, if it has update' (controller) {
    const id = await controller.create(alice, httpRequest)
    if (controller.update === undefined) return
    await controller.update(id, { ...alice, logLevel: 'error', resourceSubscriptions: ['test://a', 'test://b'] }, httpRequest)
    const session = await controller.fetch(id, httpRequest)
    assert.equal(session?.logLevel, 'error')
    assert.deepEqual(session.resourceSubscriptions, ['test://a', 'test://b'])
  },

  async 'knows a session no more that was deleted, and every other one still, if it has delete' (controller) {
    const [id, other] = [await controller.create(alice, httpRequest), await controller.create(alice, httpRequest)]
    if (controller.delete === undefined) return
    await controller.delete(id, httpRequest)
    assert.equal(await controller.fetch(id, httpRequest), undefined)
    assert.notEqual(await controller.fetch(other, httpRequest), undefined)
    // Twice, since a client may send it twice.
    await controller.delete(id, httpRequest)
    assert.equal(await controller.fetch(id, httpRequest), undefined)
  }
}

/**
 * The tests that a SessionController must pass, for any runner: each makes a controller with `create` and rejects with an AssertionError when that is none.
 * They call it with a request that has nothing but empty headers.
 */
export function sessionControllerTests (create: () => Awaitable<SessionController>): readonly { readonly name: string, run (): Promise<void> }[] {
  return Object.entries(tests).map(([name, run]) => ({ name, run: async () => { await run(await create()) } }))
}

function pick (session: Session | undefined): object | undefined {
  return session && { protocolVersion: session.protocolVersion, clientInfo: session.clientInfo, clientCapabilities: session.clientCapabilities, principal: session.principal ?? null }
}
