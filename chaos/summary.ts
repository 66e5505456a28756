/** The verdict for people, and for programs. */
import type { Verdict } from './checker/verdict.ts'

const row = (name: string, value: string | number, note = ''): string =>
  `  ${name.padEnd(22)}${String(value).padStart(9)}${note === '' ? '' : `  ${note}`}`

const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0)

const list = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([kind, count]) => `${kind} ${count}`)
    .join(', ')

export const summaryOf = (verdict: Verdict, folder: string): string[] => {
  const { recoveryMs, faults, refused, observed, crashes, stories } = verdict
  const noticed = Object.keys(observed).length === 0 ? [] : [`  noticed by the processes: ${list(observed)}`]
  return [
    '',
    `${verdict.ok ? 'Every promise was kept' : 'A PROMISE WAS BROKEN'}: ${verdict.store} to ${verdict.destination}, seed ${verdict.seed}`,
    row('events committed', verdict.committed),
    row('deliveries', verdict.delivered, `${verdict.dead} dead, as the sink or the limit wanted`),
    row('lost', verdict.lost),
    row('ghosts', verdict.ghosts),
    row('duplicates', verdict.duplicates, `at most ${verdict.duplicateBound} were in flight at a fault`),
    row('  unexplained', verdict.unexplained),
    row('out of order', verdict.orderViolations),
    row('attempts spent', verdict.attemptsSpent, 'on faults; the events asked for the others'),
    row('illegal transitions', verdict.illegalTransitions),
    row('wrong answers', verdict.wrongAnswers, `${verdict.unknown} outcomes were unknown`),
    row('recovery, ms', recoveryMs.p50, `median; 99 % ${recoveryMs.p99}, longest ${recoveryMs.max}`),
    row('drained at the end', verdict.drained ? 'yes' : 'NO'),
    row('faults', sum(faults), list(faults)),
    `  longest recovery, ms: ${list(recoveryMs.byKind)}`,
    ...noticed,
    ...Object.entries(refused).map(([kind, reason]) => `  refused: ${kind}: ${reason}`),
    ...crashes.map((crash) => `  ended by itself: ${crash}`),
    ...Object.entries(stories).flatMap(([kind, lines]) => [
      '',
      `${kind}:`,
      ...lines.map((line) => `  ${line}`),
    ]),
    '',
    `Kept in ${folder}; judge it again with: npm run chaos -- --check ${folder}`,
  ]
}

export const jsonOf = ({ stories, ...verdict }: Verdict): string => JSON.stringify(verdict)
