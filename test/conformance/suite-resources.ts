import { defineResources, type ResourceProvider } from '../../lib/index.js'
import { readData, readListed, resources, template } from './resources.js'

/** The template goes first: what it does not fit is looked for in the list, whose prefix all have. */
export const suiteResources: readonly ResourceProvider[] = [
  defineResources({ template, read: ({ uri, vars: { id } }) => readData(uri, id) }),
  defineResources({ prefix: 'test://', list: () => ({ items: resources }), read: ({ uri }) => readListed(uri) ?? null })
]
