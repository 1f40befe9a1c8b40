import type { Expectation, Expectations } from './expected.js'

/** One check of a scenario, as the suite writes it down. */
export interface Check { readonly id: string, readonly status: string, readonly errorMessage?: string }

/** The checks of the scenarios that ran; undefined where the suite wrote none down. */
export type Results = ReadonlyMap<string, readonly Check[] | undefined>

export interface Verdict {
  readonly scenario: string
  readonly expected: string
  readonly got: string
  readonly pass: boolean
  /** The checks that are to blame, a line each. */
  readonly problems: readonly string[]
}

const NOTHING = 'nothing'

/** Holds the results against the exact counts. A scenario that is missing, and one that nobody expects, is a difference too. */
export function judge (results: Results, expectations: Expectations): readonly Verdict[] {
  const scenarios = new Set([...Object.keys(expectations), ...results.keys()])
  return [...scenarios].map(scenario => {
    const checks = results.get(scenario) ?? []
    const expected = describe(countsOf(expectations[scenario]))
    const got = describe(count(checks))
    return { scenario, expected, got, pass: got === expected && got !== NOTHING, problems: checks.filter(isProblem).map(toLine) }
  })
}

/** The verdicts as a table, with what is to blame below each that did not pass. */
export function toTable (verdicts: readonly Verdict[]): string {
  const width = (column: 'scenario' | 'expected' | 'got') => Math.max(column.length, ...verdicts.map(verdict => verdict[column].length))
  const widths = [width('scenario'), width('expected'), width('got')]
  const toRow = (...cells: readonly string[]) => cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')
  return [
    toRow('scenario', 'expected', 'got', 'verdict'),
    ...verdicts.flatMap(({ scenario, expected, got, pass, problems }) => [
      toRow(scenario, expected, got, pass ? 'pass' : 'DIFFERENT'), ...pass ? [] : problems.map(problem => `    ${problem}`)
    ])
  ].join('\n')
}

function countsOf ({ success, info = 0 }: Expectation = { success: 0 }): ReadonlyMap<string, number> {
  return new Map([['SUCCESS', success], ['INFO', info]])
}

function count (checks: readonly Check[]): ReadonlyMap<string, number> {
  const counts = new Map([['SUCCESS', 0], ['INFO', 0]])
  for (const { status } of checks) counts.set(status, (counts.get(status) ?? 0) + 1)
  return counts
}

function describe (counts: ReadonlyMap<string, number>): string {
  return [...counts].filter(([, number]) => number > 0).map(([status, number]) => `${number} ${status}`).join(', ') || NOTHING
}

function isProblem ({ status }: Check): boolean {
  return status !== 'SUCCESS' && status !== 'INFO'
}

function toLine ({ id, status, errorMessage }: Check): string {
  return [status, id, errorMessage ?? ''].join(' ').trimEnd()
}
