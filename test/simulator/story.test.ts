/** What somebody is told whose change breaks an invariant. */
import { execFile } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { applyCut, applyCuts } from '../../simulator/cut.ts'
import { findDefect } from '../../simulator/defects/index.ts'
import { createPlan, FAULTS } from '../../simulator/plan.ts'
import { runPlan, runSeed } from '../../simulator/run.ts'
import { shrink } from '../../simulator/shrink.ts'

/** Its story is told soon. */
const SEED = 37
const defect = findDefect('no-sweep') ?? null

interface Ended {
  readonly code: number
  readonly text: string
}

const simulate = (...args: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    execFile(process.execPath, [...TYPESCRIPT, 'simulator/main.ts', ...args], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr }),
    )
  })

describe('the story of a violation', () => {
  it('is about the smallest history found that violates the same, and can be replayed', {
    timeout: 180_000,
  }, async () => {
    const whole = await runSeed(SEED, defect)
    const smallest = await shrink(SEED, defect)
    expect(smallest?.result.violation?.invariant).toBe(whole.violation?.invariant)
    expect(smallest?.result.events).toBeLessThan(whole.events)
    expect(smallest?.result.steps).toBeLessThan(whole.steps)
    const plan = applyCuts(createPlan(SEED), smallest?.cuts ?? [])
    const again = plan === undefined ? null : await runPlan(plan, defect)
    expect(again?.hash).toBe(smallest?.result.hash)
  })

  it('is none for a seed that is well', async () => {
    expect(await shrink(SEED, null)).toBeNull()
  })

  it('tells of nobody who had nothing to do with it', async () => {
    const { violation } = await runSeed(SEED, defect)
    const about = violation?.about ?? []
    expect(about).not.toEqual([])
    const others = (violation?.story ?? []).filter((line) => / \[e\d/.test(line))
    for (const line of others)
      expect(
        about.some((n) => new RegExp(`\\be${n}\\b`).test(line)),
        line,
      ).toBe(true)
    expect(violation?.story.at(-1)).toContain('VIOLATION')
  })

  it('is printed with the seed and a command that shows the same again', async () => {
    const first = await simulate('--from', String(SEED), '--seeds', '1', '--defect', 'no-sweep')
    expect(first.code).toBe(1)
    expect(first.text).toMatch(/seed \d+ violates 4 order/)
    const [, words = ''] = /replay it with: npm run simulate -- (.+)/.exec(first.text) ?? []
    expect(words).toContain('--cut')
    const second = await simulate(...words.split(' '))
    expect(second.code).toBe(1)
    expect(second.text).toContain('violates 4 order')
    expect(second.text).toContain('twice the same')
  })
})

describe('a cut', () => {
  const plan = createPlan(3)

  it('leaves out what it names', () => {
    expect(applyCut(plan, 'crash')?.faults.crash).toBe(0)
    expect(FAULTS.every((fault) => applyCut(plan, 'calm')?.faults[fault] === 0)).toBe(true)
    expect(applyCut(plan, 'upgrade')?.upgradeAtMs).toBeNull()
    expect(applyCut(plan, 'events=4')?.events).toBe(4)
    expect(applyCut(plan, 'processes=1')?.processes).toEqual(plan.processes.slice(0, 1))
    expect(applyCut(plan, 'no-kafka')?.destinations.map(({ name }) => name)).not.toContain('kafka')
  })

  it.each(['crush', 'events=0', 'events', 'no', ''])('is refused where it means nothing: "%s"', (cut) => {
    expect(applyCut(plan, cut)).toBeUndefined()
  })
})
