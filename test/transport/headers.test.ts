import { test } from 'tap'
import { result, toolResult } from 'fastify-gen-mcp'
import { checkNotificationHeaders, readVersionHeader } from '../../lib/transport/headers.js'
import { senderTo } from '../helpers/agent.js'
import { call, meta, mount } from '../helpers/mount.js'
import { createStreamer, refused } from '../helpers/refusal.js'
import { bareServer, echo } from '../helpers/servers.js'
import type { Response } from 'light-my-request'

const VERSION = 'io.modelcontextprotocol/protocolVersion'
/** How a header that is wrong is answered. */
const REFUSED = { status: 400, code: -32020, id: 1 }

const base64 = (text: string): string => `=?base64?${Buffer.from(text).toString('base64')}?=`

test('a request without MCP-Protocol-Version is refused with 400, -32020, and told the version: HDR-01, HDR-14', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const method of ['tools/list', 'server/discover', 'no/such']) {
    const response = await call(app, method, {}, { headers: { 'mcp-protocol-version': undefined }, id: 'i' })
    const { message, data } = refused(t, response, { ...REFUSED, id: 'i' }, method)
    t.match(message, /MCP-Protocol-Version is missing.*2026-07-28/)
    t.strictSame(data, { header: 'MCP-Protocol-Version', supported: ['2026-07-28'] })
  }
  t.strictSame(ran, [])
})

test('a version in the header that the body does not have is refused with 400, -32020, whatever the versions are: HDR-03, HDR-14', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const [header, body] of [
    ['2026-07-28', 'v999.0.0'], ['v999.0.0', '2026-07-28'], ['2025-11-25', '2026-07-28'], ['2026-07-28', '2025-11-25'], ['v1', 'v2'], ['', '2026-07-28'],
    ['2026-07-28, 2026-07-28', '2026-07-28'], ['2026-07-28', '2026-07-28 '], ['2026-07-28', ' 2026-07-28x']
  ] as const) {
    const response = await call(app, 'tools/list', {}, { meta: { [VERSION]: body }, headers: { 'mcp-protocol-version': header } })
    const { data } = refused(t, response, REFUSED, `${header} and ${body}`)
    t.strictSame(data, { header: 'MCP-Protocol-Version', supported: ['2026-07-28'] })
  }
  t.strictSame(ran, [])
})

// HDR-04, VER-02, VER-03, VER-11, VER-13
test('a version that both name and the server does not have is refused with 400, -32022, which says what was asked for and what there is', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const version of ['v999.0.0', '2026-07-29', '2026-7-28', '2026-07-28x', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', 'toString']) {
    for (const method of ['tools/list', 'server/discover', 'initialize', 'no/such']) {
      const response = await call(app, method, {}, { meta: { [VERSION]: version }, headers: { 'mcp-protocol-version': version } })
      const { data } = refused(t, response, { status: 400, code: -32022, id: 1 }, `${method} in ${version}`)
      t.strictSame(data, { requested: version, supported: ['2026-07-28'] })
    }
  }
  t.strictSame(ran, [])
})

test('a client that was told the version is served when it asks again in it: VER-04, VER-05', async t => {
  const app = await mount(t, { server: echo })
  const ask = async (version: string): Promise<Response> =>
    await call(app, 'server/discover', {}, { meta: { [VERSION]: version }, headers: { 'mcp-protocol-version': version } })
  const { error } = (await ask('2027-01-01')).json()
  t.ok(error.data.supported.length > 0)
  for (const version of error.data.supported) {
    const { result: discovered } = (await ask(version)).json()
    t.ok(discovered.supportedVersions.includes(version), version)
  }
})

test('the version counts before what only the known one defines: VER-12', async t => {
  const app = await mount(t, { server: echo })
  const future = { [VERSION]: '2027-01-01', 'io.modelcontextprotocol/clientCapabilities': undefined, progressToken: { new: 1 } }
  const headers = { 'mcp-protocol-version': '2027-01-01', 'mcp-method': undefined, 'mcp-name': undefined }
  const response = await call(app, 'tools/call', {}, { meta: future, headers })
  refused(t, response, { status: 400, code: -32022, id: 1 })
})

test('a request without Mcp-Method is refused with 400, -32020: HDR-05, HDR-14', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const [method, params] of [
    ['tools/list', {}], ['tools/call', { name: 'x' }], ['server/discover', {}], ['subscriptions/listen', { notifications: {} }]
  ] as const) {
    const { message, data } = refused(t, await call(app, method, params, { headers: { 'mcp-method': undefined } }), REFUSED, method)
    t.equal(message, 'Header Mcp-Method is missing')
    t.strictSame(data, { header: 'Mcp-Method' })
  }
  t.strictSame(ran, [])
})

