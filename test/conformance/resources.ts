import { readResourceResult } from '../../lib/index.js'
import { png } from './samples.js'
import type { ReadResourceResult, Resource } from '../../lib/index.js'

/** What can be read at a URI of its own. The first one is read by whoever wants to read any. */
const contents = new Map([
  ['test://static-text', { mimeType: 'text/plain', text: 'This is the content of the static text resource.' }],
  ['test://static-binary', { mimeType: 'image/png', blob: png }],
  ['test://watched-resource', { mimeType: 'text/plain', text: 'This resource may be watched.' }]
])

export const resources: readonly Resource[] = [...contents].map(([uri, { mimeType }]) => ({
  uri, name: uri.slice('test://'.length), description: `A resource of type ${mimeType}`, mimeType
}))

export const template = {
  uriTemplate: 'test://template/{id}/data', name: 'template-data', description: 'Data of one id', mimeType: 'application/json'
} as const

/** Undefined: there is no such resource. */
export function readResource (uri: string): ReadResourceResult | undefined {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
  return id === undefined ? readListed(uri) : readData(uri, id)
}

/** One of the list; undefined: it is not there. */
export function readListed (uri: string): ReadResourceResult | undefined {
  const content = contents.get(uri)
  return content && readResourceResult({ uri, ...content })
}

/** One of the template. */
export function readData (uri: string, id: string): ReadResourceResult {
  return readResourceResult({ uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) })
}
