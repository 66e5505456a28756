/** How services are run: as processes of this machine, or in containers. Both offer the same. */
import { SERVICES, splitName } from './catalogue.ts'
import type { State } from './state.ts'

export interface ServiceStatus {
  readonly name: string
  readonly state: 'running' | 'starting' | 'stopped'
  /** Null: it does not run, or in a container. */
  readonly pid: number | null
  readonly port: number | null
  readonly variable: string
  /** Null: it does not run. */
  readonly url: string | null
}

export interface Engine {
  readonly kind: 'processes' | 'containers'
  /** Brings its programs, and starts nothing. */
  install(name: string): Promise<void>
  /** The named services, and what they need, run and are ready when this resolves. No names: all without a label. */
  up(names: readonly string[]): Promise<readonly ServiceStatus[]>
  /** No names: all there are. `data`: and forgets what they stored. */
  down(names: readonly string[], data: boolean): Promise<readonly ServiceStatus[]>
  /** Ends it without a chance to tidy up; `up` brings it back on the same data. */
  kill(name: string): Promise<ServiceStatus>
  /** No names: all there are. */
  status(names: readonly string[]): Promise<readonly ServiceStatus[]>
}

export type Report = (text: string) => void

/** Benchmarks need real durability; whoever only wants fast tests may do without. */
export const durable = (): boolean => process.env.POSTHASTE_SERVICES_FSYNC !== 'off'

export const NAMES: readonly string[] = SERVICES.map(({ name }) => name)

/** All without a label, and those with one that were ever started. */
export const namesIn = (state: State): string[] => [
  ...NAMES,
  ...Object.keys(state).filter((name) => splitName(name).label !== null),
]
