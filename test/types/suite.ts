// Checked by compilers alone, never run: what the types of a Suite's providers are inferred from.
import { Type } from '@sinclair/typebox'
import { type } from 'arktype'
import { z } from 'zod'
import {
  createSuite, definePrompt, defineResources, defineTool, elicitForm, getPromptResult, inputRequired, readResourceResult, toolResult, type JsonObject, type Schema, type Suite
} from 'fastify-gen-mcp'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function same<A> () { return <B>(_value: B, _check: Equal<A, B>): void => {} }

// ---- one tool by each library

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)

export const byTypeBox = defineTool({
  name: 'typebox',
  input: Type.Object({ name: Type.String(), more: Type.Optional(Type.Array(Type.Number())) }),
  output: Type.Object({ total: Type.Number() }),
  call (args) {
    same<string>()(args.name, true)
    same<number[] | undefined>()(args.more, true)
    // @ts-expect-error no such member
    same<unknown>()(args.nane, true)
    return toolResult.data({ total: sum(args.more ?? []) })
  }
})
export const byZod = defineTool({
  name: 'zod',
  input: z.object({ name: z.string(), kind: z.enum(['a', 'b']).default('a'), when: z.iso.date().transform(text => new Date(text)) }),
  output: z.object({ total: z.number() }),
  call (args) {
    same<string>()(args.name, true)
    same<'a' | 'b'>()(args.kind, true)
    same<Date>()(args.when, true)
    // @ts-expect-error no such member
    same<unknown>()(args.nane, true)
    return toolResult.data({ total: 1 })
  }
})
export const byArkType = defineTool({
  name: 'arktype',
  input: type({ name: 'string > 0', n: 'number = 1', 'kind?': "'a' | 'b'", when: 'string.date.iso.parse', list: type({ at: 'number' }).array() }),
  output: type({ total: 'number' }),
  call (args) {
    same<string>()(args.name, true)
    same<number>()(args.n, true)
    same<Date>()(args.when, true)
    for (const { at } of args.list) same<number>()(at, true)
    if (args.kind !== undefined) same<'a' | 'b'>()(args.kind, true)
    // @ts-expect-error no such member
    same<unknown>()(args.nane, true)
    return toolResult.data({ total: args.n })
  }
})
export const byNone = defineTool({ name: 'none', call (args) { same<JsonObject>()(args, true); return toolResult.text('') } })
export const byJson = defineTool({ name: 'json', input: { type: 'object' }, call (args) { same<JsonObject>()(args, true); return toolResult.text('') } })

// ---- results

export const wrongByTypeBox = defineTool({
  name: 'typebox',
  output: Type.Object({ total: Type.Number() }),
  // @ts-expect-error no number
  call: () => toolResult.data({ total: 'many' })
})
export const wrongByZod = defineTool({
  name: 'zod',
  output: z.object({ total: z.number() }),
  // @ts-expect-error no number
  call: () => toolResult.data({ total: 'many' })
})
export const wrongByArkType = defineTool({
  name: 'arktype',
  output: type({ total: 'number' }),
  // @ts-expect-error no number
  call: () => toolResult.data({ total: 'many' })
})

// ---- any library at all

export const schemas: readonly Schema<{ name: string }>[] = [Type.Object({ name: Type.String() }), z.object({ name: z.string() }), type({ name: 'string' })]
export const prompt = definePrompt({
  name: 'prompt',
  arguments: type({ who: 'string', 'style?': 'string' }),
  get: ({ who }) => {
    same<string>()(who, true)
    return getPromptResult([{ role: 'user', content: who }])
  },
  complete: {
    style: () => ['short', 'long'],
    // @ts-expect-error no such argument
    stile: () => []
  }
})
export const asking = defineTool({
  name: 'asking',
  call (_args, channel) {
    const questions = { confirm: elicitForm('Sure?', type({ sure: 'boolean', 'why?': 'string' })) }
    const answers = channel.inputResponses(questions)
    if (answers === undefined) return inputRequired(questions)
    if (answers.confirm.action === 'accept') same<boolean>()(answers.confirm.content.sure, true)
    return toolResult.text('')
  }
})

// ---- templates

export const files = defineResources({
  template: { uriTemplate: 'files:///{+dir}/{name}.{ext}{?rev,lines*}', name: 'file' },
  read ({ uri, vars }) {
    same<string>()(vars.dir, true)
    same<string>()(vars.name, true)
    same<string>()(vars.ext, true)
    if (vars.rev !== undefined) same<string>()(vars.rev, true)
    if (vars.lines !== undefined) same<readonly string[]>()(vars.lines, true)
    // @ts-expect-error no such variable
    same<unknown>()(vars.path, true)
    return readResourceResult({ uri, text: '' })
  }
})

// ---- the Suite

export const suite: Suite = createSuite({
  info: { name: 'many', version: '1.0.0' },
  capabilities: { completions: {}, experimental: {} },
  tools: [byTypeBox, byZod, byArkType, byNone, byJson, asking],
  prompts: [prompt],
  resources: [files]
})
// @ts-expect-error a prompt is no tool
createSuite({ info: { name: 'x', version: '1' }, tools: [prompt] })
// @ts-expect-error worked out from the providers
createSuite({ info: { name: 'x', version: '1' }, capabilities: { tools: {} } })
