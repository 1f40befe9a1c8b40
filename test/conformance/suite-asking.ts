import { defineTool, inputRequired, toolResult, type InputRequests, type InputResponses, type ToolProvider } from '../../lib/index.js'

/** What a tool is that asks the same in each round until all is answered, and says one text then. */
export interface AskingTool<Questions extends InputRequests> {
  readonly name: string
  readonly description: string
  readonly questions: Questions
  /** Sent with the questions; default: none. */
  readonly state?: unknown
  readonly say: (answers: InputResponses<Questions>) => string
}

export function askingTool<Questions extends InputRequests> ({ name, description, questions, state, say }: AskingTool<Questions>): ToolProvider {
  return defineTool({
    name,
    description,
    call (_args, channel) {
      const answers = channel.inputResponses(questions)
      return answers === undefined ? inputRequired(questions, state) : toolResult.text(say(answers))
    }
  })
}
