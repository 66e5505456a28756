/** The simulator is worth something only if it notices what is wrong. */
import { expect, it } from 'vitest'
import { DEFECTS, type Defect } from '../../simulator/defects/index.ts'
import { runSeed } from '../../simulator/run.ts'

const DEFECT_SEEDS = 500

/** Where to look first for those that the first seed does not show. If one does not show it any more, the others are asked. */
const SHOWN_BY: Readonly<Record<string, number>> = {
  'unknown-is-committed': 8,
  'rollback-is-committed': 6,
  'savepoint-kept': 2,
  'key-forgotten': 9,
  'keys-not-locked': 8,
  'expansion-misses': 11,
  'reconciler-blind': 7,
  'reconciler-hasty': 46,
  'reconciler-digs': 4,
  'no-fence': 26,
  'no-token': 15,
  'forget-release': 3,
  'shared-lanes': 3,
  'fence-lifted': 3,
  'fenced-suspects': 70,
  'retire-frees-lanes': 7,
  'eternal-claim': 3,
  'suspects-not-counted': 29,
  'released-is-done': 3,
  'stop-forgets': 4,
  'purge-by-created': 7,
  'cleanup-young': 3,
  'cleanup-blocked': 3,
  'cleanup-forgets-keys': 39,
  'redrive-lets-go': 70,
  'backfill-doubles': 11,
  'pause-ignored': 7,
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
