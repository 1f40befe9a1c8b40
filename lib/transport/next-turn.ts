import { AsyncResource } from 'node:async_hooks'

export interface Waiting { nextTurn (): void }

let waiting: Waiting[] = []
/** In no request's asynchronous context: it is for all that began in one turn. */
const tellAll = AsyncResource.bind(() => {
  const all = waiting
  waiting = []
  for (const one of all) one.nextTurn()
})

/** Calls back in the next turn of the event loop. One immediate serves all of a turn. */
export function inNextTurn (one: Waiting): void {
  if (waiting.push(one) === 1) setImmediate(tellAll)
}
