/** Processes on a core of their own, and calls between them. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'

/** Whether server and load can be kept apart. */
export const pinned = availableParallelism() >= 2 && spawnSync('taskset', ['--version']).error === undefined

const SERVER_CORE = '0'
const LOAD_CORE = '1'
const children = new Set()

/** A process that serves, of a kind that server.js knows. Every server has the same core, and only one is asked at a time. */
export async function startServer (kind, nodeOptions = []) {
  const server = start('server.js', SERVER_CORE, ['--expose-gc', ...nodeOptions])
  return { ...server, kind, port: await server.call('listen', kind) }
}

/** A process that makes the load. */
export function startLoad () {
  return start('load.js', LOAD_CORE, [])
}

function start (file, core, nodeOptions) {
  const command = [...pinned ? ['taskset', '-c', core] : [], process.execPath, ...nodeOptions, fileURLToPath(new URL(file, import.meta.url))]
  const child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const waiting = new Map()
  let calls = 0
  children.add(child)
  child.on('message', ({ id, value, error }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) resolve(value)
    else reject(new Error(`${file}: ${error}`))
  })
  child.on('exit', (code, signal) => {
    children.delete(child)
    for (const { reject } of waiting.values()) reject(new Error(`${file} exited (${code ?? signal})`))
  })
  return {
    call: (name, ...args) => new Promise((resolve, reject) => {
      waiting.set(++calls, { resolve, reject })
      child.send({ id: calls, name, args })
    }),
    async stop () {
      if (!child.connected) return
      const exited = once(child, 'exit')
      child.disconnect()
      await exited
    }
  }
}

process.on('exit', () => {
  for (const child of children) child.kill()
})

/** The other side: answers the calls of the parent, and exits with it. */
export function answerCalls (functions) {
  process.on('message', async ({ id, name, args }) => {
    try {
      process.send({ id, value: await functions[name](...args) })
    } catch (error) {
      process.send({ id, error: error.stack })
    }
  })
  process.on('disconnect', () => { process.exit() })
}
