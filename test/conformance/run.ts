import { fileURLToPath } from 'node:url'
import { expectations, leftOut } from './expected.js'
import { build } from './fixture.js'
import { install, isInstalled, runSuite } from './suite.js'
import { judge, toTable, type Verdict } from './verdict.js'

const RESULTS = fileURLToPath(new URL('results', import.meta.url))

/** Of everything but the download. */
const TIME_LIMIT = 120_000

/** The suite's verdicts on the fixture, which listens meanwhile; without names, on all scenarios that are expected to pass. */
export async function check (folder: string, scenarios: readonly string[] = []): Promise<readonly Verdict[]> {
  const app = await build()
  try {
    const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}/mcp`
    const results = await runSuite(url, folder, scenarios)
    const wanted = scenarios.length === 0 ? expectations : Object.fromEntries(scenarios.map(name => [name, expectations[name] ?? { success: 0 }]))
    return judge(new Map([...results].filter(([scenario]) => !leftOut.has(scenario))), wanted)
  } finally {
    await app.close()
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!isInstalled()) await install()
  setTimeout(() => {
    // A server that does not close, for one, must not keep the process.
    console.error(`Not done within ${TIME_LIMIT / 1000} seconds`)
    process.exit(1)
  }, TIME_LIMIT).unref()
  const verdicts = await check(RESULTS, process.argv.slice(2))
  const differences = verdicts.filter(({ pass }) => !pass).length
  console.log(toTable(verdicts))
  console.log(differences === 0 ? `All ${verdicts.length} scenarios pass` : `${differences} of ${verdicts.length} scenarios differ; all checks are in ${RESULTS}`)
  process.exitCode = differences === 0 ? 0 : 1
}
