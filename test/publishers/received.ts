/** What the places of the publisher suite have in common. */
import { setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 60_000
const LOOK_AGAIN_MS = 20

export const lowerNames = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** For places that tell nobody when something arrives. */
export const untilThere = async <T>(
  count: number,
  look: () => Promise<readonly T[]>,
): Promise<readonly T[]> => {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const found = await look()
    if (found.length >= count) return found
    if (Date.now() > deadline) throw new Error(`${found.length} of ${count} messages arrived in time`)
    await sleep(LOOK_AGAIN_MS)
  }
}
