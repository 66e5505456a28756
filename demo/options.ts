/** What can be asked of the demo; everything wrong is said in one sentence and ends with exit code 2. */
import { parseArgs } from 'node:util'

export interface DemoOptions {
  readonly events: number
  readonly seed: number
  /** Where the database and the calls are kept; null for a folder that is removed in the end. */
  readonly dir: string | null
  readonly crash: boolean
  readonly json: boolean
}

export const HELP = `A small shop on a SQLite file, its events, and everything that goes wrong on the way.

  npm run demo -- [options]

  --events N   events to publish, 300 to 200,000 (default 2000)
  --seed S     the same seed publishes the same events, 0 to 4,294,967,295 (default 1)
  --dir D      keep shop.db and calls.ndjson in folder D; without it a temporary one is removed
  --crash      run the shop in a child process and kill it with SIGKILL in mid-flight, again and again
  --json       one JSON object with all figures as the last line
  --help       this text

calls.ndjson has one line per call of a listener, written before the call returns:
  {"eventId", "destination", "run", "attempt", "path": "hot"|"cold", "pid", "ok", "fault", "latencyMs"}
  fault      what the demo did to it: "flaky", "poison", "outage", "crash", or null
  latencyMs  commit to the listener's start by the monotonic clock; on the hot path only

The fields of --json, all computed from shop.db and calls.ndjson when the run is over:
  published       events that were committed
  delivered       pairs of event and destination that ended done
  calls           calls that succeeded, those that came twice included
  lost            pairs that were committed and are neither done nor dead
  duplicates      successful calls beyond the first of an event, destination and run
  dead            pairs that are dead in the end, for an operator to see
  died            runs that died on the way, those that were redriven included
  redriven        runs that an operator's redrive began
  hotShare        first attempts taken hot ÷ first attempts, both only of pairs without an injected fault
                  at their first attempt
  latencyMsP50, latencyMsP99   of all first attempts that were taken hot
  ghosts          calls for events that were never committed
  outageAttempts  attempts that the mailer's deliveries spent beyond their first; its only trouble is an outage
  failedCalls     calls that failed, for whatever reason
  kills, inFlightAtKills       with --crash: SIGKILLs, and calls that were over but not settled at them
  seed, events, elapsedMs      what was asked for, and how long it took

Exit code 0: nothing lost, nothing twice (with --crash: nothing twice beyond what was in flight at the kills),
at least 90 % hot. 1: one of these failed. 2: bad options. 141: whoever read the output left early.
`

export class UsageError extends Error {}

const SPEC = {
  events: { type: 'string' },
  seed: { type: 'string' },
  dir: { type: 'string' },
  crash: { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

const wholeNumber = (
  name: string,
  text: string | undefined,
  fallback: number,
  low: number,
  high: number,
): number => {
  if (text === undefined) return fallback
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (value >= low && value <= high) return value
  throw new UsageError(`--${name} must be a whole number from ${low} to ${high}, not "${text}"`)
}

/** Null means that only the help was asked for. */
export const parseOptions = (args: readonly string[]): DemoOptions | null => {
  let values: ReturnType<typeof parseArgs<{ options: typeof SPEC }>>['values']
  try {
    values = parseArgs({ args: [...args], options: SPEC, strict: true, allowPositionals: false }).values
  } catch (error) {
    // Node explains how to escape a positional; the first sentence is all that helps here.
    throw new UsageError((error as Error).message.split('. ')[0] ?? 'these options cannot be read')
  }
  if (values.help === true) return null
  if (values.dir === '') throw new UsageError('--dir needs the path of a folder')
  return {
    events: wholeNumber('events', values.events, 2_000, 300, 200_000),
    seed: wholeNumber('seed', values.seed, 1, 0, 4_294_967_295),
    dir: values.dir ?? null,
    crash: values.crash === true,
    json: values.json === true,
  }
}
