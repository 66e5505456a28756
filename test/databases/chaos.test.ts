/** Short chaos: real processes on a database of their own, which are broken for a quarter of a minute. */
import { expect, it } from 'vitest'
import { DESTINATIONS } from '../../chaos/crew/routes.ts'
import { CHAOS } from '../../chaos/regime.ts'
import { checkFolder, runChaos } from '../../chaos/run.ts'
import { RELEASE_FILE } from '../compat/previous.ts'
import { isIn } from '../parts.ts'

const SECONDS = 15

const STORES = [...(isIn('most') ? ['postgres' as const] : []), ...(isIn('rest') ? ['sqlite' as const] : [])]

it.each(STORES)(
  'on %s every promise is kept, and the files alone say so again',
  { timeout: 300_000 },
  async (store) => {
    const { folder, verdict } = await runChaos({
      regime: CHAOS,
      store,
      seed: 4,
      minutes: SECONDS / 60,
      destinations: DESTINATIONS,
      previous: RELEASE_FILE,
      label: 'chaostest',
      progress: () => undefined,
    })
    expect(verdict.stories, folder).toEqual({})
    expect(verdict).toMatchObject({ ok: true, lost: 0, ghosts: 0, orderViolations: 0, illegalTransitions: 0 })
    expect(verdict.duplicates).toBeLessThanOrEqual(verdict.duplicateBound)
    expect(verdict.committed).toBeGreaterThan(50)
    expect(Object.keys(verdict.faults).length).toBeGreaterThan(1)
    expect(await checkFolder(folder)).toEqual(verdict)
  },
)
