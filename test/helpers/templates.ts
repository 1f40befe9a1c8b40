import { normalizeUri, UriTemplate, type Vars } from '../../lib/suite/template.js'
import type { Test } from 'tap'

/** A URI as it is sent, and the variables that a template reads in it; undefined: it does not fit. */
export type Row = readonly [template: string, uri: string, vars: Vars | undefined]

/** The variables of a URI as it is sent; undefined if it does not fit. */
export function read (template: string, uri: string): Vars | undefined {
  const normal = normalizeUri(uri)
  return normal === undefined ? undefined : new UriTemplate(template).match(normal)
}

export function check (t: Test, rows: readonly Row[]): void {
  for (const [template, uri, vars] of rows) t.strictSame(read(template, uri), vars, `${uri} by ${template}`)
}
