/** `npm run outage`: a real broker goes away under load; HELP says what can be asked. */
import { choiceOption, numberOption, type OptionValues, runCommand } from '../../scripts/usage.ts'
import { BROKER_KINDS } from '../brokers/kit.ts'
import { runOutage } from './run.ts'
import { type Figures, PHASES, problemsOf, slownessOf } from './verdict.ts'

const HELP = `npm run outage -- [options]

  --broker NAME   ${BROKER_KINDS.join(', ')} (default kafka)
  --seconds S     for how long the broker is away, 1 to 3,600 (default 60)
  --rate N        events per second, 1 to 1,000 (default 100)
  --json          one JSON object as the last line
  --help          this text

The broker is killed and started again under a steady load, with at most 3 attempts for a delivery. A listener of the same
events is the other destination. Both servers (the broker, and PostgreSQL) are started for this and removed after it.

It holds when nothing is lost, dead or out of order, no attempt was spent, the metrics showed an open breaker, everything
was delivered afterwards, and the listener kept its pace: meanwhile it heard 95 % of what was committed meanwhile, and its
median was at most twice what it had been, and 50 ms.

Exit code 0: it holds. 1: it does not. 2: wrong use.
`

const SPEC = {
  broker: { type: 'string', default: 'kafka' },
  seconds: { type: 'string', default: '60' },
  rate: { type: 'string', default: '100' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const row = (name: string, ...values: readonly (string | number)[]): string =>
  `  ${name.padEnd(24)}${values.map((value) => String(value).padStart(10)).join('')}`

const summaryOf = (figures: Figures, problems: readonly string[]): string[] => {
  const { broker, seconds, breaker, other, recoveryMs } = figures
  return [
    '',
    `${problems.length === 0 ? 'It holds' : 'IT DOES NOT HOLD'}: ${broker} was away for ${seconds} s`,
    row('dead and starting, ms', figures.awayMs),
    row('events committed', figures.committed),
    row('delivered', figures.delivered),
    row('lost', figures.lost),
    row('duplicates', figures.duplicates),
    row('out of order', figures.outOfOrder),
    row('dead', figures.dead),
    row('attempts spent', figures.attemptsSpent),
    row('waiting at the end', figures.waitingAtEnd),
    row('breaker open after, ms', breaker.openAfterMs ?? 'never'),
    row('  share of the time', breaker.openShare),
    row('all delivered after, ms', recoveryMs ?? 'never'),
    '',
    row('the other destination', ...PHASES),
    row('  committed per second', ...PHASES.map((phase) => other[phase].committedPerSecond)),
    row('  heard per second', ...PHASES.map((phase) => other[phase].heardPerSecond)),
    row('  median, ms', ...PHASES.map((phase) => other[phase].p50Ms)),
    row('  99 %, ms', ...PHASES.map((phase) => other[phase].p99Ms)),
    '',
    ...problems,
  ]
}

const run = async (values: OptionValues<typeof SPEC>): Promise<number> => {
  const figures = await runOutage({
    broker: choiceOption('broker', values.broker, BROKER_KINDS),
    seconds: numberOption('seconds', values.seconds, 1, 3_600),
    eventsPerSecond: numberOption('rate', values.rate, 1, 1_000),
    label: 'outage',
    progress: (text) => process.stderr.write(`${text}\n`),
  })
  const problems = [...problemsOf(figures), ...slownessOf(figures)]
  for (const line of summaryOf(figures, problems)) say(line)
  if (values.json) say(JSON.stringify({ ...figures, problems, ok: problems.length === 0 }))
  return problems.length === 0 ? 0 : 1
}

process.exitCode = await runCommand('outage', HELP, SPEC, run)
