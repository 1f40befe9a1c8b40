import type { Outcome } from './drive.js'

/** Ends without an answer. */
const CLOSES = new Set<string>(['disconnect', 'closed', 'crash', 'shutdown', 'timeout', 'overflow'])

/** What is wrong with what the server counted of one request, and with what its client was sent; `disturbed`: the server was closed meanwhile. */
export function judge ({ plan, shot, answer, entry, began, causes, whole, problems: seen }: Outcome, disturbed = false): string[] {
  const problems = [...(disturbed ? [] : seen), ...answer.problems, ...entry.problems]
  const { ends, closes, live } = entry
  const ended = ends.map(({ cause }) => cause)

  // A call that asks is two exchanges in the 2025 era, of which each begins and ends.
  if (ends.length !== entry.began) problems.push(`${entry.began} began and ${ends.length} ended`)
  if (ends.length > (shot.kind === 'asks' ? 2 : 1)) problems.push(`it ended more than once: ${ended.join(', ')}`)
  if (began === 'no' && entry.began > 0) problems.push('it began, and was never whole')

  const closed = ended.find(cause => CLOSES.has(cause))
  const due = closed !== undefined && live ? [closed] : []
  if (String(closes) !== String(due)) problems.push(`handleClose was called with [${closes.join(', ')}], for the ends ${ended.join(', ')}, ${live ? 'with' : 'without'} a state`)
  if (entry.cleaned !== entry.deferred) problems.push(`${entry.deferred} clean-ups were deferred and ${entry.cleaned} ran`)
  if (entry.released !== entry.held) problems.push(`${entry.held} sources were made and ${entry.released} released`)
  if (entry.aborted !== (closed === undefined ? 0 : entry.listening)) problems.push(`its signal aborted ${entry.aborted} times of ${entry.listening}, for the ends ${ended.join(', ')}`)
  for (const { requestId, cause, bytes } of ends) {
    if (shot.kind !== 'standing' && requestId !== shot.number) problems.push(`the end is told of request ${String(requestId)}`)
    if (!Number.isInteger(bytes)) problems.push(`${bytes} bytes`)
    if (cause === 'crash') problems.push('it crashed')
  }
  if (answer.answered && closed === 'disconnect') problems.push('it was answered, and the server takes it for lost')
  if (disturbed) return problems

  if (began === 'yes' && entry.began === 0) problems.push('it never began')
  for (const cause of ended) if (!causes.includes(cause)) problems.push(`it ended with ${cause}, and not with ${causes.join(' or ')}`)
  if (whole && !answer.whole) problems.push(`its response is not whole: status ${answer.status}, ${answer.events} events`)
  const due200 = whole && shot.way !== 'cancel' && !(shot.stage === 'closing') && shot.kind !== 'standing'
  if (due200 && !answer.answered) problems.push(`it has no answer: status ${answer.status}, ${answer.events} events`)
  if (shot.way === 'resume' && !answer.answered) problems.push('the answer could not be read on')
  if (shot.way === 'cancel' && answer.answered) problems.push('it was cancelled, and answered')
  const refused = began !== 'no' && answer.status !== undefined && ![200, 202, 204].includes(answer.status)
  if (refused) problems.push(`it was answered with status ${answer.status}, over ${plan.http2 ? 'HTTP/2' : 'HTTP/1.1'}`)
  return problems
}
