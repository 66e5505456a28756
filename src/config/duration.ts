/** Durations as people write them: `250ms`, `5s`, `1m30s`, `168h`, `7d`. */

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g

/** Milliseconds; null when the text is no duration. A number alone is none, because nobody knows of what; 0 is. */
export const parseDuration = (text: string): number | null => {
  const compact = text.trim().replaceAll(/\s+/g, '').toLowerCase()
  if (compact === '0') return 0
  if (compact.length > 40 || !WHOLE.test(compact)) return null
  let sum = 0
  for (const [, amount, unit] of compact.matchAll(PART)) sum += Number(amount) * (UNIT_MS[unit ?? ''] ?? 0)
  return Number.isSafeInteger(Math.round(sum)) ? Math.round(sum) : null
}

const STEPS = [
  ['d', UNIT_MS.d as number],
  ['h', UNIT_MS.h as number],
  ['m', UNIT_MS.m as number],
  ['s', UNIT_MS.s as number],
] as const

/** The two largest units that matter: `3d 4h`, `12m 5s`, `1.5s`, `40ms`. */
export const formatDuration = (ms: number): string => {
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 10_000) return `${Math.round(ms / 100) / 10}s`
  const first = STEPS.findIndex(([, size]) => ms >= size)
  const [unit, size] = STEPS[first] ?? STEPS[3]
  const amount = Math.floor(ms / size)
  const next = STEPS[first + 1]
  const rest = next === undefined ? 0 : Math.floor((ms - amount * size) / next[1])
  return next === undefined || rest === 0 ? `${amount}${unit}` : `${amount}${unit} ${rest}${next[0]}`
}
