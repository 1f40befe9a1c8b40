import { test } from 'tap'
import { createSuite, defineResources, readResourceResult } from 'fastify-gen-mcp'
import { createTestClient } from 'fastify-gen-mcp/testing'
import { UriTemplate } from '../../lib/suite/template.js'
import { mount } from '../helpers/mount.js'
import { info } from '../helpers/servers.js'
import { check, read } from '../helpers/templates.js'

test('a value that may hold slashes ends before what follows it, wherever else that occurs: RES-21', async t => {
  check(t, [
    ['file:///{+dir}/{name}', 'file:///a/b/c.txt', { dir: 'a/b', name: 'c.txt' }],
    ['file:///{+dir}/{name}.{ext}', 'file:///a.d/b/c.txt', { dir: 'a.d/b', name: 'c', ext: 'txt' }],
    ['file:///{+dir}/{name}.{ext}', 'file:///a.d/b/c', undefined],
    ['x://{+path}/meta/{id}', 'x://a/meta/b/meta/7', { path: 'a/meta/b', id: '7' }],
    ['x://{+path}/end', 'x://a/end/b/end', { path: 'a/end/b' }],
    ['x://{+path}/end', 'x://a/end/b', undefined],
    ['x://{+path}{.ext}', 'x://a.d/b.c', { path: 'a.d/b', ext: 'c' }],
    ['x://{+path}{/last}', 'x://a/b/c', { path: 'a/b', last: 'c' }],
    ['x://{+a}/{+b}', 'x://1/2/3', { a: '1/2', b: '3' }],
    ['repo://{owner}/{repo}/contents{/path*}', 'repo://a/b/contents/c/d.ts', { owner: 'a', repo: 'b', path: ['c', 'd.ts'] }],
    ['repo://{owner}/{repo}/refs/{+ref}/contents{/path*}', 'repo://a/b/refs/heads/x/contents/c/d', { owner: 'a', repo: 'b', ref: 'heads/x', path: ['c', 'd'] }]
  ])
})

test('of two values with a mark between them the first takes as much as it can: RES-21', async t => {
  check(t, [
    ['x://{a}-{b}', 'x://1-2', { a: '1', b: '2' }],
    ['x://{a}-{b}', 'x://1-2-3', { a: '1-2', b: '3' }],
    ['x://{a}-{b}', 'x://12', undefined],
    ['x://{a}-{b}/c-d', 'x://1-2/c-d', { a: '1', b: '2' }],
    ['x://{a}-{b}-{c}', 'x://1-2-3-4', { a: '1-2', b: '3', c: '4' }],
    ['x://{name}.{ext}', 'x://archive.tar.gz', { name: 'archive.tar', ext: 'gz' }],
    ['x://{name}{.ext}', 'x://archive.tar.gz', { name: 'archive.tar', ext: 'gz' }],
    ['x://{name}.{ext}', 'x://a%2Eb.c', { name: 'a.b', ext: 'c' }],
    ['x://{name}.{ext}', 'x://a/b.c', undefined],
    ['x://{year:4}{month:2}', 'x://202612', { year: '2026', month: '12' }],
    ['x://{year:4}-{rest}', 'x://2026-12-01', { year: '2026', rest: '12-01' }],
    ['x://{a}{b}', 'x://12', { a: '12', b: '' }]
  ])
})

test('a list, and what has names, takes all that is there for it: RES-21', async t => {
  check(t, [
    ['x://files{/path*}', 'x://files/a', { path: ['a'] }],
    ['x://files{/path*}', 'x://files/a/b/c', { path: ['a', 'b', 'c'] }],
    ['x://files{/path*}', 'x://files', undefined],
    ['x://files{/path*}', 'x://filesa', undefined],
    ['x://{root}{/path*}', 'x://r/a/b', { root: 'r', path: ['a', 'b'] }],
    ['x://{+root}{/path*}', 'x://r/a/b', { root: 'r', path: ['a', 'b'] }],
    ['x://{name}{.parts*}', 'x://a.tar.gz', { name: 'a', parts: ['tar', 'gz'] }],
    ['x://files{/path*}/raw', 'x://files/raw/a/raw', { path: ['raw', 'a'] }],
    ['x://{id}{;n,m}', 'x://1;n=2;m=3', { id: '1', n: '2', m: '3' }]
  ])
})

