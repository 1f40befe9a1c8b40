import { test } from 'tap'
import Fastify from 'fastify'
import genMcp, { MCP_ERR_BAD_OPTION, type GenMcpOptions } from 'fastify-gen-mcp'
import { memoryEvents, sealedSessions, type EventStore, type LegacyOptions } from 'fastify-gen-mcp/legacy'
import { readLegacyOptions } from '../../lib/legacy/options.js'
import { mount } from '../helpers/mount.js'
import { echo } from '../helpers/servers.js'
import { open, VERSIONS } from './helpers.js'
import type { MessageBus } from 'fastify-gen-mcp'

const bus: MessageBus = { on () {}, removeListener () {}, emit (_packet, done) { done?.() } }
const noop = (): void => {}

test('2025 clients are served unless that is turned off', async t => {
  for (const legacy of [undefined, true, {}, { sessions: undefined, events: undefined, bus: undefined, retry: undefined }] as unknown as (GenMcpOptions['legacy'])[]) {
    const app = await mount(t, { server: echo, ...(legacy !== undefined && { legacy }) })
    for (const version of VERSIONS) t.ok((await open(app, version)).id, `${JSON.stringify(legacy)}, ${version}`)
  }
  await t.rejects(open(await mount(t, { server: echo, legacy: false })), 'false')
  t.equal(readLegacyOptions(false), undefined)
})

test('what is left out has its default', t => {
  const settings = readLegacyOptions({})
  t.match(settings, { bus: undefined, topic: 'mcp/legacy', answerTimeout: 600_000, maxStreamAge: 0, sessionCheck: 60_000, retry: 1_000, maxBatch: 100 })
  t.type(settings?.sessions?.create, 'function')
  t.type(settings?.events?.append, 'function')
  for (const whole of [true, undefined]) t.strictSame(Object.keys(readLegacyOptions(whole) ?? {}), Object.keys(settings ?? {}), String(whole))
  t.not(readLegacyOptions(true)?.sessions, settings?.sessions, 'mounts share no sessions')
  t.end()
})

test('what is given is taken', t => {
  const [sessions, events] = [sealedSessions(), memoryEvents()]
  const given: LegacyOptions = { sessions, events, bus, topic: 'a/topic', answerTimeout: 1, maxStreamAge: 2_147_483_647, sessionCheck: 0, retry: 0, maxBatch: 1 }
  t.strictSame(readLegacyOptions(given), given)
  t.equal(readLegacyOptions(given)?.sessions, sessions)
  t.equal(readLegacyOptions({ events: false })?.events, undefined)

  class Store implements EventStore {
    append (): void {}
    after (): undefined {}
  }
  t.type(readLegacyOptions({ events: new Store() })?.events, Store, 'an instance of a class')
  const stateless = readLegacyOptions({ sessions: false, events })
  t.strictSame([stateless?.sessions, stateless?.events], [undefined, undefined], 'without sessions no events are kept')
  t.end()
})

test('what makes no sense rejects the boot, and is named', async t => {
  const mistakes: readonly (readonly [unknown, string])[] = [
    ...['yes', 1, null, [], noop].map(legacy => [legacy, 'legacy must be a boolean or an object'] as const),
    [{ session: false }, 'legacy.session is not known'],
    [{ __proto__: null, constructor: 1 }, 'legacy.constructor is not known'],
    ...[true, null, 'x', {}, { create: noop }, { fetch: noop }, { create: 1, fetch: noop }].map(sessions => [{ sessions }, 'legacy.sessions must be false or have the functions create and fetch'] as const),
    ...[true, null, {}, { append: noop }].map(events => [{ events }, 'legacy.events must be false or have the functions append and after'] as const),
    ...[false, null, 'x', { on: noop, emit: noop }].map(bus => [{ bus }, 'legacy.bus must have the functions on, removeListener and emit'] as const),
    ...['', 'a/+', 'a/#', 5, null].map(topic => [{ topic }, 'legacy.topic must be a topic without wildcards'] as const),
    ...[0, -1, 1.5, NaN, Infinity, 2_147_483_648, '1', null].map(answerTimeout => [{ answerTimeout }, 'legacy.answerTimeout must be a whole number of milliseconds from 1 to 2147483647'] as const),
    ...[-1, 1.5, 2_147_483_648, '0', null].flatMap(ms => ['maxStreamAge', 'sessionCheck', 'retry'].map(name => [{ [name]: ms }, `legacy.${name} must be a whole number of milliseconds from 0 to 2147483647`] as const)),
    ...[0, -1, 1.5, Infinity, '5', null].map(maxBatch => [{ maxBatch }, 'legacy.maxBatch must be a whole number from 1'] as const)
  ]
  for (const [legacy, problem] of mistakes) {
    const app = Fastify()
    // What TypeScript would refuse.
    app.register(genMcp, { server: echo, legacy } as unknown as GenMcpOptions)
    await t.rejects(async () => { await app.ready() }, { code: 'MCP_ERR_BAD_OPTION', message: `Option ${problem}` }, problem)
    await app.close().catch(noop)
  }
  t.throws(() => readLegacyOptions('yes'), MCP_ERR_BAD_OPTION)
})
