import { McpError } from '../errors.js'
import { badReturn, result } from '../outcome.js'
import { completeResult } from '../protocol/index.js'
import { findPrompt, type AnyPrompt } from './prompts.js'
import { findResource, type ResourcesEntry } from './resources.js'
import type { Catalog } from './catalog.js'
import type { RequestContext } from '../../types/channel.js'
import type { RequestOutcome } from '../../types/outcome.js'
import type { Completer } from '../../types/providers.js'
import type { CompleteRequest } from '../../types/request.js'

/** Suggests values of one argument of a prompt, or of one variable of a template (2026-07-28, Completion). */
export async function complete (
  { params: { ref, argument, context: { arguments: others } } }: CompleteRequest, context: RequestContext,
  prompts: Catalog<AnyPrompt>, resources: Catalog<ResourcesEntry>
): Promise<RequestOutcome<never, 'completion/complete'>> {
  const completer = ref.type === 'ref/prompt'
    ? (await findPrompt(prompts, ref.name, context)).completer(argument.name)
    : await completerOf(resources, ref.uri, argument.name, context)
  if (completer === null) throw new McpError({ kind: 'invalidParams', issues: [{ path: 'argument.name', message: `is ${JSON.stringify(argument.name.slice(0, 100))}, which there is not` }] })
  const values: unknown = completer === undefined ? [] : await completer(argument.value, others, context)
  if (!isStrings(values)) throw badReturn(`The completer of ${argument.name}`, values)
  return result(completeResult(values, values.length > 100 ? { total: values.length } : {}))
}

function isStrings (values: unknown): values is readonly string[] {
  return Array.isArray(values) && values.every(value => typeof value === 'string')
}

/** Of a template, named by itself or by one of its URIs. */
async function completerOf (catalog: Catalog<ResourcesEntry>, uri: string, variable: string, context: RequestContext): Promise<Completer | undefined | null> {
  const named = await catalog.search(entry => entry.template?.uriTemplate === uri, context)
  const entry = named ?? (await findResource(catalog, uri, context)).entry
  return entry.variables.includes(variable) ? entry.completer(variable) : null
}
