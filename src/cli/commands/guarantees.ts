import { formatDuration } from '../../config/duration.ts'
import { ConfigError } from '../../config/errors.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import type { ResolvedDestination } from '../../core/options.ts'
import type { Command } from '../command.ts'
import { clean, count } from '../text.ts'

const DEAD_HEADS: Readonly<Record<ResolvedDestination['deadHead'], string>> = {
  skip: 'a dead event is put aside, and those behind it in its key go on: the order then has a gap',
  block: 'a dead event keeps its key waiting until somebody redrives, edits or discards it',
  park: 'a dead event keeps its key waiting, outside of lag and alarms, until somebody acts',
}

const attemptsText = (attempts: number): string =>
  attempts === Number.POSITIVE_INFINITY ? 'without end' : `up to ${count(attempts, 'attempt')}`

/** What really holds on this route, by how it is set up; nothing that only sounds good. */
const promisesOf = ({ host }: LoadedOutbox, destination: ResolvedDestination): readonly string[] => {
  const { to, retry, deadHead, timeoutMs, ratePerSecond } = destination
  const { options, store } = host
  const timed =
    timeoutMs > 0
      ? `A delivery that takes longer than ${formatDuration(timeoutMs)} is aborted and tried again.`
      : `A delivery has no timeout of its own; what hangs for ${formatDuration(options.hardDeadlineMs)} is given up and tried again.`
  return [
    'Stored with your data or not at all; never sent before its commit is confirmed.',
    `At least once: ${attemptsText(retry.maxAttempts)}, then dead and visible. ${
      to === null
        ? 'A listener that throws OutageError, because what it needs is away, spends no attempt; with an ordinary error it does.'
        : 'An outage of the place spends no attempts.'
    }`,
    to === null
      ? 'Twice is possible after a crash, a lost lease or an unknown commit: listeners must be safe to run again, by event.id.'
      : 'Twice is possible after a crash, a lost lease or an answer that got lost: receivers recognise it by its deduplication id.',
    store.capabilities.commitOrder || options.keyOrder === 'locked'
      ? 'In order per key: all events of a key, as they were committed.'
      : 'In order per key: what was committed before a publish began comes first; events of overlapping transactions have no order (keyOrder "locked" gives them one).',
    to?.orderedPrefix === true
      ? 'Several events of one key may travel in one batch; the publisher keeps their order in it.'
      : 'Of one key one event at a time is under way.',
    `When one is dead: ${DEAD_HEADS[deadHead]}.`,
    timed,
    ...(ratePerSecond === null ? [] : [`At most ${ratePerSecond} a second and process.`]),
    `Finished deliveries are kept for ${options.retentionDoneHours} h, dead ones ${options.retentionDeadHours === null ? 'for ever' : `for ${options.retentionDeadHours} h`}.`,
  ]
}

export const guarantees: Command = {
  name: 'guarantees',
  group: 'Learn',
  summary: 'what each route of this configuration really promises',
  operands: '',
  counts: [0, 0],
  about: [
    'Derived from the store, the destination and its options, without asking the database: it needs a configuration, and --url is not enough. Exactly once over a network is promised by nobody.',
  ],
  flags: [],
  examples: [['posthaste guarantees', 'before you rely on it']],
  async run(session) {
    const routes: object[] = []
    const outboxes = await session.outboxes()
    if (outboxes.every(({ hasCode }) => !hasCode))
      throw new ConfigError(
        'guarantees needs a configuration: what is promised follows from destinations and their options, which are code, and ' +
          'nobody knows them by the address of a database alone. Leave --url out where the configuration lies, name one with ' +
          '--config, or run posthaste init to make one',
      )
    for (const loaded of outboxes) {
      for (const destination of loaded.host.declared()) {
        const { name, patterns, to } = destination
        const kind = to === null ? 'listeners of your code' : 'a publisher'
        const promises = promisesOf(loaded, destination)
        session.say(
          `${session.paint('bold', `${clean(loaded.name)} → ${clean(name)}`)}  ${session.paint('dim', clean(`${patterns.join(', ')}, to ${kind}`))}`,
        )
        for (const promise of promises) session.say(`  - ${promise}`)
        session.say()
        routes.push({
          outbox: loaded.name,
          destination: name,
          events: patterns,
          to: to === null ? 'listeners' : 'publisher',
          promises,
        })
      }
    }
    if (routes.length === 0) session.say('no destination is declared')
    return { json: { routes } }
  },
}
