import type { LoadedOutbox } from '../../config/load-config.ts'
import { outboxAt } from '../../config/url-outbox.ts'
import type { SchemaStatus } from '../../core/spi/index.ts'
import type { Command, Result } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { compareLayout, layoutTrouble } from '../layout.ts'
import type { Session } from '../session.ts'
import { clean, count } from '../text.ts'

const versions = ({ current, latest, applied }: SchemaStatus) => ({
  current,
  latest,
  applied: applied.map(({ version, name, appliedAtMs }) => ({
    version,
    name,
    appliedAt: new Date(appliedAtMs).toISOString(),
  })),
})

const printSql = (session: Session, all: readonly LoadedOutbox[]): Result => {
  for (const { name, outbox } of all) {
    if (all.length > 1) session.say(`-- outbox ${name}`)
    session.say(outbox.schema.sql().trimEnd())
  }
  return { json: { sql: Object.fromEntries(all.map(({ name, outbox }) => [name, outbox.schema.sql()])) } }
}

/** A file of SQLite that is not there yet is a database without tables. */
const beforeItsFile = async (error: unknown): Promise<SchemaStatus> => {
  const { detail } = error as { readonly detail?: { readonly missingFile?: string } }
  if (detail?.missingFile === undefined) throw error
  const empty = await outboxAt('sqlite::memory:', {})
  try {
    return await empty.schema.status()
  } finally {
    await empty.close()
  }
}

const look = async (session: Session, all: readonly LoadedOutbox[], dryRun: boolean): Promise<Result> => {
  const reports: object[] = []
  let behind = false
  for (const { name, outbox, host } of all) {
    const status = await outbox.schema.status().catch(beforeItsFile)
    const missing = Math.max(0, status.latest - status.current)
    behind ||= missing > 0
    const ahead = status.current > status.latest
    const state = ahead
      ? session.paint('red', `at version ${status.current}, and this release knows only ${status.latest}`)
      : missing === 0
        ? session.paint('green', `up to date at version ${status.current}`)
        : session.paint('yellow', `at version ${status.current} of ${status.latest}`)
    session.say(`${clean(name)} (${host.store.name}): ${state}`)
    for (const { version, name: title, appliedAtMs } of status.applied)
      session.say(`  ${version}  ${clean(title)}  ${new Date(appliedAtMs).toISOString()}`)
    if (missing > 0)
      session.say(
        dryRun
          ? `  would apply ${count(missing, 'migration')}`
          : '  posthaste migrate applies what is missing',
      )
    reports.push({ outbox: name, ...versions(status), missing })
  }
  // A dry run answers a question; --status is a check, for a pipeline that must not go on.
  return { exitCode: behind && !dryRun ? EXIT.failed : EXIT.ok, json: { outboxes: reports } }
}

export const migrate: Command = {
  name: 'migrate',
  aliases: ['db setup', 'db setup-outbox'],
  group: 'Set up',
  summary: 'makes the tables, or brings them up to date',
  operands: '',
  counts: [0, 0],
  about: [
    'Applies what is missing, under a lock: any number of processes may run it at once, and the previous release goes on ' +
      'working beside it. Run it once per deploy, with a role that may change tables.',
    'It touches the tables of the outbox alone. To let another tool do it, see docs/migrations.md.',
  ],
  flags: [
    { name: 'sql', about: 'print every statement, and touch nothing' },
    { name: 'status', about: 'say what is applied; exit code 1 when something is missing' },
    { name: 'dry-run', about: 'say what would be applied, and touch nothing' },
  ],
  examples: [
    ['posthaste migrate', 'before the new release starts'],
    ['posthaste migrate --sql > outbox.sql', 'for a person who reads it first'],
    ['posthaste migrate --status || exit 1', 'a gate in a pipeline'],
  ],
  async run(session) {
    const modes = ['sql', 'status', 'dry-run'].filter((flag) => session.isOn(flag))
    if (modes.length > 1) session.refuse(`--${modes.join(' and --')} exclude each other`)
    session.makesFiles = modes.length === 0
    const all = await session.outboxes()
    if (session.isOn('sql')) return printSql(session, all)
    if (modes.length === 1) return await look(session, all, session.isOn('dry-run'))
    const reports: object[] = []
    for (const { name, outbox, host, hasCode } of all) {
      const before = (await outbox.schema.status()).current
      const status = await outbox.schema.migrate()
      const applied = status.current - before
      const done = applied > 0 ? `applied ${count(applied, 'migration')}, now` : 'nothing to do,'
      session.say(
        `${clean(name)} (${host.store.name}): ${session.paint('green', `${done} at version ${status.current}`)}`,
      )
      // What is there is not made anew: a layout that was changed since changes nothing. Who cannot look need not fail.
      const trouble = await compareLayout(host).then(
        (comparison) => layoutTrouble(comparison, hasCode),
        () => null,
      )
      if (trouble !== null) session.note(`${clean(name)}: ${trouble.text}. ${trouble.remedy}`)
      reports.push({ outbox: name, before, ...versions(status), layout: trouble })
    }
    return { json: { outboxes: reports } }
  },
}
