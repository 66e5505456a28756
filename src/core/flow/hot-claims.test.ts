import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Store } from '../spi/index.ts'
import { HotClaims } from './hot-claims.ts'

const LEASE_MS = 1_000

/** Claims whose extension takes `answerMs`, and loses those that the test names. */
const create = (answerMs: number, lost: readonly string[] = []) => {
  const runtime = createFakeRuntime()
  const reported: string[] = []
  const extend = async (): Promise<readonly string[]> => {
    runtime.stall(answerMs)
    return lost
  }
  const store = { queue: { extend } } as unknown as Store
  const claims = new HotClaims(store, runtime, SILENT_LOGGER, LEASE_MS, (id) => void reported.push(id))
  claims.add('d', 'token', runtime.monotonicNow() + LEASE_MS)
  runtime.stall(LEASE_MS * 0.75)
  return { runtime, claims, reported }
}

describe('a claim that is extended', () => {
  it('counts from before it was asked for, not from the answer', async () => {
    const { runtime, claims } = create(200)
    await claims.extendAging()
    runtime.stall(LEASE_MS - 200 - 1)
    expect(claims.isValid('d')).toBe(true)
    runtime.stall(1)
    expect(claims.isValid('d')).toBe(false)
  })

  it('and was replaced meanwhile is lost', async () => {
    const { claims, reported } = create(0, ['d'])
    await claims.extendAging()
    expect(claims.has('d')).toBe(false)
    expect(reported).toEqual(['d'])
  })
})
