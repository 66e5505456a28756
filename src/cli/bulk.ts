/** Acts on many deliveries in small steps: with a bar, a throttle, and a place to stop after each step. */
import { ERROR_CODES, OutboxError } from '../core/errors.ts'
import { Interrupted } from './failures.ts'
import type { Session } from './session.ts'
import { deliveriesText } from './text.ts'

/** One step is one statement of the database: all of it, or nothing. */
const STEP = 100

const wait = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })

export interface Bulk {
  readonly ids: readonly string[]
  /** Past tense, for the message: `redriven`. */
  readonly done: string
  readonly perSecond: number | null
  readonly step: (ids: readonly string[]) => Promise<number>
}

/** Returns how many changed. Ctrl-C ends it between two steps and says how far it came. */
export const runBulk = async (session: Session, { ids, done, perSecond, step }: Bulk): Promise<number> => {
  const { signal } = session
  const progress = session.progress(done)
  const size = perSecond === null ? STEP : Math.max(1, Math.min(STEP, Math.floor(perSecond)))
  let changed = 0
  try {
    for (let at = 0; at < ids.length; at += size) {
      if (signal.aborted) {
        progress.end()
        const left = deliveriesText(ids.length - at)
        throw new Interrupted(
          `stopped: ${deliveriesText(changed)} ${done}, ${left} not touched; run it again to go on`,
        )
      }
      const started = performance.now()
      progress.update(at, ids.length)
      const batch = ids.slice(at, at + size)
      changed += await step(batch)
      progress.update(Math.min(ids.length, at + size), ids.length)
      const isLast = at + size >= ids.length
      if (perSecond !== null && !isLast)
        await wait((batch.length * 1_000) / perSecond - (performance.now() - started), signal)
    }
  } finally {
    progress.end()
  }
  return changed
}

export const perSecondOf = (session: Session): number | null =>
  session.text('per-second') === undefined ? null : session.whole('per-second', 1, [1, 100_000])

/** Nothing matched: said as what it is, with an exit code of its own. */
export const requireSome = (ids: readonly string[], what: string): void => {
  if (ids.length === 0) throw new OutboxError(ERROR_CODES.notFound, `there is no ${what}`)
}
