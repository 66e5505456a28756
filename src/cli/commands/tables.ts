import { formatDuration } from '../../config/duration.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import type { CleanupResult } from '../../core/spi/index.ts'
import type { Command, Flag } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { durationFlag } from '../filters.ts'
import { compareLayout, type LayoutComparison, layoutRemedy } from '../layout.ts'
import type { Session } from '../session.ts'
import { clean, count } from '../text.ts'
import { wait } from '../wait.ts'

const HOUR_MS = 3_600_000
const LOCK_MS = 200
const LEAST_INTERVAL_MS = 1_000

const LOOP_FLAGS: readonly Flag[] = [
  { name: 'once', about: 'one pass, and end: for cron (the default)' },
  {
    name: 'interval',
    value: 'DURATION',
    about: 'again and again, this far apart, at least 1s, until Ctrl-C',
  },
]

/** One pass, or one every interval; Ctrl-C ends between two. */
const repeat = async <T extends object>(
  session: Session,
  pass: (outbox: LoadedOutbox) => Promise<T>,
): Promise<{ readonly exitCode: number; readonly json: Readonly<Record<string, unknown>> }> => {
  const everyMs = durationFlag(session, 'interval')
  if (everyMs !== undefined && everyMs < LEAST_INTERVAL_MS)
    session.refuse(`--interval must be at least ${formatDuration(LEAST_INTERVAL_MS)}`)
  if (everyMs !== undefined && session.isOn('once'))
    session.refuse('--once and --interval exclude each other')
  const { signal } = session
  const outboxes = await session.outboxes()
  let last: (T & { readonly outbox: string })[] = []
  let passes = 0
  while (!signal.aborted) {
    last = []
    for (const loaded of outboxes) last.push({ outbox: loaded.name, ...(await pass(loaded)) })
    passes += 1
    if (everyMs === undefined) break
    await wait(everyMs, signal)
  }
  return { exitCode: EXIT.ok, json: { passes, outboxes: last } }
}

export const cleanup: Command = {
  name: 'cleanup',
  group: 'Run',
  summary: 'removes what is past its retention',
  operands: '',
  counts: [0, 0],
  about: [
    'Workers do this by themselves every hour; this is for those who want it at another time, or with another role. It never touches ' +
      'unfinished work, nor a dead delivery that holds its key.',
    'Without --retention the retention of the outbox holds, for dead ones too. With it everything that finished before is removed, ' +
      'and dead ones only with --include-dead.',
  ],
  flags: [
    { name: 'retention', value: 'DURATION', about: 'remove what finished longer ago, such as 168h' },
    {
      name: 'limit',
      value: 'N',
      about: 'most rows of each kind in one pass, 1 to 1,000,000 (default 10000)',
    },
    { name: 'include-dead', about: 'with --retention: dead ones too' },
    ...LOOP_FLAGS,
  ],
  examples: [
    ['posthaste cleanup --once', 'from cron'],
    ['posthaste cleanup --retention 168h --limit 10000 --include-dead', 'older than a week'],
  ],
  async run(session) {
    const retentionMs = durationFlag(session, 'retention')
    const limit = session.whole('limit', 10_000, [1, 1_000_000])
    if (session.isOn('include-dead') && retentionMs === undefined)
      session.refuse('--include-dead needs --retention; without it dead ones have their own')
    return await repeat<CleanupResult>(session, async ({ name, outbox }) => {
      const removed = await outbox.operator.cleanup({
        limit,
        ...(retentionMs === undefined
          ? {}
          : { before: new Date(Date.now() - retentionMs), includeDead: session.isOn('include-dead') }),
      })
      const { done, discarded, dead, events, dedup, more } = removed
      session.say(
        `${clean(name)}: removed ${done} done, ${discarded} discarded and ${dead} dead deliveries, ${count(events, 'event')}, ${count(dedup, 'idempotency key')}${more ? '; there is more' : ''}`,
      )
      return removed
    })
  },
}

/** Of an address alone we say ourselves that there are partitions. */
const noPartitionsText = (loaded: LoadedOutbox, { given, unlike }: LayoutComparison): string => {
  const outbox = `outbox "${loaded.name}"`
  if (loaded.host.store.name === 'sqlite')
    return `the tables of ${outbox} have no partitions: SQLite has none`
  if (given === 'plain' && unlike.length > 0)
    return `the store of ${outbox} has layout "plain" here, but its tables have partitions: ${layoutRemedy('partitioned')}`
  return given === 'plain' || !loaded.hasCode
    ? `the tables of ${outbox} have no partitions; posthaste cleanup serves them`
    : `the tables of ${outbox} have no partitions: ${layoutRemedy('plain')}`
}

export const partitions: Command = {
  name: 'partitions',
  group: 'Run',
  summary: 'makes partitions ahead, and drops those that are past retention',
  operands: '',
  counts: [0, 0],
  about: [
    'For tables with layout "partitioned" on PostgreSQL, MySQL and MariaDB. Workers do this by themselves; this is for a role that may ' +
      'alter tables when theirs may not. A partition with unfinished or dead work is never dropped.',
  ],
  flags: [
    {
      name: 'lookahead',
      value: 'DURATION',
      about: 'how far ahead, such as 720h (default partitionAheadHours)',
    },
    {
      name: 'retention',
      value: 'DURATION',
      about: 'drop what finished longer ago (default retentionDoneHours)',
    },
    { name: 'period', value: 'day|month', about: 'with --url: what one partition holds' },
    ...LOOP_FLAGS,
  ],
  examples: [['posthaste partitions --lookahead 720h --retention 168h --once', 'from cron']],
  async run(session) {
    const [ahead, retention] = [durationFlag(session, 'lookahead'), durationFlag(session, 'retention')]
    return await repeat(session, async (loaded) => {
      const { name, host } = loaded
      const { options, store } = host
      await host.registered()
      const layout = await compareLayout(host)
      if (store.maintenance.partitions === undefined || layout.unlike.length > 0)
        throw new OutboxError(ERROR_CODES.unsupported, noPartitionsText(loaded, layout))
      const deadMs = options.retentionDeadHours === null ? null : options.retentionDeadHours * HOUR_MS
      const lookAheadMs = ahead ?? options.partitionAheadHours * HOUR_MS
      const report = await store.maintenance.partitions({
        lookAheadMs,
        doneOlderThanMs: retention ?? options.retentionDoneHours * HOUR_MS,
        deadOlderThanMs: deadMs,
        lockTimeoutMs: LOCK_MS,
      })
      const { created, dropped, kept } = report
      session.say(
        `${clean(name)}: made ${created.length}, dropped ${dropped.length}, looking ${formatDuration(lookAheadMs)} ahead`,
      )
      for (const partition of [
        ...created.map((one) => `made     ${one}`),
        ...dropped.map((one) => `dropped  ${one}`),
      ])
        session.say(`  ${clean(partition)}`)
      for (const { name: partition, reason } of kept)
        session.say(`  kept     ${clean(partition)}: ${clean(reason)}`)
      return { created, dropped, kept }
    })
  },
}
