export const majors: readonly number[]
export function findNode (major: number): Promise<{ readonly path: string, readonly version: string }>
