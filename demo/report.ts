/** The end of the story: what was promised, what the ledger says, and whether they agree. */
import { styleText } from 'node:util'
import type { CrashResult } from './crash.ts'
import type { Figures } from './figures.ts'
import { wrap } from './wrap.ts'

export interface Verdict {
  readonly text: string
  readonly good: boolean
}

const HOT_SHARE = 0.9
const LEAST_KILLS = 3

const count = (value: number): string => value.toLocaleString('en-US')

/** Every claim with its figure; the exit code depends on nothing else. */
export const judge = (figures: Figures, crash: CrashResult | null): Verdict[] => {
  const { lost, duplicates, hotShare, ghosts, dead, died, redriven, outageAttempts } = figures
  const verdicts = [
    {
      text: `${count(figures.published)} events were committed; ${count(figures.delivered)} deliveries are done (${count(figures.calls)} calls), ${dead} dead, ${lost} lost`,
      good: lost === 0,
    },
    { text: `${ghosts} calls were about something that was rolled back`, good: ghosts === 0 },
    {
      text: `${(hotShare * 100).toFixed(1)} % of undisturbed first attempts went straight from memory; at least 90 % must`,
      good: hotShare >= HOT_SHARE,
    },
  ]
  if (crash !== null) {
    const { kills, inFlightAtKills } = crash
    return [
      ...verdicts,
      { text: `the shop was killed ${kills} times with SIGKILL`, good: kills >= LEAST_KILLS },
      {
        text: `${duplicates} deliveries came twice; ${inFlightAtKills} were called but not yet settled at the kills`,
        good: duplicates <= inFlightAtKills,
      },
    ]
  }
  return [
    ...verdicts,
    { text: `${duplicates} deliveries came twice`, good: duplicates === 0 },
    {
      text: `${died} deliveries died of a bug, ${redriven} were redriven after the fix`,
      good: died === redriven + dead,
    },
    { text: `the outage of the mailer cost ${outageAttempts} attempts`, good: outageAttempts === 0 },
  ]
}

export const printReport = (
  figures: Figures,
  verdicts: readonly Verdict[],
  kept: {
    readonly dir: string | null
    readonly elapsedMs: number
    readonly colour: boolean
    readonly columns: number | undefined
  },
  print: (line: string) => void,
): void => {
  const paint = (style: Parameters<typeof styleText>[0], text: string): string =>
    kept.colour ? styleText(style, text) : text
  print('')
  for (const { text, good } of verdicts) {
    const sign = good ? '✔' : '✘'
    // Wrapped before it is painted, because colours have no width.
    print(wrap(`  ${sign} ${text}`, kept.columns, '    ').replace(sign, paint(good ? 'green' : 'red', sign)))
  }
  print('')
  print(
    paint(
      'dim',
      wrap(
        `  commit to listener, hot: p50 ${figures.latencyMsP50.toFixed(2)} ms, p99 ${figures.latencyMsP99.toFixed(2)} ms` +
          ` · ${(kept.elapsedMs / 1_000).toFixed(1)} s in all`,
        kept.columns,
        '  ',
      ),
    ),
  )
  const where =
    kept.dir === null
      ? 'Computed from the database and calls.ndjson; --dir keeps them, so that you can check.'
      : `Computed from shop.db and calls.ndjson in ${kept.dir}; check it yourself.`
  print(paint('dim', wrap(`  ${where}`, kept.columns, '  ')))
}
