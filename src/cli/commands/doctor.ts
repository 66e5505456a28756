import { hostname } from 'node:os'
import type { Command } from '../command.ts'
import { checkDatabase } from '../doctor/database.ts'
import type { Finding } from '../doctor/finding.ts'
import { problem } from '../doctor/finding.ts'
import { checkFlow, checkSchema } from '../doctor/flow.ts'
import { EXIT } from '../exit-codes.ts'
import { describeFailure } from '../failures.ts'
import type { Colour } from '../terminal.ts'
import { clean, count } from '../text.ts'

const MARKS: Readonly<Record<Finding['level'], readonly [string, Colour]>> = {
  ok: ['ok', 'green'],
  warning: ['warning', 'yellow'],
  error: ['error', 'red'],
  skipped: ['skipped', 'dim'],
}

export const doctor: Command = {
  name: 'doctor',
  group: 'Look',
  summary: 'looks for what is wrong, and says how to mend it',
  operands: '',
  counts: [0, 0],
  about: [
    'Schema, clock, layout, indexes, isolation, long transactions, bloat, pooler, live workers, destinations that nobody serves, orphan ' +
      'lanes, breakers, retries, dead letters, backlog. It only reads. Exit code 1 when there is an error; warnings alone are 0.',
  ],
  flags: [],
  examples: [
    ['posthaste doctor', 'when something feels wrong, and after a deploy'],
    ['posthaste doctor --json', 'for a monitor'],
  ],
  async run(session) {
    const all: (Finding & { readonly outbox: string })[] = []
    for (const loaded of await session.outboxes()) {
      const findings: Finding[] = []
      try {
        const schema = await checkSchema(loaded)
        findings.push(schema)
        findings.push(...(await checkDatabase(loaded)))
        if (schema.level === 'ok') findings.push(...(await checkFlow(loaded)))
      } catch (error) {
        const { message } = describeFailure(error)
        findings.push(problem('database', message, 'posthaste config shows which database is meant'))
      }
      session.say(
        `${session.paint('bold', clean(loaded.name))} ${session.paint('dim', `(${loaded.host.store.name}, seen from ${hostname()})`)}`,
      )
      for (const { check, level, text, remedy } of findings) {
        const [word, colour] = MARKS[level]
        session.say(`  ${session.paint(colour, word.padEnd(7))}  ${check.padEnd(18)} ${clean(text)}`)
        if (remedy !== null) session.say(`${' '.repeat(30)}${session.paint('cyan', `→ ${clean(remedy)}`)}`)
      }
      all.push(...findings.map((finding) => ({ outbox: loaded.name, ...finding })))
    }
    const errors = all.filter(({ level }) => level === 'error').length
    const warnings = all.filter(({ level }) => level === 'warning').length
    session.say()
    session.say(
      errors + warnings === 0
        ? session.paint('green', 'all is well')
        : `${count(errors, 'error')}, ${count(warnings, 'warning')}`,
    )
    return { exitCode: errors > 0 ? EXIT.failed : EXIT.ok, json: { errors, warnings, findings: all } }
  },
}
