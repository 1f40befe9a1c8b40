/** What was measured, as one table. */

/** The middle of some numbers. */
export function median (numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** A line: `base` and `ours` are texts, `bar` is `{ least }` or `{ most }`, or left out for what is only told. */
export function row (subject, base, ours, ratio, bar) {
  return { subject, base, ours, ratio: ratio.toFixed(2), bar: describe(bar), verdict: judge(ratio, bar) }
}

/** Whether a bar was missed. */
export function isMissed ({ verdict }) {
  return verdict === 'MISSED'
}

/** The rows under their heads, each column as wide as it must be. */
export function formatTable (rows) {
  const lines = [{ subject: 'subject', base: 'bare', ours: 'plugin', ratio: 'ratio', bar: 'bar', verdict: 'verdict' }, ...rows]
  const names = Object.keys(lines[0])
  const widths = names.map(name => Math.max(...lines.map(line => line[name].length)))
  const format = line => names.map((name, column) => isNumeric(name) ? line[name].padStart(widths[column]) : line[name].padEnd(widths[column])).join('  ').trimEnd()
  return [format(lines[0]), widths.map(width => '-'.repeat(width)).join('  '), ...rows.map(format)].join('\n')
}

function isNumeric (name) {
  return name === 'base' || name === 'ours' || name === 'ratio'
}

function describe (bar) {
  if (bar === undefined) return '-'
  return 'least' in bar ? `>= ${bar.least}` : `<= ${bar.most}`
}

function judge (ratio, bar) {
  if (bar === undefined) return 'for information'
  return ('least' in bar ? ratio >= bar.least : ratio <= bar.most) ? 'met' : 'MISSED'
}
