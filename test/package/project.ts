import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'

const run = promisify(execFile)
export const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
/** Without what tells this process to load sources. */
export const env = { ...process.env, NODE_OPTIONS: '' }
/** For npm and compilers, which take their time beside other tests. */
export const PATIENCE = 600_000

if (!existsSync(join(root, 'dist/lib/index.js'))) throw new Error('dist is missing: these tests install the built package, so run "npm run build" first')

/** What came of a command, whether it succeeded or not. */
export interface Ran { readonly code: number, readonly stdout: string, readonly stderr: string }

/** Somebody's project in a folder far from this one, so that nothing of ours is found by accident. */
export class Project {
  readonly folder: string

  constructor (folder: string) {
    this.folder = folder
  }

  async write (name: string, text: string): Promise<void> {
    await writeFile(join(this.folder, name), text)
  }

  async copy (file: string, name = basename(file)): Promise<void> {
    await copyFile(join(root, file), join(this.folder, name))
  }

  /** Rejects if npm fails. */
  async npm (...args: readonly string[]): Promise<string> {
    const { stdout } = await run('npm', args, { cwd: this.folder, env, maxBuffer: 1 << 24 })
    return stdout
  }

  async install (...packages: readonly string[]): Promise<void> {
    await this.npm('install', '--no-audit', '--no-fund', '--prefer-offline', '--save-exact', ...packages)
  }

  async node (...args: readonly string[]): Promise<Ran> {
    return await new Promise(resolve => {
      const child = execFile(process.execPath, args, { cwd: this.folder, env, maxBuffer: 1 << 24 }, (_error, stdout, stderr) => {
        resolve({ code: child.exitCode ?? -1, stdout, stderr })
      })
    })
  }
}

/** An empty project, which goes when the test ends. */
export async function createProject (t: Test): Promise<Project> {
  // Where a link leads, since compilers name files so.
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'fastify-gen-mcp-')))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  const project = new Project(folder)
  await project.write('package.json', '{ "name": "project", "version": "1.0.0", "private": true, "type": "module" }')
  return project
}

/** A project with our package, as npm packs it, and others; undefined where the registry cannot be reached. */
export async function installed (t: Test, ...packages: readonly string[]): Promise<Project | undefined> {
  const project = await createProject(t)
  try {
    await project.install((await pack(project)).path, ...packages)
    return project
  } catch (error) {
    if (isOffline(error)) return undefined
    throw error
  }
}

export interface Packed {
  readonly path: string
  /** Bytes of the archive, and of what is in it. */
  readonly size: number
  readonly unpackedSize: number
  readonly files: readonly string[]
}

/** Packs the build into the project's folder. */
export async function pack ({ folder }: Project): Promise<Packed> {
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], { cwd: root, env, maxBuffer: 1 << 24 })
  const [packed] = JSON.parse(stdout) as [{ readonly filename: string, readonly size: number, readonly unpackedSize: number, readonly files: readonly { readonly path: string }[] }]
  const { filename, size, unpackedSize, files } = packed
  return { path: join(folder, filename), size, unpackedSize, files: files.map(({ path }) => path) }
}

/** Whether npm failed for want of a network. */
export function isOffline (error: unknown): boolean {
  const { stderr } = error as { readonly stderr?: unknown }
  return typeof stderr === 'string' && /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ETIMEDOUT|ENOTCACHED)\b/.test(stderr)
}

export const OFFLINE = 'the registry is out of reach'
