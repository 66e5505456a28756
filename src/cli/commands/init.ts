import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { outboxAt } from '../../config/url-outbox.ts'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import { hintFor } from '../../core/model/unknown-names.ts'
import type { Command } from '../command.ts'
import { Interrupted } from '../failures.ts'
import { BROKERS, DATABASES, filesFor, ORMS, type Plan, packagesFor } from '../init-templates.ts'
import type { Session } from '../session.ts'

const canLoad = (folder: string, name: string): boolean => {
  try {
    createRequire(join(folder, 'package.json')).resolve(name)
    return true
  } catch {
    return false
  }
}

const runsTypeScript = (folder: string): boolean =>
  Boolean((process.features as { readonly typescript?: unknown }).typescript) || canLoad(folder, 'tsx')

/** node:sqlite is good enough from 22.16 on. */
const hasSqlite = (): boolean => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 16)
}

type Ask = (question: string, choices: readonly string[], fallback: string) => Promise<string>

const checkChoice = (session: Session, flag: string, value: string, choices: readonly string[]): string => {
  if (choices.includes(value)) return value
  const hint = hintFor(value, new Set(choices))
  return session.refuse(`--${flag} does not know "${value}"${hint}`)
}

/** The flag, else an answer, else the default. */
const pick = async (
  session: Session,
  flag: string,
  question: string,
  choices: readonly string[],
  ask: Ask | null,
): Promise<string> => {
  const given = session.text(flag)
  const fallback = choices[0] ?? ''
  if (given !== undefined) return checkChoice(session, flag, given, choices)
  return ask === null ? fallback : await ask(question, choices, fallback)
}

const asker = (session: Session): { readonly ask: Ask; readonly close: () => void } => {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const { signal } = session
  const ask: Ask = async (question, choices, fallback) => {
    for (;;) {
      const text = `${question} ${session.paint('dim', `(${choices.join(', ')})`)} [${fallback}] `
      const answer = await lines.question(text, { signal }).catch(() => {
        throw new Interrupted('stopped: nothing was written')
      })
      const said = answer.trim() === '' ? fallback : answer.trim()
      if (choices.includes(said)) return said
      session.note(`"${said}" is not one of them${hintFor(said, new Set(choices))}`)
    }
  }
  return { ask, close: () => lines.close() }
}

const URLS: Readonly<Record<string, string>> = {
  sqlite: 'sqlite::memory:',
  postgres: 'postgres://localhost/app',
  mysql: 'mysql://root@localhost/app',
  mariadb: 'mariadb://root@localhost/app',
}

const planFrom = async (session: Session, folder: string): Promise<Plan> => {
  const isAsked = !session.isOn('yes') && process.stdin.isTTY === true && !session.isJson
  const asking = isAsked ? asker(session) : null
  try {
    const database = await pick(session, 'database', 'Which database?', DATABASES, asking?.ask ?? null)
    const orm = await pick(session, 'orm', 'Which library writes your data?', ORMS, asking?.ask ?? null)
    const broker = await pick(
      session,
      'broker',
      'Which broker should hear of events?',
      BROKERS,
      asking?.ask ?? null,
    )
    const extension = session.isOn('javascript') || !runsTypeScript(folder) ? 'mjs' : 'ts'
    const needsLibsql = !hasSqlite() && !canLoad(folder, 'libsql') && !canLoad(folder, 'better-sqlite3')
    return { database, orm, broker, extension, needsLibsql } as Plan
  } finally {
    asking?.close()
  }
}

export const init: Command = {
  name: 'init',
  group: 'Set up',
  summary: 'asks for database, library and broker, and writes a configuration',
  operands: '',
  counts: [0, 0],
  about: [
    'Writes posthaste.config.ts, outbox/events.ts, outbox/outbox.ts and outbox/migration.sql into this folder; files that are there ' +
      'already are never overwritten. Where Node cannot run TypeScript and tsx is not installed, they are .mjs files.',
    'Without a terminal, or with --yes, nothing is asked: flags decide, and the first choice of each stands for the rest.',
  ],
  flags: [
    { name: 'yes', short: 'y', about: 'ask nothing' },
    { name: 'database', value: 'NAME', about: DATABASES.join(', ') },
    { name: 'orm', value: 'NAME', about: ORMS.join(', ') },
    { name: 'broker', value: 'NAME', about: BROKERS.join(', ') },
    { name: 'javascript', about: 'write .mjs files in any case' },
  ],
  examples: [
    ['posthaste init', 'asks three questions'],
    ['posthaste init --yes --database postgres --orm drizzle --broker kafka', 'without questions'],
  ],
  async run(session) {
    const folder = process.cwd()
    const plan = await planFrom(session, folder)
    const sample = await outboxAt(URLS[plan.database] ?? '', {})
    const secret = `whsec_${randomBytes(24).toString('base64')}`
    const files = filesFor(plan, { sql: sample.schema.sql(), secret })
    const taken = files.map(([path]) => path).filter((path) => existsSync(join(folder, path)))
    if (taken.length > 0)
      throw new OutboxError(
        ERROR_CODES.conflict,
        `${taken.join(', ')} ${taken.length === 1 ? 'is' : 'are'} there already; nothing was written`,
      )
    for (const [path, text] of files) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text, { flag: 'wx' })
      session.say(`${session.paint('green', 'wrote')} ${path}`)
    }
    const packages = packagesFor(plan).filter((name) => !canLoad(folder, name))
    const isOwn =
      plan.orm === 'none'
        ? []
        : [
            `in outbox/outbox.${plan.extension}, import your own ${plan.orm} where it says from '../db.${plan.extension}'`,
          ]
    const next = [
      ...(packages.length === 0 ? [] : [`npm install ${packages.join(' ')}`]),
      ...isOwn,
      ...(plan.database === 'sqlite'
        ? []
        : [`export DATABASE_URL=${URLS[plan.database]}   # or where yours is`]),
      ...(plan.broker === 'webhook' ? ['export WEBHOOK_URL=https://…   # where events are to go'] : []),
      'npx posthaste migrate',
      'npx posthaste worker',
    ]
    session.say()
    session.say(session.paint('bold', 'Next'))
    for (const line of next) session.say(`  ${line}`)
    return { json: { ...plan, files: files.map(([path]) => path), packages, next } }
  },
}