test('an Mcp-Method that is not the method, letter by letter, is refused with 400, -32020: HDR-06, HDR-09, HDR-11, ENC-02', async t => {
  const { server, ran } = createStreamer()
  const app = await mount(t, { server })
  for (const header of [
    'prompts/list', 'TOOLS/LIST', 'Tools/List', '', 'tools/lis', 'tools/list/', 'tools/list, tools/list', 'tools/l\u00efst', base64('tools/list')
  ]) {
    const { message } = refused(t, await call(app, 'tools/list', {}, { headers: { 'mcp-method': header } }), REFUSED, header)
    t.equal(message, 'Header Mcp-Method does not match the body')
  }
  t.strictSame(ran, [])
})

test('the version is compared as it is written, encoded it is another: ENC-02', async t => {
  const app = await mount(t, { server: echo })
  refused(t, await call(app, 'tools/list', {}, { headers: { 'mcp-protocol-version': base64('2026-07-28') } }), REFUSED)
})

test('a call, a read and a prompt without Mcp-Name are refused with 400, -32020: HDR-07, HDR-14', async t => {
  const ran: string[] = []
  const app = await mount(t, { server: bareServer(({ method }) => { ran.push(method); return result(toolResult.text('ok')) }) })
  for (const [method, params] of [
    ['tools/call', { name: 'x' }], ['resources/read', { uri: 'a:b' }], ['prompts/get', { name: 'x' }], ['tools/call', { name: '' }]
  ] as const) {
    const { message, data } = refused(t, await call(app, method, params, { headers: { 'mcp-name': undefined } }), REFUSED, method)
    t.equal(message, 'Header Mcp-Name is missing')
    t.strictSame(data, { header: 'Mcp-Name' })
  }
  t.strictSame(ran, [])
})

test('an Mcp-Name that is not the name or URI of the body is refused with 400, -32020: HDR-08, HDR-09, HDR-12, HDR-18', async t => {
  const ran: string[] = []
  const app = await mount(t, { server: bareServer(({ method }) => { ran.push(method); return result(toolResult.text('ok')) }) })
  for (const [method, params, header] of [
    ['tools/call', { name: 'foo' }, 'wrong_tool_name'], ['tools/call', { name: 'foo' }, 'Foo'],
    ['tools/call', { name: 'foo' }, ''], ['tools/call', { name: 'foo' }, 'foo, foo'],
    ['resources/read', { uri: 'file:///a' }, 'file:///b'], ['resources/read', { uri: 'file:///a' }, 'file:///a/'], ['prompts/get', { name: 'foo' }, 'fo'],
    ['resources/read', { uri: 'file:///a', name: 'other' }, 'other'], ['tools/call', { name: '', uri: 'x' }, 'x']
  ] as const) {
    const { message } = refused(t, await call(app, method, params, { headers: { 'mcp-name': header } }), REFUSED, `${method} as ${header}`)
    t.equal(message, 'Header Mcp-Name does not match the body')
  }
  t.strictSame(ran, [])
})

test('a name that is no string is a matter of the params, whatever the header says: HDR-17', async t => {
  const app = await mount(t, { server: echo })
  for (const header of [undefined, 'x', '5', '=?base64?!?=']) {
    for (const params of [{}, { name: 5 }, { name: null }]) {
      const response = await call(app, 'tools/call', params, { headers: { 'mcp-name': header } })
      refused(t, response, { status: 200, code: -32602, id: 1 }, `${JSON.stringify(params)} with ${header}`)
    }
  }
})

test('methods without a name need no Mcp-Name, and a stray one is ignored: HDR-15', async t => {
  const app = await mount(t, { server: bareServer(() => result(toolResult.text('ok'))) })
  for (const method of ['tools/list', 'server/discover', 'prompts/list', 'resources/list', 'resources/templates/list']) {
    for (const header of [undefined, 'stray', '=?base64?!?=', '\u00e9']) {
      t.equal((await call(app, method, { name: 'x', uri: 'y' }, { headers: { 'mcp-name': header } })).statusCode, 200, `${method} with ${header}`)
    }
  }
})

