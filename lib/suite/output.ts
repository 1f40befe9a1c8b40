import { toolResult, type JsonSchema } from '../protocol/index.js'
import { describe } from './arguments.js'
import { itemSchema } from './definition.js'
import { compile, isSchema } from '../json-schema.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Validate } from '../schema.js'
import type { CallToolResult } from '../../types/results.js'

/** What may speak of members that `properties` does not name. */
const OPENS = [
  'additionalProperties', 'unevaluatedProperties', 'patternProperties', 'allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'dependentSchemas', '$ref', '$dynamicRef'
]

/** What a tool promised to answer with. */
export class Output {
  readonly #owner: string
  readonly #schema: JsonSchema
  readonly #strips: boolean
  readonly #validate: Validate

  constructor (owner: string, schema: JsonSchema, strips: boolean) {
    this.#owner = owner
    this.#schema = schema
    this.#strips = strips
    this.#validate = compile(schema, owner, 'output')
  }

  /** The result if it keeps the promise; else a failure, since that is our fault: the log says where, the client that it failed. */
  check (result: CallToolResult, log: FastifyBaseLogger): CallToolResult {
    if (result.isError === true) return result
    const { structuredContent } = result
    const content = this.#strips ? strip(this.#schema, structuredContent) : structuredContent
    if (content !== undefined && this.#validate(content)) return content === structuredContent ? result : withContent(result, content)
    const issues = content === undefined ? [{ path: '/', message: 'there is no structured content' }] : describe(this.#validate, content)
    log.error({ mcp: { issues } }, `${this.#owner} answered with what does not fit its output`)
    return toolResult.error('The tool failed: its result is not what it promises.')
  }
}

/** The result with other structured content, and the mirror of the old one in its text brought along. */
function withContent (result: CallToolResult, structuredContent: unknown): CallToolResult {
  const before = JSON.stringify(result.structuredContent)
  const content = result.content.map(block => block.type === 'text' && block.text === before ? { ...block, text: JSON.stringify(structuredContent) } : block)
  return { ...result, content, structuredContent }
}

/** A value without the members that its schema does not name. Where it speaks of others in another way, they may be meant, and stay. */
function strip (schema: JsonSchema, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item, index) => stripAs(itemSchema(schema, index), item))
  const { properties } = schema
  if (!isSchema(value) || !isSchema(properties)) return value
  const open = OPENS.some(keyword => schema[keyword] !== undefined && schema[keyword] !== false)
  const kept = Object.entries(value).filter(([name]) => open || Object.hasOwn(properties, name))
  return Object.fromEntries(kept.map(([name, member]) => [name, stripAs(Object.hasOwn(properties, name) ? properties[name] : undefined, member)]))
}

function stripAs (schema: unknown, value: unknown): unknown {
  return isSchema(schema) ? strip(schema, value) : value
}
