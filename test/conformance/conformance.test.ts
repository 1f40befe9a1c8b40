import { test } from 'tap'
import { runs } from './expected.js'
import { fixtures } from './fixture.js'
import { check } from './run.js'
import { isInstalled } from './suite.js'
import { judge, toTable, type Check } from './verdict.js'

const success: Check = { id: 'works', status: 'SUCCESS' }

for (const [name, fixture] of Object.entries(fixtures)) {
  test(`the official suite passes on all revisions in one process, check by check: ${name}`, {
    skip: isInstalled() ? false : 'the suite is not installed: npm run conformance does that'
  }, async t => {
    const byRevision = await check(fixture, t.testdir())
    t.strictSame([...byRevision.keys()], Object.keys(runs))
    for (const [revision, verdicts] of byRevision) {
      t.equal(verdicts.length, Object.keys(runs[revision]?.expectations ?? {}).length, revision)
      t.strictSame(verdicts.filter(({ pass }) => !pass), [], toTable(verdicts))
    }
  })
}

test('what is expected are all scenarios of each revision, and all their checks', async t => {
  const counts = Object.entries(runs).map(([revision, { expectations }]) => {
    return [revision, Object.keys(expectations).length, Object.values(expectations).reduce((sum, { success }) => sum + success, 0)]
  })
  t.strictSame(counts, [['2026-07-28', 40, 152], ['2025-11-25', 33, 84], ['2025-06-18', 27, 56], ['2025-03-26', 1, 3]])
})

test('a scenario passes with the expected number of successes, and with no other', async t => {
  const outcomes = [1, 2, 3].map(number => judge(new Map([['a', Array(number).fill(success)]]), { a: { success: 2 } }))
  t.strictSame(outcomes.map(([verdict]) => verdict?.pass), [false, true, false])
})

test('a check that fails, warns or was skipped makes its scenario differ, and is named', async t => {
  for (const status of ['FAILURE', 'WARNING', 'SKIPPED']) {
    const [verdict] = judge(new Map([['a', [success, { id: 'breaks', status, errorMessage: 'no answer' }]]]), { a: { success: 1 } })
    t.match(verdict, { expected: '1 SUCCESS', got: `1 SUCCESS, 1 ${status}`, pass: false, problems: [`${status} breaks no answer`] })
  }
})

test('an information counts only where one is expected', async t => {
  const results = new Map([['a', [{ id: 'says', status: 'INFO' }, success]]])
  t.match(judge(results, { a: { success: 1, info: 1 } }), [{ got: '1 SUCCESS, 1 INFO', pass: true }])
  t.match(judge(results, { a: { success: 1 } }), [{ got: '1 SUCCESS, 1 INFO', pass: false }])
})

test('a scenario that did not run, threw, or is not expected differs', async t => {
  t.match(judge(new Map(), { a: { success: 1 } }), [{ scenario: 'a', got: 'nothing', pass: false }])
  t.match(judge(new Map([['a', undefined]]), { a: { success: 1 } }), [{ scenario: 'a', got: 'nothing', pass: false }])
  t.match(judge(new Map([['b', [success]]]), {}), [{ scenario: 'b', expected: 'nothing', pass: false }])
  t.match(judge(new Map([['b', undefined]]), {}), [{ scenario: 'b', expected: 'nothing', got: 'nothing', pass: false }])
})

test('the table has a row a scenario, with what is to blame below those that differ', async t => {
  const results = new Map([['fine', [success]], ['broken', [{ id: 'breaks', status: 'FAILURE' }]]])
  t.equal(toTable(judge(results, { fine: { success: 1 }, broken: { success: 1 } })), [
    'scenario  expected   got        verdict',
    'fine      1 SUCCESS  1 SUCCESS  pass',
    'broken    1 SUCCESS  1 FAILURE  DIFFERENT',
    '    FAILURE breaks'
  ].join('\n'))
})
