/** The variables of an RFC 6570 template: `{id}` and `{+path}` a string, `{list*}` strings, `{?q}` optional. */
export type TemplateVars<T extends string> = Simplify<
  { readonly [V in RequiredVars<T> as VarName<V>]: VarValue<V> } & { readonly [V in OptionalVars<T> as VarName<V>]?: VarValue<V> }
>

type Simplify<T> = { readonly [K in keyof T]: T[K] }
type Expressions<T extends string> = T extends `${string}{${infer E}}${infer Rest}` ? E | Expressions<Rest> : never
type Split<T extends string> = T extends `${infer Head},${infer Rest}` ? Head | Split<Rest> : T
type OptionalVars<T extends string> = Expressions<T> extends infer E ? E extends `${'?' | '&'}${infer List}` ? Split<List> : never : never
type RequiredVars<T extends string> = Exclude<Expressions<T>, `${'?' | '&'}${string}`> extends infer E extends string
  ? E extends `${'+' | '#' | '.' | '/' | ';'}${infer List}` ? Split<List> : Split<E>
  : never
type VarName<V extends string> = V extends `${infer Name}*` | `${infer Name}:${string}` ? Name : V
type VarValue<V extends string> = V extends `${string}*` ? readonly string[] : string
