/** What benchmarks say of their targets. */
import { describe, expect, it } from 'vitest'
import type { BrokersResult } from '../../bench/brokers/result.ts'
import { brokersTables } from '../../bench/brokers-report.ts'
import { verdictOf } from '../../bench/verdict.ts'

const MET = { name: 'drain', target: 'at least 2 ×', measured: '2.10 ×', met: true }
const MISSED = { name: 'memory', target: 'below 256 MiB', measured: '300 MiB', met: false }

describe('a run that measures', () => {
  it('names targets that are met and that are not, and fails by those', () => {
    const { text, targets, exitCode } = verdictOf([MET, MISSED], false)
    expect(text).toMatch(/drain .*2\.10 × +met\n.*memory .*300 MiB +NOT MET$/)
    expect([targets, exitCode]).toEqual([[MET, MISSED], 1])
    expect(verdictOf([MET], false).exitCode).toBe(0)
  })

  it('says that no target was asked for', () => {
    expect(verdictOf([], false)).toMatchObject({ text: expect.stringContaining('No target'), exitCode: 0 })
  })
})

describe('a quick run', () => {
  it('judges nothing, and ends well', () => {
    const { text, targets, exitCode } = verdictOf([MET, MISSED], true)
    expect(text).not.toMatch(/met/i)
    expect([targets, exitCode]).toEqual([[], 0])
  })

  it('has figures of brokers without a verdict', () => {
    const figure = {
      median: 10,
      min: 9,
      max: 11,
      runs: [10],
      cpuMicros: { median: 1, min: 1, max: 1, runs: [1] },
    }
    const cpuMicros = { posthaste: figure, raw: figure }
    const result = {
      ...{ settings: { events: 3_000 }, target: 0.8, ceiling: figure },
      brokers: { kafka: { posthaste: figure, raw: figure, ratio: 0.5, met: false, cpuMicros } },
    } as unknown as BrokersResult
    expect(JSON.stringify(brokersTables(result))).toContain('not met')
    const tables = brokersTables(result, false)
    expect(JSON.stringify(tables)).not.toMatch(/not met|at least/)
    for (const { head, rows } of tables) for (const row of rows) expect(row).toHaveLength(head.length)
  })
})
