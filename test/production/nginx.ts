import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { findPort } from '../helpers/port.js'
import type { Test } from 'tap'
import type { Post } from '../helpers/sockets.js'

const TRIES = 5
/** Where Debian and others keep it, which is not on every path. */
const PLACES = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/opt/homebrew/bin']

/** The program, if it is installed. */
export const nginx = await find('nginx')

/** nginx with the configuration of the README before some replicas. */
export interface Nginx {
  readonly port: number
  /** Sends a request over a connection of its own, and gives the response when its head has come. */
  send (message: Partial<Post>, method?: 'POST' | 'GET' | 'DELETE'): Promise<IncomingMessage>
}

/** Starts nginx with examples/nginx.conf before these ports, and stops it with the test. `edit` changes the configuration: places must be there. */
export async function startNginx (t: Test, replicas: readonly number[], edit: Readonly<Record<string, string>> = {}): Promise<Nginx> {
  const config = await readFile(new URL('../../examples/nginx.conf', import.meta.url), 'utf8')
  const directory = await mkdtemp(join(tmpdir(), 'nginx-'))
  t.teardown(async () => { await rm(directory, { recursive: true }) })
  for (let tries = 1; ; tries++) {
    // Somebody else may take the port before nginx does.
    const port = await findPort()
    const text = replaceAll(replaceAll(config, edit), {
      '    server 127.0.0.1:3001;': replicas.map(replica => `    server 127.0.0.1:${replica};`).join('\n'),
      '    server 127.0.0.1:3002;': '',
      'listen 80;': `listen 127.0.0.1:${port};`,
      'http {\n': `http {\naccess_log off;\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${join(directory, name)};\n`).join('')}`
    })
    const path = join(directory, 'nginx.conf')
    await writeFile(path, text)
    const child = spawn(String(nginx), ['-e', 'stderr', '-p', directory, '-c', path, '-g', `daemon off; master_process off; pid ${join(directory, 'pid')}; error_log stderr warn;`])
    const problems: string[] = []
    child.stderr.setEncoding('utf8').on('data', (text: string) => { problems.push(text) })
    t.teardown(async () => { await stop(child) })
    if (await answers(child, port)) return { port, send: async (message, method = 'POST') => await send(t, port, method, message) }
    if (tries === TRIES) throw new Error(`nginx did not start: ${problems.join('')}`)
  }
}

async function send (t: Test, port: number, method: string, { headers, payload = '' }: Partial<Post>): Promise<IncomingMessage> {
  const sent = request({ port, host: '127.0.0.1', path: '/mcp', method, agent: false, headers: { 'content-length': String(Buffer.byteLength(payload)), ...headers } })
  t.teardown(() => { sent.destroy() })
  sent.end(payload)
  const [response] = await once(sent, 'response') as [IncomingMessage]
  return response
}

function replaceAll (text: string, replacements: Readonly<Record<string, string>>): string {
  for (const [from, to] of Object.entries(replacements)) {
    if (!text.includes(from)) throw new Error(`examples/nginx.conf has no ${JSON.stringify(from)}`)
    text = text.replace(from, () => to)
  }
  return text
}

async function find (program: string): Promise<string | undefined> {
  for (const place of PLACES) {
    const path = join(place, program)
    if (await access(path).then(() => true, () => false)) return path
  }
  return undefined
}

/** Whether it takes connections, which it tells nobody; false when it has ended. */
async function answers (child: ChildProcess, port: number): Promise<boolean> {
  while (child.exitCode === null) {
    const socket = connect({ port, host: '127.0.0.1' })
    const connected = await Promise.race([once(socket, 'connect').then(() => true, () => false), once(child, 'exit').then(() => false)])
    socket.destroy()
    if (connected) return child.exitCode === null
    await setTimeout(20)
  }
  return false
}

async function stop (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}
