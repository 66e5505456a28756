/** The checker of chaos runs is worth as much as what it finds. */
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { PLANTED } from '../../chaos/checker/self-test.ts'
import { goodStory, judgeStory } from '../../chaos/checker/story.ts'
import { Log, readLog } from '../../chaos/logs.ts'
import { Faults } from '../../src/cli/prove/faults.ts'
import { recoveryOf } from '../../src/cli/prove/recovery.ts'

describe('the checker', () => {
  it.each(PLANTED)('given $name, reports $breaks and nothing else', async ({ breaks, plant }) => {
    const story = goodStory()
    plant(story)
    const { ok, stories } = await judgeStory(story)
    expect(Object.keys(stories)).toEqual(breaks === null ? [] : [breaks])
    expect(ok).toBe(breaks === null)
  })

  it('counts what a good run did', async () => {
    expect(await judgeStory(goodStory())).toMatchObject({
      committed: 12,
      delivered: 11,
      dead: 1,
      duplicates: 0,
      attemptsSpent: 0,
    })
  })

  it('counts attempts that no event asked for', async () => {
    const story = goodStory()
    story.transitions = story.transitions.map((line) =>
      line.of === 'finished' && line.delivery === 'd2' ? { ...line, attempts: 3 } : line,
    )
    expect(await judgeStory(story)).toMatchObject({ ok: true, attemptsSpent: 2 })
  })

  it('does not take a run for well that was not drained, crashed, or did nothing', async () => {
    const { facts, ...rest } = goodStory()
    expect(await judgeStory({ ...rest, facts: { ...facts, drained: false } })).toMatchObject({ ok: false })
    expect(await judgeStory({ ...rest, facts: { ...facts, crashes: ['worker1-1'] } })).toMatchObject({
      ok: false,
    })
    const nothing = {
      truth: [],
      intents: [],
      sink: [],
      arrivals: [],
      settled: [],
      faults: [],
      transitions: [],
      left: [],
    }
    expect(await judgeStory({ facts, ...nothing })).toMatchObject({ ok: false })
  })

  it('reports what was refused, and counts neither that nor what was missed', async () => {
    const story = goodStory()
    const all = { hits: 'all', kind: 'full-disk' } as const
    story.faults = [
      { ...all, at: 1, id: 0, kind: 'clock-shift', what: 'refused', detail: 'no clock' },
      { ...all, at: 1, id: 1, what: 'begin' },
      { ...all, at: 2, id: 1, what: 'missed' },
      { ...all, at: 3, id: 2, what: 'begin' },
      { ...all, at: 4, id: 2, what: 'end' },
    ]
    expect(await judgeStory(story)).toMatchObject({
      faults: { 'full-disk': 1 },
      refused: { 'clock-shift': 'no clock' },
    })
  })
})

describe('faults', () => {
  it('excuse the slots they hit, around their time, and nobody else', () => {
    const faults = new Faults(10)
    faults.add({ at: 100, id: 1, kind: 'kill-worker', what: 'begin', hits: ['a'] })
    faults.add({ at: 200, id: 1, kind: 'kill-worker', what: 'end', hits: ['a'] })
    faults.add({ at: 500, id: 2, kind: 'kill-database', what: 'begin', hits: 'all' })
    faults.add({ at: 600, id: 2, kind: 'kill-database', what: 'end', hits: 'all' })
    expect([89, 90, 210, 211, 550].map((at) => faults.excuse('a', at))).toEqual([
      false,
      true,
      true,
      false,
      true,
    ])
    expect([150, 550].map((at) => faults.excuse('b', at))).toEqual([false, true])
  })
})

describe('recovery', () => {
  it('lasts until the last of what was committed before the end of the fault has arrived', () => {
    const ends = [
      { at: 100, kind: 'kill-worker' },
      { at: 200, kind: 'kill-sink' },
    ]
    const waits = [
      [50, 90],
      [80, 130],
      [90, 250],
      [150, 220],
      [300, 400],
    ] as const
    expect(recoveryOf(ends, waits)).toEqual({
      p50: 150,
      p99: 150,
      max: 150,
      byKind: { 'kill-worker': 150, 'kill-sink': 50 },
    })
  })
})

describe('logs', () => {
  it('survive a writer that was killed in the middle of a line', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'posthaste-chaos-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    new Log(folder, 'log').write([{ n: 1 }], true)
    appendFileSync(join(folder, 'log'), '{"n":')
    new Log(folder, 'log').write([{ n: 2 }, { n: 3 }], true)
    const lines: unknown[] = []
    for await (const line of readLog(folder, 'log')) lines.push(line)
    expect(lines).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  })
})
