/** What goes over the wire: the same bytes to every server, and what every server answers with. */

const PREFIX = 'io.modelcontextprotocol/'
const VERSION = '2026-07-28'

export const EVENTS_A_CALL = 100
export const info = { name: 'bench', version: '1.0.0' }
export const serverInfo = { [`${PREFIX}serverInfo`]: info }
export const SUBSCRIPTION_ID = `${PREFIX}subscriptionId`
export const streamHead = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' }

const meta = {
  [`${PREFIX}protocolVersion`]: VERSION,
  [`${PREFIX}clientCapabilities`]: {},
  [`${PREFIX}clientInfo`]: { name: 'bench-client', version: '1.0.0' }
}

/** The bytes of a POST that calls a tool. */
export function callRequest (tool) {
  return post('tools/call', { name: tool, arguments: { text: 'The quick brown fox jumps over the lazy dog' }, _meta: { ...meta, progressToken: 'p-1' } }, 1, tool)
}

/** The bytes of a POST that listens for changes of the tool list. */
export function listenRequest (id) {
  return post('subscriptions/listen', { notifications: { toolsListChanged: true }, _meta: meta }, id)
}

function post (method, params, id, name) {
  const body = JSON.stringify({ jsonrpc: '2.0', id, method, params })
  return Buffer.from([
    'POST /mcp HTTP/1.1',
    'Host: 127.0.0.1',
    'Content-Type: application/json',
    'Accept: application/json, text/event-stream',
    `MCP-Protocol-Version: ${VERSION}`,
    `Mcp-Method: ${method}`,
    ...name === undefined ? [] : [`Mcp-Name: ${name}`],
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body
  ].join('\r\n'))
}
