import { Type } from '@sinclair/typebox'
import { Annotations, described, MetaObject } from './base.js'
import { cacheable, page } from './result.js'
import { named, type Wire } from './wire.js'

const typed = {
  mimeType: Type.Optional(Type.String()),
  annotations: Type.Optional(named<Annotations>(Annotations))
}

/** The members of a resource, which a link to one has too. */
export const resource = { ...described, ...typed, uri: Type.String(), size: Type.Optional(Type.Integer()) }

/** Something that can be read; `size` counts its raw bytes. */
export const Resource = Type.Object(resource)
export interface Resource extends Wire<typeof Resource> {}

/** Many resources at once, under one RFC 6570 template. */
export const ResourceTemplate = Type.Object({ ...described, ...typed, uriTemplate: Type.String() })
export interface ResourceTemplate extends Wire<typeof ResourceTemplate> {}

const contents = {
  uri: Type.String(),
  mimeType: Type.Optional(Type.String()),
  _meta: Type.Optional(MetaObject)
}

/** What a resource of text contains. */
export const TextResourceContents = Type.Object({ ...contents, text: Type.String() })
export interface TextResourceContents extends Wire<typeof TextResourceContents> {}

/** What any other resource contains, in Base64. */
export const BlobResourceContents = Type.Object({ ...contents, blob: Type.String() })
export interface BlobResourceContents extends Wire<typeof BlobResourceContents> {}

/** What a resource contains. */
export type ResourceContents = TextResourceContents | BlobResourceContents
export const ResourceContents = named<ResourceContents>(Type.Union([TextResourceContents, BlobResourceContents]))

/** One page of the resources. */
export const ListResourcesResult = Type.Object({ ...page, resources: Type.Array(named<Resource>(Resource)) })
export interface ListResourcesResult extends Wire<typeof ListResourcesResult> {}

/** One page of the templates. */
export const ListResourceTemplatesResult = Type.Object({ ...page, resourceTemplates: Type.Array(named<ResourceTemplate>(ResourceTemplate)) })
export interface ListResourceTemplatesResult extends Wire<typeof ListResourceTemplatesResult> {}

/** What was read: one or, for a directory, several contents. */
export const ReadResourceResult = Type.Object({ ...cacheable, contents: Type.Array(ResourceContents) })
export interface ReadResourceResult extends Wire<typeof ReadResourceResult> {}
