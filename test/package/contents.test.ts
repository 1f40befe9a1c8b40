import t, { test } from 'tap'
import { createProject, pack, PATIENCE } from './project.js'

t.setTimeout(PATIENCE)
const KIB = 1024

test('the archive has the build, its declarations, README, licence and manifest, nothing else, and is small', async t => {
  const { files, size, unpackedSize } = await pack(await createProject(t))
  t.strictSame(files.filter(file => !/^dist\/(?:lib|types)\//.test(file)).sort(), ['LICENSE', 'README.md', 'package.json'])
  const built = files.filter(file => file.startsWith('dist/'))
  t.strictSame(built.filter(file => !/\.(?:js|d\.ts)$/.test(file)), [], 'no source and no map')
  t.strictSame(built.filter(file => /\/(?:tests?|bench|examples)\/|\.test\./.test(file)), [], 'no test')

  const names = new Set(files)
  const modules = built.filter(file => file.endsWith('.js'))
  t.ok(modules.length > 50, `${modules.length} modules`)
  t.strictSame(modules.filter(file => !names.has(file.replace(/\.js$/, '.d.ts'))), [], 'each module has its declarations')

  t.comment(`${Math.round(size / KIB)} KiB, unpacked ${Math.round(unpackedSize / KIB)} KiB`)
  t.ok(size < 320 * KIB, `${size} bytes packed`)
  t.ok(unpackedSize < 1200 * KIB, `${unpackedSize} bytes unpacked`)
})
