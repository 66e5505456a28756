import { parseDuration } from '../../config/duration.ts'
import { paceOf } from '../bulk.ts'
import type { Command } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { Interrupted } from '../failures.ts'
import { ACT_FLAGS, durationFlag, outboxesWith } from '../filters.ts'
import type { Session } from '../session.ts'
import { clean, count, deliveriesText } from '../text.ts'

const setPaused = async (session: Session, paused: boolean) => {
  const name = session.operands[0] ?? ''
  const found = await outboxesWith(session, name)
  for (const { name: outboxName, outbox, host } of found) {
    const { destinations } = await host.registered()
    if (destinations.some((one) => one.name === name && one.patterns.length === 0))
      session.note(
        clean(`${name} of ${outboxName} is retired: it hears nothing until a process declares it again`),
      )
    if (paused) await outbox.operator.pause(name, session.act())
    else await outbox.operator.resume(name, session.act())
    const state = paused ? session.paint('yellow', 'paused') : session.paint('green', 'on')
    session.say(`${clean(name)} of ${clean(outboxName)} is ${state}`)
  }
  return { json: { destination: name, paused, outboxes: found.map((loaded) => loaded.name) } }
}

export const pause: Command = {
  name: 'pause',
  group: 'Repair',
  summary: 'no process sends to a destination until resume',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: [
    'Events for it are stored and wait. Every process follows within a renewal of its lease, which is seconds.',
  ],
  flags: ACT_FLAGS,
  examples: [['posthaste pause mailer --reason "template is broken"', 'while somebody mends it']],
  run: (session) => setPaused(session, true),
}

export const resume: Command = {
  name: 'resume',
  group: 'Repair',
  summary: 'sends to a paused destination again',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: ['What waited is delivered now, in its order.'],
  flags: ACT_FLAGS,
  examples: [['posthaste resume mailer', 'once it is mended']],
  run: (session) => setPaused(session, false),
}

const OWN = 'default'

const TUNED = ['concurrency', 'batchSize', 'ratePerSecond', 'pollBatchSize', 'pollIntervalMs'] as const

/** A number, or back to what each process's own options say; undefined: as it is. */
const tuned = (session: Session, flag: string): number | null | undefined => {
  const text = session.text(flag)
  if (text === undefined) return undefined
  if (text === OWN) return null
  const value = Number(text)
  return text.trim() !== '' && Number.isFinite(value)
    ? value
    : session.refuse(`--${flag} must be a number or "${OWN}", not "${text}"`)
}

const tunedMs = (session: Session, flag: string): number | null | undefined =>
  session.text(flag) === OWN ? null : durationFlag(session, flag)

export const tune: Command = {
  name: 'tune',
  group: 'Repair',
  summary: 'changes how every process works on a destination, while it runs',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: [
    'Every process follows within a renewal of its lease; what is under way ends as it began. "default" goes back to what the ' +
      'options of each process say. Without a flag it shows what is set.',
  ],
  flags: [
    { name: 'concurrency', value: 'N', about: 'sends at a time' },
    { name: 'batch-size', value: 'N', about: 'deliveries of one send' },
    { name: 'rate', value: 'N', about: 'deliveries per second and process' },
    { name: 'poll-batch-size', value: 'N', about: 'rows of one read' },
    { name: 'poll-interval', value: 'TIME', about: 'between two reads that found nothing, such as 500ms' },
    ...ACT_FLAGS,
  ],
  examples: [
    ['posthaste tune search --rate 50 --reason "index is being rebuilt"', 'spare it for a while'],
    ['posthaste tune search --rate default', 'as before'],
    ['posthaste tune search', 'what is set?'],
  ],
  async run(session) {
    const destination = session.operands[0] ?? ''
    const given = {
      concurrency: tuned(session, 'concurrency'),
      batchSize: tuned(session, 'batch-size'),
      ratePerSecond: tuned(session, 'rate'),
      pollBatchSize: tuned(session, 'poll-batch-size'),
      pollIntervalMs: tunedMs(session, 'poll-interval'),
    }
    const change = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
    const outboxes = []
    for (const { name: outboxName, outbox } of await outboxesWith(session, destination)) {
      if (Object.keys(change).length > 0) await outbox.operator.tune(destination, change, session.act())
      const found = (await outbox.inspect.destinations()).find(({ name }) => name === destination)
      const settings = TUNED.flatMap((name) => {
        const value = found?.[name] ?? null
        return value === null ? [] : [[name, value] as const]
      })
      const words = settings.map(([name, value]) => `${name} ${value}`)
      session.say(
        `${clean(destination)} of ${clean(outboxName)}: ${words.length === 0 ? 'as the options say' : words.join(', ')}`,
      )
      outboxes.push({ outbox: outboxName, settings: Object.fromEntries(settings) })
    }
    return { json: { destination, changed: change, outboxes } }
  },
}

