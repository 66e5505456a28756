/**
 * A plan with less in it. A cut is a word: the name of a fault that does not happen, `calm` for none at all,
 * `upgrade` for no newer version, `no-NAME` for a destination that is not there, or one of `events`, `processes`, `keys` and `ms` with how much is
 * left (`events=4`). `luck=2` is another course of events under the same plan.
 */
import { FAULTS, type Fault, type Plan } from './plan.ts'

const NUMBER = /^(events|processes|keys|ms|luck)=(\d{1,6})$/

export const isFault = (cut: string): cut is Fault => (FAULTS as readonly string[]).includes(cut)

/** Undefined when there is no such cut. */
export const applyCut = (plan: Plan, cut: string): Plan | undefined => {
  if (isFault(cut)) return { ...plan, faults: { ...plan.faults, [cut]: 0 } }
  if (cut === 'calm') return applyCuts(plan, FAULTS)
  if (cut === 'upgrade') return { ...plan, upgradeAtMs: null }
  if (cut.startsWith('no-')) {
    const destinations = plan.destinations.filter(({ name }) => `no-${name}` !== cut)
    return destinations.length === 0 ? undefined : { ...plan, destinations }
  }
  const [, what, digits] = NUMBER.exec(cut) ?? []
  const count = Number(digits)
  if (what === 'luck') return { ...plan, luck: count }
  if (what === undefined || count === 0) return undefined
  if (what === 'ms') return { ...plan, safetyMs: count }
  if (what === 'events') return { ...plan, events: count }
  if (what === 'keys') return { ...plan, keys: plan.keys.slice(0, count) }
  return { ...plan, processes: plan.processes.slice(0, count) }
}

export const applyCuts = (plan: Plan, cuts: readonly string[]): Plan | undefined => {
  let left: Plan | undefined = plan
  for (const cut of cuts) left = left === undefined ? undefined : applyCut(left, cut)
  return left
}