test('a query begins at the first question mark, and what stands before it never reaches into it: RES-21', async t => {
  check(t, [
    ['x://search{?q,page}', 'x://search?q=a&page=2', { q: 'a', page: '2' }],
    ['x://search{?q,page}', 'x://search?page=2', { page: '2' }],
    ['x://search{?q,page}', 'x://search', {}],
    ['x://search{?q,page}', 'x://search?q=a%20b%3F', { q: 'a b?' }],
    ['x://{+path}{?q}', 'x://a/b?q=1?2', { path: 'a/b', q: '1?2' }],
    ['x://{+path}{?q}', 'x://a/b', { path: 'a/b' }],
    ['x://{+path}{?q}', 'x://a/b?r=1', undefined],
    ['x://{+path}{.ext}{?v}', 'x://a/b.txt?v=1.5', { path: 'a/b', ext: 'txt', v: '1.5' }],
    ['x://{+path}?v={v}', 'x://a/b?v=1?v=2', undefined],
    ['x://{+path}?fixed=1{&q}', 'x://a?fixed=1&q=?fixed=1', { path: 'a', q: '?fixed=1' }],
    ['x://{id}{&q,p}', 'x://1&q=2&p=3', { id: '1', q: '2', p: '3' }],
    ['x://{id}{&q}', 'x://1&2', { id: '1&2' }],
    ['x://{+path}{#part}', 'x://a/b#c#d', { path: 'a/b', part: 'c#d' }],
    ['x://{+path}{?q}{#part}', 'x://a/b?q=1#c', { path: 'a/b', q: '1', part: 'c' }],
    ['x://{?q}/end', 'x:///end', {}]
  ])
})

test('a client reads the file that its URI names, and the variables are those of the URI: RES-21', async t => {
  const files = defineResources({
    template: { uriTemplate: 'files:///{+dir}/{name}.{ext}', name: 'file' },
    read: ({ uri, vars }) => readResourceResult({ uri, text: JSON.stringify([vars.dir, vars.name, vars.ext]) })
  })
  const client = createTestClient(await mount(t, { server: createSuite({ info, resources: [files] }) }))
  t.match(await client.request('resources/read', { uri: 'files:///a/b.c/d.e.f' }), { result: { contents: [{ text: '["a/b.c","d.e","f"]' }] } })
  t.match(await client.request('resources/read', { uri: 'files:///a/b.c/d' }), { error: { code: -32602 } })
})

test('the time a URI takes grows with its length, whatever the template: case 074', async t => {
  const templates = [
    'x://{+a}/{+b}/{+c}/{+d}!', 'x://{a}-{b}-{c}-{d}!', 'x://{a}{b}{c}{d}!', 'x://{+a}{b:1}{+c}{d:1}',
    'x://{+a}/{b:1}/{c:1}{/d*}', 'x://{/a*}{/b*}{/c*}!', 'x://{+a}{?b*}'
  ]
  const hostile = (size: number): string[] => ['/', '-', 'a', '%', '.', '?', '?b=&', '/a-'].map(text => `x://${text.repeat(size / text.length)}`)
  const measure = (size: number): number => {
    const uris = hostile(size)
    const before = performance.now()
    for (const text of templates) {
      const template = new UriTemplate(text)
      for (const uri of uris) template.match(uri)
    }
    return (performance.now() - before) / templates.length / uris.length
  }
  // Once, so that what is measured is not the compiler.
  measure(8192)
  const took = measure(8192)
  t.ok(took < 5, `a URI of 8192 characters took ${took} ms on average`)
})

test('a URI that fits is found however long it may be', async t => {
  const path = Array.from({ length: 800 }, (_, index) => `dir.${index}`).join('/')
  t.strictSame(read('x://{+dir}/{name}.{ext}', `x://${path}/a.b`), { dir: path, name: 'a', ext: 'b' })
  t.strictSame(read('x://{root}{/path*}', `x://${path}`), { root: 'dir.0', path: path.split('/').slice(1) })
  t.strictSame(read('x://{+a}/dir.1/{+b}', `x://${path}`), { a: 'dir.0', b: path.split('/').slice(2).join('/') })
})
