import { describe, expect, it } from 'vitest'
import { Endpoints } from './endpoints.ts'

const LIMITS = { concurrency: 1, breakerThreshold: 5, breakerOpenMs: 1_000, breakerMaxOpenMs: 10_000 }

const NEVER = new AbortController().signal

const held = (): { readonly ended: Promise<void>; end: () => void } => {
  let end = (): void => undefined
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  return { ended, end }
}

describe('the places of an endpoint', () => {
  it('are waited for no longer than the signal allows, and those behind still get theirs', async () => {
    const endpoints = new Endpoints(LIMITS, () => 0)
    const state = endpoints.of('a')
    const stuck = held()
    const first = endpoints.run(state, NEVER, () => stuck.ended)
    const stop = new AbortController()
    const second = endpoints.run(state, stop.signal, async () => 'sent')
    const third = endpoints.run(state, NEVER, async () => 'sent')
    stop.abort()
    await expect(second).rejects.toMatchObject({ code: 'POSTHASTE_RETRY_AFTER', counted: false })
    stuck.end()
    await first
    expect(await third).toBe('sent')
    expect(state.isIdle).toBe(true)
  })

  it('are passed on by who has got one too late', async () => {
    const endpoints = new Endpoints(LIMITS, () => 0)
    const state = endpoints.of('a')
    const stuck = held()
    const stop = new AbortController()
    const first = endpoints.run(state, NEVER, () => stuck.ended).then(() => stop.abort())
    const second = endpoints.run(state, stop.signal, async () => 'sent').catch(() => 'late')
    const third = endpoints.run(state, NEVER, async () => 'sent')
    stuck.end()
    await first
    await second
    expect(await third).toBe('sent')
  })
})

describe('endpoints that were not used for long', () => {
  it('are forgotten, even behind one that is busy', () => {
    let now = 0
    const endpoints = new Endpoints(LIMITS, () => now)
    void endpoints.run(endpoints.of('busy'), NEVER, () => new Promise(() => undefined))
    const old = endpoints.of('old')
    now = 600_001
    const busy = endpoints.of('another')
    expect(endpoints.of('old')).not.toBe(old)
    expect(endpoints.of('another')).toBe(busy)
  })

  it('are no more than so many, even behind one that is busy, which is kept', () => {
    const endpoints = new Endpoints(LIMITS, () => 0)
    const busy = endpoints.of('busy')
    void endpoints.run(busy, NEVER, () => new Promise(() => undefined))
    const first = endpoints.of('0')
    for (let n = 1; n <= 10_000; n += 1) endpoints.of(String(n))
    const last = endpoints.of('10000')
    expect(endpoints.of('0')).not.toBe(first)
    expect(endpoints.of('10000')).toBe(last)
    expect(endpoints.of('busy')).toBe(busy)
  })
})
