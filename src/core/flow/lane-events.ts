/** What lanes need to know, and whom they tell. */
import type { OpenBreaker } from '../spi/index.ts'

export interface LaneEvents {
  /** Lanes came or went; `unclean` were taken from a worker that did not say goodbye. */
  changed(
    destination: string,
    change: { readonly gained: readonly number[]; readonly unclean: readonly number[] },
  ): void
  /** Rights of this worker id are void. */
  fenced(workerId: string): void
  /** Whether anything of this lane is in memory here. */
  isBusy(destination: string, lane: number): boolean
  /** Whether something of this lane was sent, or is being sent, and is not settled yet. */
  isUnderWay(destination: string, lane: number): boolean
  /** What others shall know of our breakers; asked with every renewal. */
  openBreakers(): readonly OpenBreaker[]
  /** After every successful renewal, for what else is refreshed at that pace. */
  renewed(): void
}

export interface LaneOptions {
  readonly leaseMs: number
  readonly renewMs: number
  readonly destinations: readonly string[]
}
