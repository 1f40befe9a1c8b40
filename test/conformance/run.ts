import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runs } from './expected.js'
import { build, fixtures, type Fixture } from './fixture.js'
import { install, isInstalled, runSuite } from './suite.js'
import { judge, toTable, type Verdict } from './verdict.js'

const RESULTS = fileURLToPath(new URL('results', import.meta.url))

/** Of everything but the download. */
const TIME_LIMIT = 300_000

/** The suite's verdicts by revision on one process of a fixture; without names, on all scenarios that are expected to pass. */
export async function check (fixture: Fixture, folder: string, scenarios: readonly string[] = []): Promise<ReadonlyMap<string, readonly Verdict[]>> {
  const app = await build(fixture)
  const verdicts = new Map<string, readonly Verdict[]>()
  try {
    const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/mcp`
    for (const [revision, { choice, expectations, leftOut }] of Object.entries(runs)) {
      const chosen = scenarios.filter(name => Object.hasOwn(expectations, name))
      if (scenarios.length > 0 && chosen.length === 0) continue
      const results = await runSuite(url, join(folder, revision), chosen.length === 0 ? [choice] : chosen.map(name => ['--scenario', name, '--spec-version', revision]))
      const wanted = chosen.length === 0 ? expectations : Object.fromEntries(Object.entries(expectations).filter(([name]) => chosen.includes(name)))
      verdicts.set(revision, judge(new Map([...results].filter(([scenario]) => !leftOut.has(scenario))), wanted))
    }
  } finally {
    await app.close()
  }
  return verdicts
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!isInstalled()) await install()
  setTimeout(() => {
    // A server that does not close, for one, must not keep the process.
    console.error(`Not done within ${TIME_LIMIT / 1000} seconds`)
    process.exit(1)
  }, TIME_LIMIT).unref()
  for (const [name, fixture] of Object.entries(fixtures)) {
    for (const [revision, verdicts] of await check(fixture, join(RESULTS, name), process.argv.slice(2))) {
      const differences = verdicts.filter(({ pass }) => !pass).length
      console.log(toTable(verdicts))
      console.log(differences === 0
        ? `${name}, ${revision}: all ${verdicts.length} scenarios pass\n`
        : `${name}, ${revision}: ${differences} of ${verdicts.length} scenarios differ; all checks are in ${join(RESULTS, name, revision)}\n`)
      if (differences > 0) process.exitCode = 1
    }
  }
}
