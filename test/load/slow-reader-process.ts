// Tells all who listen as fast as the fast ones read; a process of its own, so that its memory is its own.
import Fastify, { type FastifyServerOptions } from 'fastify'
import genMcp, { defineServer, stream, type Channel, type ExchangeEnd } from 'fastify-gen-mcp'
import { onTold, readRole, Resident, say } from './process.js'
import type { AddressInfo } from 'node:net'

/** What it is told to be, and what it answers `tell` with. */
export interface Role { readonly http2: boolean, readonly sendBuffer: number }
export interface Told {
  /** Bytes: before, and the most meanwhile. */
  readonly before: number
  readonly most: number
  /** How slow streams have ended so far. */
  readonly causes: readonly string[]
}

/** Notifications between two looks at how far the fast ones are. */
const BURST = 64
const FILLER = 'x'.repeat(950)

const { http2, sendBuffer } = readRole<Role>()
const channels = new Set<Channel>()
const causes: string[] = []
const resident = new Resident()

const server = defineServer({
  info: { name: 'load', version: '1.0.0' },
  capabilities: { resources: { subscribe: true } },
  handleRequest: {
    'subscriptions/listen' (_request, channel) {
      channels.add(channel)
      channel.defer(() => { channels.delete(channel) })
      return stream(undefined)
    }
  }
})

const isSlow = ({ headers }: Channel['httpRequest']): boolean => headers['x-reader'] === 'slow'

async function tell (count: number): Promise<void> {
  const before = resident.mark()
  for (let number = 1; number <= count; number++) {
    for (const channel of channels) channel.sendNotification({ method: 'notifications/resources/updated', params: { uri: `mem://many/${FILLER}${number}` } })
    if (number % BURST !== 0) continue
    await Promise.all([...channels].filter(({ httpRequest }) => !isSlow(httpRequest)).map(async channel => { await channel.drained() }))
    await new Promise(resolve => { setImmediate(resolve) })
  }
  say({ before, most: resident.most(), causes } satisfies Told)
}

const app = Fastify({ http2 } as FastifyServerOptions)
await app.register(genMcp, {
  prefix: '/mcp',
  server,
  limits: { sendBuffer },
  onEnd ({ cause, method }: ExchangeEnd, httpRequest) {
    // A 2025 stream holds several listens, which end together.
    if (method === 'subscriptions/listen' && isSlow(httpRequest) && causes.at(-1) !== cause) causes.push(cause)
  }
})
await app.listen({ port: 0, host: '127.0.0.1' })
onTold<{ readonly count: number }>(({ count }) => { tell(count).catch((error: unknown) => { throw error }) })
say({ port: (app.server.address() as AddressInfo).port })
