/** What the run and its nemesis say to each other. */
import type { BrokerPlace } from '../brokers/place.ts'
import type { Arena } from '../databases/arena.ts'
import type { Regime } from '../regime.ts'

/** A build of this package, unpacked. */
export interface Build {
  readonly folder: string
}

export interface NemesisTask {
  readonly folder: string
  readonly arena: Arena
  /** A real broker among the destinations. */
  readonly broker: BrokerPlace | null
  readonly regime: Regime
  readonly seed: number
  readonly minutes: number
  readonly destinations: readonly string[]
  readonly leaseMs: number
  readonly maxAttempts: number
  /** Another build that takes turns with this one, or why there is none. */
  readonly previous: Build | string
}

export type FromNemesis =
  | {
      readonly kind: 'progress'
      readonly phase: 'faults' | 'draining' | 'over'
      readonly share: number
      readonly committed: number
      readonly done: number
      readonly faults: number
      readonly doing: string
    }
  | { readonly kind: 'over'; readonly drained: boolean; readonly crashes: readonly string[] }
