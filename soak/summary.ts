/** The verdict of a soak for people. */
import type { Flatness } from './flat.ts'
import type { SoakVerdict } from './verdict.ts'

const MB = 1_048_576

const row = (name: string, ...cells: readonly (string | number)[]): string =>
  `  ${name.padEnd(34)}${cells.map((cell) => String(cell).padStart(10)).join('')}`

const table = (
  title: string,
  of: Readonly<Record<string, Flatness>>,
  format: (value: number) => string,
): string[] => [
  row(title, 'middle', 'last', 'highest'),
  ...Object.entries(of).map(([name, { middle, last, max, flat }]) =>
    row(`  ${name}`, format(middle), format(last), format(max), flat ? '' : 'GROWS'),
  ),
]

const megabytes = (value: number): string => (value / MB).toFixed(2)
const whole = (value: number): string => String(Math.round(value))

export const summaryOf = (verdict: SoakVerdict, folder: string, plots: readonly string[]): string[] => {
  const { lagMs, faults, notFlat } = verdict
  return [
    '',
    `${verdict.flat ? 'Flat' : 'NOT FLAT'}, ${verdict.ok ? 'and every promise was kept' : 'and A PROMISE WAS BROKEN'}: ${verdict.store}, ${verdict.minutes} min, seed ${verdict.seed}`,
    row('events published', verdict.published),
    row('deliveries', verdict.delivered),
    row('lost', verdict.lost),
    row('duplicates', verdict.duplicates),
    row('lag, ms: p50, p99, max', lagMs.p50, lagMs.p99, lagMs.max),
    row('samples', verdict.samples),
    `  faults: ${Object.entries(faults)
      .map(([kind, count]) => `${kind} ${count}`)
      .join(', ')}`,
    '',
    ...table('resident, MB', verdict.rss, megabytes),
    ...table('handles', verdict.handles, whole),
    ...table('open files', verdict.files, whole),
    ...table('tables, MB', verdict.tables, megabytes),
    ...table('indexes, MB', verdict.indexes, megabytes),
    ...table('rows', verdict.rows, whole),
    ...table('lag of a window, ms', verdict.lag, whole),
    ...notFlat.map((line) => `  not flat: ${line}`),
    '',
    ...plots.map((file) => `Plot: ${file}`),
    ...(verdict.ok ? [] : [`What was broken: npm run chaos -- --check ${folder}`]),
  ]
}
