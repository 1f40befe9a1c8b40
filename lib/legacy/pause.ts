import type { FastifyRequest } from 'fastify'
import type { Channel } from '../../types/channel.js'
import type { Output } from './output.js'

/** The outputs of requests, for whoever has a channel. */
const outputs = new WeakMap<FastifyRequest, Output>()

export function rememberOutput (httpRequest: FastifyRequest, output: Output): void {
  outputs.set(httpRequest, output)
}

/**
 * Ends the connection of a call that takes long, and not the call: the client is told to come back after `retry` ms (default: the option `retry`) and is
 * then sent what it missed. False, with nothing done, for a client that would not: only those of 2025-11-25 do, where events are kept (2025-11-25,
 * Transports, Sending Messages).
 */
export function pauseStream ({ httpRequest }: Pick<Channel<never>, 'httpRequest'>, retry?: number): boolean {
  return outputs.get(httpRequest)?.pause(retry) ?? false
}
