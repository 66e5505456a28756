/**
 * Libraries wrap what their driver says, each in its own way, and one library runs on several databases. So the
 * error is looked for in everything that was wrapped, by what each database's errors look like.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import * as mysql from '../../stores/mysql/errors.ts'
import * as postgres from '../../stores/postgres/errors.ts'
import { commitRefused, commitTooLate, commitUnknown } from '../../stores/sql/transaction-scope.ts'
import * as sqlite from '../../stores/sqlite/errors.ts'

/** Where TypeORM, Sequelize and everybody else keep what they wrap. */
const INSIDE = ['driverError', 'original', 'parent', 'cause'] as const

const MAX_DEPTH = 8

/** The error, what it wraps, what that wraps, and so on. */
const linksOf = (error: unknown): readonly unknown[] => {
  const links = [error]
  for (let at = error; links.length < MAX_DEPTH; links.push(at)) {
    if (typeof at !== 'object' || at === null) break
    const members = at as Readonly<Record<string, unknown>>
    const name = INSIDE.find((one) => typeof members[one] === 'object' && members[one] !== null)
    if (name === undefined || links.includes(members[name])) break
    at = members[name]
  }
  return links
}

/** An error of this package, if a database said it; else the error as it is. */
export const storeErrorOf = (error: unknown, library: string): unknown => {
  const place = `The database behind ${library}`
  for (const link of linksOf(error)) {
    for (const { storeErrorOf: translate } of [postgres, mysql, sqlite]) {
      const translated = translate(link, place)
      if (translated !== link) return translated
    }
  }
  return error
}

/** PostgreSQL takes nothing more in this transaction, because of an earlier error. */
export const isGivenUp = (error: unknown): boolean =>
  linksOf(error).some((link) => postgres.sqlState(link) === '25P02')

/** The database answered COMMIT with an error, so it did not happen. Anything else leaves that open. */
const refusedCommit = (error: unknown): boolean =>
  linksOf(error).some(
    (link) =>
      (postgres.sqlState(link) !== null && !postgres.isBroken(link)) ||
      mysql.refusesCommit(link) ||
      sqlite.refusesCommit(link),
  )

/** It happened, but whoever hears of an error must not take that for granted, nor try again. */
export const afterCommit = (cause: unknown): StoreError =>
  new StoreError(
    ERROR_CODES.commitUnknown,
    'The database has committed the transaction, and then something else failed, a hook of the application most ' +
      'likely. What was published is delivered.',
    { cause },
  )

/** For an error that came out of the library after the application's function had ended well. */
export const commitErrorOf = (error: unknown, isRefused: boolean, hadFailures: boolean): Error => {
  if (error instanceof StoreError && error.code === ERROR_CODES.commitUnknown) return error
  if (linksOf(error).some(sqlite.findsNoTransaction)) return commitTooLate(hadFailures, error)
  return isRefused || refusedCommit(error)
    ? commitRefused('The database', error)
    : commitUnknown('The connection was lost', error)
}
