/**
 * Expands unrouted deliveries: events whose publisher did not know the routes (a process that only writes,
 * a trigger, another language). Any worker may; the store makes sure that each is expanded once.
 */
import { laneOf } from '../model/lane.ts'
import type { ExpandRequest, Registry, Store, UnroutedDelivery } from '../spi/index.ts'
import type { Routes } from './routes.ts'

export interface ExpanderParts {
  readonly store: Store
  readonly registry: Registry
  readonly routes: Routes
  readonly workerId: () => string
  readonly newId: () => string
  /** New deliveries lie behind every cursor. */
  readonly expanded: () => void
  /** Of this type an event was routed to nobody. */
  readonly unheard: (type: string) => void
}

const BATCH = 500
/** The registry can change between looking at it and expanding; rarely twice in a row. */
const MAX_STALE = 5

export class Expander {
  readonly #parts: ExpanderParts
  #running: Promise<boolean> | null = null

  constructor(parts: ExpanderParts) {
    this.#parts = parts
  }

  /** Goes on until nothing is left, or it cannot be done now. True when anything was expanded. Calls share a run. */
  run(): Promise<boolean> {
    this.#running ??= this.#expandAll().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  async #expandAll(): Promise<boolean> {
    const { store, registry, routes, workerId, expanded, unheard } = this.#parts
    let stale = 0
    let any = false
    while (stale < MAX_STALE) {
      const rows = await store.queue.readUnrouted(BATCH)
      if (rows.length === 0) break
      await routes.refresh(registry)
      const expansions = rows.map((row) => this.#expansion(row))
      const done = await store.queue.expand({
        workerId: workerId(),
        registryVersion: routes.version,
        expansions,
      })
      if (done)
        for (const [i, { type }] of rows.entries()) if (expansions[i]?.deliveries.length === 0) unheard(type)
      any ||= done
      stale = done ? 0 : stale + 1
    }
    if (any) expanded()
    return any
  }

  #expansion(row: UnroutedDelivery): ExpandRequest['expansions'][number] {
    const { routes, newId } = this.#parts
    const lane = laneOf(row.key ?? row.eventId)
    const { eventId, key, size } = row
    return {
      unroutedId: row.id,
      deliveries: routes
        .routes(row.type)
        .map((destination) => ({ id: newId(), eventId, destination, lane, key, size })),
    }
  }
}
