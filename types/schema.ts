import type { JsonSchema } from '../lib/protocol/index.js'

export type Awaitable<T> = T | Promise<T>

export type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T

/** A TypeBox schema, known by its phantom members: any copy and module format of TypeBox 0.34 will do. */
export interface TypeBoxSchema<T = unknown> { readonly static: T; readonly params: unknown[] }

/** A Standard Schema that can also give its JSON Schema. */
export interface StandardSchema<T = unknown> {
  readonly '~standard': {
    readonly validate: (value: unknown) => Awaitable<{ readonly value?: unknown; readonly issues?: readonly { readonly message: string }[] | undefined }>
    readonly jsonSchema: Record<'input' | 'output', (options: { readonly target: 'draft-2020-12' }) => JsonSchema>
    readonly types?: { readonly output: T } | undefined
  }
}

/** Where a type is inferred from. A plain JSON Schema infers nothing: the default of the type parameter holds. */
export type Schema<T> = TypeBoxSchema<T> | StandardSchema<T> | JsonSchema
