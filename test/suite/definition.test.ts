import { test } from 'tap'
import { createSuite, defineResources, defineTool, readResourceResult, toolResult, type ToolProvider } from 'fastify-gen-mcp'
import { info } from '../helpers/servers.js'

/** A tool with members that TypeScript may not like. */
function tool (members: object): ToolProvider {
  return defineTool({ name: 'tool', description: 'x', call: () => toolResult.text('ran'), ...members } as unknown as Parameters<typeof defineTool>[0])
}

const refused = (message: RegExp) => ({ code: 'MCP_ERR_BAD_PROVIDER', message })

test('a name is of the specification\'s set, and is there once: TOOL-08, case 069', async t => {
  for (const name of ['', 'get weather', 'a,b', 'a/b', 'wetter-ä', 'a\n', 'x'.repeat(129), undefined, null, 5, ['a']]) {
    t.throws(() => tool({ name }), refused(/^A tool must have a name of 1 to 128 characters/), JSON.stringify(name))
  }
  for (const name of ['a', 'A-Z_a.z-09', 'x'.repeat(128)]) t.doesNotThrow(() => tool({ name }), name)
  t.throws(() => createSuite({ info, tools: [tool({}), tool({})] }), refused(/tool is there already/))
  t.doesNotThrow(() => createSuite({ info, tools: [tool({ name: 'a' }), tool({ name: 'A' })] }), 'case counts')
})

test('an icon is an http URL or Base64 data: ICON-02', async t => {
  for (const src of ['https://example.com/x.png', 'http://localhost/x.png', 'HTTPS://example.com', 'data:image/png;base64,AA==', 'data:image/svg+xml;charset=utf-8;base64,AA==']) {
    t.doesNotThrow(() => tool({ icons: [{ src }] }), src)
  }
  for (const src of ['javascript:alert(1)', 'file:///x.png', 'ftp://example.com/x', 'ws://example.com', '/x.png', 'x.png', '', 'data:image/png,AA', ' https://example.com', 'data:image/png,;base64,AA']) {
    t.throws(() => tool({ icons: [{ src }] }), refused(/^The tool tool has the icon /), src)
  }
  t.throws(() => createSuite({ info: { ...info, icons: [{ src: 'file:///x.png' }] } }), refused(/has the icon file:/))
  const template = { uriTemplate: 'x://{id}', name: 'x', icons: [{ src: 'file:///x.png' }] }
  t.throws(() => defineResources({ template, read: ({ uri }) => readResourceResult({ uri, text: '' }) }), refused(/has the icon file:/))
})

test('what a definition says of itself fits the protocol\'s schema: ICON-03', async t => {
  const icon = { src: 'https://example.com/x.png' }
  for (const members of [
    { title: 5 }, { description: null }, { icons: 'x' }, { icons: [{}] }, { icons: [{ ...icon, sizes: '48x48' }] }, { icons: [{ ...icon, theme: 'blue' }] },
    { icons: [{ ...icon, mimeType: 5 }] }, { annotations: { readOnlyHint: 'yes' } }, { annotations: [] }, { _meta: [] }, { _meta: 'x' }
  ]) {
    t.throws(() => tool(members), refused(/^The tool tool does not fit: \//), JSON.stringify(members))
  }
})

test('the keys of _meta are keys, and none of them is the protocol\'s own: META-07, META-08', async t => {
  for (const key of ['a', 'com.example/a', 'com.example.mcp/a', 'com.example/', 'my-app/a.b_c']) t.doesNotThrow(() => tool({ _meta: { [key]: 1 } }), key)
  for (const key of ['-a', 'a b', '1com/a', 'a/b/c', '/a', 'com..example/a', 'ä']) {
    t.throws(() => tool({ _meta: { [key]: 1 } }), refused(/which is no valid key$/), key)
  }
  for (const key of ['io.modelcontextprotocol/a', 'dev.mcp/a', 'com.mcp.tools/a', 'progressToken', 'traceparent', 'tracestate', 'baggage']) {
    t.throws(() => tool({ _meta: { [key]: 1 } }), refused(/which is reserved for the protocol$/), key)
  }
})

test('a _meta that is no JSON is refused where it is defined, and not when it is listed: TOOL-36', async t => {
  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  for (const value of [1n, [{ n: 2n }], cycle, NaN, { n: [Infinity] }]) {
    t.throws(() => tool({ _meta: { 'com.example/a': value } }), refused(/^The tool tool has a _meta that is no JSON$/))
  }
  t.doesNotThrow(() => tool({ _meta: { 'com.example/a': { b: undefined, c: [null, 0.5] } } }))
})

test('a mistake in a definition is told where it is made, with the name of the tool: case 083', async t => {
  for (const definition of [undefined, null, 'x', 5]) {
    t.throws(() => defineTool(definition as unknown as Parameters<typeof defineTool>[0]), refused(/^A provider /), String(definition))
  }
  for (const [members, message] of [
    [{ call: undefined }, /^The tool tool must have the function call$/],
    [{ call: 'x' }, /function call/],
    [{ access: true }, /^The provider tool .*access/],
    [{ handleMessage: {} }, /function handleMessage/],
    [{ handleClose: 5 }, /function handleClose/],
    [{ messages: { type: 'nothing' } }, /TypeBox schema as messages/],
    [{ messages: 'x' }, /TypeBox schema as messages/],
    [{ requires: 'sampling' }, /requires/],
    [{ requires: ['sampling'] }, /requires/],
    [{ maxResultSize: 0 }, /maxResultSize/],
    [{ maxResultSize: '1000' }, /maxResultSize/],
    [{ maxResultSize: 1.5 }, /maxResultSize/],
    [{ stripOutput: 'yes' }, /stripOutput/],
    [{ repairArguments: 1 }, /repairArguments/],
    [{ inputSchema: { type: 'object' } }, /inputSchema.*input/],
    [{ outputSchema: { type: 'object' } }, /outputSchema.*output/]
  ] as const) {
    t.throws(() => tool(members), refused(message), JSON.stringify(members))
  }
  t.doesNotThrow(() => tool({ access: undefined, handleMessage: undefined, messages: undefined, maxResultSize: Infinity, requires: {}, stripOutput: false }))
})
