import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { TSchema } from '@sinclair/typebox'
import { MCP_ERR_BAD_PROVIDER } from '../errors.js'
import { CreateMessageParams, CreateMessageResult, ElicitResult, ListRootsResult, type ClientCapabilities, type JsonObject, type JsonSchema, type JsonValue, type Root } from '../protocol/index.js'
import { firstProblem, fitsJsonSchema } from '../schema.js'
import { readForm } from './form.js'
import { isObject } from '../decode/envelope.js'
import type { FormResponse, InputRequest } from '../../types/input.js'
import type { Schema } from '../../types/schema.js'

/** What one kind of question asks of the client, and of its answer. */
interface Kind {
  readonly needs: (params: JsonObject) => ClientCapabilities
  /** The answer without what was not asked; undefined for what is none. */
  readonly read: (response: JsonValue, question: InputRequest) => JsonValue | undefined
}

const elicitResult = TypeCompiler.Compile(ElicitResult)
const messageParams = TypeCompiler.Compile(CreateMessageParams as TSchema)
const messageResult = TypeCompiler.Compile(CreateMessageResult as TSchema)
const rootsResult = TypeCompiler.Compile(ListRootsResult as TSchema)

/** What the author's own schema of a form says. */
const schemas = new WeakMap<InputRequest, JsonSchema>()

const kinds = new Map<string, Kind>([
  ['elicitation/create', {
    needs: ({ mode }) => mode === 'url' ? { elicitation: { url: {} } } : { elicitation: { form: {} } },
    read (response, question) {
      if (!elicitResult.Check(response)) return undefined
      const { action, content } = response
      return action !== 'accept' || question.params['mode'] === 'url' ? { action } : readContent(content, question)
    }
  }],
  ['sampling/createMessage', {
    needs: ({ tools, toolChoice, includeContext }) => ({
      sampling: {
        ...((tools ?? toolChoice) !== undefined && { tools: {} }),
        ...(includeContext !== undefined && includeContext !== 'none' && { context: {} })
      }
    }),
    read: response => messageResult.Check(response) ? pick(response, ['role', 'content', 'model', 'stopReason', '_meta']) : undefined
  }],
  ['roots/list', {
    needs: () => ({ roots: {} }),
    read: response => rootsResult.Check(response) ? { roots: (response as { roots: readonly JsonValue[] }).roots.map(root => pick(root, ['uri', 'name', '_meta'])) } : undefined
  }]
])

/** A flat form: strings, numbers, booleans, choices; anything else throws MCP_ERR_BAD_PROVIDER. Never for secrets (2026-07-28, Elicitation). */
export function elicitForm<Content = JsonObject> (message: string, schema: Schema<Content>): InputRequest<FormResponse<Content>> {
  const form = readForm(schema)
  const asked = question<FormResponse<Content>>('elicitation/create', { mode: 'form', message, requestedSchema: form.requestedSchema })
  schemas.set(asked, form.schema)
  return asked
}

/**
 * A page of yours. 'accept': the user agreed to open it, not: is done there. The URL must hold no credentials and no personal data, and whoever opens it
 * must be checked to be the user who was asked (2026-07-28, Elicitation, Security). What is no absolute http or https URL throws MCP_ERR_BAD_PROVIDER.
 */
export function elicitUrl (message: string, url: string | URL): InputRequest<{ readonly action: 'accept' | 'decline' | 'cancel' }> {
  const href = String(url)
  if (!URL.canParse(href) || !/^https?:/i.test(href)) throw new MCP_ERR_BAD_PROVIDER('elicitUrl', `was given ${JSON.stringify(href)}, which is no http or https URL`)
  const { username, password } = new URL(href)
  if (username !== '' || password !== '') throw new MCP_ERR_BAD_PROVIDER('elicitUrl', 'was given a URL with credentials in it')
  return question('elicitation/create', { mode: 'url', message, url: href })
}

/** @deprecated in 2026-07-28, with sampling */
export function createMessage (params: CreateMessageParams): InputRequest<CreateMessageResult> {
  if (!messageParams.Check(params)) throw badMessages(`was given params that do not fit: ${firstProblem(messageParams, params).path}`)
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

/** The answer that a response is to a question, or undefined. Clients made it, so that nothing is taken for granted. */
export function readAnswer (question: InputRequest, response: JsonValue | undefined): JsonValue | undefined {
  return response === undefined ? undefined : kinds.get(question.method)?.read(response, question)
}

function question<Response> (method: string, params: JsonObject): InputRequest<Response> {
  // The member for the response's type is a phantom.
  return Object.freeze({ method, params }) as InputRequest<Response>
}

/** The fields that were asked for, if they are what the form and the author's own schema want. */
function readContent (content: unknown, question: InputRequest): JsonValue | undefined {
  const { requestedSchema } = question.params as { readonly requestedSchema: JsonObject & { readonly properties: JsonObject } }
  if (!isObject(content)) return undefined
  const fields = pick(content, Object.keys(requestedSchema.properties))
  const fits = fitsJsonSchema(requestedSchema, fields) && fitsJsonSchema(schemas.get(question) ?? requestedSchema, fields)
  return fits ? { action: 'accept', content: fields } : undefined
}

/** Some of the own members of an object, which has been checked to be one. */
function pick (object: unknown, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object as JsonObject).filter(([name]) => names.includes(name)))
}

/** 2026-07-28, Sampling, Tool use: results stand alone in a user message, and answer the uses of the message before, each once. */
function checkToolUse ({ messages }: CreateMessageParams): void {
  let open: readonly string[] = []
  for (const { role, content } of messages) {
    const blocks = Array.isArray(content) ? content : [content]
    const results = blocks.flatMap(block => block.type === 'tool_result' ? [block.toolUseId as string] : [])
    if (results.length > 0 && (role !== 'user' || results.length < blocks.length)) throw badMessages('has a message that mixes tool results with anything else')
    if (JSON.stringify([...open].sort()) !== JSON.stringify([...results].sort())) throw badMessages('has tool uses and results that do not match')
    open = blocks.flatMap(block => block.type === 'tool_use' ? [block.id as string] : [])
    if (open.length > 0 && role !== 'assistant') throw badMessages('has a tool use that is not the assistant\'s')
  }
  if (open.length > 0) throw badMessages('has a tool use without its result')
}

function badMessages (problem: string): Error {
  return new MCP_ERR_BAD_PROVIDER('createMessage', problem)
}
