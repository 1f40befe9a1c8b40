import { fork, type ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// ---- in the process that measures

/** A process that serves, since what it holds is to be told from what its clients hold. */
export class ServerProcess {
  readonly exited: Promise<number | null>
  readonly #child: ChildProcess
  readonly #messages: unknown[] = []
  #changed: (() => void) | undefined
  #over = false

  /** `file` stands beside this one; `role` is what it is told to be. */
  constructor (file: string, role: object) {
    this.#child = fork(fileURLToPath(new URL(file, import.meta.url)), [JSON.stringify(role)])
    this.#child.on('message', message => {
      this.#messages.push(message)
      this.#changed?.()
    })
    this.exited = new Promise(resolve => {
      this.#child.on('exit', code => {
        this.#over = true
        this.#changed?.()
        resolve(code)
      })
    })
  }

  tell (message: object | string): void {
    this.#child.send(message)
  }

  /** The next message; the type is what the file sends. */
  async hear<T> (): Promise<T> {
    while (this.#messages.length === 0) {
      if (this.#over) throw new Error('The server process has ended')
      await new Promise<void>(resolve => { this.#changed = resolve })
    }
    return this.#messages.shift() as T
  }

  async kill (): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.exited
  }
}

// ---- in the process that serves

/** What the process was told to be; the type is that of whoever started it. */
export function readRole<Role> (): Role {
  return JSON.parse(process.argv[2] ?? '{}') as Role
}

export function say (message: object): void {
  process.send?.(message)
}

/** Calls back for each message of the process that measures. */
export function onTold<T> (take: (message: T) => void): void {
  process.on('message', message => { take(message as T) })
}

/** Bytes of resident memory now, and the most since `mark`: the kernel keeps count, whatever the event loop does. */
export class Resident {
  #resets = false

  /** Begins to count again; bytes now. */
  mark (): number {
    try {
      writeFileSync('/proc/self/clear_refs', '5')
      this.#resets = true
    } catch {
      // Elsewhere than on Linux the most since the process began has to do, which can only be more.
    }
    return process.memoryUsage.rss()
  }

  most (): number {
    if (!this.#resets) return process.resourceUsage().maxRSS * 1024
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1024
  }
}
