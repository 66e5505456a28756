import { availableParallelism } from 'node:os'
import { formatDuration } from '../../config/duration.ts'
import type { createOutbox } from '../../core/outbox.ts'
import type { Store } from '../../core/spi/index.ts'
import type { Command, Result } from '../command.ts'
import {
  consentFlags,
  inTransaction,
  openDisposable,
  openStoreAt,
  unfinished,
  WHICH_DATABASE,
} from '../disposable.ts'
import { EXIT } from '../exit-codes.ts'
import { Interrupted } from '../failures.ts'
import type { Session } from '../session.ts'
import type { Progress } from '../terminal.ts'
import { clean, count } from '../text.ts'
import { wait } from '../wait.ts'

/** A drain may take so many times as long as the publishing before it. */
const DRAIN_FACTOR = 10
const MOST_HOT = 5_000
const ARRIVE_MS = 30_000
const SETTLE_LOOK_MS = 10
const BAR = 30

interface Times {
  readonly p50Ms: number
  readonly p99Ms: number
}

interface Phase {
  readonly events: number
  readonly seconds: number
  readonly perSecond: number
  /** Texts that were sent to the database: round trips, where it is a server. */
  readonly statementsPerEvent: number
}

interface Figures {
  readonly publish: Phase & Times
  readonly drain: Phase & { readonly drained: boolean }
  readonly hot: { readonly events: number; readonly arrival: Times; readonly afterCommit: Times }
}

const rounded = (value: number): number => Math.round(value * 100) / 100

const timesOf = (all: readonly number[]): Times => {
  const sorted = all.toSorted((a, b) => a - b)
  const at = (share: number): number =>
    rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}

const phaseOf = (events: number, ms: number, statements: number): Phase => ({
  events,
  seconds: rounded(ms / 1_000),
  perSecond: Math.round((events * 1_000) / Math.max(1, ms)),
  statementsPerEvent: rounded(statements / Math.max(1, events)),
})

interface Settings {
  readonly seconds: number
  readonly concurrency: number
  readonly payloadBytes: number
}

class Bench {
  readonly #settings: Settings
  readonly #signal: AbortSignal
  readonly #progress: Progress
  readonly #statements: () => number
  /** Asks without being counted. */
  readonly #watch: Store
  readonly #arrivals = new Map<string, number>()
  readonly #outbox: ReturnType<Bench['open']>
  readonly #payload: { readonly text: string }
  #arrived: () => void = () => undefined

  constructor(
    create: typeof createOutbox,
    store: Store,
    watch: Store,
    session: Session,
    settings: Settings,
    statements: () => number,
  ) {
    this.#watch = watch
    this.#settings = settings
    this.#signal = session.signal
    this.#progress = session.progress('measured')
    this.#statements = statements
    this.#payload = { text: 'x'.repeat(settings.payloadBytes) }
    this.#outbox = this.open(create, store)
  }

  open(create: typeof createOutbox, store: Store) {
    return create({
      store,
      migrate: false,
      pollIntervalMs: 100,
      destinations: {
        bench: {
          events: ['bench.event'],
          to: {
            maxBatch: 100,
            send: async (deliveries) => {
              const now = performance.now()
              for (const { event } of deliveries) this.#arrivals.set(event.id, now)
              this.#arrived()
              return deliveries.map(() => ({ ok: true }))
            },
          },
        },
      },
    })
  }

  async run(): Promise<Figures> {
    const totalMs = this.#settings.seconds * 3_000
    const started = performance.now()
    const tick = setInterval(
      () => this.#progress.update(Math.min(totalMs, performance.now() - started) | 0, totalMs),
      100,
    )
    try {
      const publish = await this.#publish()
      const drain = await this.#drain(publish.events)
      const hot = await this.#hot()
      return { publish, drain, hot }
    } finally {
      clearInterval(tick)
      this.#progress.end()
      await this.#outbox.stop()
    }
  }

  #stopHere(): void {
    if (this.#signal.aborted) throw new Interrupted('stopped; the tables are removed')
  }

