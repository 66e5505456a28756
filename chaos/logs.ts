/**
 * What a run leaves behind: files of JSON lines, one writer at a time each, appended to and never changed. The
 * checker reads nothing else, so whoever has the folder can judge the run again.
 */
import {
  closeSync,
  createReadStream,
  existsSync,
  fdatasyncSync,
  openSync,
  readdirSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

export type { FaultLine } from '../src/cli/prove/faults.ts'

export const FILES = {
  run: 'run.json',
  sink: 'sink.ndjson',
  arrivals: 'arrivals.ndjson',
  faults: 'faults.ndjson',
  truth: 'truth.ndjson',
  transitions: 'transitions.ndjson',
  left: 'left.ndjson',
  samples: 'samples.ndjson',
} as const

/** One per slot of the crew. */
export const intentsFile = (slot: string): string => `intents-${slot}.ndjson`
export const settledFile = (slot: string): string => `settled-${slot}.ndjson`

/** What becomes of an event at the sink: accepted, after some refusals, or never. */
export type Fate = 'accepted' | 'refused'

/** How the run was set up, as far as the checker must know it. */
export interface RunFacts {
  readonly seed: number
  readonly minutes: number
  readonly store: string
  readonly destinations: readonly string[]
  readonly leaseMs: number
  readonly maxAttempts: number
  /** A send that is not settled counts as in flight at a fault this long before and after it. */
  readonly aftermathMs: number
  /** Whether everything was delivered in time after the faults; null while the run is not over. */
  readonly drained: boolean | null
  /** Processes that ended although nobody had asked them to. */
  readonly crashes: readonly string[]
}

/** Written by producers: the plan before the transaction, its ids right before COMMIT, and what was answered. */
export interface IntentLine {
  readonly at: number
  readonly boot: string
  readonly n: number
  readonly what: 'begin' | 'commit' | 'ok' | 'failed' | 'unknown'
  readonly ids?: readonly string[]
  readonly reason?: string
}

/** A row of the table that is written in the event's own transaction. */
export interface TruthLine {
  readonly id: string
  readonly key: string | null
  readonly position: number
  readonly body: TruthBody
}

export interface TruthBody {
  readonly boot: string
  readonly n: number
  readonly destinations: readonly string[]
  readonly publishedAt: number
  readonly delayMs: number
  /** Attempts that the sink refuses before it accepts. */
  readonly failures: number
  readonly fate: Fate
}

export type SinkAnswer = 'ok' | 'retry' | 'dead'

/** One request at the sink, on disk before it was answered. */
export interface SinkLine {
  readonly at: number
  readonly slot: string
  readonly boot: string
  readonly destination: string
  readonly sends: readonly (readonly [event: string, run: number, attempt: number, answer: SinkAnswer])[]
}

/** A message in a real broker. Lines with one position are one message that was read more than once. */
export interface ArrivalLine extends SinkLine {
  readonly position: string
  /** As the broker has it. */
  readonly key: string | null
}

/**
 * Written by whoever serves: `done` was confirmed by the database; `lost` means that the right was gone. `fenced`
 * and `stalled` are faults that nobody planned: others took the lanes, or the process stood still.
 */
export interface SettledLine {
  readonly at: number
  readonly boot: string
  readonly what: 'done' | 'lost' | 'fenced' | 'stalled'
  readonly destination?: string
  readonly event?: string
  readonly run?: number
  readonly ms?: number
}

/** From the triggers: a row of `deliveries` or `finished` was inserted, changed or removed. */
export interface TransitionLine {
  readonly of: 'deliveries' | 'finished'
  readonly op: 'insert' | 'update' | 'delete'
  readonly delivery: string
  readonly event: string
  readonly destination: string
  readonly run: number
  readonly was: number | null
  readonly is: number | null
  readonly attemptsWere: number | null
  readonly attempts: number | null
}

/** A delivery that is not finished at the end. */
export interface LeftLine {
  readonly event: string
  readonly destination: string
  readonly status: number
  readonly attempts: number
}

/** Processes and tables at one moment. */
export interface SampleLine {
  readonly at: number
  /** By slot. `files`: open descriptors, where the system tells; null elsewhere. */
  readonly processes: Readonly<
    Record<
      string,
      {
        readonly pid: number
        readonly rssBytes: number
        readonly handles: number
        readonly files: number | null
      }
    >
  >
  readonly tables: Readonly<Record<string, TableSize>>
  /** Bytes, by name. */
  readonly indexes: Readonly<Record<string, number>>
  /** Unfinished deliveries, and for how long the oldest that is due has been so. */
  readonly waiting: number
  readonly oldestMs: number
}

export interface TableSize {
  readonly rows: number
  readonly bytes: number
}

/** Databases write ids with and without dashes. */
export const plainId = (id: string): string => id.replaceAll('-', '')

/** Appends lines; `true` puts them on the disk before it returns. */
export class Log {
  readonly #file: number

  constructor(folder: string, name: string) {
    const path = join(folder, name)
    const torn = existsSync(path)
    this.#file = openSync(path, 'a')
    // A writer that was killed may have left half a line.
    if (torn) writeSync(this.#file, '\n')
  }

  write(lines: readonly object[], durable: boolean): void {
    if (lines.length === 0) return
    writeSync(this.#file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    if (durable) fdatasyncSync(this.#file)
  }

  close(): void {
    closeSync(this.#file)
  }
}

/** Half a line is what a killed writer leaves; it told nobody about it, so it says nothing. */
export async function* readLog<T>(folder: string, name: string): AsyncGenerator<T> {
  const path = join(folder, name)
  if (!existsSync(path)) return
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    if (text === '') continue
    let line: T
    try {
      line = JSON.parse(text) as T
    } catch {
      continue
    }
    yield line
  }
}

/** All lines of files that the slots of the crew have each. */
export async function* readLogs<T>(folder: string, prefix: string): AsyncGenerator<readonly [string, T]> {
  for (const name of readdirSync(folder)
    .filter((each) => each.startsWith(`${prefix}-`))
    .toSorted()) {
    const slot = name.slice(prefix.length + 1, -'.ndjson'.length)
    for await (const line of readLog<T>(folder, name)) yield [slot, line]
  }
}
