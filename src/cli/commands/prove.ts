import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatDuration } from '../../config/duration.ts'
import type { Store } from '../../core/spi/index.ts'
import type { Command, Result } from '../command.ts'
import {
  consentFlags,
  type Disposable,
  inTransaction,
  openDisposable,
  unfinished,
  WHICH_DATABASE,
} from '../disposable.ts'
import { EXIT } from '../exit-codes.ts'
import { Interrupted } from '../failures.ts'
import { type NamedDestination, publishingDestination } from '../prove/destination.ts'
import { judge, readEvidence, type Truth, type Verdict } from '../prove/judge.ts'
import { Crew, hasMember, MemberFailed, Nemesis, namedUrl } from '../prove/nemesis.ts'
import type { Session } from '../session.ts'
import { clean } from '../text.ts'
import { wait } from '../wait.ts'

const DRAIN_MS = 60_000
const LOOK_MS = 200
/** All of them are in memory when they are judged. */
const MOST_EVENTS = 2_000_000

const drained = async (store: Store, signal: AbortSignal): Promise<boolean> => {
  const until = performance.now() + DRAIN_MS
  while (performance.now() < until && !signal.aborted) {
    if ((await unfinished(store)) === 0) return true
    await wait(LOOK_MS, signal)
  }
  return false
}

const readTruth = async ({ store, place }: Disposable): Promise<readonly Truth[]> => {
  const rows = await inTransaction(store, (sql) =>
    sql.run(`SELECT id, event_key, position, published_at, refusals FROM ${place.truth}`, []),
  )
  return (rows ?? []).map((row) => ({
    id: String(row.id),
    key: row.event_key === null ? null : String(row.event_key),
    position: Number(row.position),
    publishedAt: Number(row.published_at),
    refusals: Number(row.refusals),
  }))
}

const destinationOf = (session: Session): NamedDestination | null => {
  const name = session.text('destination')
  if (name === undefined) return null
  const [configFile, outbox] = [session.text('config'), session.text('outbox')]
  const given = {
    ...(configFile === undefined ? {} : { configFile }),
    ...(outbox === undefined ? {} : { outbox }),
  }
  return { name, load: { ...given, folder: process.cwd() } }
}

interface Run {
  readonly minutes: number
  readonly seed: number
  readonly perSecond: number
  readonly destination: NamedDestination | null
}

const runCrew = async (
  session: Session,
  disposable: Disposable,
  folder: string,
  { minutes, seed, perSecond, destination }: Run,
): Promise<Verdict> => {
  const { signal } = session
  const place = namedUrl(disposable.place)
  const shared = { perSecond: perSecond / 2, place, folder, destination }
  const crew = new Crew(shared, seed)
  const nemesis = new Nemesis(crew, disposable.store, place, seed)
  const progress = session.progress('broken')
  const totalMs = minutes * 60_000
  try {
    for (const slot of [...crew.workers, ...crew.producers]) if (!signal.aborted) await crew.start(slot)
    const started = performance.now()
    const isOver = (): boolean => performance.now() - started >= totalMs
    const bar = setInterval(
      () => progress.update(Math.floor((performance.now() - started) / 1_000), Math.ceil(totalMs / 1_000)),
      100,
    )
    try {
      await nemesis.run(isOver, signal)
    } finally {
      clearInterval(bar)
      progress.end()
    }
    const stopHere = (): void => {
      if (signal.aborted) throw new Interrupted('stopped: nothing was judged; the tables are removed')
    }
    stopHere()
    await crew.end(crew.producers, 'SIGTERM')
    const isDrained = await drained(disposable.store, signal)
    stopHere()
    await crew.end(crew.workers, 'SIGTERM')
    if (crew.crashes.length > 0) throw new MemberFailed(`a process ended by itself: ${crew.crashes[0]}`)
    const truth = await readTruth(disposable)
    return judge({ ...readEvidence(folder), truth, faults: nemesis.faults, drained: isDrained })
  } finally {
    await crew.endAll()
  }
}

const say = (session: Session, verdict: Verdict, acknowledgedBy: string | null): void => {
  const { paint } = session
  const figure = (value: number, bad: boolean): string =>
    paint(bad ? 'red' : 'green', value.toLocaleString('en-US'))
  const rows: readonly (readonly [string, string, string])[] = [
    [
      'committed',
      figure(verdict.committed, verdict.committed === 0),
      'events, each with a row of truth in its transaction',
    ],
    [
      acknowledgedBy === null ? 'delivered' : 'acknowledged',
      figure(verdict.delivered, verdict.delivered < verdict.committed),
      acknowledgedBy === null
        ? 'of them arrived in the ledger'
        : `of them by ${clean(acknowledgedBy)}; what it did with them is not read back`,
    ],
    ['lost', figure(verdict.lost, verdict.lost > 0), ''],
    ['ghosts', figure(verdict.ghosts, verdict.ghosts > 0), 'arrived, and were rolled back'],
    [
      'duplicates',
      figure(verdict.duplicates, verdict.unexplained > 0 || verdict.duplicates > verdict.duplicateBound),
      `at most ${verdict.duplicateBound} could be: sends near a fault that were not known to be settled`,
    ],
    ['out of order', figure(verdict.orderViolations, verdict.orderViolations > 0), 'within a key'],
    [
      'recovery',
      formatDuration(verdict.recoveryMs.max),
      'the longest, from the end of a fault until its backlog was gone',
    ],
  ]
  for (const [name, value, what] of rows) session.say(`${name.padEnd(13)} ${value}  ${paint('dim', what)}`)
  const faults = Object.entries(verdict.faults).map(([kind, times]) => `${kind} ${times}`)
  session.say(`${'faults'.padEnd(13)} ${faults.join(', ')}`)
  for (const [kind, why] of Object.entries(verdict.refused))
    session.say(`${' '.repeat(14)}no ${kind}: ${clean(why)}`)
  if (!verdict.drained) session.say(paint('red', `not everything arrived within ${formatDuration(DRAIN_MS)}`))
  for (const story of verdict.stories) session.say(paint('red', clean(story)))
  session.say()
  session.say(verdict.ok ? paint('green', 'It held.') : paint('red', 'It did not hold.'))
}

