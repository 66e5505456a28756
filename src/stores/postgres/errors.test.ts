import { describe, expect, it } from 'vitest'
import { ERROR_CODES, isStoreOutage, StoreError } from '../../core/errors.ts'
import { isBroken, isConflict, isCutOff, isRefused, sqlState, storeErrorOf } from './errors.ts'

const server = (code: string, extra: object = {}): Error =>
  Object.assign(new Error(`server says ${code}`), { code, severity: 'ERROR', ...extra })
const socket = (code: string): Error =>
  Object.assign(new Error(`connect ${code}`), { code, syscall: 'connect' })

const translated = (error: unknown): StoreError => storeErrorOf(error, 'The database') as StoreError

describe('errors of PostgreSQL', () => {
  it.each([
    ['40P01', ERROR_CODES.storeBusy, true],
    ['40001', ERROR_CODES.storeBusy, true],
    ['55P03', ERROR_CODES.storeBusy, true],
    ['57014', ERROR_CODES.storeBusy, true],
    ['23505', ERROR_CODES.conflict, false],
    ['25P02', ERROR_CODES.commitRolledBack, false],
    ['25006', ERROR_CODES.storeReadOnly, true],
    ['42501', ERROR_CODES.storeReadOnly, false],
    ['42P01', ERROR_CODES.schemaBehind, false],
    ['42703', ERROR_CODES.schemaBehind, false],
    ['3F000', ERROR_CODES.schemaBehind, false],
    ['28P01', ERROR_CODES.storeUnavailable, false],
    ['28000', ERROR_CODES.storeUnavailable, false],
    ['3D000', ERROR_CODES.storeUnavailable, false],
    ['53300', ERROR_CODES.storeUnavailable, true],
    ['53100', ERROR_CODES.storeUnavailable, true],
    ['57P01', ERROR_CODES.storeUnavailable, true],
    ['57P03', ERROR_CODES.storeUnavailable, true],
    ['08006', ERROR_CODES.storeUnavailable, true],
    ['25P03', ERROR_CODES.storeUnavailable, true],
    ['25P04', ERROR_CODES.storeUnavailable, true],
    ['XX000', ERROR_CODES.storeUnavailable, false],
  ])('%s becomes %s', (state, code, transient) => {
    const error = translated(server(state))
    expect([error.code, error.transient, error.detail.sqlState]).toEqual([code, transient, state])
  })

  it.each([
    ['55000', true],
    ['XX000', true],
    ['0A000', true],
    // Settings in the connection string that are not understood.
    ['22023', false],
    ['42704', false],
  ])('%s is an outage where the connection ends with it', (state, transient) => {
    const error = translated(server(state, { severity: 'FATAL' }))
    expect([error.code, error.transient, isStoreOutage(error)]).toEqual([
      ERROR_CODES.storeUnavailable,
      transient,
      true,
    ])
    expect(error.message).toContain('ended the connection')
  })

  it.each(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EAI_AGAIN', 'ENOTFOUND'])(
    '%s is transient',
    (code) => {
      const error = translated(socket(code))
      expect([error.code, error.transient]).toEqual([ERROR_CODES.storeUnavailable, true])
      expect(error.message).toContain(code)
    },
  )

  it('finds the code inside of an error about several addresses', () => {
    const error = translated(new AggregateError([socket('ECONNREFUSED')], ''))
    expect(error.message).toContain('ECONNREFUSED')
  })

  it.each([
    'Connection terminated unexpectedly',
    'Query read timeout',
    'timeout exceeded when trying to connect',
    'Client has encountered a connection error and is not queryable',
  ])('"%s" of the driver is transient', (text) => {
    expect(translated(new Error(text)).transient).toBe(true)
  })

  it.each([
    ['SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string', null, /wants a password/],
    ['SASL: Only mechanism(s) SCRAM-SHA-256 are supported', null, /log in.*mechanism/],
    ['The server does not support SSL connections', null, /no encrypted connections/],
    ['wrong version number', 'ERR_SSL_WRONG_VERSION_NUMBER', /encrypted connection.*wrong version/],
    ['self-signed certificate', 'DEPTH_ZERO_SELF_SIGNED_CERT', /not trusted.*self-signed/],
    ['unable to verify the first certificate', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', /not trusted/],
    ["Hostname/IP does not match certificate's altnames", 'ERR_TLS_CERT_ALTNAME_INVALID', /not trusted/],
  ])('"%s" says what to do, and that waiting does not help', (text, code, said) => {
    const error = translated(Object.assign(new Error(text), code === null ? {} : { code }))
    expect(error).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: false })
    expect(error.message).toMatch(said)
  })

  it('of a pool that gave no connection it is not said that the server is out of reach', () => {
    const { message } = translated(new Error('timeout exceeded when trying to connect'))
    expect(message).toContain('in use')
    expect(message).not.toContain('reached')
  })

  it('keeps the detail, which may quote rows, out of the message', () => {
    const error = translated(
      server('23505', { detail: 'Key (id)=(s3cr3t) already exists.', constraint: 'pk' }),
    )
    expect(error.message).not.toContain('s3cr3t')
    expect(error.detail.constraint).toBe('pk')
  })

  it('leaves alone what no database raised', () => {
    const mistake = new TypeError('x is not a function')
    expect(storeErrorOf(mistake, 'x')).toBe(mistake)
    const ours = new StoreError(ERROR_CODES.closed, 'closed')
    expect(storeErrorOf(ours, 'x')).toBe(ours)
    expect(sqlState(Object.assign(new Error('x'), { code: 'ABCDE' }))).toBeNull()
  })

  it('knows connections that were cut off, and leaves those to whoever ended or never made them', () => {
    const cutOff = [
      server('57P05'),
      server('25P03'),
      socket('ECONNRESET'),
      new Error('Connection terminated unexpectedly'),
      new Error('Client has encountered a connection error and is not queryable'),
    ]
    expect(cutOff.filter((error) => !isCutOff(error))).toEqual([])
    const others = [server('57P01'), server('23505'), socket('ECONNREFUSED'), new Error('Query read timeout')]
    expect(others.filter(isCutOff)).toEqual([])
  })

  it('knows conflicts, and connections that are of no use any more', () => {
    expect([isConflict(server('40P01')), isConflict(server('23505'))]).toEqual([true, false])
    const broken = [
      server('57P01'),
      server('25006'),
      server('25P03'),
      server('53100', { severity: 'PANIC' }),
      server('XX000', { severity: 'FATAL' }),
      socket('EPIPE'),
      socket('EPROTO'),
      socket('ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC'),
      new Error('Connection terminated'),
      new Error('Received unexpected readyForQuery message from backend.'),
    ]
    for (const error of broken) expect(isBroken(error)).toBe(true)
    for (const error of [server('23505'), server('57014'), new Error('x')])
      expect(isBroken(error)).toBe(false)
    const refused = [
      server('23505'),
      server('53100'),
      server('53100', { severity: 'PANIC' }),
      server('25P03'),
    ]
    expect(refused.map(isRefused)).toEqual([true, true, false, false])
  })
})
