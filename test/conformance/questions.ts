import { Type } from '@sinclair/typebox'
import { createMessage, elicitForm, listRoots } from '../../lib/index.js'
import type { ClientCapabilities, CreateMessageResult, FormResponse, InputRequests } from '../../lib/index.js'

/** What tools and prompts ask, by the keys that the answers come back under. */
export const username = { username: elicitForm('Who is there?', Type.Object({ username: Type.String() })) }
export const userContext = { user_context: elicitForm('What is it about?', Type.Object({ context: Type.String() })) }
export const userName = { user_name: elicitForm('What is your name?', Type.Object({ name: Type.String() })) }
export const clientRoots = { client_roots: listRoots() }
export const capitalQuestion = { capital_question: askModel('What is the capital of France?', 100) }
export const everything = { ...userName, greeting: askModel('Greet the user.', 50), ...clientRoots }
export const confirm = { confirm: elicitForm('Go on?', Type.Object({ ok: Type.Boolean() })) }
export const step1 = { step1: elicitForm('What is your name?', Type.Object({ name: Type.String() })) }
export const step2 = { step2: elicitForm('What is your favourite color?', Type.Object({ color: Type.String() })) }

const Contact = Type.Object({ username: Type.String(), email: Type.String() })

/** A form with a default in each kind of field. */
export const defaults = {
  defaults: elicitForm('Is this right?', {
    type: 'object',
    properties: {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true }
    }
  })
}

/** A form with each kind of choice. */
export const choices = {
  choices: elicitForm('Which ones?', {
    type: 'object',
    properties: {
      untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
      titledSingle: { type: 'string', oneOf: titled('value') },
      legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
      untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
      titledMulti: { type: 'array', items: { anyOf: titled('value') } }
    }
  })
}

/** State of a tool that wants it back. */
export const Round = Type.Object({ round: Type.Number() })

export function askModel (text: string, maxTokens: number) {
  return createMessage({ messages: [{ role: 'user', content: { type: 'text', text } }], maxTokens })
}

export function askContact (message: string) {
  return elicitForm(message, Contact)
}

/** What this client can be asked. */
export function questionsFor ({ elicitation, sampling, roots }: ClientCapabilities): InputRequests {
  return {
    ...(elicitation !== undefined && userName),
    ...(sampling !== undefined && capitalQuestion),
    ...(roots !== undefined && clientRoots)
  }
}

export function accepted<Content> (response: FormResponse<Content>): Content | undefined {
  return response.action === 'accept' ? response.content : undefined
}

/** What the user did with a form, and how it was filled in. */
export function describeResponse (response: FormResponse<unknown>): string {
  return `action=${response.action}, content=${JSON.stringify(accepted(response) ?? {})}`
}

export function textOf ({ content }: CreateMessageResult): string {
  return [content].flat().map(block => block.type === 'text' ? block.text : `(${block.type})`).join(' ')
}

function titled (value: string) {
  return ['First', 'Second', 'Third'].map((ordinal, index) => ({ const: `${value}${index + 1}`, title: `${ordinal} Option` }))
}
