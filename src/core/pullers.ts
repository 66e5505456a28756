/** Destinations from which this process pulls: each has an engine of its own that sends nothing by itself. */
import type { DestinationFlow } from './flow/destination-flow.ts'
import type { Engine } from './flow/engine.ts'
import { type Batch, fetchBatch, type PullParts } from './flow/pull.ts'
import type { ResolvedDestination } from './options.ts'

export class Pullers {
  readonly #engines = new Map<string, Promise<Engine>>()
  readonly #parts: PullParts
  readonly #create: (destination: ResolvedDestination) => Engine

  constructor(parts: PullParts, create: (destination: ResolvedDestination) => Engine) {
    this.#parts = parts
    this.#create = create
  }

  async fetch(destination: ResolvedDestination, limit: number): Promise<Batch> {
    const { name } = destination
    let starting = this.#engines.get(name)
    if (starting === undefined) {
      starting = this.#start(destination)
      this.#engines.set(name, starting)
      const started = starting
      started.catch(() => {
        // Another one may have been started in its place meanwhile.
        if (this.#engines.get(name) === started) this.#engines.delete(name)
      })
    }
    const engine = await starting
    return await fetchBatch(engine.flow(name) as DestinationFlow, { ...this.#parts, destination }, limit)
  }

  /** Those of the named destinations; null stops all. Waits a bounded time for batches that are open. */
  async stop(drainMs: number, names: readonly string[] | null): Promise<{ readonly clean: boolean }> {
    const leaving = [...this.#engines].filter(([name]) => names === null || names.includes(name))
    let clean = true
    for (const [name, starting] of leaving) {
      this.#engines.delete(name)
      const engine = await starting.catch(() => null)
      if (engine !== null) clean = (await engine.stop(drainMs)).clean && clean
    }
    return { clean }
  }

  /** An operator changed something: a pause holds before the call that asked for it has returned. */
  async operated(): Promise<void> {
    for (const starting of [...this.#engines.values()]) {
      const engine = await starting.catch(() => null)
      await engine?.operated()
    }
  }

  async #start(destination: ResolvedDestination): Promise<Engine> {
    const engine = this.#create(destination)
    try {
      await engine.startManual()
    } catch (error) {
      // It may be registered, and would keep a share of the lanes until its lease has run out.
      await engine.stop(0)
      throw error
    }
    return engine
  }
}
