import { Type, type Static, type TArray, type TObject, type TSchema, type TUnion, type TUnsafe } from '@sinclair/typebox'

/** The readonly form of a schema's `Static` type. What the schema names with `named` keeps its name. */
export type Wire<S extends TSchema> =
  S extends TArray<infer Item> ? readonly Wire<Item>[]
    : S extends TUnion<infer Members> ? Wire<Members[number]>
      : S extends TObject<infer Members> ? WireMembers<Static<S>, Members>
        : Static<S>

// Homomorphic over the Static type, so that optional members stay optional.
type WireMembers<T, Members> = {
  readonly [Name in keyof T]: Name extends keyof Members ? Members[Name] extends TSchema ? Wire<Members[Name]> : never : never
}

/** A schema under the name of its type: editors, error texts and declaration files then say `Icon`, not what an icon is made of. */
export function named<T> (schema: TSchema): TUnsafe<T> {
  return Type.Unsafe<T>(schema)
}

/** One of a few strings. */
export function oneOf<const T extends string> (...values: T[]): TUnsafe<T> {
  return Type.Unsafe<T>(Type.Union(values.map(value => Type.Literal(value))))
}

// Matches every key. The pattern of a plain Type.String() ends at a line break, and members whose key has one would go unchecked.
const anyKey = Type.String({ pattern: '^' })

/** An object whose members all fit one schema. */
export function dictionary<T> (members: TSchema): TUnsafe<{ readonly [key: string]: T }> {
  return Type.Unsafe<{ readonly [key: string]: T }>(Type.Record(anyKey, members))
}
