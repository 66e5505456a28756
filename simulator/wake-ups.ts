/** Messages from process to process through the database. They come late or not at all; nothing depends on them. */
import type { Wakeup } from '../src/core/spi/index.ts'
import type { Boot } from './boot.ts'
import { hop } from './network.ts'
import type { World } from './world.ts'

type Wake = (destinations: readonly string[]) => void

const LOST = 0.3

/** Who listens in this run. */
const listeners = new WeakMap<World, Map<Boot, Wake>>()

export const simulatedWakeup = (world: World, boot: Boot): Wakeup => {
  const known = listeners.get(world) ?? new Map<Boot, Wake>()
  listeners.set(world, known)
  return {
    listen: async (wake) => {
      known.set(boot, wake)
      return async () => void known.delete(boot)
    },
    notify: (destinations) =>
      hop(world, boot, 'notify', async () => {
        for (const [other, wake] of known) {
          if (world.network.chance(LOST)) continue
          world.scheduler.after(
            world.latency(),
            () => {
              world.count('wokenUp')
              wake(destinations)
            },
            other,
          )
        }
      }),
  }
}
