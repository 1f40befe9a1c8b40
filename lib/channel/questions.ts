import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import type { TSchema } from '@sinclair/typebox'
import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { CreateMessageParams, CreateMessageResult, ElicitResult, ListRootsResult, type ClientCapabilities, type JsonObject, type Root } from '../protocol/index.js'
import { fitsJsonSchema } from '../schema.js'
import { readForm } from './form.js'
import type { FormResponse, InputRequest } from '../../types/input.js'
import type { Schema } from '../../types/schema.js'

/** What one kind of question asks of the client, and of its answer. */
interface Kind {
  readonly needs: (params: JsonObject) => ClientCapabilities
  readonly fits: (response: unknown, params: JsonObject) => boolean
}

const elicitResult = TypeCompiler.Compile(ElicitResult)
const messageParams = TypeCompiler.Compile(CreateMessageParams as TSchema)
const messageResult = TypeCompiler.Compile(CreateMessageResult as TSchema)
const rootsResult = TypeCompiler.Compile(ListRootsResult as TSchema)

const kinds = new Map<string, Kind>([
  ['elicitation/create', {
    needs: ({ mode }) => mode === 'url' ? { elicitation: { url: {} } } : { elicitation: { form: {} } },
    fits: (response, params) => elicitResult.Check(response) && (response.action !== 'accept' || params['mode'] === 'url' || fitsForm(response.content, params))
  }],
  ['sampling/createMessage', {
    needs: ({ tools, toolChoice, includeContext }) => ({
      sampling: {
        ...((tools ?? toolChoice) !== undefined && { tools: {} }),
        ...(includeContext !== undefined && includeContext !== 'none' && { context: {} })
      }
    }),
    fits: response => messageResult.Check(response)
  }],
  ['roots/list', {
    needs: () => ({ roots: {} }),
    fits: response => check(rootsResult, response) && (response as { roots: readonly Root[] }).roots.every(({ uri }) => uri.startsWith('file://'))
  }]
])

/** A flat form: strings, numbers, booleans, choices; anything else throws MCP_ERR_BAD_PROVIDER. Never for secrets (2026-07-28, Elicitation). */
export function elicitForm<Content = JsonObject> (message: string, schema: Schema<Content>): InputRequest<FormResponse<Content>> {
  return question('elicitation/create', { mode: 'form', message, requestedSchema: readForm(schema) })
}

/**
 * A page of yours. 'accept': the user agreed to open it, not: is done there. The URL must hold no credentials and no personal data, and whoever opens it
 * must be checked to be the user who was asked (2026-07-28, Elicitation, Security). What is no absolute http or https URL throws MCP_ERR_BAD_PROVIDER.
 */
export function elicitUrl (message: string, url: string | URL): InputRequest<{ readonly action: 'accept' | 'decline' | 'cancel' }> {
  const href = String(url)
  if (!URL.canParse(href) || !/^https?:/i.test(href)) throw new MCP_ERR_BAD_PROVIDER('elicitUrl', `was given ${JSON.stringify(href)}, which is no http or https URL`)
  return question('elicitation/create', { mode: 'url', message, url: href })
}

/** @deprecated in 2026-07-28, with sampling */
export function createMessage (params: CreateMessageParams): InputRequest<CreateMessageResult> {
  if (!messageParams.Check(params)) throw new MCP_ERR_BAD_PROVIDER('createMessage', `was given params that do not fit: ${messageParams.Errors(params).First()?.path ?? ''}`)
  checkToolUse(params)
  // Params as checked are JSON.
  return question('sampling/createMessage', params as unknown as JsonObject)
}

/** @deprecated in 2026-07-28, with roots */
export function listRoots (): InputRequest<{ readonly roots: readonly Root[] }> {
  return question('roots/list', {})
}

/** The capabilities that a question needs of the client; undefined for what no function here made. */
export function needsOf ({ method, params }: InputRequest): ClientCapabilities | undefined {
  return kinds.get(method)?.needs(params)
}

/** Whether a response answers its question. Clients made it, so that nothing is taken for granted. */
export function answers ({ method, params }: InputRequest, response: unknown): boolean {
  return kinds.get(method)?.fits(response, params) ?? false
}

function question<Response> (method: string, params: JsonObject): InputRequest<Response> {
  // The member for the response's type is a phantom.
  return Object.freeze({ method, params }) as InputRequest<Response>
}

function fitsForm (content: unknown, { requestedSchema }: JsonObject): boolean {
  return content !== undefined && fitsJsonSchema(requestedSchema as JsonObject, content)
}

function check (schema: TypeCheck<TSchema>, value: unknown): boolean {
  return schema.Check(value)
}

/** 2026-07-28, Sampling, Tool use: results stand alone in a user message, and answer the uses of the message before, each once. */
function checkToolUse ({ messages }: CreateMessageParams): void {
  let open: readonly string[] = []
  for (const { role, content } of messages) {
    const blocks = Array.isArray(content) ? content : [content]
    const results = blocks.flatMap(block => block.type === 'tool_result' ? [block.toolUseId as string] : [])
    if (results.length > 0 && (role !== 'user' || results.length < blocks.length)) throw badMessages('has a message that mixes tool results with anything else')
    if ([...open].sort().join('\n') !== [...results].sort().join('\n')) throw badMessages('has tool uses and results that do not match')
    open = blocks.flatMap(block => block.type === 'tool_use' ? [block.id as string] : [])
    if (open.length > 0 && role !== 'assistant') throw badMessages('has a tool use that is not the assistant\'s')
  }
  if (open.length > 0) throw badMessages('has a tool use without its result')
}

function badMessages (problem: string): Error {
  return new MCP_ERR_BAD_PROVIDER('createMessage', problem)
}
