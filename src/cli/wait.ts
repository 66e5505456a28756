import { setTimeout as timer } from 'node:timers/promises'

/** Resolves after this time, or as soon as the signal says so. */
export const wait = async (ms: number, signal: AbortSignal): Promise<void> => {
  await timer(ms, undefined, { signal }).catch(() => undefined)
}
