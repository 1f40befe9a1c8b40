import { Type } from '@sinclair/typebox'
import { JsonObject, RequestId } from './base.js'
import { ErrorObject } from './errors.js'
import { Result } from './result.js'
import { named, type Wire } from './wire.js'

/** The version that every message names. */
export const JSONRPC_VERSION = '2.0'

const jsonrpc = Type.Literal(JSONRPC_VERSION)

/** A request: it has an id and gets exactly one response. */
export const JSONRPCRequest = Type.Object({ jsonrpc, id: RequestId, method: Type.String(), params: Type.Optional(JsonObject) })
export interface JSONRPCRequest extends Wire<typeof JSONRPCRequest> {}

/** A notification: nobody answers it. That it has no id is for the reader to check, since unknown members are tolerated. */
export const JSONRPCNotification = Type.Object({ jsonrpc, method: Type.String(), params: Type.Optional(JsonObject) })
export interface JSONRPCNotification extends Wire<typeof JSONRPCNotification> {}

/** The response to a request that went well. */
export const JSONRPCResultResponse = Type.Object({ jsonrpc, id: RequestId, result: named<Result>(Result) })
export interface JSONRPCResultResponse extends Wire<typeof JSONRPCResultResponse> {}

/** The response to one that did not; it has no id where none could be read. */
export const JSONRPCErrorResponse = Type.Object({ jsonrpc, id: Type.Optional(RequestId), error: named<ErrorObject>(ErrorObject) })
export interface JSONRPCErrorResponse extends Wire<typeof JSONRPCErrorResponse> {}

/** Either response. */
export type JSONRPCResponse = JSONRPCResultResponse | JSONRPCErrorResponse
export const JSONRPCResponse = named<JSONRPCResponse>(Type.Union([JSONRPCResultResponse, JSONRPCErrorResponse]))

/** Anything that is sent. */
export type JSONRPCMessage = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse
export const JSONRPCMessage = named<JSONRPCMessage>(Type.Union([JSONRPCRequest, JSONRPCNotification, JSONRPCResponse]))
