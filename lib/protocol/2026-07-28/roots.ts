import { Type } from '@sinclair/typebox'
import { MetaObject } from './base.js'
import { named, type Wire } from './wire.js'

/** A directory or file that the client works on; its URI begins with `file://`. */
export const Root = Type.Object({
  uri: Type.String({ pattern: '^file://' }),
  name: Type.Optional(Type.String()),
  _meta: Type.Optional(MetaObject)
})
export interface Root extends Wire<typeof Root> {}

/** Asks for the client's roots. */
export const ListRootsRequest = Type.Object({
  method: Type.Literal('roots/list'),
  params: Type.Optional(Type.Object({ _meta: Type.Optional(MetaObject) }))
})
export interface ListRootsRequest extends Wire<typeof ListRootsRequest> {}

/** The roots. */
export const ListRootsResult = Type.Object({ roots: Type.Array(named<Root>(Root)) })
export interface ListRootsResult extends Wire<typeof ListRootsResult> {}
