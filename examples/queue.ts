import { randomUUID } from 'node:crypto'
import type { ExchangeRef } from 'fastify-gen-mcp'

/** What a job tells whoever ordered it. */
export type JobEvent = { readonly done: number, readonly total: number } | { readonly output: string } | { readonly error: string }

/** Renders one page; a cancelled job aborts the signal. */
export type Render = (page: number, signal: AbortSignal) => Promise<string>

interface Job { readonly id: string, readonly pages: number, readonly ref: ExchangeRef<JobEvent>, readonly controller: AbortController }

/** Does one job after the other, in memory. Of a request it knows the ref and nothing else: no channel, no HTTP. */
export class Queue {
  readonly #render: Render
  readonly #jobs = new Map<string, Job>()
  #working = false

  constructor (render: Render) {
    this.#render = render
  }

  get length (): number { return this.#jobs.size }

  add (pages: number, ref: ExchangeRef<JobEvent>): string {
    const job = { id: randomUUID(), pages, ref, controller: new AbortController() }
    this.#jobs.set(job.id, job)
    if (!this.#working) this.#work()
    return job.id
  }

  cancel (id: string): void {
    this.#jobs.get(id)?.controller.abort()
    this.#jobs.delete(id)
  }

  async #work (): Promise<void> {
    this.#working = true
    for (const job of this.#jobs.values()) {
      await this.#do(job)
      this.#jobs.delete(job.id)
    }
    this.#working = false
  }

  async #do ({ pages, ref, controller: { signal } }: Job): Promise<void> {
    const rendered: string[] = []
    try {
      while (rendered.length < pages) {
        rendered.push(await this.#render(rendered.length + 1, signal))
        ref.post({ done: rendered.length, total: pages })
      }
      ref.post({ output: rendered.join('\n') })
    } catch (error) {
      ref.post({ error: String(error) }) // of a cancelled job nobody hears: its request has ended
    }
  }
}
