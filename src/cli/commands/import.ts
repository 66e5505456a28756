import type { LoadedOutbox } from '../../config/load-config.ts'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import type { Command, Flag, Result } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { Interrupted } from '../failures.ts'
import { batchesOf, checker, type Moved, moveRows, sortOut } from '../import/move.ts'
import { asking, type Plan, planOf, TABLE } from '../import/plan.ts'
import { SHAPES } from '../import/shapes.ts'
import { countOf, listRows, readRows } from '../import/statements.ts'
import { hearingOf, type IsHeard, type UnheardType, unheardTypes } from '../import/unheard.ts'
import type { Session } from '../session.ts'
import { timeText } from '../show.ts'
import { clean, count } from '../text.ts'

/** So many rows are looked at by a dry run, and so many bad ones are named. */
const LOOKED_AT = 10_000
const LOOK_STEP = 500
const NAMED = 20
const SAMPLE = 3

const COLUMN_FLAGS: readonly Flag[] = [
  { name: 'id', value: 'COLUMN', about: 'what tells its rows apart; a UUID stays the id of the event' },
  { name: 'type', value: 'COLUMN', about: 'type of the event, such as its topic' },
  { name: 'type-is', value: 'TYPE', about: 'the same type for all rows, instead of a column' },
  { name: 'payload', value: 'COLUMN', about: 'what the event says; NULL becomes null' },
  {
    name: 'format',
    value: 'FORMAT',
    about: 'of the payload: json (default), text, or bytes (default for columns of bytes)',
  },
  { name: 'content-type', value: 'TYPE', about: 'of bytes (default application/octet-stream)' },
  { name: 'key', value: 'COLUMN', about: 'whose events keep their order; empty means none' },
  { name: 'no-key', about: 'no key, where the shape has one' },
  { name: 'headers', value: 'COLUMN', about: 'a JSON object of headers' },
  { name: 'header', value: 'NAME=COLUMN', about: 'one header from a column', many: true },
  { name: 'created', value: 'COLUMN', about: 'when it happened; a time without a zone is UTC' },
  { name: 'due', value: 'COLUMN', about: 'not before this; kept for rows that were never tried' },
  { name: 'attempts', value: 'COLUMN', about: 'how often it was tried; only to understand --due' },
  { name: 'aggregate-type', value: 'COLUMN', about: 'aggregate type' },
  { name: 'aggregate-id', value: 'COLUMN', about: 'aggregate id' },
  { name: 'tenant', value: 'COLUMN', about: 'tenant' },
  {
    name: 'idempotency-key',
    value: 'COLUMN',
    about: 'a second event of its type with the same one is not published',
  },
]

interface Counts {
  readonly unfinished: number
  readonly inFlight: number
  readonly dead: number
}

const countsOf = async (session: Session, loaded: LoadedOutbox, plan: Plan): Promise<Counts> =>
  await asking(loaded, async (sql) => {
    const of = async (condition: Plan['dead']): Promise<number> =>
      condition === null ? 0 : await countOf(sql, plan.reading, condition)
    return {
      unfinished: await of(plan.reading.pending),
      inFlight: session.isOn('in-flight') ? 0 : await of(plan.inFlight),
      dead: session.isOn('dead') ? 0 : await of(plan.dead),
    }
  })

const sayCounts = (session: Session, plan: Plan, { unfinished, inFlight, dead }: Counts): void => {
  session.say(`${clean(plan.source)}: ${count(unfinished, 'unfinished row')}`)
  if (inFlight > 0) session.say(`  ${count(inFlight, 'row')} in the hands of a worker, or of one that died`)
  if (dead > 0) session.say(`  ${count(dead, 'dead row')} stay where they are; --dead moves them too`)
}

const sayMapping = (session: Session, { rules, reading, done }: Plan): void => {
  const told =
    done === 'delete' ? 'deleted' : done.map(([column, value]) => `${column} = ${value}`).join(', ')
  const rows: readonly (readonly [string, string])[] = [
    ...[...rules.columns].map(([role, { name }]) => [role, name] as const),
    ...(rules.type === null ? [] : [['type', `"${rules.type}", for all`] as const]),
    ...[...rules.headers].map(([name, column]) => [`header ${name}`, column.name] as const),
    ['in the order of', reading.order.join(', ')],
    ['when moved', told],
  ]
  session.table(rows, [
    { title: 'of the event', text: ([what]) => what },
    { title: 'from', text: ([, from]) => from, colour: () => 'cyan' },
  ])
}

