import { test } from 'tap'
import { normalizeUri, traverses, UriTemplate } from '../../lib/suite/template.js'
import { check } from '../helpers/templates.js'

test('a template is anchored at both ends, and a variable ends where a part of a URI does: RES-21', async t => {
  check(t, [
    ['test://template/{id}/data', 'test://template/123/data', { id: '123' }],
    ['test://template/{id}/data', 'test://template/a/b/data', undefined],
    ['test://template/{id}/data', 'test://template/a%2Fb/data', { id: 'a/b' }],
    ['test://template/{id}/data', 'test://template/123/data/', undefined],
    ['test://template/{id}/data', 'xtest://template/123/data', undefined],
    ['test://template/{id}/data', 'test://template/123', undefined],
    ['test://template/{id}/data', 'test://templates/123/data', undefined],
    ['x://{id}', 'x://a?b', undefined],
    ['x://{id}', 'x://a#b', undefined],
    ['x://{a}/to/{b}', 'x://1/to/2', { a: '1', b: '2' }],
    ['x://{a}/to/{b}', 'x://1/from/2', undefined],
    ['x://fixed', 'x://fixed', {}],
    ['x://fixed', 'x://fixed/more', undefined]
  ])
})

test('values are decoded once, and literal text is compared in its normal form: case 073', async t => {
  check(t, [
    ['x://café/{id}', 'x://caf%C3%A9/%C2%A7%20141', { id: '§ 141' }],
    ['x://café/{id}', 'x://caf%c3%a9/1', { id: '1' }],
    ['x://café/{id}', 'x://café/§', { id: '§' }],
    ['x://caf%c3%a9/{id}', 'x://café/1', { id: '1' }],
    ['x://~a/{id}', 'x://%7E%61/%62', { id: 'b' }],
    ['x://{id}', 'x://%2520', { id: '%20' }],
    ['x://{id}', 'x://%252e%252e', { id: '%2e%2e' }],
    ['x://{id}', 'x://a+b', { id: 'a+b' }],
    ['x://{id}', 'x://%E0%A4%A', undefined],
    ['x://{id}', 'x://%FF', undefined],
    ['x://{id}', 'x://100%', undefined],
    ['x://{?q}', 'x://?q=%FF', undefined]
  ])
})

test('the operators of all four levels are read backwards', async t => {
  check(t, [
    ['x://{+path}', 'x://a/b?c#d', { path: 'a/b?c#d' }],
    ['x://a{#part}', 'x://a#b/c', { part: 'b/c' }],
    ['x://a{.ext}', 'x://a.tar.gz', { ext: 'tar.gz' }],
    ['x://a{.parts*}', 'x://a.tar.gz', { parts: ['tar', 'gz'] }],
    ['x://a{/one}', 'x://a/b', { one: 'b' }],
    ['x://a{/one}', 'x://a/b/c', undefined],
    ['x://a{/one}', 'x://ab', undefined],
    ['x://a{/one,two}', 'x://a/b/c', { one: 'b', two: 'c' }],
    ['x://a{/path*}', 'x://a/b/c%2Fd', { path: ['b', 'c/d'] }],
    ['x://a{;n}', 'x://a;n=1', { n: '1' }],
    ['x://a{;n,m}', 'x://a;m=2;n=1', { n: '1', m: '2' }],
    ['x://a{;n}', 'x://a;n', { n: '' }],
    ['x://{a,b}', 'x://1,2', { a: '1', b: '2' }],
    ['x://{a,b}', 'x://1,2,3', { a: '1', b: '2,3' }],
    ['x://{a,b}', 'x://1', undefined],
    ['x://{list*}', 'x://1,2%2C3', { list: ['1', '2,3'] }],
    ['x://{a,list*}', 'x://1,2,3', { a: '1', list: ['2', '3'] }]
  ])
})

test('a query is optional, in any order, and holds nothing that the template does not name', async t => {
  check(t, [
    ['x://a{?q,p}', 'x://a', {}],
    ['x://a{?q,p}', 'x://a?p=2&q=1', { q: '1', p: '2' }],
    ['x://a{?q,p}', 'x://a?q=b%26c%3Dd', { q: 'b&c=d' }],
    ['x://a{?q}', 'x://a?q=b=c', { q: 'b=c' }],
    ['x://a{?q}', 'x://a?q=/?', { q: '/?' }],
    ['x://a{?q}', 'x://a?q=1&q=2', undefined],
    ['x://a{?q*}', 'x://a?q=1&q=2', { q: ['1', '2'] }],
    ['x://a{?q}', 'x://a?r=1', undefined],
    ['x://a{?q}', 'x://a?q=1#part', undefined],
    ['x://a?fixed=1{&q}', 'x://a?fixed=1&q=2', { q: '2' }],
    ['x://a?fixed=1{&q}', 'x://a?fixed=1', {}],
    ['x://{id}{?q}', 'x://1?q=2', { id: '1', q: '2' }],
    ['x://{id}{?q}', 'x://1', { id: '1' }],
    ['x://{+path}{?q}', 'x://a/b?q=2', { path: 'a/b', q: '2' }],
    ['x://{?toString}', 'x://?toString=1', { toString: '1' }]
  ])
})

