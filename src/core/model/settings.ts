/**
 * What an operator may set for one destination while it runs, beside pause and rate: numbers by the names of the options.
 * Stores keep them as one JSON text. Names of another release stay in it and mean nothing here, so that processes of two
 * releases can work on the same row.
 */
export const TUNED_NAMES = ['concurrency', 'batchSize', 'pollBatchSize', 'pollIntervalMs'] as const

export type TunedName = (typeof TUNED_NAMES)[number]

/** What is absent is as each process's own options say. */
export type TunedSettings = { readonly [Name in TunedName]?: number }

/** Null goes back to the options; what is absent stays. */
export type TunedChange = { readonly [Name in TunedName]?: number | null }

/** A text that nobody can read was not written by us; then the options are as good as anything. */
const parse = (stored: string | null): Readonly<Record<string, unknown>> => {
  if (stored === null) return {}
  try {
    const found: unknown = JSON.parse(stored)
    return typeof found === 'object' && found !== null && !Array.isArray(found)
      ? (found as Record<string, unknown>)
      : {}
  } catch {
    return {}
  }
}

export const readSettings = (stored: string | null): TunedSettings => {
  const all = parse(stored)
  const known = TUNED_NAMES.flatMap((name) => {
    const value = all[name]
    return typeof value === 'number' && Number.isFinite(value) ? [[name, value] as const] : []
  })
  return Object.freeze(Object.fromEntries(known))
}

/** The text after a change; null when nothing is left to say. */
export const changeSettings = (stored: string | null, change: TunedChange): string | null => {
  const after: Record<string, unknown> = { ...parse(stored) }
  for (const name of TUNED_NAMES) {
    const value = change[name]
    if (value === null) delete after[name]
    else if (value !== undefined) after[name] = value
  }
  return Object.keys(after).length === 0 ? null : JSON.stringify(after)
}
