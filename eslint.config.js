import neostandard from 'neostandard'

export default [
  ...neostandard({
    ts: true,
    ignores: ['dist', 'node_modules', '.tap', 'test/conformance/node_modules', 'test/conformance/results']
  }),
  {
    // A TypeBox schema and the type it describes share one name; tsc refuses what really is declared twice.
    files: ['lib/protocol/**/*.ts'],
    rules: { '@typescript-eslint/no-redeclare': 'off' }
  }
]
