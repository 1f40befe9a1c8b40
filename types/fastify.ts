/** What a mount holds at this moment; `busesDown`: of the message buses that it cannot do without, those that nothing came back from when last asked. */
export type Gauges = { readonly [G in 'exchanges' | 'streams' | 'listens' | 'queuedMessages' | 'bufferedBytes' | 'sources' | 'timers' | 'busesDown']: number }

/** One registration of the plugin. */
export interface Mount { readonly path: string; gauges (): Gauges }

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True of a mount's routes, for hooks that want to know. */
    mcp?: boolean
    /** True of the routes of the option `health`, so that a hook that asks who calls can let them pass. */
    mcpHealth?: boolean
  }
  interface FastifyInstance {
    /** The mounts of this instance and of the scopes below it, in the order of registration. */
    readonly mcp: { readonly mounts: readonly Mount[] }
  }
}
