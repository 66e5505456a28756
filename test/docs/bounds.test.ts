/** docs/publishing.md says how large an event may be: each bound is tried, and the next larger value is refused. */
import { describe, expect, it } from 'vitest'
import { checkDraft } from '../../src/core/flow/check-draft.ts'
import { MAX_BYTES_PER_CALL, MAX_EVENTS_PER_CALL } from '../../src/core/flow/prepare.ts'
import { checkName, HEADER_LIMITS, NAME_LIMITS } from '../../src/core/model/headers.ts'
import { checkedTime } from '../../src/stores/mysql/statements/insert-step.ts'
import { readPage } from './code-blocks.ts'

const section =
  readPage('docs/publishing.md')
    .split(/^#{2,3} /m)
    .find((text) => text.startsWith('Bounds\n')) ?? ''

const written = new Map(
  [...section.matchAll(/^\| ([^|]+) \| ([\d,]+) \|/gm)].map(([, what = '', most = '']) => [
    what.replaceAll('`', ''),
    Number(most.replaceAll(',', '')),
  ]),
)

const accepted = (attempt: () => unknown): boolean => {
  try {
    attempt()
    return true
  } catch {
    return false
  }
}

const accepts = (fields: object): boolean =>
  accepted(() => checkDraft({ type: 'a', payload: 1, ...fields }, { wallNow: 0, validateHeaders: true }))

const text = (length: number): string => 'x'.repeat(length)

/** Eight headers, because one alone may not be that long; two bytes each in UTF-8, so that characters are too few. */
const headersOfBytes = (bytes: number): Record<string, string> => {
  const names = Array.from({ length: 8 }, (_, index) => `h${index}`)
  const each = 'é'.repeat(Math.floor(bytes / 16) - 1)
  const headers = Object.fromEntries(names.map((name) => [name, each]))
  const used = names.reduce((sum, name) => sum + name.length + Buffer.byteLength(each), 0)
  return { ...headers, h0: each + text(bytes - used) }
}

const field = (name: string) => (size: number) => accepts({ [name]: text(size) })

const TRIED: Readonly<Record<string, (size: number) => boolean>> = {
  type: field('type'),
  key: field('key'),
  idempotencyKey: field('idempotencyKey'),
  aggregateType: field('aggregateType'),
  aggregateId: field('aggregateId'),
  tenantId: field('tenantId'),
  contentType: (size) => accepts({ contentType: `a/${text(size - 2)}` }),
  headers: (size) =>
    accepts({ headers: Object.fromEntries(Array.from({ length: size }, (_, n) => [`h${n}`, ''])) }),
  'name of a header': (size) => accepts({ headers: { [text(size)]: '' } }),
  'value of a header': (size) => accepts({ headers: { a: text(size) } }),
  'names and values of all headers': (size) => accepts({ headers: headersOfBytes(size) }),
  version: (size) => accepts({ version: size }),
  delayMs: (size) => accepts({ delayMs: size }),
  'name of a destination': (size) => accepted(() => checkName('destination', text(size))),
}

/** Too much to be tried here. */
const COMPARED: Readonly<Record<string, number>> = {
  'events of one call': MAX_EVENTS_PER_CALL,
  'payloads of one call': MAX_BYTES_PER_CALL,
}

describe('the bounds of an event', () => {
  it('are all there, and no others', () => {
    expect([...written.keys()].sort()).toEqual([...Object.keys(TRIED), ...Object.keys(COMPARED)].sort())
    const names = Object.keys(NAME_LIMITS).map((name) =>
      name === 'destination' ? 'name of a destination' : name,
    )
    expect(names.filter((name) => !written.has(name))).toEqual([])
    expect(Object.keys(HEADER_LIMITS)).toEqual(['count', 'nameChars', 'valueChars', 'totalBytes'])
  })

  it.each(Object.entries(TRIED))('%s: as much is accepted, and not one more', (what, tryIt) => {
    const most = written.get(what) ?? 0
    expect([tryIt(most), tryIt(most + 1)]).toEqual([true, false])
  })

  it.each(Object.entries(COMPARED))('%s: as in the code', (what, most) => {
    expect(written.get(what)).toBe(most)
  })

  it.each(['occurredAt', 'dueAt'])('%s: the first and the last year, and nothing beyond', (name) => {
    const [, first = '', last = ''] = /`dueAt` lie between the years (\d+) and (\d+)/.exec(section) ?? []
    const from = Date.parse(`${first.padStart(4, '0')}-01-01T00:00:00.000Z`)
    const to = Date.parse(`${last}-12-31T23:59:59.999Z`)
    const at = (ms: number): boolean => accepts({ [name]: new Date(ms) })
    expect([at(from - 1), at(from), at(to), at(to + 1)]).toEqual([false, true, true, false])
  })

  it('of times on MySQL are those of its store', () => {
    const [, first = '', last = ''] =
      /on MySQL and MariaDB between the years (\d+) and (\d+)/.exec(section) ?? []
    const from = Date.parse(`${first}-01-01T00:00:00.000Z`)
    const to = Date.parse(`${last}-12-31T23:59:59.999Z`)
    const at = (ms: number): boolean => accepted(() => checkedTime('dueAt', ms))
    expect([at(from - 1), at(from), at(to), at(to + 1)]).toEqual([false, true, true, false])
  })
})
