/** What a fault is, and what it has to work with. */
import type { Random } from '../../simulator/random.ts'
import type { Hand } from '../databases/hand.ts'
import type { Clock } from './clock.ts'
import type { Crew, Slot } from './crew.ts'
import type { NemesisTask } from './messages.ts'

export interface World {
  readonly task: NemesisTask
  readonly crew: Crew
  readonly hand: Hand
  readonly random: Random
  /** Slots that another fault has in its hands. */
  readonly busy: Set<string>
  /** The environment of a process whose clock is to be another, or why that cannot be had. */
  readonly clock: Clock | string
}

export interface Strike {
  /** Slots whose sends may come twice because of it. */
  readonly hits: readonly string[] | 'all'
  readonly detail?: string
  /** Does it, and resolves when it is over and whatever was broken works again. */
  act(): Promise<void>
}

export interface Fault {
  readonly kind: string
  /** Why this machine or store cannot have it; null when it can. */
  refusal?(world: World): string | null
  /** Chooses a victim and everything else that is up to chance; null when there is nobody just now. */
  aim(world: World): Strike | null
}

/** It was tried and did not happen, so it does not count. */
export class Missed extends Error {
  override readonly name = 'Missed'
}

/** A slot that nobody else has in his hands, and that is not to be spared. */
export const pickSlot = ({ task, random, busy }: World, slots: readonly Slot[]): Slot | null => {
  const { spared } = task.regime
  const free = slots.filter(({ name }) => !busy.has(name) && !spared.includes(name))
  return free.length === 0 ? null : random.pick(free)
}

/** Nobody else touches these slots meanwhile. */
export const holding = async (
  { busy }: World,
  names: readonly string[],
  work: () => Promise<void>,
): Promise<void> => {
  for (const name of names) busy.add(name)
  try {
    await work()
  } finally {
    for (const name of names) busy.delete(name)
  }
}
