import { Type } from '@sinclair/typebox'
import { RequestId } from './base.js'
import { ClientCapabilities } from './capabilities.js'
import { named, type Wire } from './wire.js'

/** The code of ParseError. */
export const PARSE_ERROR = -32700
/** The code of InvalidRequestError. */
export const INVALID_REQUEST = -32600
/** The code of MethodNotFoundError. */
export const METHOD_NOT_FOUND = -32601
/** The code of InvalidParamsError. */
export const INVALID_PARAMS = -32602
/** The code of InternalError. */
export const INTERNAL_ERROR = -32603
/** The code of HeaderMismatchError. */
export const HEADER_MISMATCH = -32020
/** The code of MissingRequiredClientCapabilityError. */
export const MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
/** The code of UnsupportedProtocolVersionError. */
export const UNSUPPORTED_PROTOCOL_VERSION = -32022

const text = { message: Type.String() }
const anyData = { data: Type.Optional(Type.Unknown()) }

/** The `error` of a response; the specification's name, Error, is taken in JavaScript. */
export const ErrorObject = Type.Object({ code: Type.Integer(), ...text, ...anyData })
export interface ErrorObject extends Wire<typeof ErrorObject> {}

/** What was sent is not JSON. */
export const ParseError = Type.Object({ code: Type.Literal(PARSE_ERROR), ...text, ...anyData })
export interface ParseError extends Wire<typeof ParseError> {}

/** What was sent is no request. */
export const InvalidRequestError = Type.Object({ code: Type.Literal(INVALID_REQUEST), ...text, ...anyData })
export interface InvalidRequestError extends Wire<typeof InvalidRequestError> {}

/** There is no such method here. */
export const MethodNotFoundError = Type.Object({ code: Type.Literal(METHOD_NOT_FOUND), ...text, ...anyData })
export interface MethodNotFoundError extends Wire<typeof MethodNotFoundError> {}

/** The params do not fit the method, or name what does not exist. */
export const InvalidParamsError = Type.Object({ code: Type.Literal(INVALID_PARAMS), ...text, ...anyData })
export interface InvalidParamsError extends Wire<typeof InvalidParamsError> {}

/** The server failed. */
export const InternalError = Type.Object({ code: Type.Literal(INTERNAL_ERROR), ...text, ...anyData })
export interface InternalError extends Wire<typeof InternalError> {}

// The three errors of the revision itself are described as whole responses.
const response = { jsonrpc: Type.Literal('2.0'), id: Type.Optional(RequestId) }

/** A header and the body disagree. */
export const HeaderMismatchError = Type.Object({
  ...response,
  error: Type.Object({ code: Type.Literal(HEADER_MISMATCH), ...text, ...anyData })
})
export interface HeaderMismatchError extends Wire<typeof HeaderMismatchError> {}

/** The client did not declare what this request needs. */
export const MissingRequiredClientCapabilityError = Type.Object({
  ...response,
  error: Type.Object({
    code: Type.Literal(MISSING_REQUIRED_CLIENT_CAPABILITY),
    ...text,
    data: Type.Object({ requiredCapabilities: named<ClientCapabilities>(ClientCapabilities) })
  })
})
export interface MissingRequiredClientCapabilityError extends Wire<typeof MissingRequiredClientCapabilityError> {}

/** The client asks in a revision that is not spoken here. */
export const UnsupportedProtocolVersionError = Type.Object({
  ...response,
  error: Type.Object({
    code: Type.Literal(UNSUPPORTED_PROTOCOL_VERSION),
    ...text,
    data: Type.Object({ supported: Type.Array(Type.String()), requested: Type.String() })
  })
})
export interface UnsupportedProtocolVersionError extends Wire<typeof UnsupportedProtocolVersionError> {}