interface Sampled {
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly occurredAt: string
  readonly dueAt: string | null
}

interface Looked {
  readonly looked: number
  readonly sample: readonly Sampled[]
  readonly refused: Moved['refused']
}

/** Goes through the rows as the move would, up to a bound, and writes nothing. */
const lookAt = async (session: Session, loaded: LoadedOutbox, plan: Plan, total: number): Promise<Looked> => {
  const { signal } = session
  const problemOf = checker(loaded)
  const progress = session.progress('looked at')
  const sample: Sampled[] = []
  const refused: Moved['refused'] = []
  const listed = await asking(loaded, (sql) => listRows(sql, plan.reading, LOOKED_AT))
  let at = 0
  for (const ids of batchesOf(listed, plan, LOOK_STEP)) {
    if (signal.aborted) {
      progress.end()
      throw new Interrupted('stopped; nothing was touched')
    }
    progress.update(at, Math.min(total, listed.length))
    at += ids.length
    const rows = await asking(loaded, (sql) => readRows(sql, plan.reading, ids, false))
    const { good, bad } = sortOut(rows, plan, problemOf)
    refused.push(...bad.map(({ id, reason }) => ({ id, reason })))
    for (const { row, draft } of good.slice(0, SAMPLE - sample.length)) {
      sample.push({
        id: row.id.text,
        type: String(draft.type),
        key: draft.key ?? null,
        occurredAt: timeText(draft.occurredAt?.getTime() ?? null),
        dueAt: draft.dueAt === undefined ? null : timeText(draft.dueAt.getTime()),
      })
    }
  }
  progress.end()
  return { looked: at, sample, refused }
}

const sayRefused = (session: Session, refused: Moved['refused']): void => {
  for (const { id, reason } of refused.slice(0, NAMED))
    session.say(session.paint('yellow', `row ${clean(id)}: ${clean(reason)}`))
  if (refused.length > NAMED) session.say(`… and ${count(refused.length - NAMED, 'more row')}`)
}

/** What is known of who hears the rows. */
interface Hearing {
  readonly isHeard: IsHeard | null
  readonly unheard: readonly UnheardType[]
}

const NOBODY_KNOWN =
  'no destination is known, neither here nor in the database, so nobody can say whether these events will be heard; with --config they are known'

const unheardText = (unheard: readonly UnheardType[]): string => {
  const named = unheard.slice(0, NAMED).map(({ type, rows }) => `${type} (${count(rows, 'row')})`)
  const rest = unheard.length > NAMED ? ` and ${count(unheard.length - NAMED, 'more type')}` : ''
  return `no destination hears ${named.join(', ')}${rest}`
}

const sayHearing = (session: Session, { isHeard, unheard }: Hearing): void => {
  if (isHeard === null) session.say(session.paint('yellow', NOBODY_KNOWN))
  if (unheard.length > 0)
    session.say(
      session.paint('yellow', `${clean(unheardText(unheard))}: such events are stored and sent nowhere`),
    )
}

const plainHearing = ({ isHeard, unheard }: Hearing): Readonly<Record<string, unknown>> => ({
  unheard: isHeard === null ? null : unheard.slice(0, NAMED),
})

