/** `npm run soak`: the same load for a long time, to see that nothing grows; HELP says what can be asked. */
import { STORE_KINDS } from '../chaos/crew/messages.ts'
import { createProgress } from '../chaos/progress.ts'
import {
  choiceOption,
  decimal,
  HIGHEST_SEED,
  numberOption,
  type OptionValues,
  runCommand,
} from '../scripts/usage.ts'
import { runSoak } from './run.ts'
import { summaryOf } from './summary.ts'

const HELP = `npm run soak -- [options]

  --minutes M   how long, 0.2 to 1,440 (default 15; a table needs minutes until it is as large as it gets)
  --store NAME  ${STORE_KINDS.join(', ')} (default sqlite)
  --rate N      events per second that the producers try for, 1 to 5,000 (default 200)
  --seed S      what is published and broken when, 0 to 4,294,967,295 (default 1)
  --json        one JSON object as the last line
  --help        this text

Three producers and four workers on a database of their own, three destinations, one in twelve events refused at
first. Now and then a worker or a producer is killed, connections are cut, a transaction is held open. What is finished
is removed every two seconds, so that tables have a size that they keep.

Memory, handles and open files of the processes, sizes and rows of every table and index, and lag are measured every
few seconds. Flat means: the median of the last third of the run is not above that of the middle third by more than
10 % and 8 MB of memory, 10 % and 10 handles, 10 % and 4 files, 20 % and 256 kB of a table or an index, 30 % and 1,000
rows, 50 % and 250 ms of lag. Processes that are killed begin anew and are not compared; one of each role is spared.

Samples, logs and plots (SVG) stay in .soak/, the last three runs of it. Every event is accounted for as in chaos runs.

  npm run soak -- --minutes 1
  npm run soak -- --minutes 15 --store postgres --json

Exit code 0: flat, and nothing lost. 1: not so. 2: wrong use.
`

const SPEC = {
  minutes: { type: 'string', default: '15' },
  store: { type: 'string', default: 'sqlite' },
  rate: { type: 'string', default: '200' },
  seed: { type: 'string', default: '1' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const run = async (values: OptionValues<typeof SPEC>): Promise<number> => {
  const minutes = numberOption('minutes', values.minutes, 0.2, 1_440, decimal)
  const { folder, plots, verdict } = await runSoak({
    store: choiceOption('store', values.store, STORE_KINDS),
    minutes,
    eventsPerSecond: numberOption('rate', values.rate, 1, 5_000),
    seed: numberOption('seed', values.seed, 0, HIGHEST_SEED),
    label: 'soak',
    progress: createProgress(minutes),
  })
  for (const line of summaryOf(verdict, folder, plots)) say(line)
  if (values.json) say(JSON.stringify(verdict))
  return verdict.flat && verdict.ok ? 0 : 1
}

process.exitCode = await runCommand('soak', HELP, SPEC, run)
