/** What an engine is made of. */
import type { ListenerRegistry } from '../listeners.ts'
import type { Delivery } from '../model/delivery.ts'
import type { ResolvedDestination, ResolvedOptions } from '../options.ts'
import type { Verdict } from '../policy/failure.ts'
import type { Logger, Metrics, Runtime, Store } from '../spi/index.ts'
import type { LeaseWatch } from './lease-watch.ts'
import type { UnheardTypes } from './unheard-types.ts'

export interface EngineParts {
  readonly store: Store
  readonly options: ResolvedOptions
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly newId: () => string
  /** All destinations this process declares. */
  readonly declared: readonly ResolvedDestination[]
  /** Those of them that it delivers to. */
  readonly served: readonly ResolvedDestination[]
  readonly listeners: (destination: string) => ListenerRegistry
  /** A consumer pulls from the flows; nothing is sent by itself. */
  readonly manual: boolean
  readonly detached: Detached
  readonly failed: (delivery: Delivery, verdict: Verdict, error: unknown) => void
  /** Where one engine after another goes on to watch the same workers. */
  readonly watch: LeaseWatch
  /** Shared likewise: what one engine has told of, the next one need not. */
  readonly unheard: UnheardTypes
  /** There is something to read at this destination, or at all, in lanes that other processes have. */
  readonly tellOthers?: (destination: string | null) => void
  /** A delivery left the memory of this process. */
  readonly ended?: (delivery: Delivery) => void
}

/** Runs a function outside of the caller's asynchronous context. */
export type Detached = <R>(fn: () => R) => R
