import { describe, expect, it } from 'vitest'
import { type Evidence, judge } from './judge.ts'
import type { LedgerLine } from './messages.ts'

const at = (n: number): number => 100_000 + n * 10

/** Ten events of two keys, confirmed and delivered; one worker was killed long after. */
const good = (): Evidence & { ledger: LedgerLine[] } => {
  const all = Array.from({ length: 10 }, (_, n) => n)
  return {
    truth: all.map((n) => ({
      id: `e${n}`,
      key: `k${n % 2}`,
      position: n >> 1,
      publishedAt: at(n),
      refusals: 0,
    })),
    ledger: all.map((n) => ({ at: at(n) + 5, slot: 'worker1', boot: 'worker1-1', id: `e${n}` })),
    answers: all.map((n) => ({ at: at(n) + 2, commitAt: at(n) + 1, ids: [`e${n}`], what: 'ok' as const })),
    observed: [],
    settled: [{ boot: 'worker1-1', ids: all.map((n) => `e${n}`) }],
    faults: [
      { id: 0, at: 900_000, kind: 'kill-worker', what: 'begin', hits: ['worker1'] },
      { id: 0, at: 900_010, kind: 'kill-worker', what: 'end', hits: ['worker1'] },
    ],
    drained: true,
  }
}

describe('the judge of a proof', () => {
  it('is content with a good run', () => {
    expect(judge(good())).toMatchObject({
      ok: true,
      committed: 10,
      delivered: 10,
      lost: 0,
      ghosts: 0,
      duplicates: 0,
      unexplained: 0,
      orderViolations: 0,
      faults: { 'kill-worker': 1 },
    })
  })

  it.each<[string, (evidence: ReturnType<typeof good>) => Partial<Evidence>, object]>([
    ['an event that never arrived', ({ ledger }) => ({ ledger: ledger.slice(1) }), { lost: 1 }],
    [
      'an event that was confirmed and is not stored',
      ({ truth, ledger }) => ({ truth: truth.slice(1), ledger: ledger.slice(1) }),
      { lost: 1 },
    ],
    [
      'an event that nobody committed',
      ({ truth }) => ({ truth: truth.slice(1), answers: [] }),
      { ghosts: 1 },
    ],
    [
      'an event that was refused and is stored',
      ({ answers }) => ({ answers: answers.map((line) => ({ ...line, what: 'failed' as const })) }),
      { ghosts: 10 },
    ],
    [
      'a duplicate without a fault',
      ({ ledger }) => ({ ledger: [...ledger, { at: at(50), slot: 'worker1', boot: 'worker1-1', id: 'e9' }] }),
      { duplicates: 1, duplicateBound: 0, unexplained: 1 },
    ],
    [
      'an event that was overtaken',
      ({ ledger: [first, second, ...rest] }) => ({
        ledger: [rest[0], second, first, ...rest.slice(1)] as LedgerLine[],
      }),
      { orderViolations: 1 },
    ],
    ['a backlog that stays', () => ({ drained: false }), { drained: false }],
    ['a run without faults', () => ({ faults: [] }), { faults: {} }],
    ['a run without events', () => ({ truth: [], ledger: [], answers: [] }), { committed: 0 }],
  ])('finds %s', (_, plant, found) => {
    const story = good()
    expect(judge({ ...story, ...plant(story) })).toMatchObject({ ok: false, ...found })
  })

  it('allows what was in flight when its sender was killed, unless that was settled', () => {
    const story = good()
    const hit = { id: 0, kind: 'kill-worker', hits: ['worker1'] }
    const unlucky: Evidence = {
      ...story,
      ledger: [...story.ledger, { at: at(9) + 3_000, slot: 'worker2', boot: 'worker2-1', id: 'e9' }],
      faults: [
        { ...hit, at: at(9) + 6, what: 'begin' },
        { ...hit, at: at(9) + 7, what: 'end' },
      ],
    }
    expect(judge(unlucky)).toMatchObject({ ok: false, duplicates: 1, duplicateBound: 0, unexplained: 1 })
    const unsettled = story.settled.map((line) => ({ ...line, ids: line.ids.filter((id) => id !== 'e9') }))
    expect(judge({ ...unlucky, settled: unsettled })).toMatchObject({
      ok: true,
      duplicates: 1,
      duplicateBound: 1,
      unexplained: 0,
    })
  })
})