// HDR-05, HDR-06, HDR-07, HDR-08
test('of the headers of a call and a list, missing, wrong or in another case, only the right ones are served: case 043', async t => {
  const app = await mount(t, { server: echo })
  for (const method of ['tools/call', 'tools/list']) {
    for (const [name, own] of [['mcp-protocol-version', '2026-07-28'], ['mcp-method', method], ['mcp-name', 'echo']] as const) {
      for (const sent of [undefined, 'wrong', own.toUpperCase(), own]) {
        const response = await call(app, method, { name: 'echo' }, { headers: { 'mcp-name': 'echo', [name]: sent } })
        const legal = sent === own || (method === 'tools/list' && name === 'mcp-name')
        if (legal) t.equal(response.statusCode, 200, `${method} with ${name}: ${sent}`)
        else refused(t, response, REFUSED, `${method} with ${name}: ${sent}`)
      }
    }
  }
})

test('names of headers come in any case, with any white space around their values, and twice is not once: HDR-09, HDR-10, HDR-13', async t => {
  const app = await mount(t, { server: echo })
  const post = await senderTo(t, app)
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', _meta: meta() } })
  const send = async (headers: Record<string, string | string[]>): Promise<{ readonly status: number | undefined, readonly code: number | undefined }> => {
    const { status, message } = await post(headers, body)
    return { status, code: message().error?.code }
  }

  const fine = { status: 200, code: undefined }
  const mismatch = { status: 400, code: -32020 }
  t.strictSame(await send({ 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'echo' }), fine)
  t.strictSame(await send({ 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'echo' }), fine)
  t.strictSame(await send({ 'MCP-PROTOCOL-VERSION': '\t2026-07-28  ', 'MCP-METHOD': '  tools/call\t', 'MCP-NAME': ' \techo ' }), fine)
  t.strictSame(await send({ 'MCP-Protocol-Version': ['2026-07-28', '2026-07-28'], 'Mcp-Method': 'tools/call', 'Mcp-Name': 'echo' }), mismatch)
  t.strictSame(await send({ 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': ['tools/call', 'tools/call'], 'Mcp-Name': 'echo' }), mismatch)
  t.strictSame(await send({ 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': ['echo', 'echo'] }), mismatch)
  // Raw bytes: 0xE9 is no character of a header.
  t.strictSame(await send({ 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'ech\u00e9' }), mismatch)
})

test('a tab or space around any of the three is not part of it: HDR-10', async t => {
  const app = await mount(t, { server: echo })
  const headers = { 'mcp-protocol-version': ' 2026-07-28\t', 'mcp-method': '\ttools/call ', 'mcp-name': '  echo  ' }
  t.equal((await call(app, 'tools/call', { name: 'echo' }, { headers })).statusCode, 200)
  t.equal(readVersionHeader({ 'mcp-protocol-version': ' x\t' }), 'x')
  t.equal(readVersionHeader({}), undefined)
})

test('a notification needs none of the headers, and those it has must not contradict it: HDR-16, HTTP-05', t => {
  const check = (headers: Record<string, string>, version?: string): (() => void) =>
    () => { checkNotificationHeaders(headers, 'notifications/cancelled', version) }
  const current = { 'mcp-protocol-version': '2026-07-28' }
  const method = { 'mcp-method': 'notifications/cancelled' }
  for (const headers of [{}, current, method, { ...current, ...method }]) {
    t.doesNotThrow(check(headers), JSON.stringify(headers))
    t.doesNotThrow(check(headers, '2026-07-28'), JSON.stringify(headers))
  }
  const mismatch = { code: 'MCP_ERR_HEADER', rpcCode: -32020, statusCode: 400, reason: { header: 'Mcp-Method', problem: 'mismatch' } }
  t.throws(check({ 'mcp-method': 'tools/call' }), mismatch)
  t.throws(check({ 'mcp-method': '' }), { code: 'MCP_ERR_HEADER', rpcCode: -32020, statusCode: 400 })
  const unsupported = { code: 'MCP_ERR_UNSUPPORTED_VERSION', rpcCode: -32022, statusCode: 400, data: { requested: '1999-01-01' } }
  t.throws(check({ 'mcp-protocol-version': '1999-01-01' }), unsupported)
  t.throws(check({}, '1999-01-01'), unsupported)
  t.throws(check(current, '1999-01-01'), { code: 'MCP_ERR_HEADER', rpcCode: -32020, statusCode: 400 })
  t.throws(check({ 'mcp-protocol-version': '1999-01-01' }, '2026-07-28'), { code: 'MCP_ERR_HEADER', rpcCode: -32020, statusCode: 400 })
  t.end()
})
