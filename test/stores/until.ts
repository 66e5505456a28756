import { setTimeout as pause } from 'node:timers/promises'

const PATIENCE_MS = 60_000

/** Looks again until it is so. */
export const until = async (what: string, condition: () => Promise<boolean>, everyMs = 5): Promise<void> => {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${PATIENCE_MS} ms`)
    await pause(everyMs)
  }
}