  async #publishOne(): Promise<string> {
    return await this.#outbox.transaction((tx) =>
      this.#outbox.publish(tx, { type: 'bench.event', payload: this.#payload }),
    )
  }

  async #publish(): Promise<Figures['publish']> {
    const times: number[] = []
    const [before, started] = [this.#statements(), performance.now()]
    const until = started + this.#settings.seconds * 1_000
    const loop = async (): Promise<void> => {
      while (performance.now() < until && !this.#signal.aborted) {
        const begun = performance.now()
        await this.#publishOne()
        times.push(performance.now() - begun)
      }
    }
    await Promise.all(Array.from({ length: this.#settings.concurrency }, loop))
    this.#stopHere()
    const ms = performance.now() - started
    return { ...phaseOf(times.length, ms, this.#statements() - before), ...timesOf(times) }
  }

  async #drain(events: number): Promise<Figures['drain']> {
    const [before, started] = [this.#statements(), performance.now()]
    const withinMs = this.#settings.seconds * 1_000 * DRAIN_FACTOR
    const latest = started + withinMs
    const drained = this.#until(() => this.#arrivals.size >= events, withinMs)
    await this.#outbox.start()
    let isDrained = await drained
    // Until the last one is settled, too.
    while (isDrained && !this.#signal.aborted && (await unfinished(this.#watch)) > 0) {
      await wait(SETTLE_LOOK_MS, this.#signal)
      isDrained = performance.now() < latest
    }
    this.#stopHere()
    const ms = performance.now() - started
    return { ...phaseOf(this.#arrivals.size, ms, this.#statements() - before), drained: isDrained }
  }

  /** One at a time, so that nothing waits for anything but the database. */
  async #hot(): Promise<Figures['hot']> {
    const arrival: number[] = []
    const afterCommit: number[] = []
    const until = performance.now() + this.#settings.seconds * 1_000
    while (performance.now() < until && arrival.length < MOST_HOT) {
      this.#stopHere()
      const begun = performance.now()
      const id = await this.#publishOne()
      const committed = performance.now()
      if (!(await this.#until(() => this.#arrivals.has(id), ARRIVE_MS))) break
      const at = this.#arrivals.get(id) as number
      arrival.push(at - begun)
      afterCommit.push(at - committed)
    }
    return { events: arrival.length, arrival: timesOf(arrival), afterCommit: timesOf(afterCommit) }
  }

  #until(isThere: () => boolean, withinMs: number): Promise<boolean> {
    if (isThere()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const end = (answer: boolean) => (): void => {
        clearTimeout(timer)
        this.#signal.removeEventListener('abort', stop)
        this.#arrived = () => undefined
        resolve(answer)
      }
      const stop = end(false)
      const timer = setTimeout(stop, withinMs)
      this.#signal.addEventListener('abort', stop)
      const done = end(true)
      this.#arrived = () => {
        if (isThere()) done()
      }
    })
  }
}

const VERSIONS: Readonly<Record<string, string>> = {
  postgres: "SELECT current_setting('server_version') AS version",
  mysql: 'SELECT VERSION() AS version',
  sqlite: 'SELECT sqlite_version() AS version',
}

const versionOf = async (store: Store): Promise<string> => {
  const rows = await inTransaction(store, (sql) => sql.run(VERSIONS[store.name] ?? '', []))
  return String(rows?.[0]?.version ?? '')
}

const say = (
  session: Session,
  { publish, drain, hot }: Figures,
  { concurrency }: Settings,
  isServer: boolean,
): void => {
  const fastest = Math.max(publish.perSecond, drain.perSecond, 1)
  const slowest = Math.max(publish.p99Ms, hot.arrival.p99Ms, 0.01)
  const bar = (value: number, most: number): string =>
    '█'.repeat(Math.max(1, Math.round((value / most) * BAR))).padEnd(BAR)
  const trips = (value: number): string => `${value} ${isServer ? 'round trips' : 'statements'} per event`
  const rate = (name: string, { perSecond, events, seconds, statementsPerEvent }: Phase): void =>
    session.say(
      `${name.padEnd(9)} ${session.paint('cyan', bar(perSecond, fastest))} ${`${perSecond.toLocaleString('en-US')}/s`.padStart(9)}  ${count(events, 'event')} in ${seconds} s, ${trips(statementsPerEvent)}`,
    )
  const time = (name: string, ms: number, what: string): void =>
    session.say(
      `${name.padEnd(9)} ${session.paint('green', bar(ms, slowest))} ${`${ms} ms`.padStart(9)}  ${what}`,
    )
  const title = (text: string): void => session.say(session.paint('bold', text))
  title('Rate')
  rate('publish', publish)
  rate('drain', drain)
  session.say()
  title(`Time of a transaction with one event, ${concurrency} at once`)
  time('p50', publish.p50Ms, 'half of them took no longer')
  time('p99', publish.p99Ms, '99 of 100 took no longer')
  session.say()
  title(`Hot path: from begin of the transaction to arrival, ${count(hot.events, 'event')}, one at a time`)
  // A destination in the same process may have it before the application goes on.
  const after = (ms: number): string =>
    `${Math.abs(ms)} ms ${ms < 0 ? 'before' : 'after'} the application heard of the commit`
  time('p50', hot.arrival.p50Ms, after(hot.afterCommit.p50Ms))
  time('p99', hot.arrival.p99Ms, after(hot.afterCommit.p99Ms))
}

export const bench: Command = {
  name: 'bench',
  group: 'Learn',
  summary: 'measures publishing, draining and the hot path on your database',
  operands: '',
  counts: [0, 0],
  about: [
    'Three phases, in this process, with tables of its own (posthaste_bench_…) that are dropped at the end: transactions with one event each and nothing ' +
      'else, as many at once as --concurrency says, while nobody delivers; then one worker that hands what is there to a destination that does nothing, from its ' +
      'start until the last event is settled; then one event at a time, published and awaited, which is the hot path.',
    'What it says holds for this machine, this network and this server now, with nothing else to do: a transaction of yours does more, and so does a destination. ' +
      'Producer and worker share one process, so a fast database is measured by its Node. It loads the server; hence the same word as for prove.',
    WHICH_DATABASE,
  ],
  flags: [
    { name: 'seconds', value: 'N', about: 'of each phase, 1 to 60 (default 5)' },
    { name: 'concurrency', value: 'N', about: 'transactions at once while publishing, 1 to 200 (default 8)' },
    { name: 'payload-bytes', value: 'N', about: 'of each event, 0 to 100,000 (default 200)' },
    ...consentFlags('load'),
  ],
  examples: [
    [
      'posthaste bench --url postgres://me@localhost/scratch --yes --database-is-disposable scratch',
      'about 15 seconds',
    ],
    [
      'posthaste bench --url sqlite:scratch.db --seconds 2 --json --yes --database-is-disposable scratch.db',
      'for a program',
    ],
  ],
  async run(session): Promise<Result> {
    const settings: Settings = {
      seconds: session.whole('seconds', 5, [1, 60]),
      concurrency: session.whole('concurrency', 8, [1, 200]),
      payloadBytes: session.whole('payload-bytes', 200, [0, 100_000]),
    }
    // From here on Ctrl-C ends where the tables can be removed.
    void session.signal
    let statements = 0
    const disposable = await openDisposable(session, 'bench', 'load', () => {
      statements += 1
    })
    const { store, database } = disposable
    let figures: Figures
    let version: string
    let watch: Store | null = null
    try {
      version = await versionOf(store)
      session.note(
        `tables ${disposable.place.name}… in ${clean(database)}, ${formatDuration(settings.seconds * 3_000)} or more`,
      )
      watch = await openStoreAt(disposable.place)
      const { createOutbox: create } = await import('../../core/outbox.ts')
      figures = await new Bench(create, store, watch, session, settings, () => statements).run()
    } finally {
      await watch?.close()
      await disposable.remove()
    }
    const cores = availableParallelism()
    const isServer = store.name !== 'sqlite'
    say(session, figures, settings, isServer)
    session.say()
    session.say(
      session.paint(
        'dim',
        `${store.name} ${clean(version)}, Node ${process.versions.node}, ${count(cores, 'core')} here, payload of ${settings.payloadBytes} bytes`,
      ),
    )
    const isComplete = figures.drain.drained && figures.hot.events > 0
    if (!isComplete) session.say(session.paint('red', 'not everything arrived in time'))
    return {
      exitCode: isComplete ? EXIT.ok : EXIT.failed,
      json: {
        store: store.name,
        version,
        database,
        node: process.versions.node,
        cores,
        ...settings,
        ...figures,
      },
    }
  },
}
