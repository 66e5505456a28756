/** Destinations from which this process pulls: each has an engine of its own that sends nothing by itself. */
import type { DestinationFlow } from './flow/destination-flow.ts'
import type { Engine } from './flow/engine.ts'
import { type Batch, fetchBatch } from './flow/pull.ts'
import type { ResolvedDestination } from './options.ts'
import type { Runtime } from './spi/index.ts'

export class Pullers {
  readonly #engines = new Map<string, Promise<Engine>>()
  readonly #runtime: Runtime
  readonly #create: (destination: ResolvedDestination) => Engine

  constructor(runtime: Runtime, create: (destination: ResolvedDestination) => Engine) {
    this.#runtime = runtime
    this.#create = create
  }

  async fetch(destination: ResolvedDestination, limit: number): Promise<Batch> {
    const { name } = destination
    let starting = this.#engines.get(name)
    if (starting === undefined) {
      starting = this.#start(destination)
      this.#engines.set(name, starting)
      starting.catch(() => this.#engines.delete(name))
    }
    const engine = await starting
    return await fetchBatch(engine.flow(name) as DestinationFlow, engine.settler, this.#runtime, limit)
  }

  async stop(drainMs: number): Promise<void> {
    const engines = await Promise.allSettled(this.#engines.values())
    this.#engines.clear()
    for (const engine of engines) if (engine.status === 'fulfilled') await engine.value.stop(drainMs)
  }

  async #start(destination: ResolvedDestination): Promise<Engine> {
    const engine = this.#create(destination)
    await engine.startManual()
    return engine
  }
}
