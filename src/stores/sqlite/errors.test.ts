import { describe, expect, it } from 'vitest'
import { StoreError } from '../../core/errors.ts'
import { findsNoTransaction, isBusy, sqliteCode, storeErrorOf } from './errors.ts'

const driverError = (fields: object, message = 'x') => Object.assign(new Error(message), fields)

describe('errors of the drivers', () => {
  it('are recognised by code, wherever the library keeps it', () => {
    expect(sqliteCode(driverError({ code: 'SQLITE_BUSY' }))).toBe('BUSY')
    expect(sqliteCode(driverError({ code: 'SQLITE_BUSY_SNAPSHOT' }))).toBe('BUSY')
    expect(sqliteCode(driverError({ code: 'SQLITE_IOERR_FSYNC' }))).toBe('IOERR')
    expect(sqliteCode(driverError({ code: 'ERR_SQLITE_ERROR', errcode: 517 }))).toBe('BUSY')
    expect(sqliteCode(driverError({ code: '', rawCode: 2067 }))).toBe('CONSTRAINT')
    expect(sqliteCode(driverError({}, 'ConnectionFailed("Unable to open … /x.db: 14")'))).toBe('CANTOPEN')
  })

  it('are not guessed from texts', () => {
    expect(sqliteCode(driverError({}, 'database is locked'))).toBeNull()
    expect(sqliteCode(driverError({}, 'there is no lane: 5'))).toBeNull()
    expect(sqliteCode('SQLITE_BUSY')).toBeNull()
    expect(sqliteCode(null)).toBeNull()
  })

  it('say whether waiting helps', () => {
    expect(isBusy(driverError({ code: 'SQLITE_LOCKED' }))).toBe(true)
    expect(isBusy(driverError({ code: 'SQLITE_FULL' }))).toBe(false)
    const translated = (code: string) => storeErrorOf(driverError({ code }), 'The database x')
    expect(translated('SQLITE_BUSY')).toMatchObject({ code: 'POSTHASTE_STORE_BUSY', transient: true })
    expect(translated('SQLITE_READONLY')).toMatchObject({
      code: 'POSTHASTE_STORE_READ_ONLY',
      transient: false,
    })
    expect(translated('SQLITE_FULL')).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    expect(translated('SQLITE_IOERR')).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    expect(translated('SQLITE_CORRUPT')).toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      transient: false,
    })
    expect(translated('SQLITE_NOTADB')).toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      transient: false,
    })
  })

  it('of COMMIT say that there was no transaction', () => {
    const errors = [{ code: 'SQLITE_ERROR' }, { errcode: 1 }, { code: 'SQLITE_BUSY' }, { errcode: 5 }, {}]
    const answers = errors.map((members) => findsNoTransaction(driverError(members)))
    expect(answers).toEqual([true, true, false, false, false])
  })

  it('of COMMIT say so by their number where they have one, whatever their name', () => {
    const numbers = [1, 5, 10, 787]
    for (const code of ['SQLITE_ERROR', '']) {
      const answers = numbers.map((rawCode) => findsNoTransaction(driverError({ code, rawCode })))
      expect(answers).toEqual([true, false, false, false])
    }
  })

  it('keep their cause, and a missing table says what to do', () => {
    const cause = driverError({ code: 'SQLITE_ERROR' }, 'no such table: outbox_events')
    const error = storeErrorOf(cause, 'The database x')
    expect(error).toMatchObject({ code: 'POSTHASTE_SCHEMA_BEHIND', cause })
    expect(error).toBeInstanceOf(StoreError)
  })

  it('leave errors alone that no database raised', () => {
    const mistake = new TypeError('undefined is not a function')
    expect(storeErrorOf(mistake, 'The database x')).toBe(mistake)
    const own = new StoreError('POSTHASTE_CONFLICT', 'no')
    expect(storeErrorOf(own, 'The database x')).toBe(own)
  })
})
