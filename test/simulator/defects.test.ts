/** The simulator is worth something only if it notices what is wrong. */
import { expect, it } from 'vitest'
import { DEFECTS, type Defect } from '../../simulator/defects/index.ts'
import { runSeed } from '../../simulator/run.ts'

const DEFECT_SEEDS = 500

/** Where to look first for those that few seeds show. If one does not show it any more, the others are asked. */
const SHOWN_BY: Readonly<Record<string, number>> = {
  'reconciler-blind': 11,
  'reconciler-hasty': 123,
  'fenced-suspects': 54,
  'retire-frees-lanes': 156,
  'suspects-not-counted': 446,
  'cleanup-young': 12,
  'cleanup-blocked': 48,
  'cleanup-forgets-keys': 29,
  'redrive-lets-go': 79,
  'pause-ignored': 15,
}

/** A seed that shows the defect, or null. */
const catchDefect = async (defect: Defect): Promise<number | null> => {
  const all = Array.from({ length: DEFECT_SEEDS }, (_, i) => i + 1)
  for (const seed of [SHOWN_BY[defect.name] ?? 1, ...all]) {
    const { violation } = await runSeed(seed, defect)
    // A seed that is not well without the defect proves nothing about it.
    if (violation !== null && (await runSeed(seed)).violation === null) return seed
  }
  return null
}

it.each(DEFECTS)('the simulator notices $name: $says', { timeout: 240_000 }, async (defect) => {
  expect(await catchDefect(defect)).not.toBeNull()
})
