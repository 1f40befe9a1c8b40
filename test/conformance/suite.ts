import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Check, Results } from './verdict.js'

const here = fileURLToPath(new URL('.', import.meta.url))
const entry = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

/** Of one scenario, in which the server does not answer. */
const SCENARIO_TIMEOUT = 10_000
/** Of all of them. */
const RUN_TIMEOUT = 90_000
const INSTALL_TIMEOUT = 180_000

export function isInstalled (): boolean {
  return existsSync(entry)
}

/** Downloads the suite, in the version that the lock file names. */
export async function install (): Promise<void> {
  const code = await run('npm', ['ci', '--no-audit', '--no-fund'], 'inherit', INSTALL_TIMEOUT)
  if (code !== 0) throw new Error(`npm ci in ${here} ended with ${code}`)
}

/** Runs scenarios against a server that listens, chosen by options of the suite's. What it writes goes to `folder`, which is emptied first. */
export async function runSuite (url: string, folder: string, choices: readonly (readonly string[])[]): Promise<Results> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const log = await open(join(folder, 'suite.log'), 'a')
  try {
    for (const choice of choices) {
      const args = ['server', '--url', url, ...choice, '--timeout', String(SCENARIO_TIMEOUT), '--output-dir', folder]
      // The exit code says less than the checks do: warnings and skipped checks leave it at 0.
      await run(process.execPath, ['--import', new URL('node20.mjs', import.meta.url).href, entry, ...args], log.fd, RUN_TIMEOUT)
    }
  } finally {
    await log.close()
  }
  return await readResults(folder)
}

async function run (command: string, args: readonly string[], output: number | 'inherit', timeout: number): Promise<number | null> {
  // Options that this process was given for itself, such as a test runner's, are not for that one.
  const { NODE_OPTIONS, NODE_V8_COVERAGE, ...env } = process.env
  const child = spawn(command, args, { cwd: here, env, stdio: ['ignore', output, output], timeout, killSignal: 'SIGKILL' })
  const [code, signal] = await once(child, 'close') as [number | null, string | null]
  if (signal !== null) throw new Error(`${command} was ended by ${signal}; it is given ${timeout / 1000} seconds`)
  return code
}

async function readResults (folder: string): Promise<Results> {
  const results = new Map<string, readonly Check[] | undefined>()
  for (const name of await readdir(folder)) {
    const scenario = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name)?.[1]
    if (scenario !== undefined) results.set(scenario, await readChecks(join(folder, name, 'checks.json')))
  }
  return results
}

/** A scenario that throws leaves a folder without checks. */
async function readChecks (file: string): Promise<readonly Check[] | undefined> {
  return existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : undefined
}
