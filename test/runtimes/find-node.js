import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** Without what tells this process how to load sources. */
const env = { ...process.env, NODE_OPTIONS: '' }

/** The lines of Node that the package is for. */
export const majors = [20, 22, 24]

/** The path of a Node of that line: what NODE_22 and the like name, the one that runs this, or what npx brings. */
export async function findNode (major) {
  const variable = `NODE_${major}`
  const path = process.env[variable] ?? (process.version.startsWith(`v${major}.`) ? process.execPath : await bring(major))
  const version = await versionOf(path)
  if (!version.startsWith(`v${major}.`)) throw new Error(`${path} is Node ${version}: ${variable} is to name one of ${major}`)
  return { path, version }
}

async function bring (major) {
  const { stdout } = await run('npx', ['--yes', `--package=node@${major}`, '--', 'node', '-p', 'process.execPath'], { env })
  return stdout.trim()
}

async function versionOf (path) {
  const { stdout } = await run(path, ['--version'], { env })
  return stdout.trim()
}