test('a variable whose type says that it is there is there', async t => {
  check(t, [
    ['x://a{#part}', 'x://a', undefined],
    ['x://a{.ext}', 'x://a', undefined],
    ['x://a{;n}', 'x://a', undefined],
    ['x://a{;n,m}', 'x://a;n=1', undefined],
    ['x://a{;list*}', 'x://a;list=1;list=2', { list: ['1', '2'] }],
    ['x://a{/one}', 'x://a', undefined]
  ])
})

test('a length counts characters', async t => {
  check(t, [
    ['x://{id:3}', 'x://abc', { id: 'abc' }],
    ['x://{id:3}', 'x://abcd', undefined],
    ['x://{id:1}', 'x://%F0%9F%98%80', { id: '\u{1f600}' }],
    ['x://a{?q:2}', 'x://a?q=ab', { q: 'ab' }],
    ['x://a{?q:2}', 'x://a?q=abc', undefined]
  ])
})

test('a hostile URI takes a time that grows with its length: case 074', async t => {
  const size = 50_000
  const template = new UriTemplate('x://{list*}/{a}{b}{+rest}/{id}/end')
  const query = new UriTemplate('x://{?list*,other}')
  const hostile = [
    `x://${','.repeat(size)}`, `x://${'/'.repeat(size)}`, `x://${'a,'.repeat(size / 2)}/${'/end'.repeat(size / 4)}!`, `x://?${'list=&'.repeat(size / 6)}!`
  ]
  // Once, so that what is measured is not the compiler.
  for (const uri of hostile) [template.match(uri), query.match(uri)].forEach(vars => t.equal(vars, undefined))
  const before = performance.now()
  for (const uri of hostile) [template.match(uri), query.match(uri)].forEach(vars => t.equal(vars, undefined))
  const took = performance.now() - before
  t.ok(took < 200, `all of them took ${took} ms`)
  t.equal(normalizeUri(`x://${'a'.repeat(size)}`), undefined, 'a URI so long is not looked at')
})

test('what is no template is refused', async t => {
  const mistakes = [
    'x://{', 'x://}', 'x://{a', 'x://a}', 'x://{a{b}}', 'x://{}', 'x://{+}',
    'x://{=a}', 'x://{a b}', 'x://{a:0}', 'x://{a:10000}', 'x://{a*:3}', 'x://{a,}', 'x://{a}/{a}', 'x://{a,a}', 'x://{a}{?a}', 'x://{a}/\ud800'
  ]
  for (const text of mistakes) t.throws(() => new UriTemplate(text), { code: 'MCP_ERR_BAD_PROVIDER' }, text)
})

test('a template knows the names of its variables and what it begins with', async t => {
  t.strictSame(new UriTemplate('x://{a}/{b.c,d*}{?e:3,%66}').names, ['a', 'b.c', 'd', 'e', '%66'])
  t.strictSame(new UriTemplate('x://a').names, [])
  const begins = ['x://é/{a}', 'x://a', '{a}x', ''].map(text => new UriTemplate(text).prefix)
  t.strictSame(begins, ['x://%C3%A9/', 'x://a', '', ''])
})

test('what is no absolute URI has no normal form: RES-11', async t => {
  const mistakes = [
    '', 'x', 'not a uri', '/a', '//a', 'my scheme://x', '1x://a', ':a', 'x://a b', 'x://a\n',
    'x://a\u0000', 'x://a\u007f', 'x://\u00a0', 'x://\ud800', 'x://%', 'x://%4', 'x://%zz'
  ]
  for (const uri of mistakes) t.equal(normalizeUri(uri), undefined, JSON.stringify(uri))
  t.equal(normalizeUri('x://a%7eb%2f%C3%a9é'), 'x://a~b%2F%C3%A9%C3%A9')
  t.equal(normalizeUri('urn:isbn:1'), 'urn:isbn:1')
})

test('a file URI that leads out of where it begins is seen, however that is escaped: RES-12', async t => {
  const out = [
    'file:///data/../etc/passwd', 'file:///data/%2e%2e/etc', 'file:///data/%2E%2E%2Fetc', 'file:///data/..%5cetc', 'file:///data/..\\etc', 'file:///data/..', 'FILE:///data/..',
    'file:///data/a%00.txt', 'file:///data/%E0%A4%A', 'file:///data/..?x', 'file:///data/..#x', 'file:..', 'file:///c:..'
  ]
  for (const uri of out) t.equal(traverses(uri), true, uri)
  for (const uri of ['file:///data/a..b', 'file:///data/...', 'file:///data/.', 'file:///data/%252e%252e', 'x://a/../b']) t.equal(traverses(uri), false, uri)
})
