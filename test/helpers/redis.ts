import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { findPort } from './port.js'
import type { Test } from 'tap'

/** A Redis server that tests may do anything to. */
export interface PrivateRedis {
  readonly url: string
  /** Takes the process away, with all connections; what it knew is gone. */
  kill (): Promise<void>
  /** Brings another one up in its place. */
  restart (): Promise<void>
  /** Leaves the connections as they are, and answers nothing. */
  stall (): void
  goOn (): void
}

/** Whoever sets it wants no test left out. */
const REQUIRED = 'REQUIRE_REDIS'

/** Why the tests that need a Redis are left out; false: they are not. `own`: a server of the test's own is needed, to be killed. */
export function redisMissing ({ own = false }: { readonly own?: boolean } = {}): string | false {
  if (!own && process.env['REDIS_URL'] !== undefined) return false
  if (spawnSync('redis-server', ['--version']).status === 0) return false
  const reason = own ? 'there is no redis-server to start' : 'there is no redis-server to start, and no REDIS_URL'
  if (process.env[REQUIRED] !== undefined) throw new Error(`${REQUIRED} is set, and ${reason}`)
  return reason
}

/** The URL of a Redis: REDIS_URL, or that of a server which ends with the test. */
export async function findRedis (t: Test): Promise<string> {
  return process.env['REDIS_URL'] ?? (await startRedis(t)).url
}

/** Starts a Redis on a free port, which keeps nothing on disk and ends with the test. */
export async function startRedis (t: Test): Promise<PrivateRedis> {
  const port = await findPort()
  const url = `redis://127.0.0.1:${port}`
  let server = await serve(port, url)
  const kill = async (): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return
    const exited = once(server, 'exit')
    server.kill('SIGKILL')
    await exited
  }
  t.teardown(kill)
  return {
    url,
    kill,
    restart: async () => { server = await serve(port, url) },
    stall: () => { server.kill('SIGSTOP') },
    goOn: () => { server.kill('SIGCONT') }
  }
}

async function serve (port: number, url: string) {
  const server = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'], { stdio: 'ignore' })
  const client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  // Until it listens, that is what it says.
  client.on('error', () => {})
  await Promise.race([client.ping(), once(server, 'exit').then(() => { throw new Error(`redis-server did not start on port ${port}`) })])
  client.disconnect()
  return server
}

/** Resolves when the condition holds that another process has to be asked for; a test that waits in vain is ended by its time limit. */
export async function eventually (holds: () => Promise<boolean>): Promise<void> {
  while (!await holds()) await delay(20)
}
