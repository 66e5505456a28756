/** What a run says of its targets. Figures of a quick one say nothing, so neither does this. */
import type { Target } from './peers/result.ts'
import { tableOf } from './show.ts'

export interface Verdict {
  readonly text: string
  /** Those that were judged. */
  readonly targets: readonly Target[]
  readonly exitCode: number
}

export const verdictOf = (all: readonly Target[], isQuick: boolean): Verdict => {
  if (isQuick)
    return { text: 'None is judged: --quick only shows that everything works.', targets: [], exitCode: 0 }
  const rows = all.map(({ name, target, measured, met }) => [name, target, measured, met ? 'met' : 'NOT MET'])
  return {
    text:
      all.length === 0
        ? 'No target belongs to what was measured.'
        : tableOf([['target', 'wanted', 'measured', ''], ...rows]),
    targets: all,
    exitCode: all.every(({ met }) => met) ? 0 : 1,
  }
}
