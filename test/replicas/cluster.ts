import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { openProxy, type Proxy } from '../helpers/proxy.js'
import { within, type Line } from '../helpers/sockets.js'
import type { Gauges, GenMcpOptions } from 'fastify-gen-mcp'
import type { Test } from 'tap'

/** What a replica is given when it starts. */
export interface Task {
  /** URL of the Redis. */
  readonly redis: string
  /** Keeps clusters apart that share a Redis. */
  readonly name: string
  readonly index: number
  /** More options of the mount. */
  readonly extra?: Omit<GenMcpOptions, 'server'>
}

/** What a replica is told to do. */
export type Order = { readonly type: 'updated', readonly uri: string } | { readonly type: 'toolsChanged' | 'gauges' | 'step' | 'finish' }

/** What a replica says of itself. */
export type Report =
  | { readonly type: 'listening', readonly port: number }
  | { readonly type: 'refused', readonly code: string, readonly message: string }
  | { readonly type: 'waiting' }
  | { readonly type: 'aborted', readonly cause: string }
  | { readonly type: 'gauges', readonly gauges: Gauges }
  | { readonly type: 'line', readonly line: Line }

const fixture = fileURLToPath(new URL('replica.js', import.meta.url))
const root = fileURLToPath(new URL('../../', import.meta.url))

/** Replicas run what is built of the package, since each would have to compile the sources anew. Throws where that is not what the sources say. */
function checkBuild (): void {
  const built = statSync(`${root}dist/lib/index.js`, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const newest = Math.max(...['lib', 'types'].flatMap(folder => readdirSync(root + folder, { recursive: true }).map(file => statSync(`${root}${folder}/${String(file)}`).mtimeMs)))
  if (built < newest) throw new Error('dist is missing or older than the sources: these tests run the built package, so run "npm run build" first')
}

type ReportOf<Type> = Extract<Report, { readonly type: Type }>

/** A process of the server. */
export class Replica {
  readonly index: number
  readonly lines: Line[] = []
  /** Resolves with the code or the signal that the process has ended with. */
  readonly exited: Promise<number | string>
  readonly #child
  readonly #reports = new EventEmitter()
  #port = 0

  constructor (task: Task) {
    this.index = task.index
    this.#child = fork(fixture, [JSON.stringify(task)], { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.exited = once(this.#child, 'exit').then(([code, signal]) => (code ?? signal) as number | string)
    this.#child.on('message', (report: Report) => {
      if (report.type === 'line') this.lines.push(report.line)
      else this.#reports.emit(report.type, report)
    })
  }

  get port (): number { return this.#port }
  get running (): boolean { return this.#child.exitCode === null && this.#child.signalCode === null }

  /** The next report of this kind. */
  async heard<Type extends Report['type']> (type: Type): Promise<ReportOf<Type>> {
    const [report] = await within(once(this.#reports, type), `replica ${this.index}: ${type}`, 40_000) as [ReportOf<Type>]
    return report
  }

  tell (order: Order): void {
    this.#child.send(order)
  }

  async gauges (): Promise<Gauges> {
    const heard = this.heard('gauges')
    this.tell({ type: 'gauges' })
    return (await heard).gauges
  }

  /** Resolves when it listens; rejects with what its app says if that is not to be. */
  async listening (): Promise<void> {
    const refused = (once(this.#reports, 'refused') as Promise<[ReportOf<'refused'>]>).then(([{ code, message }]) => { throw new Error(`${code}: ${message}`) })
    const ended = this.exited.then(how => { throw new Error(`Replica ${this.index} ended with ${how}`) })
    // Whichever does not come first concerns nobody.
    for (const other of [refused, ended]) other.catch(() => {})
    const listening = once(this.#reports, 'listening') as Promise<[ReportOf<'listening'>]>
    const [{ port }] = await within(Promise.race([listening, refused, ended]), `replica ${this.index}: its port`, 60_000)
    this.#port = port
  }

  async kill (): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.exited
  }
}

/** Replicas that share a Redis, and the proxy before them. */
export interface Cluster {
  readonly replicas: readonly Replica[]
  readonly proxy: Proxy
  /** The replica at this place, counted round and round. */
  at (index: number): Replica
}

/** Starts so many processes of the server, which end with the test. */
export async function startCluster (t: Test, redis: string, count = 4, extra: NonNullable<Task['extra']> = {}): Promise<Cluster> {
  checkBuild()
  const name = `test-${randomUUID()}`
  const replicas = Array.from({ length: count }, (_, index) => new Replica({ redis, name, index, extra }))
  t.teardown(async () => { await Promise.all(replicas.map(async replica => { await replica.kill() })) })
  await Promise.all(replicas.map(async replica => { await replica.listening() }))
  const proxy = await openProxy(t, replicas.map(({ port }) => port))
  return { replicas, proxy, at: index => replicas[index % count] as Replica }
}

/** Lines of the log that somebody would be woken up for. */
export function alarmsOf ({ replicas }: Cluster): readonly Line[] {
  return replicas.flatMap(({ lines }) => lines.filter(({ level }) => level >= 50))
}
