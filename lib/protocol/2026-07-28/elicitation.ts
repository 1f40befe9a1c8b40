import { Type } from '@sinclair/typebox'
import { dictionary, named, oneOf, type Wire } from './wire.js'

const text = Type.Optional(Type.String())
const count = Type.Optional(Type.Integer())
const number = Type.Optional(Type.Number())
const strings = Type.Array(Type.String())
const label = { title: text, description: text }

/** A line of text. */
export const StringSchema = Type.Object({
  ...label,
  type: Type.Literal('string'),
  minLength: count,
  maxLength: count,
  format: Type.Optional(oneOf('email', 'uri', 'date', 'date-time')),
  default: text
})
export interface StringSchema extends Wire<typeof StringSchema> {}

/** A number, or a whole number. */
export const NumberSchema = Type.Object({
  ...label,
  type: oneOf('number', 'integer'),
  minimum: number,
  maximum: number,
  default: number
})
export interface NumberSchema extends Wire<typeof NumberSchema> {}

/** Yes or no. */
export const BooleanSchema = Type.Object({ ...label, type: Type.Literal('boolean'), default: Type.Optional(Type.Boolean()) })
export interface BooleanSchema extends Wire<typeof BooleanSchema> {}

const titledChoices = Type.Array(Type.Object({ const: Type.String(), title: Type.String() }))
const single = { ...label, type: Type.Literal('string'), default: text }
const multi = { ...label, type: Type.Literal('array'), minItems: count, maxItems: count, default: Type.Optional(strings) }

/** One of some strings. */
export const UntitledSingleSelectEnumSchema = Type.Object({ ...single, enum: strings })
export interface UntitledSingleSelectEnumSchema extends Wire<typeof UntitledSingleSelectEnumSchema> {}

/** One of some strings that are shown under titles. */
export const TitledSingleSelectEnumSchema = Type.Object({ ...single, oneOf: titledChoices })
export interface TitledSingleSelectEnumSchema extends Wire<typeof TitledSingleSelectEnumSchema> {}

/** Any of some strings. */
export const UntitledMultiSelectEnumSchema = Type.Object({ ...multi, items: Type.Object({ type: Type.Literal('string'), enum: strings }) })
export interface UntitledMultiSelectEnumSchema extends Wire<typeof UntitledMultiSelectEnumSchema> {}

/** Any of some strings that are shown under titles. */
export const TitledMultiSelectEnumSchema = Type.Object({ ...multi, items: Type.Object({ anyOf: titledChoices }) })
export interface TitledMultiSelectEnumSchema extends Wire<typeof TitledMultiSelectEnumSchema> {}

/** One of some strings, with its titles in a list beside them: an older form. */
export const LegacyTitledEnumSchema = Type.Object({ ...single, enum: strings, enumNames: Type.Optional(strings) })
export interface LegacyTitledEnumSchema extends Wire<typeof LegacyTitledEnumSchema> {}

/** One choice. */
export type SingleSelectEnumSchema = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
export const SingleSelectEnumSchema = named<SingleSelectEnumSchema>(Type.Union([UntitledSingleSelectEnumSchema, TitledSingleSelectEnumSchema]))

/** Several choices. */
export type MultiSelectEnumSchema = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
export const MultiSelectEnumSchema = named<MultiSelectEnumSchema>(Type.Union([UntitledMultiSelectEnumSchema, TitledMultiSelectEnumSchema]))

/** A choice of any kind. */
export type EnumSchema = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema
export const EnumSchema = named<EnumSchema>(Type.Union([SingleSelectEnumSchema, MultiSelectEnumSchema, LegacyTitledEnumSchema]))

/** One field of a form. */
export type PrimitiveSchemaDefinition = StringSchema | NumberSchema | BooleanSchema | EnumSchema
export const PrimitiveSchemaDefinition = named<PrimitiveSchemaDefinition>(Type.Union([EnumSchema, StringSchema, NumberSchema, BooleanSchema]))

/** Asks the user to fill in a form: a flat object of fields. */
export const ElicitRequestFormParams = Type.Object({
  mode: Type.Optional(Type.Literal('form')),
  message: Type.String(),
  requestedSchema: Type.Object({
    $schema: text,
    type: Type.Literal('object'),
    properties: dictionary<PrimitiveSchemaDefinition>(PrimitiveSchemaDefinition),
    required: Type.Optional(strings)
  })
})
export interface ElicitRequestFormParams extends Wire<typeof ElicitRequestFormParams> {}

/** Asks the user to open a page. */
export const ElicitRequestURLParams = Type.Object({ mode: Type.Literal('url'), message: Type.String(), url: Type.String() })
export interface ElicitRequestURLParams extends Wire<typeof ElicitRequestURLParams> {}

/** Asks the user, one way or the other. */
export type ElicitRequestParams = ElicitRequestFormParams | ElicitRequestURLParams
export const ElicitRequestParams = named<ElicitRequestParams>(Type.Union([ElicitRequestFormParams, ElicitRequestURLParams]))

/** A question to the user. */
export const ElicitRequest = Type.Object({ method: Type.Literal('elicitation/create'), params: ElicitRequestParams })
export interface ElicitRequest extends Wire<typeof ElicitRequest> {}

/** What the user did; `content` comes with an accepted form alone. */
export const ElicitResult = Type.Object({
  action: oneOf('accept', 'decline', 'cancel'),
  content: Type.Optional(dictionary<string | number | boolean | readonly string[]>(
    Type.Union([Type.String(), Type.Number(), Type.Boolean(), strings])
  ))
})
export interface ElicitResult extends Wire<typeof ElicitResult> {}