/** A moment, or how long ago it was. */
const moment = (session: Session, flag: string): Date | undefined => {
  const text = session.text(flag)
  if (text === undefined) return undefined
  const at = /^\d{4}-/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(at)) return new Date(at)
  if (/^\d{4}-/.test(text)) session.refuse(`--${flag} is no time: "${text}"; write 2026-11-01T12:00:00Z`)
  const ms =
    parseDuration(text) ??
    session.refuse(
      `--${flag} must be a time such as 2026-11-01T12:00:00Z, or how long ago, such as 30d; not "${text}"`,
    )
  return new Date(Date.now() - ms)
}

export const backfill: Command = {
  name: 'backfill',
  group: 'Repair',
  summary: 'gives a destination the stored events that are older than it',
  operands: 'DESTINATION',
  counts: [1, 1],
  about: [
    'In the order in which they were published, and nothing twice: Ctrl-C is safe, and running it again goes on. Only what is ' +
      'still stored can be given.',
    'Order against live events is kept if the destination was declared with paused: true; resume it when this is done.',
  ],
  flags: [
    { name: 'since', value: 'TIME', about: 'a time, or how long ago: 2026-11-01T00:00:00Z, 30d' },
    { name: 'until', value: 'TIME', about: 'and before this (default: until the destination was declared)' },
    {
      name: 'type',
      value: 'TYPE',
      about: 'only these, such as order.*; may be given several times',
      many: true,
    },
    { name: 'limit', value: 'N', about: 'at most N, 1 to 1000000000 (default all)' },
    { name: 'per-second', value: 'N', about: 'at most N a second (default 1000)' },
    ...ACT_FLAGS,
  ],
  examples: [['posthaste backfill search --since 30d --per-second 200', 'fill a new index, gently']],
  async run(session) {
    const destination = session.operands[0] ?? ''
    const since = moment(session, 'since') ?? session.refuse('name --since: how far back?')
    const until = moment(session, 'until')
    const types = session.list('type')
    const pace = paceOf(session)
    const limit = session.text('limit') === undefined ? null : session.whole('limit', 1, [1, 1_000_000_000])
    await outboxesWith(session, destination)
    const { outbox } = await session.outbox()
    const progress = session.progress('back-filled')
    const { signal } = session
    const result = await outbox.operator
      .backfill(
        destination,
        {
          since,
          signal,
          onProgress: ({ share }) => progress.update(Math.floor(share * 100), 100),
          ...(until === undefined ? {} : { until }),
          ...(types.length === 0 ? {} : { types }),
          ...pace,
          ...(limit === null ? {} : { limit }),
        },
        session.act(),
      )
      .finally(() => progress.end())
    for (const warning of result.warnings) session.note(clean(warning))
    const isEnough = result.complete || (limit !== null && result.added >= limit)
    const said = `${deliveriesText(result.added)} added; ${count(result.scanned, 'event')} looked at`
    const json = { destination, ...result }
    if (!isEnough && signal.aborted) throw new Interrupted(`stopped: ${said}; run it again to go on`, json)
    session.say(said)
    if (!result.complete) session.say('not complete: run it again to go on')
    return { exitCode: isEnough ? EXIT.ok : EXIT.failed, json }
  },
}
