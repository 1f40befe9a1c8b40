import { register } from 'node:module'

// The suite's command line imports `globSync` from fs, which Node has from 22 on, for a command that is not used here.
const hooks = `
  const FS = 'conformance:fs'
  const source = "export * from 'node:fs'; export { default } from 'node:fs'; export function globSync () { throw new Error('needs Node 22') }"

  export async function resolve (specifier, context, next) {
    const own = context.parentURL?.includes('/@modelcontextprotocol/conformance/')
    return own && /^(?:node:)?fs$/.test(specifier) ? { url: FS, format: 'module', shortCircuit: true } : next(specifier, context)
  }

  export async function load (url, context, next) {
    return url === FS ? { format: 'module', source, shortCircuit: true } : next(url, context)
  }
`
register(`data:text/javascript,${encodeURIComponent(hooks)}`)
