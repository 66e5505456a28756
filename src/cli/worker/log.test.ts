import { describe, expect, it } from 'vitest'
import { painter } from '../terminal.ts'
import { logLine } from './log.ts'

const AT = new Date(2026, 10, 18, 9, 5, 7)

const line = (message: string, fields: Readonly<Record<string, unknown>> = {}, colours = false): string =>
  logLine('warn', message, fields, { at: AT, paint: painter(colours) })

describe('a log line for people', () => {
  it('has the time, the level, the message and the fields', () => {
    expect(line('nothing to do')).toBe('09:05:07 warn  nothing to do')
    expect(line('failed', { destination: 'mailer', events: 3, ids: ['a', 'b'], seq: 12n })).toBe(
      '09:05:07 warn  failed  destination=mailer events=3 ids=["a","b"] seq=12',
    )
  })

  it('quotes what would be taken for something else, and leaves out what is not there', () => {
    expect(line('failed', { reason: 'not now, a=b', key: null, other: undefined })).toBe(
      '09:05:07 warn  failed  reason="not now, a=b"',
    )
  })

  it('shows an error by its message and code', () => {
    const error = Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' })
    expect(line('failed', { error })).toBe('09:05:07 warn  failed  error=connection refused (ECONNREFUSED)')
  })

  it('lets nothing through that a terminal would obey, and no password', () => {
    const said = line('bad \u001b[2J', {
      error: new Error('two\nlines'),
      url: 'postgres://shop:secret@db/shop',
    })
    expect(said).toBe('09:05:07 warn  bad \\x1b[2J  error=two\\nlines url=postgres://shop:***@db/shop')
  })

  it('finds a password also where it is quoted within a quote, and errors within values', () => {
    const said = line('x', {
      a: { b: '{"password":"hunter2"}' },
      c: 'password="hunter2 y"',
      d: [new Error('no')],
    })
    expect(said).not.toContain('hunter2')
    expect(said).toContain('d=["no"]')
  })

  it('is not stopped by a value that cannot be written, nor by a long one', () => {
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    expect(line('odd', { cycle, call: () => 1 })).toBe(
      '09:05:07 warn  odd  cycle=(cannot be shown) call=() => 1',
    )
    expect(line('long', { text: 'x'.repeat(10_000) }).length).toBeLessThan(600)
  })

  it('paints the level', () => {
    expect(line('careful', {}, true)).toContain('\u001b[33mwarn \u001b[0m careful')
  })
})