const dryRun = async (
  session: Session,
  loaded: LoadedOutbox,
  plan: Plan,
  counts: Counts,
  hearing: Hearing,
): Promise<Result> => {
  sayCounts(session, plan, counts)
  session.say()
  sayMapping(session, plan)
  const { looked, sample, refused } = await lookAt(session, loaded, plan, counts.unfinished)
  if (sample.length > 0) {
    session.say()
    session.table(sample, [
      { title: 'row', text: ({ id }) => id, colour: () => 'cyan' },
      { title: 'type', text: ({ type }) => type, name: true },
      { title: 'key', text: ({ key }) => key ?? '', name: true },
      { title: 'happened', text: ({ occurredAt }) => occurredAt },
      { title: 'not before', text: ({ dueAt }) => dueAt ?? '' },
    ])
  }
  session.say()
  sayRefused(session, refused)
  sayHearing(session, hearing)
  session.say(
    `${count(looked, 'row')} looked at: ${looked - refused.length} can become events, ${refused.length} cannot; nothing was touched`,
  )
  const stops = [
    ...(counts.inFlight > 0 ? ['because of rows in the hands of a worker, unless --in-flight'] : []),
    ...(refused.length > 0 && !session.isOn('skip-invalid')
      ? ['at rows that cannot become events, unless --skip-invalid']
      : []),
    ...(hearing.unheard.length > 0 && !session.isOn('allow-unheard')
      ? ['because of types that nobody hears, unless --allow-unheard']
      : []),
  ]
  for (const reason of stops) session.say(session.paint('yellow', `the move would stop ${reason}`))
  if (refused.length > 0 && session.isOn('skip-invalid'))
    session.say(
      session.paint(
        'yellow',
        `${count(refused.length, 'row')} would stay behind, and the move would end with exit code 1`,
      ),
    )
  const isReady = stops.length === 0
  return {
    exitCode: isReady ? EXIT.ok : EXIT.failed,
    json: {
      dryRun: true,
      from: plan.from,
      source: plan.source,
      ...counts,
      looked,
      moved: 0,
      invalid: refused.length,
      refused: refused.slice(0, NAMED),
      ...plainHearing(hearing),
      sample,
    },
  }
}

const move = async (
  session: Session,
  loaded: LoadedOutbox,
  plan: Plan,
  counts: Counts,
  hearing: Hearing,
): Promise<Result> => {
  if (counts.inFlight > 0)
    throw new OutboxError(
      ERROR_CODES.conflict,
      `${count(counts.inFlight, 'row')} of ${plan.source} are in the hands of a worker, or of one that died. Stop the old workers and wait for what they have under way; what stays like this then is moved with --in-flight, and may have been sent already`,
    )
  const allowsUnheard = session.isOn('allow-unheard')
  if (hearing.unheard.length > 0 && !allowsUnheard)
    throw new OutboxError(
      ERROR_CODES.conflict,
      `${unheardText(hearing.unheard)}: such rows of ${plan.source} would be marked as done and sent nowhere. Nothing was moved; declare a destination for them, or move them all the same with --allow-unheard`,
    )
  const started = performance.now()
  const progress = session.progress('moved')
  let moved: Moved
  try {
    moved = await moveRows(loaded, plan, {
      batchSize: session.whole('batch', 500, [1, 5_000]),
      skipInvalid: session.isOn('skip-invalid'),
      skipKnown: session.isOn('skip-known'),
      isHeard: allowsUnheard ? null : hearing.isHeard,
      signal: session.signal,
      progress,
      total: counts.unfinished,
    })
  } finally {
    progress.end()
  }
  const after = await countsOf(session, loaded, plan)
  sayRefused(session, moved.refused)
  session.say(session.paint('green', `${count(moved.moved, 'row')} moved from ${clean(plan.source)}`))
  sayHearing(session, hearing)
  if (moved.known > 0) session.say(`${count(moved.known, 'row')} were in the outbox already, and are marked`)
  if (after.unfinished > 0)
    session.say(session.paint('yellow', `${count(after.unfinished, 'unfinished row')} left there`))
  if (after.dead > 0) session.say(`${count(after.dead, 'dead row')} left there`)
  return {
    exitCode: after.unfinished > 0 ? EXIT.failed : EXIT.ok,
    json: {
      dryRun: false,
      from: plan.from,
      source: plan.source,
      ...after,
      moved: moved.moved,
      known: moved.known,
      batches: moved.batches,
      invalid: moved.refused.length,
      refused: moved.refused.slice(0, NAMED),
      ...plainHearing(hearing),
      seconds: Math.round(performance.now() - started) / 1_000,
    },
  }
}

