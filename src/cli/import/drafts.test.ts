import { describe, expect, it } from 'vitest'
import { type DraftRules, draftOf, timeOf, uuidOf } from './drafts.ts'
import type { Role } from './shapes.ts'
import type { Column, Kind } from './statements.ts'

const column = (kind: Kind): Column => ({ name: 'x', kind })

describe('rows of other outboxes', () => {
  it.each([
    ['1767322800', 'whole', 1_767_322_800_000],
    ['1767322800123', 'whole', 1_767_322_800_123],
    ['1767322800123456', 'whole', 1_767_322_800_123],
    ['1767322800123', 'instant', 1_767_322_800_123],
    ['5', 'datetime', 5],
    ['2026-01-02 03:00:00', 'text', 1_767_322_800_000],
    ['2026-01-02T03:00:00Z', 'text', 1_767_322_800_000],
    ['2026-01-02T05:00:00+02:00', 'any', 1_767_322_800_000],
    ['Infinity', 'instant', undefined],
    ['soon', 'text', undefined],
    [null, 'text', undefined],
  ] as const)('reads the time %s of a column of %s', (text, kind, ms) => {
    expect(timeOf(text, column(kind))?.getTime()).toBe(ms)
  })

  it.each([
    ['0192F0C1-2C1A-7B1E-8C3D-000000000001', '0192f0c1-2c1a-7b1e-8c3d-000000000001'],
    ['0192f0c12c1a7b1e8c3d000000000001', '0192f0c1-2c1a-7b1e-8c3d-000000000001'],
    ['01ARZ3NDEKTSV4RRFFQ69G5FAV', null],
    ['42', null],
  ])('takes %s for the id %s', (text, uuid) => {
    expect(uuidOf({ text, value: text })).toBe(uuid)
  })

  const nowMs = 1_000_000_000_000
  const rules = (...roles: readonly (readonly [Role, Kind])[]): DraftRules => ({
    columns: new Map(roles.map(([role, kind]) => [role, column(kind)])),
    headers: new Map(),
    type: 'a',
    format: null,
    contentType: 'application/octet-stream',
    nowMs,
  })
  const row = (values: Readonly<Record<string, unknown>>) => ({ id: { text: '1', value: '1' }, values })

  it('keeps a delay, but not the pause after a failure', () => {
    const due = String(nowMs + 60_000)
    const read = rules(['payload', 'text'], ['due', 'instant'], ['attempts', 'whole'])
    expect(draftOf(row({ payload: '{}', due, attempts: '0' }), read).dueAt).toEqual(new Date(nowMs + 60_000))
    expect(draftOf(row({ payload: '{}', due, attempts: '2' }), read).dueAt).toBeUndefined()
    expect(draftOf(row({ payload: '{}', due: String(nowMs - 1) }), read).dueAt).toBeUndefined()
  })

  it('makes headers text, and refuses what are none', () => {
    const read = rules(['payload', 'text'], ['headers', 'text'])
    const headers = '{"a":"x","b":1,"c":null,"d":{"e":true},"__proto__":"p"}'
    expect({ ...draftOf(row({ payload: '{}', headers }), read).headers }).toEqual(
      Object.fromEntries([
        ['a', 'x'],
        ['b', '1'],
        ['d', '{"e":true}'],
        ['__proto__', 'p'],
        ['imported-id', '1'],
      ]),
    )
    for (const bad of ['[1]', 'x', '"x"'])
      expect(() => draftOf(row({ payload: '{}', headers: bad }), read)).toThrow(
        'its headers are not a JSON object',
      )
  })

  it('reads bytes as JSON when told so, and only UTF-8', () => {
    const read = { ...rules(['payload', 'bytes']), format: 'json' as const }
    expect(draftOf(row({ payload: Buffer.from('{"a":"ä"}').toString('hex') }), read)).toMatchObject({
      json: '{"a":"ä"}',
    })
    expect(() => draftOf(row({ payload: 'fffe' }), read)).toThrow('its payload is not UTF-8')
  })
})
