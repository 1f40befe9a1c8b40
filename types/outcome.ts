import type { McpError } from '../lib/errors.js'
import type { InputRequests } from './input.js'
import type { McpMethod, McpResult, ResultMap } from './request.js'
import type { outcome } from '../lib/outcome.js'

export interface ResultOutcome<R = McpResult> { readonly [outcome]: true; readonly type: 'result'; readonly result: R; readonly stopReason?: unknown }
export interface ErrorOutcome { readonly [outcome]: true; readonly type: 'error'; readonly error: McpError }
export interface StreamOutcome<Live> { readonly [outcome]: true; readonly type: 'stream'; readonly state: Live }
export interface InputRequiredOutcome { readonly [outcome]: true; readonly type: 'inputRequired'; readonly requests: InputRequests; readonly state: unknown }
export interface StopOutcome { readonly [outcome]: true; readonly type: 'stop'; readonly reason: unknown }

/** What handleRequest answers with; `M` ties the result to the method, and three methods may ask for input. */
export type RequestOutcome<Live, M extends McpMethod = McpMethod> = ResultOutcome<ResultMap[M]> | ErrorOutcome | StreamOutcome<Live>
  | (M extends 'tools/call' | 'resources/read' | 'prompts/get' ? InputRequiredOutcome : never)

export type MessageOutcome<Live> = RequestOutcome<Live> | StopOutcome