export const prove: Command = {
  name: 'prove',
  group: 'Learn',
  summary: 'breaks workers, producers and connections on your database, and counts what was lost',
  operands: '',
  counts: [0, 0],
  about: [
    'Two producers and three workers of its own run against your database while they are killed (kill -9), suspended past their leases and cut off. ' +
      'Each event is written into a table of truth in its own transaction; what arrives goes into a ledger. At the end both are compared: ' +
      'nothing lost, nothing that was rolled back, duplicates only of what was in flight at a fault, and the order of each key.',
    'It touches no table that is there: it makes its own under a new name (posthaste_prove_…), and drops them at the end, after Ctrl-C as well. ' +
      'Only when it is killed itself (kill -9) they stay. But it loads the server, so it wants the word that the database is disposable, with its name. Only its own processes and connections are broken.',
    WHICH_DATABASE,
    'By default what arrives is recorded in a file, by each worker, in one order. With --destination the events go to that destination of your ' +
      'configuration, as type proof.event; a broker cannot be read back in general, so what is shown then is that each event was acknowledged ' +
      'by it, how often, and in which order it was handed over.',
    'Connections are cut by their server: by name on PostgreSQL; on MySQL and MariaDB by producers that end their own in mid-transaction. Exit code 1 when something did not hold.',
  ],
  flags: [
    {
      name: 'minutes',
      value: 'N',
      about: 'how long things are broken, 0.05 to 600 (default 1), and each kind of fault once',
    },
    { name: 'seed', value: 'N', about: 'chooses faults and events, 0 to 1,000,000 (default 1)' },
    {
      name: 'events-per-second',
      value: 'N',
      about: 'asked of the producers together, 2 to 2,000 (default 100)',
    },
    {
      name: 'destination',
      value: 'NAME',
      about: 'send to this one of the configuration, not only to the ledger',
    },
    ...consentFlags('load and faults'),
  ],
  examples: [
    [
      'posthaste prove --url postgres://me@localhost/scratch --yes --database-is-disposable scratch',
      'a minute',
    ],
    [
      'posthaste prove --url sqlite:scratch.db --minutes 10 --seed 7 --json --yes --database-is-disposable scratch.db',
      'for a program',
    ],
  ],
  async run(session): Promise<Result> {
    if (!hasMember()) session.refuse('prove is part of the built package; here it is npm run chaos')
    const text = session.text('minutes') ?? '1'
    const minutes = /^\d{1,3}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN
    if (!(minutes >= 0.05 && minutes <= 600))
      session.refuse(`--minutes must be a number from 0.05 to 600, not "${text}"`)
    const run: Run = {
      minutes,
      seed: session.whole('seed', 1, [0, 1_000_000]),
      perSecond: session.whole('events-per-second', 100, [2, 2_000]),
      destination: destinationOf(session),
    }
    if (minutes * 60 * run.perSecond > MOST_EVENTS)
      session.refuse(`--minutes and --events-per-second ask for more than ${MOST_EVENTS} events together`)
    if (run.destination !== null) await publishingDestination(run.destination)
    // From here on Ctrl-C ends where the tables can be removed.
    void session.signal
    const disposable = await openDisposable(session, 'prove', 'load and faults')
    const folder = mkdtempSync(join(tmpdir(), 'posthaste-prove-'))
    let verdict: Verdict
    try {
      session.note(
        `tables ${disposable.place.name}… in ${clean(disposable.database)}, for ${formatDuration(minutes * 60_000)}`,
      )
      verdict = await runCrew(session, disposable, folder, run)
    } finally {
      await disposable.remove()
      rmSync(folder, { recursive: true, force: true })
    }
    const destination = run.destination?.name ?? null
    say(session, verdict, destination)
    const { store } = disposable
    const { ok, ...figures } = verdict
    return {
      exitCode: ok ? EXIT.ok : EXIT.failed,
      json: {
        ...run,
        store: store.name,
        database: disposable.database,
        destination: destination ?? 'ledger',
        ...figures,
      },
    }
  },
}
