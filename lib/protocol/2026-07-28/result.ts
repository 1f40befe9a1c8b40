import { Type } from '@sinclair/typebox'
import { Cursor } from './base.js'
import { ResultMetaObject } from './meta.js'
import { oneOf, type Wire } from './wire.js'

/** Any result. Other types than `complete` and `input_required` belong to extensions. */
export const Result = Type.Object({ resultType: Type.String(), _meta: Type.Optional(ResultMetaObject) })
export interface Result extends Wire<typeof Result> {}

/** The members of every result that answers its request. */
export const complete = { resultType: Type.Literal('complete'), _meta: Type.Optional(ResultMetaObject) }

/** The members of a result that may be kept for a while. */
export const cacheable = { ...complete, cacheScope: oneOf('public', 'private'), ttlMs: Type.Integer({ minimum: 0 }) }

/** The members of one page of a list. */
export const page = { ...cacheable, nextCursor: Type.Optional(Cursor) }

/** A result that answers its request. */
export const ResultBase = Type.Object(complete)
export interface ResultBase extends Wire<typeof ResultBase> {}

/** A result that says no more than that it is one. */
export const EmptyResult = ResultBase
export type EmptyResult = ResultBase

/** A result that may be kept for `ttlMs`. */
export const CacheableResult = Type.Object(cacheable)
export interface CacheableResult extends Wire<typeof CacheableResult> {}

/** A result that may be one page of many, and may be kept. */
export const PageResult = Type.Object(page)
export interface PageResult extends Wire<typeof PageResult> {}

/** A page without the cache hints, which all lists have besides. */
export const PaginatedResult = Type.Object({ ...complete, nextCursor: Type.Optional(Cursor) })
export interface PaginatedResult extends Wire<typeof PaginatedResult> {}
