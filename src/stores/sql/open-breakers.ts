/**
 * The open breakers of a worker in one column: by destination, how long before the end of its lease it was opened. Both
 * are written by the same statement, so the database's clock says since when without being asked.
 */
import type { OpenBreaker, OpenBreakerView } from '../../core/spi/index.ts'

/** Null when all are closed. */
export const breakersText = (open: readonly OpenBreaker[], leaseMs: number): string | null =>
  open.length === 0
    ? null
    : JSON.stringify(
        Object.fromEntries(
          open.map(({ destination, openForMs }) => [destination, Math.round(leaseMs + openForMs)]),
        ),
      )

export const readBreakers = (text: string | null, leaseEndsAtMs: number): readonly OpenBreakerView[] =>
  text === null
    ? []
    : Object.entries(JSON.parse(text) as Readonly<Record<string, number>>).map(([destination, beforeMs]) => ({
        destination,
        sinceMs: leaseEndsAtMs - beforeMs,
      }))
