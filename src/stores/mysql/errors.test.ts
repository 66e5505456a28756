import { describe, expect, it } from 'vitest'
import { StoreError } from '../../core/errors.ts'
import { endsTransaction, isBroken, isConflict, refusesCommit, storeErrorOf } from './errors.ts'

const serverError = (errno: number, message = 'said the server') =>
  Object.assign(new Error(message), { errno, code: `ER_${errno}`, sqlState: 'HY000', sql: "SELECT 'secret'" })

const socketError = (code: string) => Object.assign(new Error(code), { code, errno: -111, fatal: true })

describe('errors of MySQL', () => {
  it.each([
    [1045, 'POSTHASTE_STORE_UNAVAILABLE', false, 'password'],
    [1049, 'POSTHASTE_STORE_UNAVAILABLE', false, 'does not have the database'],
    [1146, 'POSTHASTE_SCHEMA_BEHIND', false, 'Migrate it first'],
    [1054, 'POSTHASTE_SCHEMA_BEHIND', false, 'Migrate it first'],
    [1290, 'POSTHASTE_STORE_READ_ONLY', true, 'read-only'],
    [1142, 'POSTHASTE_STORE_READ_ONLY', false, 'docs/mysql.md'],
    [1205, 'POSTHASTE_STORE_BUSY', true, 'lock'],
    [1213, 'POSTHASTE_STORE_BUSY', true, 'deadlock'],
    [1412, 'POSTHASTE_STORE_BUSY', true, 'Run the whole transaction again'],
    [159, 'POSTHASTE_STORE_BUSY', true, 'Run the whole transaction again'],
    [1062, 'POSTHASTE_CONFLICT', false, 'refused a row'],
    [3819, 'POSTHASTE_CONFLICT', false, 'utf8mb4'],
    [4025, 'POSTHASTE_CONFLICT', false, 'utf8mb4'],
    [1153, 'POSTHASTE_STORE_UNAVAILABLE', false, 'max_allowed_packet'],
    [1040, 'POSTHASTE_STORE_UNAVAILABLE', true, 'max_connections'],
    [1053, 'POSTHASTE_STORE_UNAVAILABLE', true, 'cannot be reached'],
    [1927, 'POSTHASTE_STORE_UNAVAILABLE', true, 'cannot be reached'],
    [9999, 'POSTHASTE_STORE_UNAVAILABLE', false, 'error 9999'],
  ])('%i is %s', (errno, code, transient, text) => {
    expect(storeErrorOf(serverError(errno), 'MySQL at x/y')).toMatchObject({
      code,
      transient,
      message: expect.stringMatching(new RegExp(`^MySQL at x/y .*${text}`)),
    })
  })

  it('of sockets are an outage that passes', () => {
    for (const code of ['ECONNREFUSED', 'ENOTFOUND', 'PROTOCOL_CONNECTION_LOST']) {
      const error = storeErrorOf(socketError(code), 'MySQL')
      expect(error).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
      expect((error as Error).message).toContain(code)
      expect(isBroken(socketError(code))).toBe(true)
    }
  })

  it('carry neither statements nor rows', () => {
    const duplicate = serverError(1062, "Duplicate entry 'secret' for key 'PRIMARY'")
    for (const error of [duplicate, serverError(1064)]) {
      const translated = storeErrorOf(error, 'MySQL') as StoreError
      const cause = translated.cause as Error & Record<string, unknown>
      expect(JSON.stringify([translated.message, cause.message, { ...cause }])).not.toContain('secret')
    }
  })

  it('of others pass unchanged', () => {
    const [own, other] = [new StoreError('POSTHASTE_CLOSED', 'x'), new TypeError('x')]
    expect(storeErrorOf(own, 'MySQL')).toBe(own)
    expect(storeErrorOf(other, 'MySQL')).toBe(other)
    expect(storeErrorOf('text', 'MySQL')).toBe('text')
  })

  it('[50] tell what became of the transaction', () => {
    const conflicts = [1213, 1205, 1020, 1412, 159]
    expect(conflicts.filter((errno) => !isConflict(serverError(errno)))).toEqual([])
    expect(conflicts.filter((errno) => endsTransaction(serverError(errno)))).toEqual([1213, 1020])
    expect([1213, 1205, 1290, 1180, 1053].map((errno) => refusesCommit(serverError(errno)))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
  })
})
