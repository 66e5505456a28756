/** `npm run chaos`: real processes on a real database, broken on purpose; HELP says what can be asked. */
import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { ROOT } from '../scripts/run.ts'
import {
  choiceOption,
  decimal,
  HIGHEST_SEED,
  numberOption,
  type OptionValues,
  runCommand,
  UsageError,
} from '../scripts/usage.ts'
import { RELEASE_FILE } from '../test/compat/previous.ts'
import { BROKER_KINDS, isBroker } from './brokers/kit.ts'
import { selfTest } from './checker/self-test.ts'
import { STORE_KINDS } from './crew/messages.ts'
import { DESTINATIONS } from './crew/routes.ts'
import { FILES } from './logs.ts'
import { createProgress } from './progress.ts'
import { CHAOS } from './regime.ts'
import { checkFolder, runChaos } from './run.ts'
import { jsonOf, summaryOf } from './summary.ts'

const HELP = `npm run chaos -- [options]

  --store NAME        ${STORE_KINDS.join(', ')} (default sqlite)
  --minutes M         how long things are broken, 0.1 to 600 (default 1)
  --seed S            what is broken when; 0 to 4,294,967,295 (default 1)
  --destination LIST  with commas between: some of ${DESTINATIONS.join(', ')}, which end at a recording sink (default all
                      of these), and one of ${BROKER_KINDS.join(', ')}: a real broker, which is broken too
  --previous FILE     a packed build (.tgz) whose processes take turns with ours, or none
                      (default ${relative(ROOT, RELEASE_FILE)})
  --check FOLDER      judges a run that was kept once more, and runs nothing
  --json              one JSON object as the last line
  --help              this text

Servers are started for the run and removed after it; they listen on 127.0.0.1 only. What a run did is kept in
.chaos/, the last few runs of it.

Exit code 0: every promise was kept. 1: one was not. 2: wrong use.
`

const NONE = 'none'

const SPEC = {
  store: { type: 'string', default: 'sqlite' },
  minutes: { type: 'string', default: '1' },
  seed: { type: 'string', default: '1' },
  destination: { type: 'string', default: DESTINATIONS.join(',') },
  previous: { type: 'string', default: RELEASE_FILE },
  check: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const destinationsIn = (text: string): string[] => {
  const names = [...new Set(text.split(','))]
  const all = [...DESTINATIONS, ...BROKER_KINDS]
  const unknown = names.find((name) => !all.includes(name))
  if (unknown !== undefined)
    throw new UsageError(`--destination: there is no "${unknown}"; there are ${all.join(', ')}`)
  if (names.filter(isBroker).length > 1)
    throw new UsageError(`--destination: one broker at a time, not ${names.filter(isBroker).join(' and ')}`)
  return names
}

const previousIn = (text: string): string | null => {
  if (text === NONE) return null
  if (existsSync(text)) return text
  throw new UsageError(`--previous: there is no ${text}`)
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const run = async (values: OptionValues<typeof SPEC>): Promise<number> => {
  const { check, json } = values
  if (check !== undefined && !existsSync(join(check, FILES.run)))
    throw new UsageError(`--check: there is no ${FILES.run} in ${check}`)
  const options = {
    store: choiceOption('store', values.store, STORE_KINDS),
    minutes: numberOption('minutes', values.minutes, 0.1, 600, decimal),
    seed: numberOption('seed', values.seed, 0, HIGHEST_SEED),
    destinations: destinationsIn(values.destination),
    previous: previousIn(values.previous),
  }
  const blind = await selfTest()
  for (const problem of blind) say(`the checker is blind: ${problem}`)
  if (blind.length > 0) return 1
  say('The checker finds every defect that is planted for it.')
  const progress = createProgress(options.minutes)
  const { folder, verdict } =
    check === undefined
      ? await runChaos({ ...options, regime: CHAOS, label: 'chaos', progress })
      : { folder: check, verdict: await checkFolder(check) }
  for (const line of summaryOf(verdict, folder)) say(line)
  if (json) say(jsonOf(verdict))
  return verdict.ok ? 0 : 1
}

process.exitCode = await runCommand('chaos', HELP, SPEC, run)
