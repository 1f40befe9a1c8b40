/** What a mount holds at this moment. */
export type Gauges = { readonly [G in 'exchanges' | 'streams' | 'listens' | 'queuedMessages' | 'bufferedBytes' | 'sources' | 'timers']: number }

/** One registration of the plugin. */
export interface Mount { readonly path: string; gauges (): Gauges }

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True of a mount's routes, for hooks that want to know. */
    mcp?: boolean
  }
  interface FastifyInstance {
    /** The mounts of this instance and of the scopes below it, in the order of registration. */
    readonly mcp: { readonly mounts: readonly Mount[] }
  }
}