export const importRows: Command = {
  name: 'import',
  group: 'Set up',
  summary: 'moves the unfinished rows of another outbox table here, without loss',
  operands: '',
  counts: [0, 0],
  about: [
    'The other table is in the same database. Rows are moved in batches, in their order; each batch is one transaction that locks its ' +
      'rows, publishes them, and marks them as done in the words of their own system (or deletes them). A crash, kill -9 or Ctrl-C leaves ' +
      'whole batches behind; run it again to go on. Nothing is lost and nothing is moved twice.',
    'Before: stop the workers of the old system (relay, poller, publisher), and wait until they have ended. A row that a worker has ' +
      'under way would be sent by it and here. Where the table says so, such rows stop the move; what a dead worker left like that is ' +
      'moved with --in-flight, and may have been sent already. The application may go on writing to the old table; run the import once ' +
      'more after it has changed over. Where the order of a key must hold across the change, stop the writers too: import, then start the new ones.',
    'An id that is a UUID stays the id of the event, so receivers that know it recognise it; other ids travel in the header imported-id. ' +
      'Attempts begin anew. A delay that is not over is kept where the row was never tried. Dead rows stay where they are, unless --dead. ' +
      'What cannot become an event (no JSON, too large, a header that is none) stops the move with its row and reason, or stays behind with --skip-invalid. A type that no destination hears stops it too, unless --allow-unheard.',
    `Shapes for --from: ${Object.entries(SHAPES)
      .map(([name, { about }]) => `${name} (${about})`)
      .join('; ')}; ${TABLE} (any table, with the flags below, which also correct a shape).`,
  ],
  flags: [
    {
      name: 'from',
      value: 'SHAPE',
      about: `${[...Object.keys(SHAPES), TABLE].join(', ')} (default ${TABLE})`,
    },
    { name: 'source', value: '[SCHEMA.]TABLE', about: 'the other table; each shape knows its own' },
    {
      name: 'pending',
      value: 'COLUMN=VALUE',
      about: 'which rows are unfinished; @null for NULL; several values of a column are alternatives',
      many: true,
    },
    {
      name: 'done',
      value: 'COLUMN=VALUE',
      about: 'what a moved row is set to; @now for the time, @null for NULL',
      many: true,
    },
    { name: 'delete', about: 'delete moved rows instead' },
    {
      name: 'order',
      value: 'COLUMNS',
      about: 'in which order they happened, with commas between (default --created, then --id)',
    },
    ...COLUMN_FLAGS,
    { name: 'in-flight', about: 'move rows too that a worker had; only when all of them are stopped' },
    { name: 'dead', about: 'move dead rows too; they are tried again' },
    {
      name: 'skip-invalid',
      about: 'leave rows where they are that cannot become events; later ones of their keys go ahead',
    },
    { name: 'allow-unheard', about: 'move rows too whose type no destination hears; they are sent nowhere' },
    { name: 'skip-known', about: 'mark rows as done whose event is here already' },
    {
      name: 'batch',
      value: 'N',
      about: 'rows of a transaction, 1 to 5,000 (default 500), and at most 4 MiB',
    },
    {
      name: 'dry-run',
      about: `count, show the mapping, check the first ${LOOKED_AT} rows, and touch nothing`,
    },
  ],
  examples: [
    [
      'posthaste import --from pg-boss --dry-run',
      'what would happen; exit code 1 when something is in the way',
    ],
    [
      'posthaste import --from java-framework --source shop.outbox_event',
      'a shape whose table has another place',
    ],
    [
      'posthaste import --source outbox_messages --id id --type event_name --payload body --key order_id --created created_at --pending sent_at=@null --done sent_at=@now',
      'a home-made table',
    ],
  ],
  async run(session) {
    const loaded = await session.outbox()
    session.whole('batch', 500, [1, 5_000])
    const { current, latest } = await loaded.outbox.schema.status()
    if (current < latest)
      throw new OutboxError(ERROR_CODES.schemaBehind, 'the tables of this outbox are missing or too old')
    const plan = await planOf(session, loaded)
    const counts = await countsOf(session, loaded, plan)
    const isHeard = await hearingOf(loaded)
    const unheard = await unheardTypes(loaded, plan, counts.unfinished, isHeard)
    const run = session.isOn('dry-run') ? dryRun : move
    return await run(session, loaded, plan, counts, { isHeard, unheard })
  },
}
